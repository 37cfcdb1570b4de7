/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* What the Redis front end counts, per processor, behind what the transport does. */
#ifndef BPFDB_REDIS_COUNTERS_BPF_H
#define BPFDB_REDIS_COUNTERS_BPF_H

#include "../net/counters.bpf.h"
#include <bpfdb/commands.h>

_Static_assert(sizeof(struct bpfdb_redis_counters) <= BPFDB_FRONT_END_COUNTERS * sizeof(u64),
	       "the engine keeps room for the counters of the front end");
_Static_assert(__builtin_offsetof(struct bpfdb_redis_counters, net) == 0,
	       "those of the transport come first");

/* Adds to a counter of struct bpfdb_redis_counters. */
#define COUNT_REQUESTS_N(name, n) COUNT_IN_N(struct bpfdb_redis_counters, name, n)
#define COUNT_REQUESTS(name) COUNT_REQUESTS_N(name, 1)

#endif
