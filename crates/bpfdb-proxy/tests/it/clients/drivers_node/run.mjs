// What node-postgres does with PostgreSQL, through the proxy or without it: run.mjs PORT USER NAME. NAME is a
// part of the names of tables.
// It ends with a line "pg ok", or fails.

import assert from "node:assert/strict";
import pg from "pg";

const [port, user, table] = process.argv.slice(2);
const name = `drivers_node_${table}`;
const ROUNDS = 30;
const pool = new pg.Pool({ host: "127.0.0.1", port: Number(port), user, database: "postgres", max: 4 });

const one = async (client, ...query) => (await client.query(...query)).rows[0];

await pool.query(`drop table if exists ${name}`);
await pool.query(`create table ${name} (a int primary key, b text)`);

// A named statement is prepared once for each connection, and used on whatever server there is.
const named = (value) => ({ name: "doubled", text: "select $1::int * 2 as twice", values: [value] });
const work = async (worker) => {
  for (let number = 0; number < ROUNDS; number += 1) {
    assert.deepEqual(await one(pool, named(number)), { twice: 2 * number });
    const text = `${worker}-${number}`;
    assert.deepEqual(await one(pool, "select $1::text as text", [text]), { text });
    assert.deepEqual(await one(pool, `select '${text}' as text`), { text });
  }
};
await Promise.all(Array.from({ length: 8 }, (_, worker) => work(worker)));

const client = await pool.connect();
await client.query("begin");
await client.query(`insert into ${name} values ($1, $2)`, [1, "one"]);
await client.query("savepoint here");
await assert.rejects(client.query(`insert into ${name} values (1, 'again')`), { code: "23505" });
await client.query("rollback to here");
await client.query("commit");
await client.query("begin");
await client.query(`delete from ${name}`);
await client.query("rollback");
assert.deepEqual(await one(client, `select count(*)::int as n from ${name}`), { n: 1 });
// Several statements at once, and one that fails among them.
const several = await client.query("select 1 as a; select 2 as a");
assert.deepEqual(several.map((result) => result.rows[0].a), [1, 2]);
await assert.rejects(client.query("select 1; select nothing"), { code: "42703" });
// Queries that wait in the client's own queue.
const queued = Array.from({ length: 20 }, (_, n) => one(client, "select $1::int as n", [n]));
assert.deepEqual((await Promise.all(queued)).map(({ n }) => n), Array.from({ length: 20 }, (_, n) => n));

const news = new Promise((resolve) => client.once("notification", ({ payload }) => resolve(payload)));
await client.query("listen drivers_node");
await pool.query("notify drivers_node, 'news'");
assert.equal(await news, "news");
client.release(true);

await pool.query(`drop table ${name}`);
await pool.end();
console.log("pg ok");
