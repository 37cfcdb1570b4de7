#!/bin/sh
# Runs the tests of engine and server on another kernel, each program in a virtual machine of
# its own (scripts/vm.sh), two machines at a time. A machine that stops takes one program with it.
#
# An emulated machine is ten to twenty times slower than a real one: all of them take some two
# hours. What has passed is not run again as long as program, files and kernel are the same, so
# that a run which was interrupted goes on where it was, and a change has those run that it reaches.
#
#   scripts/vm-all.sh                 all tests
#   TESTS='blocks|session' scripts/vm-all.sh   only these
#   JOBS=1 scripts/vm-all.sh          one machine at a time
#   AGAIN=1 scripts/vm-all.sh         also what has passed
# The variables of scripts/vm.sh choose another kernel, and how long a program may take.
set -eu
cd "$(dirname "$0")/.."

# The procedures of the server take half an hour; longer beside other work.
export LIMIT="${LIMIT:-5400}"

say() { printf 'vm: %s\n' "$*"; }

sum() { sha1sum | cut -c1-16; }

# What a program has in common with the others of its folder: the kernel, the machine, and the files
# that a test may read. Most sources of Rust are in the programs; a test of the server reads the server's.
common() {
	folder=${1#"$PWD"/}
	files=$({
		git ls-files -co --exclude-standard -- ':!*.rs' ':!*.md' ':!docs' ':!crates' ':!.ci'
		git ls-files -co --exclude-standard -- 'crates/*/tests/fixtures' 'crates/*/tests/corpus'
		git ls-files -co --exclude-standard -- "$folder" ":!$folder/*.rs" ':!*.md'
		[ "$folder" != crates/bpfdb-server ] ||
			git ls-files -co --exclude-standard -- crates/bpfdb-server/src
	} | sort -u)
	[ -n "$files" ] || { say "no files" >&2; exit 1; }
	{
		printf '%s\n' "${SUITE:-trixie} ${FLAVOUR:-} ${APPEND:-} ${FILTER:-} ${CPUS:-} ${MEMORY:-} ${KVM:-}"
		cat "target/vm/${SUITE:-trixie}${FLAVOUR:+-$FLAVOUR}/version" 2>/dev/null || true
		printf '%s\n' "$files" | xargs -d '\n' sha1sum
	} | sum
}

# What a program does depends on this. Tests of the command line call programs, too.
content() {
	case $1 in
	*/bpfdb-cli) cat "$2" "$(dirname "$2")/../bpfdb" ;;
	*) cat "$2" ;;
	esac | sum
}

# The programs of continuation are changed while they run. An emulator with a thread for each
# processor may go on with code that it translated while another processor wrote it, and the
# kernel in it ends with "int3": so that machine has one thread.
threads_of() {
	case $1 in continuation-*) echo single ;; *) echo "${THREAD:-multi}" ;; esac
}

# The kernel of a machine may end so while it starts, too: that says nothing of the program.
was_lost() { ! grep -a -q "vm: [0-9]* s: $1" "$2"; }

# The file that says that a program has passed.
mark_of() {
	printf '%s/%s/%s.passed' "$tested" "$(common "$1")" "$(content "$1" "$2")"
}

one() {
	name=$(basename "$2")
	mark=$(mark_of "$1" "$2")
	log=${mark%/*}/$name.log
	mkdir -p "${mark%/*}"
	if [ -e "$mark" ]; then
		say "$name: has passed before"
		return
	fi
	for attempt in 1 2 3; do
		begin=$(date +%s)
		if PROGRAMS="$1 $2" THREAD=$(threads_of "$name") scripts/vm.sh >"$log" 2>&1 </dev/null; then
			: >"$mark"
			say "$name: $(grep -a -o 'test result: .*' "$log" | cut -d';' -f1 |
				sed 's/test result: //'), $(($(date +%s) - begin)) s"
			return
		fi
		was_lost "$name" "$log" && [ "$attempt" -lt 3 ] || break
		say "$name: the machine was lost before it began, once more"
	done
	say "$name: FAILED, $(($(date +%s) - begin)) s: $log"
	grep -a -A 4 'panicked\|FAILED' "$log" | tail -n 40 || true
}

tested=$PWD/target/vm/tested
if [ "${1:-}" = --one ]; then
	one "$2" "$3"
	exit 0
fi

# Those that take longest begin first: at the end no machine is left alone with one of them.
longest='procedures|crash_loop|isolation|differential|synchronous|inside|stress|checkpoints'
programs=$(scripts/vm.sh --list)
programs=$(printf '%s\n' "$programs" | awk -v longest="/($longest)-[0-9a-f]*$" '
	$0 ~ longest { print; next }
	{ others = others $0 "\n" }
	END { printf "%s", others }')
[ -z "${AGAIN:-}" ] || rm -rf "$tested"
printf '%s\n' "$programs" | xargs -P "${JOBS:-2}" -L 1 scripts/vm-all.sh --one || true
# Who has no mark has failed, or was not run to its end.
failed=$(printf '%s\n' "$programs" | while read -r folder program; do
	[ -e "$(mark_of "$folder" "$program")" ] || printf ' %s' "$(basename "$program")"
done)
say "$(printf '%s\n' "$programs" | wc -l) programs, failed:$failed"
[ -n "$programs" ] && [ -z "$failed" ]
