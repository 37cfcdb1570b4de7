#!/bin/sh
# Runs the tests of engine and server on another kernel, each program in a virtual machine of
# its own (scripts/vm.sh), two machines at a time. A machine that stops takes one program with it.
#
# An emulated machine is ten to twenty times slower than a real one: all of them take some two
# hours. What has passed is not run again for the same commit, so that a run which was
# interrupted goes on where it was.
#
#   scripts/vm-all.sh                 all tests
#   TESTS='blocks|session' scripts/vm-all.sh   only these
#   JOBS=1 scripts/vm-all.sh          one machine at a time
#   AGAIN=1 scripts/vm-all.sh         also what has passed
# The variables of scripts/vm.sh choose another kernel.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'vm: %s\n' "$*"; }

# What identifies that which is tested: nothing, if the files are not those of a commit.
tested() {
	[ -z "$(git status --porcelain)" ] || return 0
	printf '%s %s\n' "$(git rev-parse 'HEAD^{tree}')" \
		"${SUITE:-trixie} ${FLAVOUR:-} ${APPEND:-} ${FILTER:-}" | sha1sum | cut -c1-16
}

# The programs of continuation are changed while they run. An emulator with a thread for each
# processor may go on with code that it translated while another processor wrote it, and the
# kernel in it ends with "int3": so that machine has one thread.
threads_of() {
	case $1 in continuation-*) echo single ;; *) echo "${THREAD:-multi}" ;; esac
}

one() {
	name=$(basename "$2")
	log=$state/$name.log
	if [ -e "$state/$name.passed" ]; then
		say "$name: has passed before"
		return
	fi
	begin=$(date +%s)
	if PROGRAMS="$1 $2" THREAD=$(threads_of "$name") scripts/vm.sh >"$log" 2>&1 </dev/null; then
		: >"$state/$name.passed"
		say "$name: $(grep -a -o 'test result: .*' "$log" | cut -d';' -f1 |
			sed 's/test result: //'), $(($(date +%s) - begin)) s"
	else
		say "$name: FAILED, $(($(date +%s) - begin)) s: $log"
		grep -a -A 4 'panicked\|FAILED' "$log" | tail -n 40
	fi
}

if [ "${1:-}" = --one ]; then
	state=$2
	one "$3" "$4"
	exit 0
fi

programs=$(scripts/vm.sh --list)
what=$(tested)
state=$PWD/target/vm/tested/${what:-changed}
[ -n "$what" ] && [ -z "${AGAIN:-}" ] || rm -rf "$state"
mkdir -p "$state"
printf '%s\n' "$programs" | xargs -P "${JOBS:-2}" -L 1 scripts/vm-all.sh --one "$state" || true
# Who has no mark has failed, or was not run to its end.
failed=$(printf '%s\n' "$programs" | while read -r _ program; do
	name=$(basename "$program")
	[ -e "$state/$name.passed" ] || printf ' %s' "$name"
done)
say "$(printf '%s\n' "$programs" | wc -l) programs, failed:$failed"
[ -n "$programs" ] && [ -z "$failed" ]
