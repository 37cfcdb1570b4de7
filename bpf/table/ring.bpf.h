/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The rings of io_uring, which the kernel and this program share. */
#ifndef BPFDB_TABLE_RING_BPF_H
#define BPFDB_TABLE_RING_BPF_H

#include <linux/io_uring.h>

#include "state.bpf.h"

/* User data: what a completion is of; a chain's has its number and its generation behind. */
#define KIND_SHIFT 56
#define KIND_READ 1ULL
#define KIND_WAKE 2ULL
#define GENERATION_SHIFT 8

/* The buffers are registered as the buffer of this number, the table as this file. */
#define BUFFER_INDEX 0
#define FILE_INDEX 0

/* IORING_OP_FUTEX_WAKE, which headers older than Linux 6.7 do not have. */
#define OP_FUTEX_WAKE 52ULL
/* futex2: a word of 32 bits, of one process. */
#define FUTEX_FLAGS (0x02 | 0x80)
#define FUTEX_ANY 0xffffffffULL

static __always_inline u32 *ring_word(u32 at)
{
	OPAQUE(at);
	return (u32 *)&memory.rings[at & (BPFDB_TABLE_RINGS - sizeof(u32))];
}

/* All completions that the process could see are taken: it looks at none. */
static __always_inline void ring_take(void)
{
	STORE(*ring_word(memory.shape.cq_head), LOAD(*ring_word(memory.shape.cq_tail)));
}

/* The next free place of the submission queue; NULL: it is full. */
static __always_inline u64 *ring_place(void)
{
	u32 tail = LOAD(*ring_word(memory.shape.sq_tail));
	u32 head = LOAD_ACQUIRE(*ring_word(memory.shape.sq_head));
	u32 place = (tail & (BPFDB_TABLE_ENTRIES - 1)) * BPFDB_TABLE_ENTRY_WORDS;

	if (tail - head >= BPFDB_TABLE_ENTRIES)
		return NULL;
	OPAQUE(place);
	return &memory.entries[place & (BPFDB_TABLE_ENTRIES * BPFDB_TABLE_ENTRY_WORDS -
					BPFDB_TABLE_ENTRY_WORDS)];
}

/* What was written to the place is submitted. */
static __always_inline void ring_submit(void)
{
	u32 *tail = ring_word(memory.shape.sq_tail);

	STORE_RELEASE(*tail, LOAD(*tail) + 1);
}

static __always_inline bool ring_read(u32 chain, u64 offset, u32 bytes, u64 user_data)
{
	u64 *place = ring_place();

	if (!place)
		return false;
	place[0] = IORING_OP_READ_FIXED | IOSQE_FIXED_FILE << 8 | (u64)FILE_INDEX << 32;
	place[1] = offset;
	place[2] = memory.shape.buffers + (u64)chain * BPFDB_TABLE_BUFFER;
	place[3] = bytes;
	place[4] = user_data;
	place[5] = BUFFER_INDEX;
	place[6] = 0;
	place[7] = 0;
	ring_submit();
	return true;
}

/* Wakes the thread that waits for the chain. If there is no room, the process finds out by
 * itself. */
static __always_inline void ring_wake(u32 chain)
{
	u64 *place = ring_place();

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
	ring_submit();
}

/* Polls the doorbell, again and again. */
static __always_inline void ring_poll(void)
{
	u64 *place = ring_place();

	if (!place)
		return;
	place[0] = IORING_OP_POLL_ADD | (u64)memory.shape.doorbell << 32;
	place[1] = 0;
	place[2] = 0;
	place[3] = IORING_POLL_ADD_MULTI | 1ULL << 32;
	place[4] = memory.shape.hello;
	place[5] = 0;
	place[6] = 0;
	place[7] = 0;
	ring_submit();
}

#endif
