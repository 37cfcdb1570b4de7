// What a program does with node-redis and its default settings, against the
// server at the port given.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient, RESP_TYPES, WatchError } from "redis";

const socket = { port: Number(process.argv[2]) };

async function connected(options = {}) {
  const client = createClient({ socket, ...options });
  client.on("error", () => {});
  return await client.connect();
}

async function values(client) {
  assert.equal(await client.ping(), "PONG");
  assert.equal(await client.set("node:a", "1"), "OK");
  assert.equal(await client.get("node:a"), "1");
  assert.equal(await client.get("node:absent"), null);
  assert.equal(await client.incr("node:a"), 2);
  assert.equal(await client.incrBy("node:a", 40), 42);
  assert.equal(await client.append("node:b", "x".repeat(100)), 100);
  assert.equal(await client.strLen("node:b"), 100);
  assert.equal(await client.mSet({ "node:c": "c", "node:d": "" }), "OK");
  assert.deepEqual(await client.mGet(["node:c", "node:d", "node:e"]), ["c", "", null]);
  assert.equal(await client.set("node:a", "2", { condition: "NX" }), null);
  assert.equal(await client.set("node:a", "2", { condition: "XX", GET: true }), "42");
  assert.equal(await client.exists(["node:a", "node:a", "node:e"]), 2);
  assert.equal(await client.del(["node:a", "node:b", "node:c", "node:d"]), 4);

  const bytes = Buffer.from(Array.from({ length: 51200 }, (_, i) => i % 256));
  const binary = client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
  const key = Buffer.from("node:\0long\r\n\xff", "latin1");
  assert.equal((await binary.set(key, bytes)).toString(), "OK");
  assert.deepEqual(await binary.get(key), bytes);
}

async function errors(client) {
  await client.set("node:text", "no number");
  for (const words of [["NONSENSE", "x"], ["GET"], ["INCR", "node:text"]]) {
    await assert.rejects(client.sendCommand(words), /ERR/);
  }
}

async function expiry(client) {
  assert.equal(await client.set("node:short", "1", { expiration: { type: "PX", value: 50 } }), "OK");
  assert.equal(await client.setEx("node:long", 1000, "1"), "OK");
  const left = await client.ttl("node:long");
  assert.ok(left > 990 && left <= 1000, `${left}`);
  assert.equal(await client.persist("node:long"), 1);
  assert.equal(await client.ttl("node:long"), -1);
  assert.equal(await client.expire("node:long", 1000, "GT"), 0);
  const end = performance.now() + 20_000;
  while ((await client.get("node:short")) !== null) {
    assert.ok(performance.now() < end);
    await sleep(10);
  }
}

async function pipeline(client) {
  // Requests of one tick go out together.
  const replies = await Promise.all(
    Array.from({ length: 1000 }, (_, i) => [
      client.set(`node:pipe:${i}`, `${i}`),
      client.get(`node:pipe:${i}`),
    ]).flat(),
  );
  replies.forEach((reply, i) => assert.equal(reply, i % 2 ? `${(i - 1) / 2}` : "OK"));
}

async function scan(client) {
  const found = new Set();
  for await (const keys of client.scanIterator({ MATCH: "node:pipe:*", COUNT: 100 })) {
    keys.forEach((key) => found.add(key));
  }
  assert.equal(found.size, 1000);
}

async function transaction(client) {
  const results = await client.multi().set("node:m", "1").incr("node:m").get("node:m").exec();
  assert.deepEqual(results, ["OK", 2, "2"]);

  const other = await connected();
  await client.set("node:w", "10");
  await client.watch("node:w");
  await other.set("node:w", "11");
  await assert.rejects(client.multi().set("node:w", "12").exec(), WatchError);
  assert.equal(await client.get("node:w"), "11");
  await client.watch("node:w");
  assert.deepEqual(await client.multi().set("node:w", "12").exec(), ["OK"]);
  await other.close();
}

async function reconnect(client) {
  const killer = await connected();
  const before = await client.sendCommand(["CLIENT", "ID"]);
  const ready = new Promise((resolve) => client.once("ready", resolve));
  assert.equal(await killer.sendCommand(["CLIENT", "KILL", "ID", `${before}`]), 1);
  await ready;
  assert.equal(await client.get("node:w"), "12");
  assert.notEqual(await client.sendCommand(["CLIENT", "ID"]), before);
  await killer.close();
}

const client = await connected();
for (const part of [values, errors, expiry, pipeline, scan, transaction, reconnect]) {
  await part(client);
}
await client.close();
// The other protocol than the default.
for (const RESP of [2, 3]) {
  const other = await connected({ RESP });
  assert.equal(await other.get("node:w"), "12");
  await other.close();
}
