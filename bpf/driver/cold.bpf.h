/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Cold values of user space: struct bpfdb_request says what it asks for. */
#ifndef BPFDB_DRIVER_COLD_BPF_H
#define BPFDB_DRIVER_COLD_BPF_H

#include "../operators/cold.bpf.h"
#include "io.bpf.h"

static __always_inline int run_demote(struct bpfdb_session *s, u32 buffer, u32 offset)
{
	/* Not a copy: all callers together have 512 bytes of stack. */
	struct bpfdb_demotion *to = io_at(buffer, offset);

	return to ? bpfdb_demote(s, to) : BPFDB_BAD_REQUEST;
}

/* 1: something waits for a grace period, and then for RETIRED. */
static __noinline int run_retire(void)
{
	return cold_retire();
}

/* ctx: how many at most. Gives back what was taken out of versions; how many. */
static __noinline int run_retired(struct bpf_raw_tracepoint_args *ctx)
{
	return cold_dispose(ctx->args[1]);
}

#endif
