"""What a program does with redis-py, against the server at the port given."""

import sys

import redis


def main(port: int) -> None:
    client = redis.Redis(port=port, protocol=2, client_name="test")
    assert client.ping()
    assert client.set("py:a", "1")
    assert client.get("py:a") == b"1"
    assert client.get("py:absent") is None
    assert client.incr("py:a") == 2
    assert client.incrby("py:a", 40) == 42
    assert client.decr("py:a") == 41
    assert client.append("py:b", "x" * 100) == 100
    assert client.strlen("py:b") == 100
    assert client.mset({"py:c": b"\0\r\n", "py:d": b""})
    assert client.mget("py:c", "py:d", "py:e") == [b"\0\r\n", b"", None]
    assert client.exists("py:a", "py:a", "py:e") == 2
    assert client.set("py:a", "2", nx=True) is None
    assert client.set("py:a", "3", xx=True, get=True) == b"41"
    assert client.delete("py:a", "py:b", "py:c", "py:d") == 4
    assert client.echo("hello") == b"hello"
    assert client.client_getname() == "test"
    assert client.config_get("save") == {"save": ""}
    assert client.info()["redis_mode"] == "standalone"
    assert client.dbsize() >= 0

    long = bytes(range(256)) * 200
    assert client.set("py:long", long)
    assert client.get("py:long") == long

    pipe = client.pipeline(transaction=False)
    for i in range(1000):
        pipe.set(f"py:{i}", i)
        pipe.get(f"py:{i}")
    replies = pipe.execute()
    assert replies[1::2] == [str(i).encode() for i in range(1000)]

    try:
        client.execute_command("NONSENSE", "x")
    except redis.ResponseError as error:
        assert "unknown command" in str(error)
    else:
        raise AssertionError("no error")

    # Two connections, one transaction each.
    one, other = client.client(), client.client()
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


main(int(sys.argv[1]))
