/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Maintenance inside the kernel: it goes on when the daemon is gone. Tracing
 * programs may not touch a map with a timer, so a `syscall` program starts it;
 * it touches nothing else.
 */
#ifndef BPFDB_DRIVER_TIMER_BPF_H
#define BPFDB_DRIVER_TIMER_BPF_H

#include "../operators/maintenance.bpf.h"

struct maintenance {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct maintenance);
} maintenance SEC(".maps");

#define CLOCK_MONOTONIC 1

static int maintenance_tick(void *map, u32 *key, struct maintenance *m)
{
	bpf_timer_start(&m->timer, maintenance_step(), 0);
	return 0;
}

SEC("syscall")
int bpfdb_timer_start(void *ctx)
{
	u32 zero = 0;
	struct maintenance *m = bpf_map_lookup_elem(&maintenance, &zero);

	if (!m)
		return BPFDB_CORRUPT;
	/* Fails if it was initialised before (an engine that is opened again), which
	 * is fine, or if the kernel had no memory at this moment: then starting
	 * fails as well. */
	bpf_timer_init(&m->timer, &maintenance, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&m->timer, maintenance_tick);
	return bpf_timer_start(&m->timer, MAINTENANCE_PERIOD, 0) ? BPFDB_MEMORY_PENDING : BPFDB_OK;
}

/*
 * What follows is for tests, and for user space that wants memory back now. No
 * `syscall` programs: those may sleep, with a latch, and the grace period after
 * which a page of the index is used for something else does not wait for them.
 */

/* ctx: first page, number of pages. Sweeps them. */
SEC("raw_tp")
int bpfdb_sweep(struct bpf_raw_tracepoint_args *ctx)
{
	struct sweep sweep = {.horizon = horizon_now()};
	u32 first = ctx->args[0], count = ctx->args[1];

	sweep_pages(&sweep, first, count);
	return BPFDB_OK;
}

/* Looks at every idle session once. */
SEC("raw_tp")
int bpfdb_reap(void *ctx)
{
	for (u32 i = LOAD(engine.zero); i < config.sessions && can_loop; i += REAP_STEP)
		reap_some(bpf_ktime_get_ns());
	return BPFDB_OK;
}

/* ctx: size class. Gives every page of its slots that nobody uses, and what large
 * values have left, back to all classes. */
SEC("raw_tp")
int bpfdb_reclaim(struct bpf_raw_tracepoint_args *ctx)
{
	large_collect(config.pages_max);
	spares_release(ctx->args[0]);
	return reclaim_from_class(ctx->args[0], config.pages_max);
}

/* ctx: first page, number of pages. Merges index pages that are nearly empty
 * with their buddies. Returns how many were retired; user space lets a grace
 * period go by and calls bpfdb_release. */
SEC("raw_tp")
int bpfdb_merge(struct bpf_raw_tracepoint_args *ctx)
{
	u32 first = ctx->args[0], count = ctx->args[1], retired = 0;

	repeat(i, count)
	{
		retired += page_merge(first + i);
	}
	return retired;
}

/* ctx: first page, number of pages. */
SEC("raw_tp")
int bpfdb_release(struct bpf_raw_tracepoint_args *ctx)
{
	u32 first = ctx->args[0], count = ctx->args[1], released = 0;

	repeat(i, count)
	{
		released += page_release(first + i);
	}
	return released;
}

#endif
