/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Once per engine: the first index page, and a directory that names it. */
#ifndef BPFDB_DRIVER_CREATE_BPF_H
#define BPFDB_DRIVER_CREATE_BPF_H

#include "../operators/maintenance.bpf.h"

/* Lets programs reserve. */
static __always_inline void log_open(void)
{
	repeat(i, config.log_rings)
	{
		struct bpfdb_log_ring *ring = bpf_map_lookup_elem(&log_state, &i);

		if (ring)
			STORE(ring->limit, config.log_ring);
	}
}

SEC("syscall")
int bpfdb_create(void *ctx)
{
	u32 page;

	if (engine.initialized)
		return BPFDB_WRONG_STATE;
	/* Address 0 means "none": page 0 is never handed out. */
	engine.pages_taken.value = 1;
	engine.clock.value = 1;
	engine.now.value = bpf_ktime_get_ns();
	page = index_page_create(0, 0);
	if (!page)
		return no_memory();
	directory_point(0, 0, page);
	level_count(0, 1);
	log_open();
	engine.abi_version = BPFDB_ABI_VERSION;
	join_as_first();
	engine.initialized = 1;
	return BPFDB_OK;
}

#endif
