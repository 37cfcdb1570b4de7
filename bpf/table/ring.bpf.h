/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* What chains ask io_uring for. */
#ifndef BPFDB_TABLE_RING_BPF_H
#define BPFDB_TABLE_RING_BPF_H

#include "../ring/ring.bpf.h"
#include "state.bpf.h"

/* User data: what a completion is of; a chain's has its number and its generation behind. */
#define KIND_SHIFT 56
#define KIND_READ 1ULL
#define KIND_WAKE 2ULL
#define GENERATION_SHIFT 8

/* The table is registered as the file of this number. */
#define FILE_INDEX 0

/* IORING_OP_FUTEX_WAKE, which headers older than Linux 6.7 do not have. */
#define OP_FUTEX_WAKE 52ULL
/* futex2: a word of 32 bits, of one process. */
#define FUTEX_FLAGS (0x02 | 0x80)
#define FUTEX_ANY 0xffffffffULL

/* Reads blocks into the chain's buffer. */
static __always_inline bool chain_ring_read(u32 chain, u64 offset, u32 bytes, u64 user_data)
{
	u64 to = memory.shape.buffers + (u64)chain * BPFDB_TABLE_BUFFER;

	return ring_read(&memory.ring, FILE_INDEX, offset, to, bytes, user_data);
}

/* Wakes the thread that waits for the chain. If there is no room, the process finds out by
 * itself. */
static __always_inline void ring_wake(u32 chain)
{
	u64 *place = ring_place(&memory.ring);

	if (!place)
		return;
	place[0] = OP_FUTEX_WAKE | (u64)FUTEX_FLAGS << 32;
	place[1] = 1;
	place[2] = memory.shape.states + (u64)chain * sizeof(struct bpfdb_table_chain);
	place[3] = 0;
	place[4] = KIND_WAKE << KIND_SHIFT;
	place[5] = 0;
	place[6] = FUTEX_ANY;
	place[7] = 0;
	ring_submit(&memory.ring);
}

/* User data of the poll of the bell by which programs ring; that of the process's doorbell is `hello`. */
#define HELLO_PROGRAMS 1ULL

#define POLL_IN 1ULL
#define POLL_OUT 4ULL

/* Polls a file, again and again. */
static __always_inline void ring_poll(u32 file, u64 events, u64 user_data)
{
	u64 *place = ring_place(&memory.ring);

	if (!place)
		return;
	place[0] = IORING_OP_POLL_ADD | (u64)file << 32;
	place[1] = 0;
	place[2] = 0;
	place[3] = IORING_POLL_ADD_MULTI | events << 32;
	place[4] = user_data;
	place[5] = 0;
	place[6] = 0;
	place[7] = 0;
	ring_submit(&memory.ring);
}

#endif
