// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * The template of compiled procedures that user space calls by BPF_PROG_RUN
 * (crates/bpfdb-procedures/src/inside). As bpf/procedure.bpf.c, it is never attached: body() is
 * replaced by what was compiled.
 */
#include <bpfdb/bpfdb.bpf.h>

#include "driver/calls.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("raw_tp")
int bpfdb_run_calls(struct bpf_raw_tracepoint_args *ctx)
{
	return calls_run(ctx);
}
