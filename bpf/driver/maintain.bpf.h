/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Maintenance on request: for tests, and for user space that wants memory back now.
 */
#ifndef BPFDB_DRIVER_MAINTAIN_BPF_H
#define BPFDB_DRIVER_MAINTAIN_BPF_H

#include "../operators/maintenance.bpf.h"

/* ctx: first page, number of pages. Sweeps them. */
static __noinline int run_sweep(struct bpf_raw_tracepoint_args *ctx)
{
	struct sweep sweep = {.horizon = horizon_now()};
	u32 first = ctx->args[1], count = ctx->args[2];

	sweep_pages(&sweep, first, count);
	return BPFDB_OK;
}

/* Looks at every idle session once. */
static __noinline int run_reap(void)
{
	for (u32 i = LOAD(engine.zero); i < config.sessions && can_loop; i += REAP_STEP)
		reap_some(bpf_ktime_get_ns());
	return BPFDB_OK;
}

/* ctx: size class. Gives every page of its slots that is not in use, and what large
 * values have left, back to all classes. */
static __noinline int run_reclaim(struct bpf_raw_tracepoint_args *ctx)
{
	large_collect(config.pages_max);
	spares_release(ctx->args[1]);
	return reclaim_from_class(ctx->args[1], config.pages_max);
}

/* ctx: page, 1 or 0. Closes a slab, or opens it again. Its class; BPFDB_CLASSES: it is no slab. */
static __noinline int run_close_slab(struct bpf_raw_tracepoint_args *ctx)
{
	u32 page = ctx->args[1];

	if (ctx->args[2])
		return slab_close(page);
	slab_reopen(page);
	return BPFDB_OK;
}

/* ctx: first page, number of pages, cells that two pages may have together (0: MERGE_FILL).
 * Merges index pages that have no more with their buddies. Returns how many were retired; user
 * space lets a grace period go by and calls run_release(). */
static __noinline int run_merge(struct bpf_raw_tracepoint_args *ctx)
{
	u32 first = ctx->args[1], count = ctx->args[2], most = ctx->args[3], retired = 0;

	repeat(i, count)
	{
		retired += page_merge_up_to(first + i, most ? most : MERGE_FILL);
	}
	return retired;
}

/* ctx: first page, number of pages. */
static __always_inline int run_release(struct bpf_raw_tracepoint_args *ctx)
{
	u32 first = ctx->args[1], count = ctx->args[2], released = 0;

	repeat(i, count)
	{
		released += page_release(first + i);
	}
	return released;
}

#endif
