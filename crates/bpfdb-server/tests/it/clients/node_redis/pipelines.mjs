// Pipelines that node-redis sends in one go, against the server at the address given: HOST:PORT,
// or the path of a Unix-domain socket; with so many commands.

import assert from "node:assert/strict";
import { createClient } from "redis";

// Long, so that few commands fill the buffers of sockets.
const name = "k".repeat(80);
const value = "v".repeat(250);
const address = process.argv[2];
const count = Number(process.argv[3]);
const [host, port] = address.split(":");
const socket = address.startsWith("/") ? { path: address, tls: false } : { host, port: Number(port) };

// The default of five seconds for a command is of a machine that is not busy.
const commandOptions = { timeout: 600_000 };
const client = await createClient({ socket, commandOptions }).connect();
const all = (command) => Promise.all(Array.from({ length: count }, (_, i) => command(`node:pipelines:${name}:${i % 1000}`)));
const set = await all((key) => client.set(key, value));
assert.ok(set.every((reply) => reply === "OK"));
const got = await all((key) => client.get(key));
assert.ok(got.every((reply) => reply === value));
assert.equal(await client.ping(), "PONG");
await client.close();
