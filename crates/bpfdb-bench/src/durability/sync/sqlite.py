"""Upserts of one connection to SQLite, one transaction each: WAL, synchronous=FULL.

    sqlite.py fill FILE KEYS
    sqlite.py run FILE KEYS SECONDS    prints: version, upserts per second, the median and the 99th
                                       percentile of their times in microseconds, and processor
                                       seconds of the machine for each
"""

import random
import sqlite3
import sys
import time

UPSERT = (
    "INSERT INTO records VALUES (?, ?) "
    "ON CONFLICT (key) DO UPDATE SET value = excluded.value"
)
TICKS_PER_SECOND = 100  # USER_HZ


def connect(path):
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    return connection


def record(n):
    """SQLite writes nothing, and flushes nothing, if the value is the same as before."""
    return "key:%012d" % n, "%016x" % random.getrandbits(64)


def fill(path, keys):
    connection = connect(path)
    connection.execute(
        "CREATE TABLE records (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"
    )
    connection.execute("BEGIN")
    connection.executemany(UPSERT, (record(n) for n in range(keys)))
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def busy():
    """Processor seconds of the machine: user, nice, system, irq, softirq."""
    with open("/proc/stat") as stat:
        ticks = [int(word) for word in stat.readline().split()[1:]]
    return sum(ticks[column] for column in (0, 1, 2, 5, 6)) / TICKS_PER_SECOND


def run(path, keys, seconds):
    connection = connect(path)
    times = []
    before = busy()
    begun = now = time.perf_counter()
    while now < begun + seconds:
        connection.execute(UPSERT, record(random.randrange(keys)))
        then, now = now, time.perf_counter()
        times.append(now - then)
    each = (busy() - before) / len(times)
    times.sort()
    median, p99 = times[len(times) // 2], times[len(times) * 99 // 100]
    rate = len(times) / (now - begun)
    print(sqlite3.sqlite_version, rate, median * 1e6, p99 * 1e6, each)


if sys.argv[1] == "fill":
    fill(sys.argv[2], int(sys.argv[3]))
else:
    run(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
