#!/bin/sh
# The layer rules of ARCHITECTURE.md: which folder of bpf/ may include which, and which
# folder of a crate may use which. Programs (bpf/*.bpf.c) and tests may include everything.
set -eu
cd "$(dirname "$0")/.."

# What a layer may include besides the headers of include/bpfdb. Those of these that are
# about connections (transport) or the Redis front end (front_end) are not for the engine.
allowed() {
	case $1 in
	redis) echo redis net procedures values operators front_end transport ;;
	net) echo net operators transport ;;
	procedures) echo procedures values operators ;;
	driver) echo driver procedures values operators ;;
	values) echo values operators ;;
	operators) echo operators txn log storage ;;
	txn) echo txn log storage ;;
	log) echo log storage ;;
	storage) echo storage ;;
	abi) echo ;;
	front_end) echo front_end transport ;;
	transport) echo transport ;;
	program | tests | embedding) echo front_end transport redis net procedures driver values operators txn storage log tests embedding ;;
	*) return 1 ;;
	esac
}

# The layer that a file belongs to.
layer_of() {
	case $1 in
	include/bpfdb/bpfdb.bpf.h | include/bpfdb/continuation.bpf.h | include/bpfdb/procedure.bpf.h) echo embedding ;;
	include/bpfdb/commands.h | include/bpfdb/redis.h) echo front_end ;;
	include/bpfdb/connection.h) echo transport ;;
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
	bpfdb/commands.h | bpfdb/redis.h | include/bpfdb/commands.h | include/bpfdb/redis.h) echo front_end ;;
	bpfdb/connection.h | include/bpfdb/connection.h) echo transport ;;
	bpfdb/bpfdb.bpf.h | bpfdb.bpf.h | bpfdb/continuation.bpf.h) echo operators ;;
	redis/* | net/* | procedures/* | driver/* | values/* | operators/* | txn/* | storage/* | log/* | tests/*) echo "${path%%/*}" ;;
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
# none after it. `folder/file` is a file of a folder whose files have layers of their own; then
# `folder` is its mod.rs, if that has more than declarations. The library's root may use all.
rust_layers() {
	case $1 in
	bpfdb) echo abi reserved value_type status conflict deoptimisation commands operators error random \
		architecture mounts memory/cgroups objects layout memory/grace memory/chore options \
		mapped program driver maps claim memory/usage clock memory/grow memory time holders \
		memory/shrink memory/idle memory/thread stats figures engine memory/presize log session scan \
		checkpoint locks ;;
	bpfdb-copies) echo limits error integer crc64 header sink source writer rdb binary jsonl format file snapshot \
		loader dump restore ;;
	bpfdb-log) echo format/layout format/form disk format/moment error disk/buffer format/segment format/batch \
		format/record format/checkpoint format/control format/place \
		disk/simulation disk/folders disk/owner disk/directory \
		read/reader read/retained read/until read/recovered read/recovery read/follow \
		write/plan write/spares write/writer write/beginning write/open \
		tools/check tools/copy tools/lost tools/cut tools/rebuild ;;
	bpfdb-procedures) echo error ir types lua code load listing unit inside embedded ;;
	bpfdb-server) echo values settings error io \
		kernel/cgroup kernel/flags kernel/connections kernel/workers kernel/programs \
		protocol kernel/redis kernel/procedures stats connection scripting instance commands executor server ;;
	esac
}

# The paths in the Rust file $3, from the root of its crate, as `a/b/Name Name`, one a line; the
# second word is what the file calls it. $1 is what they begin with: `crate`, or `pub use` for what
# lib.rs gives a shorter name. $2 is the module of the file, as a/b, from which super:: leads up
# (super::* is for tests and gives nothing); of lib.rs it is empty. Comments do not count; a path may
# go over several lines.
rust_paths() {
	sed -E 's,(^|[^:])//.*,\1,' "$3" | tr '\n\t' '  ' | awk -v start="$1" -v module="$2" '
		# Takes one path, or all of {…}, from the beginning of rest.
		function tree(prefix, name, path) {
			sub(/^ +/, "", rest)
			if (rest ~ /^[{]/) {
				rest = substr(rest, 2)
				while (rest !~ /^ *}/ && rest != "") {
					tree(prefix)
					if (!sub(/^ *,/, "", rest) && rest !~ /^ *}/) return
				}
				sub(/^ *}/, "", rest)
				return
			}
			if (rest ~ /^[*]/) {
				rest = substr(rest, 2)
				if (!upwards) print prefix "*", "*"
				return
			}
			if (!match(rest, /^[A-Za-z_][A-Za-z_0-9]*/)) return
			name = substr(rest, 1, RLENGTH)
			rest = substr(rest, RLENGTH + 1)
			if (sub(/^ *:: */, "", rest)) {
				tree(prefix name "/")
				return
			}
			path = prefix (name == "self" ? "" : name)
			if (match(rest, /^ +as +[A-Za-z_]+/)) {
				name = substr(rest, 1, RLENGTH)
				rest = substr(rest, RLENGTH + 1)
				sub(/.* /, "", name)
			}
			print path, name
		}
		# The module that is so many above this one, with a slash; "-" above the root.
		function above(count, parts, n, i, path) {
			n = split(module, parts, "/")
			if (count > n) return "-"
			path = ""
			for (i = 1; i <= n - count; i++) path = path parts[i] "/"
			return path
		}
		{
			rest = " " $0
			pattern = start == "crate" ? "[^A-Za-z_0-9:$](crate::|(super:: *)+)" : " pub use "
			while (match(rest, pattern)) {
				found = substr(rest, RSTART + 1, RLENGTH - 1)
				rest = substr(rest, RSTART + RLENGTH)
				upwards = gsub(/super/, "", found)
				prefix = upwards ? above(upwards) : ""
				if (prefix != "-") tree(prefix)
			}
		}'
}

