#!/bin/sh
# The layer rule of ARCHITECTURE.md: which folder of bpf/ may include which.
# Programs (bpf/*.bpf.c) and tests may include everything.
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
exit $bad
