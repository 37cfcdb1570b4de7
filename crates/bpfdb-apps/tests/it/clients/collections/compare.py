"""Libraries that keep their data in hashes, lists, sets and sorted sets, with the commands and scripts
that they send, against the servers at the two ports given: both say the same at every step, and have
the same data at the end. (Nothing here waits, and nothing publishes.)"""

import random
import sys
import warnings
from collections.abc import Callable

import redis
from cachelib.redis import RedisCache
from pottery import InefficientAccessWarning
from pottery import RedisCounter, RedisDeque, RedisDict, RedisList, RedisSet
from walrus import Database

STEPS = 250
# Fewer than Redis keeps compact, and more.
NAMES = [f"name {number}" for number in range(200)]


class Board:
    """Scores in a sorted set, and what belongs to members in a hash, both changed together."""

    def __init__(self, client: redis.Redis) -> None:
        self.client = client

    def rank(self, scores: dict[str, float], data: str) -> object:
        with self.client.pipeline() as block:
            block.zadd("board", scores, gt=True, ch=True)
            block.hset("board:data", mapping=dict.fromkeys(scores, data))
            return block.execute()

    def remove(self, name: str) -> object:
        with self.client.pipeline() as block:
            return block.zrem("board", name).hdel("board:data", name).execute()

    def around(self, name: str) -> object:
        """Read under WATCH, as no other may change it meanwhile."""

        def read(block: redis.client.Pipeline) -> None:
            rank = block.zrevrank("board", name)
            block.multi()
            if rank is not None:
                block.zrange("board", max(rank - 3, 0), rank + 3, desc=True, withscores=True)
            block.hget("board:data", name)

        return self.client.transaction(read, "board")

    def page(self, number: int) -> object:
        names = self.client.zrange("board", 25 * number, 25 * number + 24, desc=True)
        return names and self.client.hmget("board:data", names)

    def drop_worst(self) -> object:
        worst = self.client.zpopmin("board", 2)
        return worst and self.client.hdel("board:data", *[name for name, _ in worst])


class Side:
    """One server, and what the libraries keep in it."""

    def __init__(self, port: int) -> None:
        self.client = redis.Redis(port=port)
        self.client.flushall()
        walrus = Database(port=port)
        self.hash = walrus.Hash("walrus:hash")
        self.list = walrus.List("walrus:list")
        self.set = walrus.Set("walrus:set")
        self.other = walrus.Set("walrus:other")
        self.sorted = walrus.ZSet("walrus:sorted")
        self.board = Board(self.client)
        self.cache = RedisCache(host=redis.Redis(port=port), key_prefix="cache:")
        self.dict = RedisDict(redis=self.client, key="pottery:dict")
        self.counter = RedisCounter(redis=self.client, key="pottery:counter")
        self.bag = RedisSet(redis=self.client, key="pottery:set")
        self.items = RedisList(redis=self.client, key="pottery:list")
        self.deque = RedisDeque(redis=self.client, key="pottery:deque", maxlen=50)

    def data(self) -> dict[bytes, object]:
        """Everything; what has no order in one."""
        readers: dict[bytes, Callable[[bytes], object]] = {
            b"string": self.client.get,
            b"hash": self.client.hgetall,
            b"list": lambda key: self.client.lrange(key, 0, -1),
            b"set": self.client.smembers,
            b"zset": lambda key: self.client.zrange(key, 0, -1, withscores=True),
        }
        return {key: readers[self.client.type(key)](key) for key in self.client.keys("*")}


def of_walrus(random: random.Random) -> Callable[[Side], object]:
    name, other = random.sample(NAMES, 2)
    number = random.randrange(-20, 20)
    steps: list[Callable[[Side], object]] = [
        lambda side: side.hash.update({name: number, other: "x" * abs(number)}),
        lambda side: side.hash.incr("count", number),
        lambda side: side.hash[name],
        lambda side: name in side.hash,
        lambda side: len(side.hash),
        lambda side: side.list.extend([name, other, name]),
        lambda side: side.list.prepend(name),
        lambda side: (side.list.popleft(), side.list.popright()),
        lambda side: side.list[number : number + 7],
        lambda side: side.list.insert(name, other, "before"),
        lambda side: side.set.add(name, other),
        lambda side: side.set.remove(other),
        lambda side: side.other.add(other, str(number)),
        lambda side: sorted(side.set & side.other),
        lambda side: sorted(side.set | side.other),
        lambda side: sorted(side.set - side.other),
        lambda side: len(side.set.unionstore("walrus:union", side.other)),
        lambda side: side.sorted.add({name: number / 4, other: number}),
        lambda side: side.sorted.incr(name, number),
        lambda side: (side.sorted.rank(name), side.sorted.score(name)),
        lambda side: side.sorted.range(number, number + 9, with_scores=True),
        lambda side: side.sorted.range_by_score(number, 20),
        lambda side: side.sorted.count(number, 10),
        lambda side: side.sorted.popmin(2),
    ]
    return random.choice(steps)


