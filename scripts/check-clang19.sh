#!/bin/sh
# Do the programs also load, and mean the same, when clang-19 compiles them? Builds in
# a folder of its own, runs their tests, and leaves nothing behind.
#
#   scripts/check-clang19.sh         on this kernel, ten thousand random procedures among them
#   VM=1 scripts/check-clang19.sh    on that of Debian 13 (6.12), in a virtual machine: the unit tests
#                                    of the programs, and ten thousand random procedures
set -eu
cd "$(dirname "$0")/.."

if ! command -v clang-19 >/dev/null; then
	echo "check-clang19: installing clang-19"
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
		clang-19 >/dev/null || {
		echo "check-clang19: no clang-19, and apt-get cannot install it" >&2
		exit 1
	}
fi
target=$(mktemp -d)
trap 'rm -rf "$target"' EXIT

export BPFDB_CLANG=clang-19 CARGO_TARGET_DIR="$target"

if [ -n "${VM:-}" ]; then
	TESTS=bpfdb/units scripts/vm.sh
	TESTS=programs FILTER=--include-ignored LIMIT=7200 scripts/vm.sh
	echo "check-clang19: every program loads on that kernel"
	exit 0
fi

tests() {
	nice cargo test --quiet --profile ci \
		--all-features --no-fail-fast "$@"
}
tests -p bpfdb -p bpfdb-procedures "$@"
# What is compiled at run time is put into a template that clang made.
tests -p bpfdb-procedures --lib "$@" -- --ignored programs::
tests -p bpfdb-server --test it "$@" -- procedures::
echo "check-clang19: every program loads"
