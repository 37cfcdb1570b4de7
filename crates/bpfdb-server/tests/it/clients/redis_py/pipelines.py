"""Pipelines that redis-py writes before it reads, against the server at the address given:
HOST:PORT, or the path of a Unix-domain socket; with so many commands. Then pipelines as they are by
default, which is one transaction each, by MULTI ... EXEC."""

import sys

import redis

# Long, so that few commands fill the buffers of sockets.
NAME = "k" * 80
VALUE = b"v" * 250


def connect(address: str) -> redis.Redis:
    if address.startswith("/"):
        return redis.Redis(unix_socket_path=address)
    host, port = address.rsplit(":", 1)
    return redis.Redis(host=host, port=int(port))


def plain(client: redis.Redis, count: int) -> None:
    pipe = client.pipeline(transaction=False)
    for i in range(count):
        pipe.set(f"py:pipelines:{NAME}:{i % 1000}", VALUE)
    assert pipe.execute() == [True] * count
    for i in range(count):
        pipe.get(f"py:pipelines:{NAME}:{i % 1000}")
    assert pipe.execute() == [VALUE] * count


def transaction(client: redis.Redis, count: int) -> None:
    """Each command has a key of its own, which is locked until the end."""
    pipe = client.pipeline()
    for i in range(count):
        pipe.set(f"py:transaction:{count}:{i}", VALUE[:100])
    assert pipe.execute() == [True] * count
    assert client.get(f"py:transaction:{count}:{count - 1}") == VALUE[:100]


def main(address: str, count: int) -> None:
    client = connect(address)
    plain(client, count)
    transaction(client, 1_000)
    transaction(client, count)
    assert client.ping()


main(sys.argv[1], int(sys.argv[2]))
