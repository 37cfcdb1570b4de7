#!/bin/sh
# `make test`: builds the tests, runs all of their programs, three at a time, some suites once more in
# other settings, and the examples in the documentation of the libraries. It prints what a program
# says when the program has ended, how long it took, and the processor time of the program with all
# that it started and waited for.
#
#   scripts/test.sh              all tests
#   scripts/test.sh FILTER ...   those whose names have one of these in them (arguments of libtest)
#   RUNNER='sudo -E' scripts/test.sh ...    by this
#   JOBS=1 scripts/test.sh       one program at a time: slower, and suites that measure time are
#                                disturbed less
set -eu
cd "$(dirname "$0")/.."

# A program that hangs is ended after so many seconds; the longest takes a quarter of this.
LIMIT=${LIMIT:-2400}
# A test that fails beside others is run once more by itself, and must pass then. More than this many of
# one program are no chance. What each said is printed at the end, so that none of them stays unseen.
FORGIVEN=3

# One program: name, folder, program, arguments. All that it says, then its name if it failed.
one() {
	name=$1 folder=$2 program=$3
	shift 3
	# In another setting the program is the second argument of env.
	again= setting=
	case $program in */env) setting=$1 again=$2 ;; esac
	# Cargo finds the runner of the examples by itself.
	case $program in */cargo) runner= ;; *) runner=${RUNNER:-} ;; esac
	output=$(mktemp "$results/output.XXXXXX")
	failed=
	begun=$(date +%s)
	# Each engine with a log adds a line, and each with values in files.
	export BPFDB_TEST_LOGS="$output.logs"
	: >"$BPFDB_TEST_LOGS"
	(cd "$folder" && timeout --kill-after=10 "$LIMIT" $runner "$program" "$@") \
		</dev/null >"$output" 2>&1 || failed=yes
	if [ -n "$failed" ]; then
		# What the tests said, and the list of their names: the end of what libtest prints.
		echo "test: in $name:" >"$output.why"
		if grep -q '^failures:$' "$output"; then
			sed -n '/^failures:$/,$p' "$output" >>"$output.why"
		else
			tail -n 40 "$output" >>"$output.why"
		fi
		# libtest says after a minute that a test is still running.
		sed -n 's/^test \([a-z0-9_:]*\) has been running for over.*/\1/p' "$output" | while read -r slow; do
			grep -q "^test $slow \.\.\. " "$output" || echo "test: $slow did not end" >>"$output.why"
		done
		names=$(sed -n 's/^    \([a-z0-9_]*::[a-z0-9_:]*\)$/\1/p' "$output.why" | sort -u)
		if [ -n "$names" ] && [ "$(printf '%s\n' "$names" | wc -l)" -le "$FORGIVEN" ]; then
			# shellcheck disable=SC2086 # a list of names
			(cd "$folder" && timeout --kill-after=10 "$LIMIT" $runner ${setting:+env "$setting"} \
				"${again:-$program}" --exact --test-threads=1 $names) </dev/null >>"$output" 2>&1 && {
				failed=
				printf 'test: failed beside others, passed alone: %s\n' $names >>"$output.why"
			}
		fi
	fi
	# A suite that is run for the sake of the log must have had one.
	lacks=
	case $name in
	*:BPFDB_TEST_LOG=*) [ -s "$BPFDB_TEST_LOGS" ] || lacks="has no log" ;;
	*:BPFDB_TEST_TIER=*) grep -q tier "$BPFDB_TEST_LOGS" || lacks="has no value in a file" ;;
	esac
	[ -z "$lacks" ] || { echo "test: $name $lacks" >>"$output"; failed=yes; }
	[ -z "$failed" ] || echo "$name" >>"$results/failed"
	# Not in a subshell, which has no children of its own. The second line has the children's times,
	# as "1m2.3s 0m4.5s".
	times >"$output.times"
	processor=$(sed -n '2{s/[ms]/ /g;p;}' "$output.times" | awk '{ print int($1 * 60 + $2 + $3 * 60 + $4) }')
	flock "$results/lock" sh -c 'printf "     Running %s (%s s, %s s of processor time)\n" "$1" "$2" "$3"; cat "$4"' - \
		"$name" $(($(date +%s) - begun)) "$processor" "$output"
}

