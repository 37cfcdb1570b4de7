#!/bin/sh
# Builds the tests as `make test` does, and lists them: the folder of the package, and the
# program. (`cargo test -p` would build the libraries, and all eBPF objects, once more: with the
# features that some packages ask for.)
#
#   scripts/test-programs.sh bpfdb bpfdb-server    those of these packages
set -eu
cd "$(dirname "$0")/.."

told=$(mktemp)
trap 'rm -f "$told"' EXIT
cargo test --quiet --profile ci --workspace --all-features --no-run \
	--message-format=json-render-diagnostics >"$told"
for package in "$@"; do
	sed -n 's/.*"manifest_path":"\([^"]*\)\/Cargo.toml".*"executable":"\([^"]*-[0-9a-f]*\)".*/\1 \2/p' \
		"$told" | grep "/$package " || { echo "test-programs: no $package" >&2; exit 1; }
done
