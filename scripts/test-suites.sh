#!/bin/sh
# Builds the tests as `make test` does and prints a line for each suite: the folder of the crate,
# the test program, and CRATE/SUITE. A suite is a module of tests/it/main.rs, which is a program of its
# own, or the module `it` of the program of the unit tests. (`cargo test -p`
# would compile the libraries and all eBPF objects once more, with the features that some crates
# ask for.)
#
#   scripts/test-suites.sh                       the suites of all crates
#   scripts/test-suites.sh bpfdb bpfdb-server    those of these crates
#   scripts/test-suites.sh --programs            a line for each test program, those of unit tests
#                                                too: the folder, and the program
set -eu
cd "$(dirname "$0")/.."

programs_only=
if [ "${1:-}" = --programs ]; then
	programs_only=yes
	shift
fi

messages=$(mktemp)
trap 'rm -f "$messages"' EXIT
cargo test --quiet --profile ci --workspace --all-features --no-run \
	--message-format=json-render-diagnostics >"$messages"

# Folder and program, longest path of a message first because the fields have this order.
programs() {
	sed -n 's/.*"manifest_path":"\([^"]*\)\/Cargo.toml".*"executable":"\([^"]*-[0-9a-f]*\)".*/\1 \2/p' \
		"$messages"
}

# The modules that a program has.
suites() {
	case ${1##*/} in it-*) within= ;; *) within=it:: ;; esac
	"$1" --list --format terse 2>/dev/null </dev/null |
		sed -n "s/^$within\\([a-z0-9_]*\\)::.*: test\$/\\1/p" | sort -u
}

programs | while read -r folder program; do
	crate=${folder##*/}
	[ $# = 0 ] || case " $* " in *" $crate "*) ;; *) continue ;; esac
	if [ -n "$programs_only" ]; then
		echo "$folder $program"
	else
		suites "$program" | while read -r suite; do
			echo "$folder $program $crate/$suite"
		done
	fi
done
