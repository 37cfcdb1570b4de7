/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Maintenance inside the kernel: it goes on when the daemon is gone. Tracing
 * programs may not touch a map with a timer, so a `syscall` program starts it;
 * it touches nothing else.
 */
#ifndef BPFDB_DRIVER_TIMER_BPF_H
#define BPFDB_DRIVER_TIMER_BPF_H

#include "../operators/maintenance.bpf.h"
#include "timer_map.bpf.h"

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

#endif
