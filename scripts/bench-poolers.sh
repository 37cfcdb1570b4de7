#!/bin/sh
# Gets PgBouncer and Odyssey for `make bench` into a folder: those of the Debian release after the
# present one, as Debian 12 has PgBouncer 1.18 and no Odyssey. Nothing is installed: the packages
# are unpacked, with the libraries they need, and `FOLDER/pgbouncer` and `FOLDER/odyssey` start them.
set -eu

SUITE=forky # Debian 14
[ $# = 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
work=$folder/work
rm -rf "$work" "$folder/root"
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$folder/root"
trap 'rm -rf "$work"' EXIT

# The mirror that this machine has for its own release.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | head -n 1)
keys=/usr/share/keyrings/debian-archive-keyring.gpg
[ -n "$mirror" ] || { echo "apt knows no mirror of Debian" >&2; exit 1; }
echo "deb [signed-by=$keys] $mirror $SUITE main" >"$work/sources.list"
# An apt that knows this suite only, and no installed package.
: >"$work/status"
apt() {
	command=$1
	shift
	"$command" -q -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null \
		-o Dir::Etc::preferencesparts=/dev/null -o Dir::State::lists="$work/lists" -o Dir::State::status="$work/status" \
		-o Dir::Cache="$work/cache" -o Acquire::Languages=none -o APT::Install-Recommends=false \
		-o APT::Sandbox::User=root -o Debug::NoLocking=true "$@"
}
apt apt-get update >/dev/null
cd "$work/cache/archives"
apt apt-get download pgbouncer odyssey >/dev/null
# Without the rest of what they depend on: how a service is set up.
libraries=$(apt apt-cache depends pgbouncer odyssey | sed -n 's/^ *|\{0,1\}Depends: \(lib[^<]*\)$/\1/p' | sort -u)
# shellcheck disable=SC2086 # a list of words
apt apt-get install -y --download-only $libraries >/dev/null
for package in *.deb; do dpkg-deb -x "$package" "$folder/root"; done

# By the C library that is beside them, which is newer than this machine's.
loader=$(find "$folder/root/usr" -name 'ld-linux*.so.*' | head -n 1)
libraries=$(dirname "$(find "$folder/root/usr/lib" -name libc.so.6 | head -n 1)")
for program in usr/sbin/pgbouncer usr/bin/odyssey; do
	start=$folder/$(basename "$program")
	printf '#!/bin/sh\nexec "%s" --library-path "%s" "%s" "$@"\n' \
		"$loader" "$libraries" "$folder/root/$program" >"$start"
	chmod 755 "$start"
	"$start" --version >/dev/null
done
