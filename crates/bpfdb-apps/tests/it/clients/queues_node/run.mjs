// Queues, sessions and messages of Node, each in a database of its own, with the commands and scripts
// that these libraries send, against the server at the port given.

import assert from "node:assert";
import { setTimeout as sleep } from "node:timers/promises";

import { createAdapter } from "@socket.io/redis-adapter";
import Bee from "bee-queue";
import { FlowProducer, Queue, QueueEvents, Worker } from "bullmq";
import { RedisStore } from "connect-redis";
import session from "express-session";
import { Redis } from "ioredis";
import { createClient } from "redis";
import { Server } from "socket.io";

const port = Number(process.argv[2]);
const JOBS = 50;
// Milliseconds until a result must be there.
const PATIENCE = 60_000;

/** Jobs at once, later, by priority, as a tree, at intervals; one that fails three times. */
async function ofBullmq() {
  const connection = { host: "127.0.0.1", port, db: 7, maxRetriesPerRequest: null };
  const queue = new Queue("jobs", { connection });
  const events = new QueueEvents("jobs", { connection });
  const flow = new FlowProducer({ connection });
  events.setMaxListeners(2 * JOBS);
  queue.setMaxListeners(2 * JOBS);
  await events.waitUntilReady();
  let attempts = 0;
  const work = async (job) => {
    if (job.name === "fails") {
      attempts += 1;
      throw new Error("as it shall");
    }
    await job.updateProgress(50);
    return job.data.left + job.data.right;
  };
  const worker = new Worker("jobs", work, { connection, concurrency: 4 });
  const ended = (job) => job.waitUntilFinished(events, PATIENCE);
  const add = (left, right) => ({ name: "add", data: { left, right } });

  const jobs = await queue.addBulk(Array.from({ length: JOBS }, (_, n) => add(n, 1)));
  const sums = await Promise.all(jobs.map(ended));
  assert.deepEqual(sums, jobs.map((_, n) => n + 1));
  const { name, data } = add(40, 2);
  assert.equal(await ended(await queue.add(name, data, { delay: 300 })), 42);
  assert.equal(await ended(await queue.add(name, data, { priority: 1 })), 42);

  const failing = { attempts: 3, backoff: { type: "fixed", delay: 50 } };
  await assert.rejects(ended(await queue.add("fails", {}, failing)), /as it shall/);
  assert.equal(attempts, 3);

  const inQueue = (job) => ({ ...job, queueName: "jobs" });
  const children = [inQueue(add(3, 4)), inQueue(add(5, 6))];
  const tree = await flow.add({ ...inQueue(add(1, 2)), children });
  assert.equal(await ended(tree.job), 3);
  const values = Object.values(await tree.job.getChildrenValues());
  assert.deepEqual(values.sort((a, b) => a - b), [7, 11]);

  const before = await queue.getCompletedCount();
  await queue.upsertJobScheduler("often", { every: 100 }, add(0, 0));
  while ((await queue.getCompletedCount()) < before + 2) await sleep(20);
  assert.equal((await queue.getJobSchedulers()).length, 1);
  assert(await queue.removeJobScheduler("often"));
  assert.equal(await queue.getFailedCount(), 1);
  await queue.pause();
  await queue.resume();
  for (const one of [worker, events, flow, queue]) await one.close();
}

async function ofBeeQueue() {
  const queue = new Bee("bee", { redis: { port, db: 8 } });
  await queue.ready();
  queue.process(2, async (job) => job.data.left + job.data.right);
  const sum = (left) =>
    new Promise((resolve, reject) => {
      const job = queue.createJob({ left, right: 1 });
      job.on("succeeded", resolve);
      job.on("failed", reject);
      job.save().catch(reject);
    });
  const numbers = Array.from({ length: JOBS }, (_, n) => n);
  assert.deepEqual(await Promise.all(numbers.map(sum)), numbers.map((n) => n + 1));
  await queue.close();
}

/** Two servers that hear of each other by messages. */
async function ofSocketIo() {
  const clients = [];
  const servers = [0, 1].map(() => {
    const publishing = new Redis(port);
    const subscribing = publishing.duplicate();
    clients.push(publishing, subscribing);
    return new Server({ adapter: createAdapter(publishing, subscribing) });
  });
  const heard = new Promise((resolve) => servers[1].on("hello", resolve));
  const again = setInterval(() => servers[0].serverSideEmit("hello", "world"), 50);
  assert.equal(await heard, "world");
  clearInterval(again);
  assert.deepEqual(await servers[0].fetchSockets(), []);
  for (const client of clients) client.disconnect();
}

async function ofExpress() {
  const client = createClient({ url: `redis://127.0.0.1:${port}/9` });
  await client.connect();
  const store = new RedisStore({ client, prefix: "session:" });
  assert(store instanceof session.Store);
  await store.set("1", { cookie: {}, user: "a" });
  assert.equal((await store.get("1")).user, "a");
  await store.touch("1", { cookie: {}, user: "a" });
  assert.deepEqual([await store.length(), await store.ids()], [1, ["1"]]);
  assert.equal((await store.all()).length, 1);
  await store.destroy("1");
  assert.equal(await store.get("1"), undefined);
  await client.close();
}

for (const application of [ofBullmq, ofBeeQueue, ofSocketIo, ofExpress]) {
  await application();
  console.log(application.name);
}
process.exit();
