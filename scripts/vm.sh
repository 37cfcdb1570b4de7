#!/bin/sh
# Runs a command, or the tests of engine and server, on another kernel: that of
# another release of Debian, in a virtual machine that sees this machine's files and
# changes none of them.
#
#   scripts/vm.sh                       the tests, on the kernel of Debian 13 (6.12)
#   SUITE=sid scripts/vm.sh             on that of another release
#   FLAVOUR=rt scripts/vm.sh            on that of its real-time kernel
#   APPEND=preempt=full scripts/vm.sh   with more on the kernel's command line
#   TESTS='blocks|session' scripts/vm.sh   only these suites (scripts/test-suites.sh)
#   TESTS=multi FILTER=conflict scripts/vm.sh   the tests with such names; or arguments: --ignored
#   scripts/vm.sh --if-possible         no failure where another kernel cannot be had
#   scripts/vm.sh --list                which suites these are: builds them, and runs none
#   SUITES=... scripts/vm.sh            lines of that list: only these, as they are
#   LIMIT=7200 scripts/vm.sh            each suite may take so many seconds
#   THREAD=single scripts/vm.sh ...     both processors by one thread of the emulator
#   DISK=image scripts/vm.sh ...        with a disk: /dev/vda, which keeps what is written; also
#                                       nbd:unix:SOCKET, of a server that gets the machine's flushes
#   RUN=folder scripts/vm.sh ...        leaves log and process ID there
#   scripts/vm.sh make run              any command, in this folder
set -eu
cd "$(dirname "$0")/.."

SUITE=${SUITE:-trixie}
MEMORY=${MEMORY:-8G}
CPUS=${CPUS:-2}
# The emulator copies byte by byte where the processor is said to do that fast: without, a
# fifth less time.
CPU=max,-erms,-fsrm
kernel=linux-image-${FLAVOUR:+$FLAVOUR-}amd64
folder=$PWD/target/vm/$SUITE${FLAVOUR:+-$FLAVOUR}
# What the machine needs before it has the files of this one, and what tests need then.
FIRST="virtio_pci 9pnet_virtio 9p overlay"
LATER="veth"
[ -z "${DISK:-}" ] || LATER="$LATER virtio_blk ext4"

if_possible=
[ "${1:-}" != --if-possible ] || { if_possible=1; shift; }