def of_board(random: random.Random) -> Callable[[Side], object]:
    name, other = random.sample(NAMES, 2)
    score = random.randrange(1000)
    steps: list[Callable[[Side], object]] = [
        lambda side: side.board.rank({name: score}, f"data {score}"),
        lambda side: side.board.rank({name: score / 4, other: -score}, "two"),
        lambda side: side.client.zincrby("board", -0.5, name),
        lambda side: side.board.remove(name),
        lambda side: side.board.around(name),
        lambda side: side.board.page(score % 3),
        lambda side: side.board.drop_worst(),
        lambda side: side.client.zmscore("board", [name, other]),
        lambda side: side.client.zrevrangebyscore("board", score, "-inf", start=1, num=5),
        lambda side: side.client.zcount("board", score, "+inf"),
        lambda side: side.client.zremrangebyrank("board", 0, -190),
        lambda side: side.client.zunionstore("week", {"board": 1, "week": 0.5}, aggregate="MAX"),
    ]
    # Most steps fill it.
    return random.choice(steps[:2] * 3 + steps)


def of_cachelib(random: random.Random) -> Callable[[Side], object]:
    name, other = random.sample(NAMES, 2)
    value = [name, random.randrange(100), {"long": "x" * random.choice([1, 60, 70_000])}]
    steps: list[Callable[[Side], object]] = [
        lambda side: side.cache.set(name, value),
        lambda side: side.cache.get(name),
        lambda side: side.cache.add(name, value),
        lambda side: side.cache.delete(name),
        lambda side: sorted(side.cache.set_many({name: value, other: 1})),
        lambda side: side.cache.get_many(name, other),
        lambda side: side.cache.has(other),
    ]
    return random.choice(steps)


def of_pottery(random: random.Random) -> Callable[[Side], object]:
    name, other = random.sample(NAMES, 2)
    number = random.randrange(-20, 20)
    steps: list[Callable[[Side], object]] = [
        lambda side: side.dict.update({name: number, other: [number]}),
        lambda side: side.dict.get(name),
        lambda side: side.dict.pop(name, None),
        lambda side: side.dict.setdefault(other, "new"),
        lambda side: side.counter.update({name: 2, other: number}),
        lambda side: side.counter.subtract([name, name]),
        lambda side: side.counter[name],
        lambda side: side.bag.add(name),
        lambda side: side.bag.discard(other),
        lambda side: (name in side.bag, len(side.bag)),
        lambda side: side.bag.isdisjoint([name, other]),
        lambda side: side.items.extend([name, number]),
        lambda side: side.items.append(other),
        lambda side: side.items.insert(number, other),
        lambda side: side.items[number:],
        lambda side: side.items.pop(),
        lambda side: side.items.index(name),
        lambda side: side.deque.appendleft(name),
        lambda side: side.deque.extend([name, other, number]),
        lambda side: side.deque.rotate(1),
        lambda side: side.deque.popleft(),
    ]
    return random.choice(steps)


LIBRARIES = [of_walrus, of_board, of_cachelib, of_pottery]


def outcome(step: Callable[[Side], object], side: Side) -> str:
    """What it returns, or which exception it raises."""
    try:
        result = step(side)
    except (redis.ResponseError, LookupError, ValueError, TypeError, KeyError) as error:
        return f"{type(error).__name__}: {error}"
    # Of a library's own object only its type is the same.
    plain = (str, bytes, int, float, bool, list, tuple, dict, set, type(None))
    return repr(result) if isinstance(result, plain) else type(result).__name__


def main() -> None:
    warnings.simplefilter("ignore", InefficientAccessWarning)
    sides = [Side(int(port)) for port in sys.argv[1:3]]
    source = random.Random(7)
    failed = 0
    for library in LIBRARIES:
        for number in range(STEPS):
            step = library(source)
            ours, theirs = [outcome(step, side) for side in sides]
            failed += "Error" in theirs.split(":")[0]
            line = step.__code__.co_firstlineno
            assert ours == theirs, f"{library.__name__} {number}, line {line}: {ours}, not {theirs}"
    ours, theirs = [side.data() for side in sides]
    assert ours.keys() == theirs.keys(), ours.keys() ^ theirs.keys()
    for key, value in theirs.items():
        assert ours[key] == value, f"{key!r}: {ours[key]!r}, not {value!r}"
    # An exception is an answer, but not every one.
    steps = len(LIBRARIES) * STEPS
    assert failed * 10 < steps, f"{failed} of {steps} steps failed"
    print(f"{steps} steps, {len(theirs)} keys, {failed} exceptions")


main()
