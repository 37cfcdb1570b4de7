#!/bin/sh
# Runs some of the test programs of a package.
#
#   scripts/suites.sh bpfdb-server multi transactions
#   RUNNER='sudo -E' scripts/suites.sh ...    by this
set -eu
cd "$(dirname "$0")/.."

package=$1
shift
programs=$(scripts/test-programs.sh "$package")
bad=
for suite in "$@"; do
	program=$(printf '%s\n' "$programs" | grep "/$suite-[0-9a-f]*\$") || {
		echo "suites: $package has no $suite" >&2
		exit 1
	}
	printf '     Running %s of %s\n' "$suite" "$package"
	# shellcheck disable=SC2086 # a list of words
	(cd "${program%% *}" && ${RUNNER:-} "${program#* }") </dev/null || bad="$bad $suite"
done
[ -z "$bad" ] || { echo "suites: failed:$bad" >&2; exit 1; }
