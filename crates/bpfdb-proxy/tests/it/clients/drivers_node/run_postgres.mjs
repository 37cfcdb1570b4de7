// What postgres.js does with PostgreSQL, through the proxy or without it: run_postgres.mjs PORT USER NAME. NAME is a
// part of the names of tables.
// It ends with a line "postgres ok", or fails.

import assert from "node:assert/strict";
import postgres from "postgres";

const [port, user, table] = process.argv.slice(2);
const name = `drivers_postgres_${table}`;
const ROUNDS = 30;
const place = { host: "127.0.0.1", port: Number(port), user, database: "postgres", onnotice: () => {} };
const sql = postgres({ ...place, max: 4 });

await sql`drop table if exists ${sql(name)}`;
await sql`create table ${sql(name)} (a int primary key, b text)`;

// Each text is prepared once for each connection, and used on whatever server there is.
const work = async (worker) => {
  for (let number = 0; number < ROUNDS; number += 1) {
    const text = `${worker}-${number}`;
    assert.equal((await sql`select ${number}::int * 2 as twice`)[0].twice, 2 * number);
    assert.equal((await sql`select ${text}::text as text`)[0].text, text);
    assert.equal((await sql.unsafe(`select '${text}' as text`))[0].text, text);
  }
};
await Promise.all(Array.from({ length: 8 }, (_, worker) => work(worker)));

await sql.begin(async (sql) => {
  await sql`insert into ${sql(name)} values (1, 'one')`;
  const again = sql.savepoint((sql) => sql`insert into ${sql(name)} values (1, 'again')`);
  await assert.rejects(again, { code: "23505" });
  await sql`insert into ${sql(name)} ${sql([{ a: 2, b: "two" }, { a: 3, b: "three" }])}`;
});
const undone = sql.begin(async (sql) => {
  await sql`delete from ${sql(name)}`;
  throw new Error("undone");
});
await assert.rejects(undone, { message: "undone" });
assert.equal((await sql`select count(*)::int as n from ${sql(name)}`)[0].n, 3);
await assert.rejects(sql`select * from there_is_none`, { code: "42P01" });
await assert.rejects(sql`select 1 / ${0}::int`, { code: "22012" });
await assert.rejects(sql.unsafe("select 1; select nothing"), { code: "42703" });
// Several before the first answer.
const queued = Array.from({ length: 50 }, (_, n) => sql`select ${n}::int as n`);
assert.deepEqual((await Promise.all(queued)).map(([{ n }]) => n), Array.from({ length: 50 }, (_, n) => n));
// Parts of a result, by a portal that is executed again and again.
let seen = 0;
await sql`select n from generate_series(1, 1000) n`.cursor(100, (rows) => {
  seen += rows.length;
});
assert.equal(seen, 1000);
// Copies.
const lines = Array.from({ length: 2000 }, (_, n) => `${1000 + n}\t${"x".repeat(100)}\n`);
const into = await sql`copy ${sql(name)} from stdin`.writable();
await new Promise((resolve, reject) => {
  into.on("error", reject).on("finish", resolve);
  lines.forEach((line) => into.write(line));
  into.end();
});
let bytes = 0;
for await (const chunk of await sql`copy (select b from ${sql(name)} where a >= 1000) to stdout`.readable()) bytes += chunk.length;
assert.equal(bytes, 2000 * 101);
// A query that is cancelled.
const sleeps = sql`select pg_sleep(60)`.execute();
setTimeout(() => sleeps.cancel(), 200);
await assert.rejects(sleeps, { code: "57014" });
// Notifications, on a connection of their own.
let hear;
const heard = new Promise((resolve) => { hear = resolve; });
const { unlisten } = await sql.listen(name, hear);
await sql.notify(name, "news");
assert.equal(await heard, "news");
await unlisten();

await sql`drop table ${sql(name)}`;
await sql.end();
console.log("postgres ok");
