/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Cold values that the kernel has read before the daemon asks for them: what the front end's programs
 * (bpf/tier) and the daemon (crates/bpfdb-tier) share. bpf/tier/prefetch.bpf.h has the protocol.
 */
#ifndef BPFDB_PREFETCH_H
#define BPFDB_PREFETCH_H

#include <linux/types.h>
#include <bpfdb/ring.h>
#include <bpfdb/run.h>

/* Reads at the same time, and those whose value was not asked for yet; a power of two. */
#define BPFDB_PREFETCHES 512
/* Slots that are looked at for a place, from its own on. */
#define BPFDB_PREFETCH_PROBES 8
/* Longest entry of a run that is read so, bytes. */
#define BPFDB_PREFETCH_ENTRY 12288
/* Keys that are looked up in one message, and arguments that are passed over for them. */
#define BPFDB_PREFETCH_KEYS 256
#define BPFDB_PREFETCH_ARGUMENTS 4096

/* `state` of a read. */
enum bpfdb_prefetch_state {
	BPFDB_PREFETCH_FREE = 0,
	BPFDB_PREFETCH_CLAIMED,
	BPFDB_PREFETCH_READING,
	BPFDB_PREFETCH_READ,
	BPFDB_PREFETCH_TAKEN,
};

/* One read. */
struct bpfdb_prefetch {
	__u32 state;
	__u32 offset; /* of the entry in the run, in grains of BPFDB_LOG_GRAIN bytes */
	__u64 run;
	__u32 bytes; /* of the entry */
	__u32 pad[11];
	__u8 entry[BPFDB_PREFETCH_ENTRY];
};

struct bpfdb_prefetching {
	struct bpfdb_ring ring;
	__u32 is_on; /* reads may begin */
	__u32 reading; /* threads of the daemon that read a value themselves now */
	__u64 reads; /* address of the first struct bpfdb_prefetch in the process */
	/* Reads that have begun, counted by programs; those that have ended, whatever became of them, by the daemon. */
	__u64 started;
	__u64 ended;
	__u64 crowded; /* counted by programs: reads that found no slot, no place in the ring, or others writing to it */
};

#endif
