"""What a program does with redis-py and its default settings, against the
server at the port given."""

import sys
import time

import redis


def connect(client: redis.Redis) -> None:
    assert client.ping()
    assert client.echo("hello") == b"hello"
    assert client.client_getname() is None
    assert client.client_setname("me")
    assert client.client_getname() == "me"
    assert client.client_id() > 0
    assert client.config_get("save") == {"save": ""}
    assert client.info()["redis_mode"] == "standalone"
    assert client.dbsize() >= 0
    assert abs(client.time()[0] - time.time()) < 60


def values(client: redis.Redis) -> None:
    assert client.set("py:a", "1")
    assert client.get("py:a") == b"1"
    assert client.get("py:absent") is None
    assert client.incr("py:a") == 2
    assert client.incrby("py:a", 40) == 42
    assert client.decr("py:a") == 41
    assert client.incrbyfloat("py:a", 0.5) == 41.5
    assert client.append("py:b", "x" * 100) == 100
    assert client.strlen("py:b") == 100
    assert client.getrange("py:b", 98, -1) == b"xx"
    assert client.mset({"py:c": b"\0\r\n", "py:d": b""})
    assert client.mget("py:c", "py:d", "py:e") == [b"\0\r\n", b"", None]
    assert client.exists("py:a", "py:a", "py:e") == 2
    assert client.set("py:a", "2", nx=True) is None
    assert client.set("py:a", "3", xx=True, get=True) == b"41.5"
    assert client.type("py:a") == b"string"
    assert client.rename("py:a", "py:f")
    assert client.delete("py:f", "py:b", "py:c", "py:d") == 4

    long = bytes(range(256)) * 200
    assert client.set(b"py:\0long\r\n", long)
    assert client.get(b"py:\0long\r\n") == long


def errors(client: redis.Redis) -> None:
    for command in (["NONSENSE", "x"], ["GET"], ["INCR", "py:text"]):
        client.set("py:text", "no number")
        try:
            client.execute_command(*command)
        except redis.ResponseError as error:
            assert str(error)
        else:
            raise AssertionError(f"no error: {command}")
    assert client.ping()


def expiry(client: redis.Redis) -> None:
    assert client.set("py:short", "1", px=50)
    assert client.set("py:long", "1", ex=1000)
    assert 990 < client.ttl("py:long") <= 1000
    assert client.persist("py:long")
    assert client.ttl("py:long") == -1
    assert client.expire("py:long", 1000, gt=True) is False
    assert client.expireat("py:long", int(time.time()) + 500)
    assert 490 < client.ttl("py:long") <= 500
    assert client.getex("py:long", persist=True) == b"1"
    deadline = time.time() + 60
    while client.get("py:short") is not None:
        assert time.time() < deadline
        time.sleep(0.01)
    assert client.ttl("py:short") == -2


def pipeline(client: redis.Redis) -> None:
    pipe = client.pipeline(transaction=False)
    for i in range(1000):
        pipe.set(f"py:pipe:{i}", i)
        pipe.get(f"py:pipe:{i}")
    replies = pipe.execute()
    assert replies[1::2] == [str(i).encode() for i in range(1000)]


def scan(client: redis.Redis) -> None:
    found = set(client.scan_iter(match="py:pipe:*", count=100))
    assert found == {f"py:pipe:{i}".encode() for i in range(1000)}
    assert set(client.keys("py:pipe:99*")) >= {b"py:pipe:99", b"py:pipe:999"}


def transaction(client: redis.Redis) -> None:
    with client.pipeline() as pipe:
        assert pipe.set("py:m", 1).incr("py:m").get("py:m").execute() == [True, 2, b"2"]

    client.set("py:w", 10)
    with client.pipeline() as pipe:
        pipe.watch("py:w")
        client.set("py:w", 11)
        pipe.multi()
        pipe.set("py:w", 12)
        try:
            pipe.execute()
        except redis.WatchError:
            pass
        else:
            raise AssertionError("it was changed")
    assert client.get("py:w") == b"11"

    def double(pipe: redis.client.Pipeline) -> None:
        value = int(pipe.get("py:w"))
        pipe.multi()
        pipe.set("py:w", 2 * value)

    assert client.transaction(double, "py:w") == [True]
    assert client.get("py:w") == b"22"


def lock(client: redis.Redis) -> None:
    """The lock of redis-py, whose scripts are called by EVALSHA."""
    one = client.lock("py:lock", timeout=10)
    other = client.lock("py:lock", timeout=10)
    assert one.acquire(blocking=False)
    assert not other.acquire(blocking=False)
    assert one.extend(20) and 20 < client.ttl("py:lock") <= 30
    assert one.reacquire() and client.ttl("py:lock") <= 10
    for method in (other.release, lambda: other.extend(5)):
        try:
            method()
        except redis.exceptions.LockError:
            pass
        else:
            raise AssertionError("it is another's")
    one.release()
    assert client.get("py:lock") is None
    # Often enough for the scripts to be compiled meanwhile.
    for _ in range(100):
        with client.lock("py:lock", timeout=10) as held:
            assert held.extend(5) and held.reacquire()
    other.acquire()
    client.delete("py:lock")
    try:
        other.release()
    except redis.exceptions.LockNotOwnedError:
        pass
    else:
        raise AssertionError("it is gone")


def interactive(client: redis.Redis) -> None:
    """Two connections, one transaction of the engine each."""
    one, other = client.client(), client.client()
    client.set("py:1", "1")
    assert one.execute_command("BEGIN") == b"OK"
    assert other.execute_command("BEGIN") == b"OK"
    assert one.decrby("py:1", 1) == 0
    try:
        other.incrby("py:1", 1)
    except redis.ResponseError as error:
        assert str(error).startswith("CONFLICT")
    else:
        raise AssertionError("no conflict")
    assert other.execute_command("ROLLBACK") == b"OK"
    assert one.execute_command("COMMIT") == b"OK"
    assert client.get("py:1") == b"0"


def reconnect(client: redis.Redis, port: int) -> None:
    killer = redis.Redis(port=port)
    one = client.client()
    before = one.client_id()
    assert killer.client_kill_filter(_id=before) == 1
    # The first request on a dead connection may be lost: then there is an error.
    try:
        one.ping()
    except redis.ConnectionError:
        pass
    assert one.get("py:1") == b"0"
    assert one.client_id() != before


def main(port: int) -> None:
    client = redis.Redis(port=port)
    connect(client)
    values(client)
    errors(client)
    expiry(client)
    pipeline(client)
    scan(client)
    transaction(client)
    lock(client)
    interactive(client)
    reconnect(client, port)
    # The other protocol than the default.
    for protocol in (2, 3):
        with redis.Redis(port=port, protocol=protocol) as other:
            assert other.get("py:1") == b"0"


main(int(sys.argv[1]))
