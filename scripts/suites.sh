#!/bin/sh
# Runs some of the test programs of a package.
#
#   scripts/suites.sh bpfdb-server multi transactions
#   RUNNER='sudo -E' scripts/suites.sh ...    by this
set -eu
cd "$(dirname "$0")/.."

package=$1
shift
# shellcheck disable=SC2046 # a list of words
programs=$(scripts/test-programs.sh $(printf -- '--test=%s ' "$@") "$package")
bad=
# Each engine with a log adds a line: a suite that is run for the sake of the log must have had one.
BPFDB_TEST_LOGS=$(mktemp)
export BPFDB_TEST_LOGS
trap 'rm -f "$BPFDB_TEST_LOGS"' EXIT
for suite in "$@"; do
	program=$(printf '%s\n' "$programs" | grep "/$suite-[0-9a-f]*\$") || {
		echo "suites: $package has no $suite" >&2
		exit 1
	}
	printf '     Running %s of %s\n' "$suite" "$package"
	# shellcheck disable=SC2086 # a list of words
	(cd "${program%% *}" && ${RUNNER:-} "${program#* }") </dev/null || bad="$bad $suite"
	[ -z "${BPFDB_TEST_LOG:-}" ] || [ -s "$BPFDB_TEST_LOGS" ] || bad="$bad $suite:has-no-log"
	: >"$BPFDB_TEST_LOGS"
done
[ -z "$bad" ] || { echo "suites: failed:$bad" >&2; exit 1; }
