/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * What the transport counts, per processor, in the engine's map of counters. A front end
 * counts behind that, in words of its own.
 */
#ifndef BPFDB_NET_COUNTERS_BPF_H
#define BPFDB_NET_COUNTERS_BPF_H

#include "../operators/maintenance.bpf.h"
#include <bpfdb/connection.h>

/* Adds `n` to a word of `front_end`. A subprogram: the kernel writes the lookup
 * of a map out wherever it stands, and moves the whole program for it. */
__noinline int front_end_count(u32 word, u64 n)
{
	if (word < BPFDB_FRONT_END_COUNTERS)
		COUNT_N(front_end[word], n);
	return 0;
}

/* Adds to a counter of this structure, which begins with those of the transport. */
#define COUNT_IN_N(structure, name, n)                                                             \
	front_end_count(((u64) & ((structure *)0)->name) / sizeof(u64), n)

/* Adds to a counter of the transport. */
#define COUNT_NET_N(name, n) COUNT_IN_N(struct bpfdb_net_counters, name, n)
#define COUNT_NET(name) COUNT_NET_N(name, 1)

#endif