# What a suite has to be run with besides, and which: a line each. Names of tests behind it: these alone; each
# starts a server, and `make test-log` runs all.
settings() {
	# Engines with a log; clients that get a reply only when it is durable. The first takes longest.
	echo bpfdb-server BPFDB_TEST_LOG=sync multi money_is_conserved optimistic_counters_lose_nothing \
		commands_wait_and_are_executed_together many_keys_are_watched
	echo bpfdb-tests BPFDB_TEST_LOG=async scripts
	# Clients that are answered inside their own send(), where the tests leave it open.
	echo bpfdb-server BPFDB_TEST_LOCAL_CLIENTS=on differential
	echo bpfdb-server BPFDB_TEST_LOCAL_CLIENTS=on transactions
	# Values in files.
	echo bpfdb-server BPFDB_TEST_TIER=on large_collections
	echo bpfdb-server BPFDB_TEST_TIER=on differential
}

# Those that take longest begin first, then the suites in other settings, one of which takes as long as
# they do, so that no processor is idle at the end.
LONGEST='bpfdb-server bpfdb-cli bpfdb bpfdb-durability bpfdb-proxy bpfdb-apps bpfdb-tests bpfdb-procedures
	bpfdb-bench bpfdb-copies'
longest() {
	for crate in $LONGEST; do
		printf '%s\n' "$1" | grep "/$crate " || true
	done
}
others() {
	# shellcheck disable=SC2086 # a list of names
	printf '%s\n' "$1" | grep -v -E "/($(echo $LONGEST | tr ' ' '|')) " || true
}

if [ "${1:-}" = --one ]; then
	shift
	one "$@"
	exit 0
fi

programs=$(scripts/test-suites.sh --programs)
[ -n "$programs" ] || { echo "test: no test programs" >&2; exit 1; }
results=$(mktemp -d)
export results LIMIT FORGIVEN RUNNER="${RUNNER:-}"
trap 'rm -rf "$results"' EXIT

# A line for each program that is read, with the arguments of libtest.
jobs_of() {
	while read -r folder program; do
		name=${program##*/}
		name=${folder##*/}/${name%-*}
		# This one is as long as a third of all others: with two threads it would be over last, and alone.
		threads=
		[ "$name" != bpfdb-server/it ] || threads="/usr/bin/env RUST_TEST_THREADS=3"
		echo "$name $folder $threads $program $*"
	done
}

{
	longest "$programs" | jobs_of "$@"
	# With a filter these would run tests that the caller did not ask for.
	[ $# != 0 ] || settings | while read -r crate setting suite tests; do
		filters=$suite::
		[ -z "$tests" ] || filters=$(printf "$suite::%s " $tests)
		printf '%s\n' "$programs" | grep "/$crate .*/it-" | while read -r folder program; do
			echo "$crate/$suite:$setting $folder /usr/bin/env $setting $program $filters"
		done
	done
	others "$programs" | jobs_of "$@"
	[ $# != 0 ] || echo "documentation $PWD $(command -v cargo) test --quiet --profile ci --workspace" \
		"--all-features --doc"
} | sed 's/ *$//' >"$results/jobs" # xargs joins a line that ends in a blank with the next one
xargs -P "${JOBS:-3}" -L 1 scripts/test.sh --one <"$results/jobs"

for why in "$results"/output.*.why; do
	[ ! -e "$why" ] || head -n 200 "$why"
done
if [ -s "$results/failed" ]; then
	echo "test: failed: $(tr '\n' ' ' <"$results/failed")" >&2
	exit 1
fi
