#!/bin/sh
# The layer rules of ARCHITECTURE.md: which folder of bpf/ may include which, and which
# folder of a crate may use which. Programs (bpf/*.bpf.c) and tests may include everything.
set -eu
cd "$(dirname "$0")/.."

# What a layer may include besides the headers of include/bpfdb. Those of these that are
# about the Redis front end (front_end) are not for the engine.
allowed() {
	case $1 in
	net) echo net operators front_end ;;
	procedures) echo procedures operators ;;
	driver) echo driver operators ;;
	operators) echo operators txn storage log ;;
	txn) echo txn storage ;;
	storage) echo storage ;;
	log) echo log ;;
	abi) echo ;;
	front_end) echo front_end ;;
	program | tests | embedding) echo front_end net procedures driver operators txn storage log tests embedding ;;
	*) return 1 ;;
	esac
}

# The layer that a file belongs to.
layer_of() {
	case $1 in
	include/bpfdb/bpfdb.bpf.h | include/bpfdb/continuation.bpf.h) echo embedding ;;
	include/bpfdb/commands.h | include/bpfdb/connection.h) echo front_end ;;
	include/bpfdb/*) echo abi ;;
	bpf/*/*) echo "$1" | cut -d/ -f2 ;;
	bpf/*) echo program ;;
	esac
}

# The layer that an include line of that file points to; nothing for headers
# of the system, of libbpf and of the ABI.
target_of() {
	path=$2
	while [ "${path#../}" != "$path" ]; do path=${path#../}; done
	path=${path#bpf/}
	case $path in
	bpfdb/commands.h | bpfdb/connection.h) echo front_end ;;
	bpfdb/bpfdb.bpf.h | bpfdb.bpf.h | bpfdb/continuation.bpf.h) echo operators ;;
	net/* | procedures/* | driver/* | operators/* | txn/* | storage/* | log/* | tests/*) echo "${path%%/*}" ;;
	bpfdb/* | linux/* | asm/*) ;;
	*/*) [ ! -e "bpf/$path" ] || echo "${path%%/*}" ;;
	*) [ ! -e "$(dirname "$1")/$path" ] || layer_of "$1" ;;
	esac
}

bad=0
complain() { echo "layers: $*" >&2; bad=1; }

# A header may be included anywhere, and twice.
for file in $(find bpf include -name '*.h' | sort); do
	grep -q '^#ifndef BPFDB_.*_H$' "$file" || complain "$file has no guard"
done

for file in $(find bpf include -name '*.h' -o -name '*.c' | sort); do
	layer=$(layer_of "$file")
	if ! may=$(allowed "$layer"); then
		complain "$file: scripts/check-layers.sh does not know the layer $layer"
		continue
	fi
	for include in $(sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]\([^>"]*\)[>"].*/\1/p' "$file"); do
		target=$(target_of "$file" "$include")
		[ -n "$target" ] && [ "$target" != "$layer" ] || continue
		case " $may " in
		*" $target "*) ;;
		*) complain "$file includes $include, but $layer must not know $target" ;;
		esac
	done
done

# ---- Rust -----------------------------------------------------------------------
# The folders and files of a crate's src, lowest first: each may use those before it, and
# none after it. The library's root may use all.
rust_layers() {
	case $1 in
	bpfdb) echo abi status commands operators error architecture mounts objects grace chore options \
		mapped program maps claim usage clock memory time holders shrink idle memory_thread \
		stats figures engine session scan conflict ;;
	bpfdb-server) echo values settings error io protocol kernel stats connection instance commands executor server ;;
	esac
}

# The modules of its own crate that a file uses, one a line: by crate::NAME, by
# crate::{…}, and by as many super:: as lead to the root. Comments do not count.
rust_uses() {
	code=$(sed 's,//.*,,' "$1")
	printf '%s\n' "$code" | grep -oE 'crate::[a-z_]+' | sed 's/crate:://'
	printf '%s\n' "$code" | tr '\n' ' ' | grep -oE 'crate::\{[^}]*\}' | tr '{},: ' '\n' |
		grep -E '^[a-z_]+$' | grep -vE '^(crate|self)$' || true
	up=$(printf 'super::%.0s' $(seq "$2"))
	printf '%s\n' "$code" | grep -oE "(^|[^:a-z])$up[a-z_]+" | grep -oE '[a-z_]+$' |
		grep -v '^super$' || true
}

# How many modules lie between a file and the root of its crate.
rust_depth() {
	module=${1%.rs}
	module=${module%/mod}
	printf '%s' "$module" | tr -cd / | wc -c | awk '{ print $1 + 1 }'
}

check_rust() {
	crate=$1
	layers=$(rust_layers "$crate")
	src=crates/$crate/src
	for file in $(find "$src" -name '*.rs' | sort); do
		inside=${file#"$src"/}
		[ "$inside" != lib.rs ] || continue
		layer=${inside%%/*}
		layer=${layer%.rs}
		case " $layers " in
		*" $layer "*) ;;
		*)
			complain "$file: scripts/check-layers.sh does not know the layer $layer"
			continue
			;;
		esac
		above=" ${layers#*"$layer"} "
		for target in $(rust_uses "$file" "$(rust_depth "$inside")" | sort -u); do
			case "$above" in
			*" $target "*) complain "$file uses $target, but $layer must not know it" ;;
			esac
		done
	done
}

check_rust bpfdb
check_rust bpfdb-server
exit $bad
