// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* A program that runs for long, for crates/bpfdb/tests/grace.rs. */
#include "test.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define ROUNDS (1 << 23) /* the most that bpf_loop does */

u32 reading;

static long read_on(u64 i, u64 *end)
{
	return bpf_ktime_get_ns() >= *end;
}

/* ctx: nanoseconds. */
SEC("raw_tp")
int read_for(struct bpf_raw_tracepoint_args *ctx)
{
	u64 end = bpf_ktime_get_ns() + ctx->args[0];

	STORE(reading, 1);
	bpf_loop(ROUNDS, read_on, &end, 0);
	STORE(reading, 0);
	return 0;
}
