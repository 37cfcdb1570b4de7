"""Pipelines that redis-py writes before it reads, against the server at the address given:
HOST:PORT, or the path of a Unix-domain socket; with so many commands."""

import sys

import redis

VALUE = b"v" * 100


def main(address: str, count: int) -> None:
    if address.startswith("/"):
        client = redis.Redis(unix_socket_path=address)
    else:
        host, port = address.rsplit(":", 1)
        client = redis.Redis(host=host, port=int(port))
    pipe = client.pipeline(transaction=False)
    for i in range(count):
        pipe.set(f"py:pipelines:{i % 1000}", VALUE)
    assert pipe.execute() == [True] * count
    for i in range(count):
        pipe.get(f"py:pipelines:{i % 1000}")
    assert pipe.execute() == [VALUE] * count
    assert client.ping()


main(sys.argv[1], int(sys.argv[2]))
