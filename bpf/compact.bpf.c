// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Finds live entries of runs. Start reading at tier/compact.bpf.h.
 */
#include "tier/compact.bpf.h"

/* 1: it is to be executed again, for there may be more entries. */
SEC("raw_tp")
int compact_look(struct bpf_raw_tracepoint_args *ctx)
{
	return part_look();
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
