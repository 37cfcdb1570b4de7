"""Rate limiters of the library `limits`, with the scripts that it sends, against the servers at
the two ports given: both say the same at every step, and have the same data. (Not its reset(),
which asks for KEYS in a script that writes: docs/scripts.md.)"""

import random
import sys

import redis
from limits import RateLimitItemPerSecond
from limits.storage import RedisStorage
from limits.strategies import FixedWindowRateLimiter, SlidingWindowCounterRateLimiter

STEPS = 600
# Seconds. So long that what two servers are apart changes no decision.
WINDOW = 1000
# Seconds by which a window is made older: then what was counted in it is a little less than all.
AGED = 5
# Between two servers, seconds.
TOLERANCE = 2
USERS = ["ann", "bob"]


class Side:
    """One server, and the limiters that keep their counts in it."""

    def __init__(self, port: int) -> None:
        uri = f"redis://127.0.0.1:{port}"
        self.client = redis.Redis.from_url(uri)
        self.storage = RedisStorage(uri)
        self.limiters = [
            FixedWindowRateLimiter(self.storage),
            SlidingWindowCounterRateLimiter(self.storage),
        ]

    def age(self, item: RateLimitItemPerSecond, user: str) -> object:
        """The window that slides is over: what is in it counts as that of the window before."""
        key = self.storage._current_window_key(item.key_for(user))
        return self.client.pexpire(key, (WINDOW - AGED) * 1000)

    def stats(self, number: int, item: RateLimitItemPerSecond, user: str) -> object:
        return self.limiters[number].get_window_stats(item, user)

    def step(self, kind: str, number: int, user: str, cost: int) -> object:
        item = RateLimitItemPerSecond(10, WINDOW, namespace=f"N{number}")
        limiter = self.limiters[number]
        if kind == "age":
            return self.age(item, user)
        if kind == "test":
            return limiter.test(item, user, cost=cost)
        if kind == "clear":
            return limiter.clear(item, user)
        return limiter.hit(item, user, cost=cost)

    def data(self) -> dict[bytes, tuple[bytes, int]]:
        keys = sorted(self.client.keys("*"))
        return {key: (self.client.get(key), self.client.ttl(key)) for key in keys}


def is_near(ours: float, theirs: float) -> bool:
    """Whole windows do not count: the library says another one if the script finds all of the time
    left, which only a server does that answers in the same millisecond."""
    apart = (ours - theirs) % WINDOW
    return min(apart, WINDOW - apart) <= TOLERANCE


def agree(ours: dict, theirs: dict) -> bool:
    def near(key: bytes) -> bool:
        (value, left), (other, other_left) = ours[key], theirs[key]
        return value == other and abs(left - other_left) <= TOLERANCE

    return ours.keys() == theirs.keys() and all(near(key) for key in ours)


def main() -> None:
    sides = [Side(int(port)) for port in sys.argv[1:3]]
    for side in sides:
        side.client.flushall()
    draw = random.Random(7)
    allowed = 0
    for number in range(STEPS):
        kinds = ["hit"] * 12 + ["test", "age", "clear"]
        kind = draw.choice(kinds)
        which, user, cost = draw.randrange(2), draw.choice(USERS), draw.choice([1, 1, 2, 11])
        told = f"step {number}: {kind} {which} {user} {cost}"
        ours, theirs = (side.step(kind, which, user, cost) for side in sides)
        assert ours == theirs, f"{told}: {ours} {theirs}"
        allowed += kind == "hit" and ours
        item = RateLimitItemPerSecond(10, WINDOW, namespace=f"N{which}")
        ours, theirs = (side.stats(which, item, user) for side in sides)
        assert ours.remaining == theirs.remaining, f"{told}: {ours} {theirs}"
        assert is_near(ours.reset_time, theirs.reset_time), f"{told}: {ours} {theirs}"
        ours, theirs = (side.data() for side in sides)
        assert agree(ours, theirs), f"{told}: {ours} {theirs}"
    # Else a limiter that says the same to all clients would pass.
    assert STEPS // 10 < allowed < STEPS * 3 // 4, allowed


main()
