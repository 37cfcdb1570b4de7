#!/bin/sh
# Gets PostgreSQL's own regression tests for the version that is installed here, from packages of the distribution, into
# the folder that this runs in: regress/ has the tests, and lib/ the functions in C that they call. Nothing is installed,
# and the lists of packages of the machine stay as they are.
set -eu

major=$(ls /usr/lib/postgresql | sort -V | tail -1)
mkdir -p lists/partial parts
for file in /etc/apt/sources.list.d/*.sources; do
	[ -e "$file" ] && sed 's/^Types:.*/Types: deb deb-src/' "$file" >"parts/${file##*/}"
done
[ ! -e /etc/apt/sources.list ] ||
	sed -n '/^deb /{p;s/^deb /deb-src /p}' /etc/apt/sources.list >parts/main.list

# With lists of our own, and as the user that this runs as.
own() {
	"$@" -qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$PWD/parts" \
		-o Dir::State::lists="$PWD/lists" -o APT::Sandbox::User=
}

# The source of the version that is installed, or of another one that is there, and headers for it.
get() {
	installed=$(dpkg-query -W -f '${Version}' "postgresql-$major")
	others=$(own apt-cache showsrc "postgresql-$major" | sed -n 's/^Version: //p' | sort -rV)
	for version in $installed $others; do
		own apt-get source --download-only "postgresql-$major=$version" &&
			own apt-get download "postgresql-server-dev-$major=$version" && return
		rm -f ./*.deb ./*.tar.* ./*.dsc
	done
	return 1
}

own apt-get update
get
tar --wildcards --strip-components=3 -xf postgresql-"$major"_*.orig.tar.* '*/src/test/regress'
dpkg -x postgresql-server-dev-"$major"_*.deb dev
mkdir lib
gcc -O1 -Werror=implicit-function-declaration -shared -fPIC \
	-I "dev/usr/include/postgresql/$major/server" -o lib/regress.so regress/regress.c
cp "/usr/lib/postgresql/$major/lib/refint.so" "/usr/lib/postgresql/$major/lib/autoinc.so" lib
rm -rf lists parts dev ./*.deb ./*.tar.* ./*.dsc
