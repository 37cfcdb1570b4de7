#!/bin/sh
# The layer rules of ARCHITECTURE.md: which folder of bpf/ may include which, and which
# folder of a crate may use which. Programs (bpf/*.bpf.c) and tests may include everything.
set -eu
cd "$(dirname "$0")/.."

# What a layer may include besides the headers of include/bpfdb. Those of these that are
# about the Redis front end (front_end) are not for the engine.
allowed() {
	case $1 in
	net) echo net procedures operators front_end ;;
	procedures) echo procedures operators ;;
	driver) echo driver procedures operators ;;
	operators) echo operators txn log storage ;;
	txn) echo txn log storage ;;
	log) echo log storage ;;
	storage) echo storage ;;
	abi) echo ;;
	front_end) echo front_end ;;
	program | tests | embedding) echo front_end net procedures driver operators txn storage log tests embedding ;;
	*) return 1 ;;
	esac
}

# The layer that a file belongs to.
layer_of() {
	case $1 in
	include/bpfdb/bpfdb.bpf.h | include/bpfdb/continuation.bpf.h | include/bpfdb/procedure.bpf.h) echo embedding ;;
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
	bpfdb/commands.h | bpfdb/connection.h | include/bpfdb/commands.h | include/bpfdb/connection.h) echo front_end ;;
	bpfdb/bpfdb.bpf.h | bpfdb.bpf.h | bpfdb/continuation.bpf.h) echo operators ;;
	net/* | procedures/* | driver/* | operators/* | txn/* | storage/* | log/* | tests/*) echo "${path%%/*}" ;;
	bpfdb/* | linux/* | asm/*) ;;
	*/*) [ ! -e "bpf/$path" ] || echo "${path%%/*}" ;;
	*) [ ! -e "$(dirname "$1")/$path" ] || layer_of "$(dirname "$1")/$path" ;;
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
	bpfdb) echo abi reserved value_type status conflict deoptimisation commands operators error random architecture mounts memory_cgroups objects layout grace chore options \
		mapped program driver maps claim usage clock memory time holders shrink idle memory_thread \
		stats figures engine presize log session scan checkpoint locks ;;
	bpfdb-copies) echo limits error integer crc64 header sink source writer rdb binary jsonl format file snapshot \
		loader dump restore ;;
	bpfdb-log) echo layout form disk moment error buffer segment batch record checkpoint control simulation folders owner directory plan spares \
		place reader retained until recovered recovery writer beginning open check follow copy lost cut rebuild ;;
	bpfdb-procedures) echo error ir types lua code load listing unit inside embedded ;;
	bpfdb-server) echo values settings error io protocol kernel stats connection instance commands executor server ;;
	esac
}

# What lib.rs gives a shorter name, as `name module`: of `pub use a::{B, C}`, B a and C a.
rust_reexports() {
	sed 's,//.*,,' "$1" | tr '\n' ' ' | grep -oE 'pub use [a-z_]+::[^;]*;' |
		sed 's/pub use //; s/::/ /; s/[{},;]/ /g' |
		awk '{ for (i = 2; i <= NF; i++) print $i, $1 }'
}

# The modules of its own crate that a file uses, one a line: by crate::NAME, by crate::{…},
# and by as many super:: as lead to the root. Names that the root gives are those of the module
# that has them. Comments do not count; a path may go over several lines.
rust_uses() {
	up=$(printf 'super::%.0s' $(seq "$2"))
	sed -E 's,(^|[^:])//.*,\1,' "$1" | tr '\n' ' ' |
		sed -E "s/:: +/::/g; s/crate::\*/crate::EVERYTHING/g; s/(^|[^:a-z_])$up/\\1crate::/g" |
		grep -oE 'crate::(\{([^{}]|\{([^{}]|\{[^{}]*\})*\})*\}|[A-Za-z_]+)' |
		sed -E 's/^crate:://; :again; s/::(\{[^{}]*\}|[A-Za-z_]+|\*)//; t again' |
		tr '{}, ' '\n' | grep -E '^[A-Za-z_]+$' | grep -vE '^(self|as)$' |
		awk 'NR == FNR { module[$1] = $2; next }
			{ print ($1 in module) ? module[$1] : $1 }' "$reexports" - || true
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
	rust_reexports "$src/lib.rs" >"$reexports"
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
		# By whole words: check is no part of checkpoint.
		above=" $layers "
		above=" ${above#*" $layer "} "
		for target in $(rust_uses "$file" "$(rust_depth "$inside")" | sort -u); do
			[ "$target" != EVERYTHING ] || complain "$file uses all of the crate"
			case "$above" in
			*" $target "*) complain "$file uses $target, but $layer must not know it" ;;
			esac
		done
	done
}

reexports=$(mktemp)
trap 'rm -f "$reexports"' EXIT
check_rust bpfdb
check_rust bpfdb-copies
check_rust bpfdb-log
check_rust bpfdb-procedures
check_rust bpfdb-server
exit $bad
