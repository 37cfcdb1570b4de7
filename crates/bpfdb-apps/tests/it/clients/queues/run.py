"""Queues, locks and caches, each in a database of its own, with the commands and scripts that they
send, against the server at the port given: workers wait for jobs in blocking commands."""

import asyncio
import gc
import operator
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable

import dramatiq
import redis
import redis_lock
from arq import create_pool
from arq.connections import RedisSettings
from arq.worker import Worker, func
from celery import Celery, chord, group
from celery.contrib.testing.worker import start_worker
from django.conf import settings
from django.core.cache import caches
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend
from huey import PriorityRedisHuey, RedisHuey
from rq import Queue, Retry, SimpleWorker
from rq.registry import FailedJobRegistry, FinishedJobRegistry

JOBS = 20
# Seconds until a result must be there.
PATIENCE = 15


def client(port: int, database: int) -> redis.Redis:
    return redis.Redis(port=port, db=database)


def locks(port: int) -> None:
    """Threads that count under a lock lose no step; one that is held is refused to another."""
    count = 0

    def work() -> None:
        nonlocal count
        for _ in range(5):
            with redis_lock.Lock(client(port, 0), "counter", expire=5, auto_renewal=True):
                seen = count
                time.sleep(0.001)
                count = seen + 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert count == JOBS, count
    held = redis_lock.Lock(client(port, 0), "held", expire=10)
    assert held.acquire()
    assert not redis_lock.Lock(client(port, 0), "held").acquire(blocking=False)
    held.extend(20)
    held.release()
    redis_lock.reset_all(client(port, 0))


def of_huey(port: int) -> None:
    """Its queue in a list, then the one in a sorted set."""
    for kind in (RedisHuey, PriorityRedisHuey):
        queue = kind(kind.__name__, host="127.0.0.1", port=port, db=1)

        @queue.task()
        def add(left: int, right: int) -> int:
            return left + right

        consumer = queue.create_consumer(workers=2, periodic=False, scheduler_interval=1)
        consumer.start()
        results = [add(number, 1) for number in range(JOBS)]
        later = add.schedule((40, 2), delay=1)
        sums = [result(blocking=True, timeout=PATIENCE) for result in results]
        assert sums == [number + 1 for number in range(JOBS)], sums
        assert later(blocking=True, timeout=PATIENCE) == 42
        consumer.stop(graceful=True)


def of_dramatiq(port: int) -> None:
    url = f"redis://127.0.0.1:{port}/2"
    broker = RedisBroker(url=url)
    broker.add_middleware(Results(backend=RedisBackend(url=url)))
    dramatiq.set_broker(broker)

    @dramatiq.actor(store_results=True)
    def add(left: int, right: int) -> int:
        return left + right

    worker = dramatiq.Worker(broker, worker_timeout=200)
    worker.start()
    sent = [add.send(number, 1) for number in range(JOBS)]
    later = add.send_with_options(args=(40, 2), delay=500)
    sums = [one.get_result(block=True, timeout=PATIENCE * 1000) for one in sent]
    assert sums == [number + 1 for number in range(JOBS)], sums
    assert later.get_result(block=True, timeout=PATIENCE * 1000) == 42
    worker.stop()


async def jobs_of_arq(port: int) -> None:
    async def add(_: dict, left: int, right: int) -> int:
        return left + right

    where = RedisSettings(port=port, database=3)
    pool = await create_pool(where)
    jobs = [await pool.enqueue_job("add", number, 1) for number in range(JOBS)]
    later = await pool.enqueue_job("add", 40, 2, _defer_by=0.5)
    worker = Worker(
        [func(add, name="add")],
        redis_settings=where,
        burst=True,
        poll_delay=0.1,
        handle_signals=False,
    )
    await worker.async_run()
    sums = [await job.result(timeout=PATIENCE) for job in jobs]
    assert sums == [number + 1 for number in range(JOBS)], sums
    assert await later.result(timeout=PATIENCE) == 42
    await worker.close()


def of_arq(port: int) -> None:
    asyncio.run(jobs_of_arq(port))


