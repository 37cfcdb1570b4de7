#!/bin/sh
# Gets the tests of asyncpg and of SQLAlchemy into the folder that this runs in. They are in the sources, and not in what
# pip installs.
set -eu

python3 -m venv venv
pip() { command=$1; shift; venv/bin/pip "$command" --quiet --disable-pip-version-check --require-hashes "$@"; }
pip install --requirement requirements.txt
pip download --no-deps --no-binary :all: --requirement sources.txt
# The library itself is the one that pip has installed. SQLAlchemy's tests look for their own plugin in lib.
mkdir asyncpg sqlalchemy
tar -xf asyncpg-*.tar.gz -C asyncpg --strip-components=1 --wildcards '*/tests'
tar -xf sqlalchemy-*.tar.gz -C sqlalchemy --strip-components=1 --wildcards '*/test' '*/lib' '*/setup.cfg' '*/pyproject.toml'
rm ./*.tar.gz
