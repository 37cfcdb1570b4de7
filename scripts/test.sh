#!/bin/sh
# `make test`: builds the tests, runs all of their programs, two at a time, and some suites once
# more in other settings. It prints what a program says when the program has ended.
#
#   scripts/test.sh              all tests
#   scripts/test.sh FILTER ...   those whose names have one of these in them (arguments of libtest)
#   RUNNER='sudo -E' scripts/test.sh ...    by this
#   JOBS=1 scripts/test.sh       one program at a time
set -eu
cd "$(dirname "$0")/.."

# A program that hangs is ended after so many seconds; the longest takes a quarter of this.
LIMIT=${LIMIT:-1500}
# Tests that wait leave the processors to others.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-3}"

# One program: name, folder, program, arguments. All that it says, then its name if it failed.
one() {
	name=$1 folder=$2 program=$3
	shift 3
	output=$(mktemp "$results/output.XXXXXX")
	failed=
	# Each engine with a log adds a line.
	export BPFDB_TEST_LOGS="$output.logs"
	: >"$BPFDB_TEST_LOGS"
	(cd "$folder" && timeout --kill-after=10 "$LIMIT" ${RUNNER:-} "$program" "$@") \
		</dev/null >"$output" 2>&1 || failed=yes
	# A suite that is run for the sake of the log must have had one.
	case $name in
	*:BPFDB_TEST_LOG=*) [ -s "$BPFDB_TEST_LOGS" ] || failed="has no log" ;;
	esac
	[ -z "$failed" ] || echo "$name" >>"$results/failed"
	flock "$results/lock" sh -c 'printf "     Running %s\n" "$1"; cat "$2"' - "$name" "$output"
}

# What a suite has to be run with besides, and which: a line each.
settings() {
	# Clients that are answered inside their own send(), where the tests leave it open.
	echo bpfdb-server BPFDB_TEST_LOCAL_CLIENTS=on differential
	echo bpfdb-server BPFDB_TEST_LOCAL_CLIENTS=on transactions
	# Engines with a log; clients that get a reply only when it is durable.
	echo bpfdb-tests BPFDB_TEST_LOG=async scripts
	echo bpfdb-server BPFDB_TEST_LOG=sync transactions
}

# Those that take longest begin first, so that no processor is idle at the end.
order() {
	for crate in bpfdb-server bpfdb-cli bpfdb-tests bpfdb bpfdb-durability bpfdb-procedures; do
		printf '%s\n' "$1" | grep "/$crate .*/it-" || true
	done
	printf '%s\n' "$1" | grep -v -E '/(bpfdb|bpfdb-(server|cli|tests|durability|procedures)) .*/it-'
}

if [ "${1:-}" = --one ]; then
	shift
	one "$@"
	exit 0
fi

programs=$(scripts/test-suites.sh --programs)
[ -n "$programs" ] || { echo "test: no test programs" >&2; exit 1; }
results=$(mktemp -d)
export results LIMIT RUNNER="${RUNNER:-}"
trap 'rm -rf "$results"' EXIT

{
	order "$programs" | while read -r folder program; do
		name=${program##*/}
		echo "${folder##*/}/${name%-*} $folder $program $*"
	done
	# With a filter these would run tests that the caller did not ask for.
	[ $# != 0 ] || settings | while read -r crate setting suite; do
		printf '%s\n' "$programs" | grep "/$crate .*/it-" | while read -r folder program; do
			echo "$crate/$suite:$setting $folder /usr/bin/env $setting $program $suite::"
		done
	done
} | sed 's/ *$//' >"$results/jobs" # xargs joins a line that ends in a blank with the next one
xargs -P "${JOBS:-2}" -L 1 scripts/test.sh --one <"$results/jobs"

# Examples in the documentation of the libraries.
if [ $# = 0 ]; then
	cargo test --profile ci --workspace --all-features --doc || echo documentation >>"$results/failed"
fi

if [ -s "$results/failed" ]; then
	echo "test: failed: $(tr '\n' ' ' <"$results/failed")" >&2
	exit 1
fi
