#!/bin/sh
# Every check that needs no kernel: formats, warnings, house rules.
#
#   scripts/lint.sh                  all of them
#   scripts/lint.sh --before-tests   without the test of layers, which `make test` has, too; builds
#                                    what that needs
#   scripts/lint.sh --fix            puts right what can be put right
#
# Where clippy-driver is the compiler already (RUSTC_WORKSPACE_WRAPPER, as in .ci/run), building is
# what finds the warnings. Else clippy checks everything first: it builds nothing that can be run.
set -eu
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
step() { printf 'lint: %s\n' "$*"; }
fail() { printf 'lint: %s\n' "$*" >&2; exit 1; }

sources() { git ls-files -co --exclude-standard -- "$@"; }

# Parts of the documentation that come from the code, and their files.
generated() {
	echo commands docs/commands.md
	echo errors docs/errors.md
	echo settings docs/settings.md
	echo config docs/bpfdb.toml
	echo metrics docs/metrics.md
}

# Both programs, with the features that their libraries have for the tests (these are built, too, for
# that): else half of the libraries would be built twice.
programs() {
	cargo build --quiet --profile ci --workspace --all-features --bins --test it
}

# Lints of rustc and clippy, in everything that the tests are built of.
warnings() {
	case ${RUSTC_WORKSPACE_WRAPPER:-} in
	*clippy-driver) cargo test --quiet --no-run --profile ci --workspace --all-features ;;
	*) cargo clippy --profile ci --workspace --all-targets --all-features -- -D warnings ;;
	esac
}

docs() { "$target/ci/bpfdb" docs "$1" </dev/null; }

# Tables and plots of the benchmarks, from their files.
figures() { "$target/ci/bpfdb-bench" docs "$@" </dev/null; }

clang_format() {
	for name in clang-format-22 clang-format-19 clang-format; do
		command -v "$name" >/dev/null || continue
		sources 'bpf/*.[ch]' 'include/*.h' 'tests/*.c' 'examples/*.c' 'examples/*.h' |
			xargs -r "$name" "$@"
		return
	done
	fail "no clang-format: run scripts/setup.sh"
}

if [ "${1:-}" = --fix ]; then
	cargo fmt --all
	clang_format -i
	programs
	generated | while read -r part file; do
		docs "$part" >"$file.new"
		mv "$file.new" "$file"
	done
	figures
	exit
fi

step "format of Rust"
cargo fmt --all --check
step "format of C"
clang_format --dry-run -Werror
step "no unfinished work"
unfinished='TO''DO|FIX''ME|XX''X'
if sources | xargs grep -nIwE "$unfinished"; then fail "do it now, or file an issue"; fi
step "links of the documents"
scripts/check-links.sh
step "warnings"
warnings
programs
if [ "${1:-}" != --before-tests ]; then
	step "layers"
	cargo test --quiet --profile ci --workspace --all-features --test it layers::
fi
step "generated documentation"
generated | while read -r part file; do
	docs "$part" | diff -u "$file" - || fail "run make fmt"
done
step "tables and plots"
figures --check
step "clean"
