#!/bin/sh
# Builds the tests as `make test` does, and lists them: the folder of the package, and the
# program. (`cargo test -p` would build the libraries, and all eBPF objects, once more: with the
# features that some packages ask for.)
#
#   scripts/test-programs.sh bpfdb bpfdb-server    those of these packages
#   scripts/test-programs.sh --test=multi bpfdb-server    these only; no others are built
set -eu
cd "$(dirname "$0")/.."

only=
while [ "${1#--test=}" != "$1" ]; do
	only="$only $1"
	shift
done

told=$(mktemp)
trap 'rm -f "$told"' EXIT
# shellcheck disable=SC2086 # a list of words
cargo test --quiet --profile ci --workspace --all-features --no-run $only \
	--message-format=json-render-diagnostics >"$told"
for package in "$@"; do
	sed -n 's/.*"manifest_path":"\([^"]*\)\/Cargo.toml".*"executable":"\([^"]*-[0-9a-f]*\)".*/\1 \2/p' \
		"$told" | grep "/$package " || [ -n "$only" ] || { echo "test-programs: no $package" >&2; exit 1; }
done
