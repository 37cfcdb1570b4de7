/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The memory of an io_uring whose requests are written by programs of the kernel. Its process makes
 * the ring in it (crates/bpfdb-ring); bpf/ring/ring.bpf.h writes requests.
 */
#ifndef BPFDB_RING_H
#define BPFDB_RING_H

#include <linux/types.h>

/* Room for io_uring's shared rings, bytes; and places of its submission queue. */
#define BPFDB_RING_BYTES 65536
#define BPFDB_RING_ENTRIES 256
#define BPFDB_RING_ENTRY_WORDS 8

struct bpfdb_ring {
	__u8 rings[BPFDB_RING_BYTES];
	__u64 entries[BPFDB_RING_ENTRIES * BPFDB_RING_ENTRY_WORDS];
	/* Where io_uring has its words, bytes from the beginning of `rings`. */
	__u32 sq_head, sq_tail, sq_flags;
	__u32 cq_head, cq_tail, cq_entries;
	__u32 busy; /* a program writes to the submission queue */
	__u32 pad;
} __attribute__((aligned(4096)));

#endif
