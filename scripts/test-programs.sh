#!/bin/sh
# Builds the tests as `make test` does, and lists them: the folder of the package, and the
# program. (`cargo test -p` would build the libraries, and all eBPF objects, once more: with the
# features that some packages ask for.)
#
#   scripts/test-programs.sh bpfdb bpfdb-server    those of these packages
set -eu
cd "$(dirname "$0")/.."

programs=$(cargo test --quiet --profile ci --workspace --all-features --no-run \
	--message-format=json |
	sed -n 's/.*"manifest_path":"\([^"]*\)\/Cargo.toml".*"executable":"\([^"]*-[0-9a-f]*\)".*/\1 \2/p')
for package in "$@"; do
	printf '%s\n' "$programs" | grep "/$package "
done
