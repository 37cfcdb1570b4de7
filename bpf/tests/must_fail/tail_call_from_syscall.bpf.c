// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
// must_fail is refused: Sleepable programs can only use array, hash, ringbuf and local storage maps
/* Continues by tail call from a program that may sleep. */
#define BPFDB_CPS_SECTION "syscall"
#define BPFDB_CPS_CONTEXT u64
#define BPFDB_CPS_SESSION(ctx) bpfdb_session(*(ctx))

#include <bpfdb/continuation.bpf.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

BPFDB_DEFINE_ROLLBACK(must_fail, bpfdb_then_ok)

BPFDB_PROGRAMS();