say() { printf 'vm: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# ---- What it takes -------------------------------------------------------------

install_tools() {
	set --
	command -v qemu-system-x86_64 >/dev/null || set -- "$@" qemu-system-x86
	command -v busybox >/dev/null || set -- "$@" busybox-static
	command -v cpio >/dev/null || set -- "$@" cpio
	command -v depmod >/dev/null || set -- "$@" kmod
	[ $# = 0 ] && return
	say "installing $*"
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" \
		>/dev/null
}

# apt-get for the other release, with lists of its own.
other_apt() {
	apt=$1
	shift
	"$apt" -qq -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=- \
		-o Dir::State::lists="$folder/lists" -o Dir::Cache="$folder/cache" "$@"
}

fetch_kernel() {
	[ -e "$folder/kernel" ] && return
	command -v apt-get >/dev/null || die "Debian's or Ubuntu's apt-get is needed"
	mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial"
	archive=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' |
		grep '/debian$' | sort -u | head -n 1)
	[ -n "$archive" ] || die "apt-get names no archive of Debian"
	keys=/usr/share/keyrings/debian-archive-keyring.gpg
	echo "deb [signed-by=$keys] $archive $SUITE main" >"$folder/sources.list"
	other_apt apt-get update
	package=$(other_apt apt-cache depends "$kernel" |
		sed -n 's/^ *Depends: \(linux-image-.*\)/\1/p')
	[ -n "$package" ] || die "$SUITE has no $kernel"
	say "fetching $package"
	(cd "$folder" && other_apt apt-get download "$package")
	mkdir -p "$folder/files"
	dpkg-deb -x "$folder"/linux-image-*.deb "$folder/files"
	rm -rf "$folder"/linux-image-*.deb "$folder/lists" "$folder/cache"
	modules=$(echo "$folder"/files/lib/modules/* "$folder"/files/usr/lib/modules/*)
	for modules in $modules; do [ -d "$modules" ] && break; done
	basename "$modules" >"$folder/version"
	# depmod and modprobe look for lib/modules below their base.
	[ -d "$folder/files/lib" ] || ln -s usr/lib "$folder/files/lib"
	depmod -b "$folder/files" "$(cat "$folder/version")"
	cp "$folder"/files/boot/vmlinuz-* "$folder/kernel"
}

# ---- The first files of the machine --------------------------------------------

# The files of a module and of what it needs, in the order of loading.
module_files() {
	modprobe -d "$folder/files" -S "$version" --show-depends "$1" 2>/dev/null |
		sed -n 's/^insmod \([^ ]*\).*/\1/p'
}

make_initramfs() {
	root=$(mktemp -d)
	run=${RUN:-$root}
	trap 'rm -rf "$root"' EXIT
	mkdir -p "$root/bin" "$root/modules" "$root/host" "$root/new"
	cp "$(command -v busybox)" "$root/bin/busybox"
	for module in $FIRST $LATER; do
		for file in $(module_files "$module"); do
			name=$(basename "$file")
			[ -e "$root/modules/${name%.xz}" ] && continue
			cp "$file" "$root/modules/"
			case $name in *.xz) xz -d "$root/modules/$name" ;; esac
			echo "${name%.xz}" >>"$root/modules/order"
		done
	done
	write_init >"$root/init"
	printf '%s\n' "$@" >"$root/command"
	chmod 755 "$root/init"
	(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$root.gz"
	mv "$root.gz" "$root/initramfs"
}

write_init() {
	cat <<'INIT'
#!/bin/busybox sh
b=/bin/busybox
$b mkdir -p /proc /sys /dev
$b mount -t proc none /proc
$b mount -t sysfs none /sys
$b mount -t devtmpfs none /dev
while read -r module; do $b insmod "/modules/$module"; done </modules/order
$b mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=262144,cache=loose host /host
$b mount -t tmpfs none /new
$b mkdir /new/upper /new/work /new/root
$b mount -t overlay -o lowerdir=/host,upperdir=/new/upper,workdir=/new/work none /new/root
cd /new/root || $b poweroff -f
for fs in proc:proc sysfs:sys devtmpfs:dev tmpfs:run bpf:sys/fs/bpf \
	cgroup2:sys/fs/cgroup tracefs:sys/kernel/tracing; do
	$b mount -t "${fs%%:*}" none "${fs#*:}"
done
# Terminals, which some tests of the command line want.
$b mkdir -p dev/pts && $b mount -t devpts none dev/pts
$b ip link set lo up
ulimit -Hn 65536 && ulimit -n 65536
$b cp /command /new/root/tmp/command
$b chroot /new/root /bin/sh /tmp/command
echo "vm: exit code $?"
$b poweroff -f
INIT
}

# ---- Main ----------------------------------------------------------------------

[ "$(uname -m)" = x86_64 ] || die "for x86_64 only"
[ "$(id -u)" = 0 ] || die "must be run by root"
if ! (install_tools && fetch_kernel); then
	[ -n "$if_possible" ] || exit 1
	say "no other kernel to be had here: nothing was tried"
	exit 0
fi
version=$(cat "$folder/version")

# The suites that TESTS chooses: a line for each, as scripts/test-suites.sh prints it.
chosen_suites() {
	say "building the tests"
	suites=$(scripts/test-suites.sh bpfdb bpfdb-procedures bpfdb-server bpfdb-durability bpfdb-cli)
	suites=$(printf '%s\n' "$suites" | grep -E "[ /](${TESTS:-.*})\$")
	# Clients of other languages are installed on first use, and the machine has no network.
	printf '%s\n' "$suites" | grep '/clients$' | while read -r where program suite; do
		say "installing clients of other languages"
		(cd "$where" && "$program" "${suite#*/}::" >/dev/null 2>&1) || say "not all of them work here"
	done
	printf '%s\n' "$suites"
}

# What a suite's program is called with.
arguments() {
	case ${FILTER:-} in
	'' | -*) printf '"${suite#*/}::" %s' "${FILTER:-}" ;;
	*) printf '%s' "$FILTER" ;;
	esac
}

if [ "${1:-}" = --list ]; then
	chosen_suites
	exit 0
fi
if [ $# = 0 ]; then
	suites=${SUITES:-$(chosen_suites)}
	set -- "$(printf '%s\n' 'bad=; export BPFDB_TEST_CRASHES=6 BPFDB_TEST_EMULATED=1' \
		"while read -r where program suite; do" \
		'echo "vm: $(cut -d. -f1 /proc/uptime) s: $suite"; cd "$where"' \
		'if timeout '"${LIMIT:-1800}"' "$program" '"$(arguments)"' >/tmp/out 2>&1 </dev/null' \
		'then echo "vm: passed: $suite"; else bad="$bad $suite"; fi' \
		'awk "/panicked/ { more = 4 } more-- > 0 || /FAILED|result:|^libbpf: prog|^combined stack/" /tmp/out' \
		"done <<'SUITES'" "$suites" SUITES 'echo "vm: failed:$bad"; [ -z "$bad" ]')"
	what="the tests"
fi
home=${HOME:-/root}
make_initramfs "export PATH='$PATH' HOME='$home'; cd '$PWD'
$*"

# Without KVM, unless asked for: a virtual machine may offer one that cannot run a kernel.
accelerated="-accel tcg,thread=${THREAD:-multi} -cpu $CPU"
[ -z "${KVM:-}" ] || accelerated="-enable-kvm -cpu host"
say "$version, $CPUS processors, $MEMORY: ${what:-$*}"
log=$run/log
disk=
[ -z "${DISK:-}" ] || disk="-drive file=$DISK,if=virtio,format=raw"
# shellcheck disable=SC2086 # a list of words
qemu-system-x86_64 $accelerated $disk -m "$MEMORY" -smp "$CPUS" -nographic -no-reboot \
	-kernel "$folder/kernel" -initrd "$root/initramfs" -pidfile "$run/pid" \
	-append "console=ttyS0 quiet panic=-1 ${APPEND:-}" \
	-virtfs "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap" \
	-nic none </dev/null | tee "$log"
grep -q '^vm: exit code 0' "$log"
