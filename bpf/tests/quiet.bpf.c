// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Not a test by itself: stops the timer of an engine whose programs are tested. It closes sessions, releases
 * locks in steps and sweeps, at any moment and on another processor: a test that is about one of these does so
 * itself, and looks at every state in between.
 */
#include <bpfdb/bpfdb.bpf.h>

#include "../driver/timer_map.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* 0: it does not run, and starts no more. A tick that is under way starts it again; it is over when the call
 * returns, as the kernel waits for it. */
SEC("syscall")
int stop_maintenance(void *ctx)
{
	u32 zero = 0;
	struct maintenance *m = bpf_map_lookup_elem(&maintenance, &zero);

	if (!m)
		return BPFDB_CORRUPT;
	return bpf_timer_cancel(&m->timer) < 0 ? BPFDB_SESSION_BUSY : BPFDB_OK;
}
