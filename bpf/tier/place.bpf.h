/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Where a cold value is, for those that have it read (prefetch.bpf.h). */
#ifndef BPFDB_TIER_PLACE_BPF_H
#define BPFDB_TIER_PLACE_BPF_H

#include <bpfdb/types.bpf.h>

struct prefetch_place {
	u64 run; /* 0: none */
	u32 offset; /* of its entry, in grains */
	u32 bytes; /* of its entry */
};

#endif
