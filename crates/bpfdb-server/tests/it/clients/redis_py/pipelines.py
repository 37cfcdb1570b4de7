"""Pipelines of 100,000 commands that redis-py writes before it reads, against the server at
the address given: HOST:PORT, or the path of a Unix-domain socket."""

import sys

import redis

COUNT = 100_000
VALUE = b"v" * 100


def main(address: str) -> None:
    if address.startswith("/"):
        client = redis.Redis(unix_socket_path=address)
    else:
        host, port = address.rsplit(":", 1)
        client = redis.Redis(host=host, port=int(port))
    pipe = client.pipeline(transaction=False)
    for i in range(COUNT):
        pipe.set(f"py:pipelines:{i % 1000}", VALUE)
    assert pipe.execute() == [True] * COUNT
    for i in range(COUNT):
        pipe.get(f"py:pipelines:{i % 1000}")
    assert pipe.execute() == [VALUE] * COUNT
    assert client.ping()


main(sys.argv[1])
