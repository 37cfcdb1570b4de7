/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* What the front end counts, per processor, in the engine's map of counters. */
#ifndef BPFDB_NET_COUNTERS_BPF_H
#define BPFDB_NET_COUNTERS_BPF_H

#include "../operators/maintenance.bpf.h"
#include <bpfdb/commands.h>

_Static_assert(sizeof(struct bpfdb_redis_counters) <= BPFDB_FRONT_END_COUNTERS * sizeof(u64),
	       "the engine keeps room for the counters of the front end");

/* Adds `n` to a word of struct bpfdb_redis_counters. A subprogram: the kernel writes the lookup
 * of a map out wherever it stands, and moves the whole program for it. */
__noinline int front_end_count(u32 word, u64 n)
{
	if (word < BPFDB_FRONT_END_COUNTERS)
		COUNT_N(front_end[word], n);
	return 0;
}

/* Adds to a counter of struct bpfdb_redis_counters. */
#define COUNT_REQUESTS_N(name, n)                                                                  \
	front_end_count(((u64) & ((struct bpfdb_redis_counters *)0)->name) / sizeof(u64), n)
#define COUNT_REQUESTS(name) COUNT_REQUESTS_N(name, 1)

#endif
