// What a program does with ioredis and its default settings, against the server
// at the port given.

import assert from "node:assert/strict";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";

const port = Number(process.argv[2]);

function connected(options = {}) {
  const client = new Redis({ port, ...options });
  client.on("error", () => {});
  return client;
}

async function values(client) {
  assert.equal(await client.ping(), "PONG");
  assert.equal(await client.set("io:a", "1"), "OK");
  assert.equal(await client.get("io:a"), "1");
  assert.equal(await client.get("io:absent"), null);
  assert.equal(await client.incr("io:a"), 2);
  assert.equal(await client.incrby("io:a", 40), 42);
  assert.equal(await client.append("io:b", "x".repeat(100)), 100);
  assert.equal(await client.strlen("io:b"), 100);
  assert.equal(await client.mset({ "io:c": "c", "io:d": "" }), "OK");
  assert.deepEqual(await client.mget("io:c", "io:d", "io:e"), ["c", "", null]);
  assert.equal(await client.set("io:a", "2", "NX"), null);
  assert.equal(await client.set("io:a", "2", "XX", "GET"), "42");
  assert.equal(await client.exists("io:a", "io:a", "io:e"), 2);
  assert.equal(await client.del("io:a", "io:b", "io:c", "io:d"), 4);

  const bytes = Buffer.from(Array.from({ length: 51200 }, (_, i) => i % 256));
  const key = Buffer.from("io:\0long\r\n\xff", "latin1");
  assert.equal(await client.set(key, bytes), "OK");
  assert.deepEqual(await client.getBuffer(key), bytes);
}

async function errors(client) {
  await client.set("io:text", "no number");
  for (const [name, ...words] of [["NONSENSE", "x"], ["GET"], ["INCR", "io:text"]]) {
    await assert.rejects(client.call(name, ...words), /ERR/);
  }
}

async function expiry(client) {
  assert.equal(await client.set("io:short", "1", "PX", 50), "OK");
  assert.equal(await client.setex("io:long", 1000, "1"), "OK");
  const left = await client.ttl("io:long");
  assert.ok(left > 990 && left <= 1000, `${left}`);
  assert.equal(await client.persist("io:long"), 1);
  assert.equal(await client.ttl("io:long"), -1);
  assert.equal(await client.expire("io:long", 1000, "GT"), 0);
  const end = performance.now() + 20_000;
  while ((await client.get("io:short")) !== null) {
    assert.ok(performance.now() < end);
    await sleep(10);
  }
}

async function pipeline(client) {
  const pipe = client.pipeline();
  for (let i = 0; i < 1000; i++) {
    pipe.set(`io:pipe:${i}`, i).get(`io:pipe:${i}`);
  }
  const replies = await pipe.exec();
  replies.forEach(([error, reply], i) => {
    assert.equal(error, null);
    assert.equal(reply, i % 2 ? `${(i - 1) / 2}` : "OK");
  });
}

async function scan(client) {
  const found = new Set();
  for await (const keys of client.scanStream({ match: "io:pipe:*", count: 100 })) {
    keys.forEach((key) => found.add(key));
  }
  assert.equal(found.size, 1000);
}

async function transaction(client) {
  const results = await client.multi().set("io:m", "1").incr("io:m").get("io:m").exec();
  assert.deepEqual(results, [[null, "OK"], [null, 2], [null, "2"]]);

  const other = connected();
  await client.set("io:w", "10");
  await client.watch("io:w");
  await other.set("io:w", "11");
  assert.equal(await client.multi().set("io:w", "12").exec(), null);
  assert.equal(await client.get("io:w"), "11");
  await client.watch("io:w");
  assert.deepEqual(await client.multi().set("io:w", "12").exec(), [[null, "OK"]]);
  await other.quit();
}

async function reconnect(client) {
  const killer = connected();
  const before = await client.client("ID");
  const ready = once(client, "ready");
  assert.equal(await killer.client("KILL", "ID", before), 1);
  await ready;
  assert.equal(await client.get("io:w"), "12");
  assert.notEqual(await client.client("ID"), before);
  await killer.quit();
}

const client = connected();
for (const part of [values, errors, expiry, pipeline, scan, transaction, reconnect]) {
  await part(client);
}
await client.quit();
// The other protocol than the default.
for (const protocol of [2, 3]) {
  const other = connected({ protocol });
  assert.equal(await other.get("io:w"), "12");
  await other.quit();
}
