/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* What the front end counts, per processor, in the engine's map of counters. */
#ifndef BPFDB_NET_COUNTERS_BPF_H
#define BPFDB_NET_COUNTERS_BPF_H

#include "../operators/maintenance.bpf.h"
#include <bpfdb/commands.h>

_Static_assert(sizeof(struct bpfdb_redis_counters) <= BPFDB_FRONT_END_COUNTERS * sizeof(u64),
	       "the engine keeps room for the counters of the front end");

/* Adds to a counter of struct bpfdb_redis_counters. */
#define COUNT_REQUESTS_N(name, n)                                                                  \
	({                                                                                         \
		u32 zero_ = 0;                                                                     \
		struct bpfdb_counters *all_ = bpf_map_lookup_elem(&counters, &zero_);              \
		if (all_)                                                                          \
			ADD(&((struct bpfdb_redis_counters *)all_->front_end)->name, n);           \
	})
#define COUNT_REQUESTS(name) COUNT_REQUESTS_N(name, 1)

#endif
