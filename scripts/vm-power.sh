#!/bin/sh
# A virtual machine loses its power under load, again and again, and the next one starts from
# its disk: nothing that a synchronous client was replied may be missing, and no more than is
# documented of what others were replied.
#
# The disk has a volatile cache, as real ones have: nbdkit keeps what is written in a file without
# a name until the machine flushes, and is killed together with the machine. (An image that QEMU
# writes would keep everything: it is in the page cache of the host, which lives on.) At the end
# the same is tried with a disk that ignores flushes, where this test must find losses.
#
#   scripts/vm-power.sh            four losses, on the kernel of Debian 13 (6.12)
#   LOSSES=20 scripts/vm-power.sh  more of them
#   LOSSES=0 scripts/vm-power.sh   with the disk that ignores flushes only
# The variables of scripts/vm.sh choose another kernel.
set -eu
cd "$(dirname "$0")/.."

LOSSES=${LOSSES:-4}
# Longest life of a machine, in seconds: an emulated one takes a minute to start.
LIFE=${LIFE:-600}

say() { printf 'vm-power: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

install_tools() {
	set --
	command -v mkfs.ext4 >/dev/null || set -- "$@" e2fsprogs
	command -v nbdkit >/dev/null || set -- "$@" nbdkit
	[ $# = 0 ] && return
	say "installing $*"
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" \
		>/dev/null
}

install_tools || die "nbdkit and e2fsprogs are needed"
program=$(scripts/test-suites.sh bpfdb-cli | sed -n 's/^[^ ]* \(.*\) bpfdb-cli\/power_loss$/\1/p')
[ -n "$program" ] || die "the test was not built"

run=$(mktemp -d "${PWD}/target/vm-power.XXXXXX")
machine=
cleanup() {
	lose_power
	rm -rf "$run"
}
# As when a cable is pulled: there is no notice to the machine, nor to its disk.
lose_power() {
	# shellcheck disable=SC2046 # a list of numbers
	kill -9 $(cat "$run/pid" "$run/disk-pid" 2>/dev/null) 2>/dev/null || true
	[ -z "$machine" ] || wait "$machine" || true
	rm -f "$run/pid" "$run/disk-pid" "$run/socket"
	machine=
}
trap cleanup EXIT
trap 'exit 1' INT TERM

new_disk() {
	rm -f "$run/disk"
	truncate -s 2G "$run/disk"
	mkfs.ext4 -q "$run/disk"
	: >"$run/told"
}

# One life in the background. $1: writeback, or unsafe for a disk that ignores flushes. "last" as
# $2: it only looks.
live() {
	# Else a wait for this life may still read the words of the one before.
	: >"$run/said"
	TMPDIR=$run nbdkit -U "$run/socket" -P "$run/disk-pid" --filter=cache file "$run/disk" cache="$1"
	DISK=nbd:unix:$run/socket RUN=$run timeout "$LIFE" scripts/vm.sh "mkdir -p /mnt && mount -t ext4 /dev/vda /mnt && \
cd crates/bpfdb-cli && BPFDB_POWER_DIRECTORY=/mnt/data BPFDB_POWER_TOLD=$run/told \
${2:+BPFDB_POWER_LAST=1} $program --ignored --nocapture power_loss::a_life && umount /mnt" \
		>"$run/said" 2>&1 &
	machine=$!
}

acknowledged() { grep -c '^ack ' "$run/said" || true; }

# Until so many steps were acknowledged.
await() {
	seconds=0
	while [ "$(acknowledged)" -lt "$1" ]; do
		kill -0 "$machine" 2>/dev/null || { cat "$run/said"; die "the machine has ended"; }
		[ "$seconds" -lt "$LIFE" ] || { cat "$run/said"; die "too few commits in $LIFE s"; }
		sleep 1
		seconds=$((seconds + 1))
	done
}

# What the clients were replied until now is for the next life to find.
remember() {
	# The last line may be half of one.
	tr -d '\r' <"$run/said" | grep '^ack ' | sed '$d' >"$run/told"
}

new_disk
loss=0
while [ "$loss" -lt "$LOSSES" ]; do
	loss=$((loss + 1))
	live writeback ''
	await $((100 + loss * 37 % 150))
	sleep "0.$((loss * 7 % 10))"
	lose_power
	say "loss $loss of $LOSSES: $(acknowledged) acknowledged; before: $(grep '^checked' "$run/said")"
	remember
done
if [ "$LOSSES" -gt 0 ]; then
	live writeback last
	wait "$machine" || { cat "$run/said"; die "the last look failed"; }
	machine=
	say "after the last loss: $(grep '^checked' "$run/said")"
	say "$LOSSES losses of power, nothing lost that was promised"
	lose_power
fi

new_disk
live unsafe ''
await 100
lose_power
remember
live unsafe last
if wait "$machine"; then
	die "a disk that ignores flushes was not noticed: $(grep '^checked' "$run/said")"
fi
machine=
# Whichever client is looked at first.
missing='a step that \(was promised\|is old\) is gone'
grep -q "$missing" "$run/said" || { cat "$run/said"; die "it ended for another reason"; }
say "a disk that ignores flushes: $(grep -o "client [0-9]*, .*$missing" "$run/said" | head -n 1)"
