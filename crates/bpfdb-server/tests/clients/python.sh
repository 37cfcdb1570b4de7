#!/bin/sh
# Prints the path of a Python that has redis-py; makes it in the folder $1.
set -eu
venv=$1/redis-py
version=5.2.1
if [ ! -e "$venv/redis-$version" ]; then
	rm -rf "$venv"
	python3 -m venv "$venv" >&2
	"$venv/bin/pip" install --quiet --disable-pip-version-check "redis==$version" >&2
	touch "$venv/redis-$version"
fi
echo "$venv/bin/python"
