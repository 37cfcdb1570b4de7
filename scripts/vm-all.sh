#!/bin/sh
# Runs the suites whose outcome depends on the kernel (verifier, budgets, operators, log, network,
# procedures) on another kernel, in virtual machines (scripts/vm.sh), two machines at a time. A
# machine that stops takes one group of suites with it.
#
# An emulated machine is ten to twenty times slower than a real one: all of them take three quarters
# of an hour. What has passed is not run again as long as program, files and kernel are the same, so
# that a run which was interrupted goes on where it was.
#
#   scripts/vm-all.sh                          these suites
#   TESTS='blocks|session' scripts/vm-all.sh   others: any of scripts/test-suites.sh; .* is all
#   JOBS=1 scripts/vm-all.sh                   one machine at a time
#   AGAIN=1 scripts/vm-all.sh                  also what has passed
# The variables of scripts/vm.sh choose another kernel, and how long a suite may take.
set -eu
cd "$(dirname "$0")/.."

# One machine for each line. Those that take longest begin first: at the end no machine is left
# alone with one of them.
groups() {
	cat <<'GROUPS'
bpfdb/units bpfdb/must_fail bpfdb/stacks
bpfdb/budgets bpfdb/knobs bpfdb/log bpfdb/log_interrupted
bpfdb-procedures/verifier bpfdb-procedures/inside
bpfdb-server/procedures
bpfdb-server/local bpfdb-server/blocks bpfdb-server/multi
bpfdb-server/protocol bpfdb-server/connections bpfdb-server/transactions
bpfdb-server/replies bpfdb-server/groups bpfdb-server/functions
bpfdb/session bpfdb/session_open bpfdb/checkpoint bpfdb/expiry bpfdb/watch bpfdb/scan bpfdb/large
bpfdb/owner bpfdb/conflict bpfdb/deferred bpfdb/busy_writer bpfdb/grace bpfdb/memory bpfdb/limit
bpfdb/hash bpfdb/example
bpfdb-procedures/embedded bpfdb-durability/engine
bpfdb/continuation
GROUPS
}

export LIMIT="${LIMIT:-2400}"

say() { printf 'vm: %s\n' "$*"; }

# The programs of continuation are changed while they run. An emulator with a thread for each
# processor may go on with code that it translated while another processor wrote it, and the
# kernel in it ends with "int3": so that machine has one thread.
threads_of() {
	case $1 in */continuation) echo single ;; *) echo "${THREAD:-multi}" ;; esac
}

# The file that says that a suite has passed: with this program, these files and this kernel.
mark_of() {
	printf '%s/%s-%s' "$tested" "$(printf '%s' "$2" | tr / -)" "$(
		{
			sha1sum <"$1"
			echo "$files"
			[ "${2%/*}" != bpfdb-cli ] || sha1sum <"$(dirname "$1")/../bpfdb"
			printf '%s\n' "${SUITE:-trixie} ${FLAVOUR:-} ${APPEND:-} ${FILTER:-} ${CPUS:-} ${MEMORY:-} ${KVM:-}"
			cat "target/vm/${SUITE:-trixie}${FLAVOUR:+-$FLAVOUR}/version" 2>/dev/null || true
		} | sha1sum | cut -c1-16
	)"
}

# The lines of the list for one group, without what has passed before.
lines_of() {
	for suite in "$@"; do
		grep " $suite\$" "$tested/list" | while read -r folder program suite; do
			[ -e "$(mark_of "$program" "$suite")" ] || echo "$folder $program $suite"
		done
	done
}

# One machine. The kernel of a machine may end while it starts, too: then it is started again.
one() {
	for attempt in 1 2 3; do
		lines=$(lines_of "$@")
		[ -n "$lines" ] || { say "$*: passed before"; return; }
		log=$tested/$(printf '%s' "$1" | tr / -).log
		begin=$(date +%s)
		SUITES=$lines THREAD=$(threads_of "$1") scripts/vm.sh >"$log" 2>&1 </dev/null || true
		tr -d '\r' <"$log" | sed -n 's/^vm: passed: //p' | while read -r suite; do
			program=$(printf '%s\n' "$lines" | grep " $suite\$" | cut -d' ' -f2)
			: >"$(mark_of "$program" "$suite")"
		done
		! grep -a -q '^vm: [0-9]* s: ' "$log" && [ "$attempt" -lt 3 ] || break
		say "$*: the machine was lost before it began, once more"
	done
	left=$(lines_of "$@" | cut -d' ' -f3 | tr '\n' ' ')
	say "$*: $(($(date +%s) - begin)) s${left:+; FAILED: $left: $log}"
	[ -z "$left" ] || grep -a -A 4 'panicked\|FAILED' "$log" | tail -n 40 || true
}

tested=$PWD/target/vm/tested
# What a suite may read.
export files="${files:-$(git ls-files -co --exclude-standard -- bpf include tests scripts 'crates/*/tests' |
	sort | xargs -d '\n' sha1sum | sha1sum | cut -c1-16)}"
if [ "${1:-}" = --one ]; then
	shift
	one "$@"
	exit 0
fi

mkdir -p "$tested"
[ -z "${AGAIN:-}" ] || rm -f "$tested"/*
scripts/vm.sh --list >"$tested/list"
chosen=$(if [ -n "${TESTS:-}" ]; then cut -d' ' -f3 "$tested/list"; else groups; fi)
# A suite that has another name now is a mistake, not nothing to do.
for suite in $chosen; do
	grep -q " $suite\$" "$tested/list" || { say "no suite $suite" >&2; exit 1; }
done
printf '%s\n' "$chosen" | xargs -P "${JOBS:-2}" -L 1 scripts/vm-all.sh --one || true
# shellcheck disable=SC2086 # a list of words
failed=$(lines_of $chosen | cut -d' ' -f3 | tr '\n' ' ')
say "$(printf '%s\n' $chosen | wc -l) suites, failed: ${failed:-none}"
[ -z "$failed" ]
