#!/bin/sh
# Runs some suites of a crate: modules of its tests/it/main.rs.
#
#   scripts/suites.sh bpfdb-server multi transactions
#   RUNNER='sudo -E' scripts/suites.sh ...    by this
set -eu
cd "$(dirname "$0")/.."

crate=$1
shift
known=$(scripts/test-suites.sh "$crate")
failed=
# Each engine with a log adds a line: a suite that is run for the sake of the log must have had one.
BPFDB_TEST_LOGS=$(mktemp)
export BPFDB_TEST_LOGS
trap 'rm -f "$BPFDB_TEST_LOGS"' EXIT
for suite in "$@"; do
	line=$(printf '%s\n' "$known" | grep " $crate/$suite\$") || {
		echo "suites: $crate has no $suite" >&2
		exit 1
	}
	printf '     Running %s of %s\n' "$suite" "$crate"
	program=${line#* }
	# shellcheck disable=SC2086 # a list of words
	(cd "${line%% *}" && ${RUNNER:-} "${program%% *}" "$suite::") </dev/null || failed="$failed $suite"
	[ -z "${BPFDB_TEST_LOG:-}" ] || [ -s "$BPFDB_TEST_LOGS" ] || failed="$failed $suite:has-no-log"
	: >"$BPFDB_TEST_LOGS"
done
[ -z "$failed" ] || { echo "suites: failed:$failed" >&2; exit 1; }
