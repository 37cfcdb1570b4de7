"""RQ: so many jobs are added, then done by one worker. Prints the jobs per second of both together."""

import operator
import sys
import time

import redis
from rq import Queue, SimpleWorker

AT_ONCE = 200

port, jobs = map(int, sys.argv[1:])
connection = redis.Redis(port=port)
queue = Queue("bench", connection=connection)
queue.empty()
begun = time.perf_counter()
for first in range(0, jobs, AT_ONCE):
    some = range(first, min(first + AT_ONCE, jobs))
    queue.enqueue_many([Queue.prepare_data(operator.add, (number, 1)) for number in some])
worker = SimpleWorker([queue], connection=connection)
worker.work(burst=True, logging_level="ERROR")
time_taken = time.perf_counter() - begun
done = queue.finished_job_registry.count
assert done >= jobs, f"{done} of {jobs} jobs are done"
queue.finished_job_registry.cleanup()
connection.delete(queue.finished_job_registry.key)
print(jobs / time_taken)
