#!/bin/sh
# A virtual machine loses its power under load, again and again, and the next one starts from
# its disk: nothing that a synchronous client was told may be missing, and no more than is
# documented of what others were told.
#
#   scripts/vm-power.sh            four losses, on the kernel of Debian 13 (6.12)
#   LOSSES=20 scripts/vm-power.sh  more of them
# The variables of scripts/vm.sh choose another kernel.
set -eu
cd "$(dirname "$0")/.."

LOSSES=${LOSSES:-4}
# Longest life of a machine, in seconds: an emulated one takes a minute to start.
LIFE=${LIFE:-600}

say() { printf 'vm-power: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

command -v mkfs.ext4 >/dev/null || die "mkfs.ext4 is missing: apt-get install e2fsprogs"
program=$(cargo test --profile ci -p bpfdb-cli --all-features --test power_loss --no-run \
	--message-format=json 2>/dev/null |
	sed -n 's/.*"executable":"\([^"]*\/power_loss-[^"]*\)".*/\1/p')
[ -n "$program" ] || die "the test was not built"

run=$(mktemp -d "${PWD}/target/vm-power.XXXXXX")
machine=
cleanup() {
	lose_power
	rm -rf "$run"
}
# As when a cable is pulled: nothing is told to the machine.
lose_power() {
	[ ! -s "$run/pid" ] || kill -9 "$(cat "$run/pid")" 2>/dev/null || true
	[ -z "$machine" ] || wait "$machine" || true
	rm -f "$run/pid"
	machine=
}
trap cleanup EXIT
trap 'exit 1' INT TERM

truncate -s 2G "$run/disk"
mkfs.ext4 -q "$run/disk"
: >"$run/told"

# One life in the background; "last" as the argument: it only looks.
live() {
	DISK=$run/disk RUN=$run timeout "$LIFE" scripts/vm.sh "mkdir -p /mnt && mount -t ext4 /dev/vda /mnt && \
cd crates/bpfdb-cli && BPFDB_POWER_DIRECTORY=/mnt/data BPFDB_POWER_TOLD=$run/told \
${1:+BPFDB_POWER_LAST=1} $program --ignored --nocapture a_life && umount /mnt" \
		>"$run/said" 2>&1 &
	machine=$!
}

acknowledged() { grep -c '^ack ' "$run/said" || true; }

# Until so many values were acknowledged.
await() {
	seconds=0
	while [ "$(acknowledged)" -lt "$1" ]; do
		kill -0 "$machine" 2>/dev/null || { cat "$run/said"; die "the machine has ended"; }
		[ "$seconds" -lt "$LIFE" ] || { cat "$run/said"; die "too few commits in $LIFE s"; }
		sleep 1
		seconds=$((seconds + 1))
	done
}

loss=0
while [ "$loss" -lt "$LOSSES" ]; do
	loss=$((loss + 1))
	live ''
	await $((100 + loss * 37 % 150))
	sleep "0.$((loss * 7 % 10))"
	lose_power
	say "loss $loss of $LOSSES: $(acknowledged) acknowledged; before: $(grep '^checked' "$run/said")"
	# The last line may be half of one.
	tr -d '\r' <"$run/said" | grep '^ack ' | sed '$d' >"$run/told"
done
live last
wait "$machine" || { cat "$run/said"; die "the last look failed"; }
machine=
say "after the last loss: $(grep '^checked' "$run/said")"
say "$LOSSES losses of power, nothing lost that was promised"