# The layers of the list $3 that the file $1, the module $2, uses, one a line: a name that the root
# gives is that of the module that has it. `crate::*` is EVERYTHING.
rust_uses() {
	rust_paths crate "$2" "$1" | awk -v layers="$3" '
		BEGIN {
			count = split(layers, names, " ")
			for (i = 1; i <= count; i++) known[names[i]] = 1
		}
		NR == FNR {
			given[$2] = $1
			next
		}
		{ $0 = $1 }
		$0 == "*" { print "EVERYTHING"; next }
		{
			split($0, parts, "/")
			if (parts[1] in given && !(parts[1] in known)) $0 = given[parts[1]]
			while (!($0 in known) && sub(/[/][^/]*$/, "")) continue
			if ($0 in known) print
		}' "$reexports" -
}

# The layer of a module a/b/c: a/b if that has one, else a, unless its files have their own.
rust_layer() {
	module=$1
	while :; do
		case " $2 " in
		*" $module "*) break ;;
		*" $module/"*) return 1 ;;
		esac
		[ "$module" != "${module%/*}" ] || return 1
		module=${module%/*}
	done
	case " $2 " in
	*" $module/"*) [ "$module" = "$1" ] || return 1 ;;
	esac
	echo "$module"
}

# A mod.rs that only declares modules is of no layer.
rust_declares_only() {
	case $1 in
	*/mod.rs) ;;
	*) return 1 ;;
	esac
	! sed -E 's,//.*,,; /^#\[cfg/d' "$1" | grep -vqE '^ *$|^(pub(\(crate\))? )?mod [a-z_]+;$'
}

check_rust() {
	crate=$1
	layers=$(rust_layers "$crate")
	src=crates/$crate/src
	rust_paths 'pub use' '' "$src/lib.rs" >"$reexports"
	for file in $(find "$src" -name '*.rs' | sort); do
		inside=${file#"$src"/}
		[ "$inside" != lib.rs ] || continue
		name=${inside%.rs}
		name=${name%/mod}
		if ! layer=$(rust_layer "$name" "$layers"); then
			rust_declares_only "$file" || complain "$file: scripts/check-layers.sh does not know the layer of $name"
			continue
		fi
		# By whole words: check is no part of checkpoint.
		above=" $layers "
		above=" ${above#*" $layer "} "
		for target in $(rust_uses "$file" "$name" "$layers" | sort -u); do
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
