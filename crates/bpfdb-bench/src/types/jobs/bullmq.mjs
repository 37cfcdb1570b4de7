// BullMQ: so many jobs are added, then done by one worker. Prints the jobs per second of both together.

import { Queue, Worker } from "bullmq";

const [port, jobs] = process.argv.slice(2).map(Number);
const connection = { host: "127.0.0.1", port, maxRetriesPerRequest: null };
const AT_ONCE = 200;

const queue = new Queue("bench", { connection });
await queue.waitUntilReady();
await queue.obliterate({ force: true });
const begun = performance.now();
for (let first = 0; first < jobs; first += AT_ONCE) {
  const some = Array.from({ length: Math.min(AT_ONCE, jobs - first) }, (_, n) => ({
    name: "add",
    data: { left: first + n, right: 1 },
  }));
  await queue.addBulk(some);
}
let done = 0;
await new Promise((resolve, reject) => {
  const worker = new Worker("bench", async (job) => job.data.left + job.data.right, {
    connection,
    concurrency: 64,
  });
  worker.on("completed", () => {
    done += 1;
    if (done === jobs) resolve();
  });
  worker.on("failed", (_, error) => reject(error));
  worker.on("error", reject);
});
console.log((jobs * 1000) / (performance.now() - begun));
process.exit();