def of_rq(port: int) -> None:
    """Jobs, one that fails three times, and one that depends on the others."""
    connection = client(port, 6)
    queue = Queue(connection=connection)
    jobs = [queue.enqueue(operator.add, number, 1) for number in range(JOBS)]
    failing = queue.enqueue(operator.truediv, 1, 0, retry=Retry(max=2))
    last = queue.enqueue(operator.add, 40, 2, depends_on=jobs)
    SimpleWorker([queue], connection=connection).work(burst=True, logging_level="ERROR")
    sums = [job.return_value() for job in jobs]
    assert sums == [number + 1 for number in range(JOBS)], sums
    assert last.return_value() == 42
    assert failing.get_status(refresh=True) == "failed"
    assert len(FailedJobRegistry(queue=queue)) == 1
    assert len(FinishedJobRegistry(queue=queue)) == JOBS + 1


def of_celery(port: int) -> None:
    """Jobs one by one, as a group, as a chord, later, and one that is tried again."""
    url = f"redis://127.0.0.1:{port}"
    app = Celery("app", broker=f"{url}/13", backend=f"{url}/14")
    app.conf.update(broker_connection_retry_on_startup=True, worker_hijack_root_logger=False)
    tries = 0

    @app.task
    def add(left: int, right: int) -> int:
        return left + right

    @app.task
    def total(numbers: list[int]) -> int:
        return sum(numbers)

    @app.task(bind=True, max_retries=3)
    def stubborn(self) -> int:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise self.retry(countdown=0.1)
        return tries

    # A result that the collector finds within subscribe() unsubscribes, and waits for the lock which
    # subscribe() holds, for ever.
    gc.disable()
    with start_worker(app, pool="solo", perform_ping_check=False, loglevel="ERROR"):
        results = [add.delay(number, 1) for number in range(JOBS)]
        later = add.apply_async((40, 2), countdown=0.3)
        wanted = [number + 1 for number in range(JOBS)]
        assert [result.get(timeout=PATIENCE) for result in results] == wanted
        signatures = [add.s(number, 1) for number in range(JOBS)]
        assert group(signatures)().get(timeout=PATIENCE) == wanted
        assert chord(signatures)(total.s()).get(timeout=PATIENCE) == sum(wanted)
        assert stubborn.delay().get(timeout=PATIENCE) == 3
        assert later.get(timeout=PATIENCE) == 42
    gc.enable()


def of_django(port: int) -> None:
    """Its own cache and that of django-redis."""
    backends = {
        "default": ("django_redis.cache.RedisCache", 4),
        "own": ("django.core.cache.backends.redis.RedisCache", 5),
    }
    settings.configure(
        CACHES={
            name: {"BACKEND": backend, "LOCATION": f"redis://127.0.0.1:{port}/{database}"}
            for name, (backend, database) in backends.items()
        }
    )
    for name, (_, database) in backends.items():
        cache = caches[name]
        cache.set("a", {"b": 1}, 60)
        assert cache.get("a") == {"b": 1}
        cache.set_many({"x": 1, "y": 2})
        assert cache.get_many(["x", "y"]) == {"x": 1, "y": 2}
        assert cache.incr("x") == 2
        assert not cache.add("a", 3)
        cache.delete_many(["x", "y"])
        assert cache.get("x") is None
        assert client(port, database).dbsize() == 1
    cache = caches["default"]
    cache.set_many({"p:1": 1, "p:2": 2})
    assert cache.delete_pattern("p:*") == 2
    with cache.lock("lock", timeout=5):
        assert cache.ttl("a") > 0


def main() -> None:
    port = int(sys.argv[1])
    client(port, 0).flushall()
    applications: list[Callable[[int], None]] = [
        locks,
        of_huey,
        of_dramatiq,
        of_arq,
        of_rq,
        of_celery,
        of_django,
    ]
    for application in applications:
        application(port)
        print(application.__name__)


def end() -> None:
    """Ends with the outcome of all applications, also if threads of one of them go on."""
    status = 0
    try:
        main()
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


end()
