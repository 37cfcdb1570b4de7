/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The submission queue of an io_uring in memory of a program. The thread of io_uring in the kernel
 * (SQPOLL) submits what stands in it.
 *
 * One writer at a time: `busy` of the ring is a latch. A program that finds it taken goes without;
 * it cannot wait.
 */
#ifndef BPFDB_IO_RING_BPF_H
#define BPFDB_IO_RING_BPF_H

#include <linux/io_uring.h>

#include <bpfdb/ring.h>
#include <bpfdb/types.bpf.h>

_Static_assert((BPFDB_RING_BYTES & (BPFDB_RING_BYTES - 1)) == 0, "offsets are masked");
_Static_assert((BPFDB_RING_ENTRIES & (BPFDB_RING_ENTRIES - 1)) == 0, "places are masked");

/* Buffers are registered as the buffer of this number. */
#define RING_BUFFER 0

static __always_inline u32 *ring_word(struct bpfdb_ring *ring, u32 at)
{
	OPAQUE(at);
	return (u32 *)&ring->rings[at & (BPFDB_RING_BYTES - sizeof(u32))];
}

/* One attempt. Whoever has it gives it back by ring_unlatch(). */
static __always_inline bool ring_latch(struct bpfdb_ring *ring)
{
	return CAS(&ring->busy, 0, 1) == 0;
}

static __always_inline void ring_unlatch(struct bpfdb_ring *ring)
{
	STORE_RELEASE(ring->busy, 0);
}

/* All completions that the process could see are taken: it looks at none. */
static __always_inline void ring_take(struct bpfdb_ring *ring)
{
	STORE(*ring_word(ring, ring->cq_head), LOAD(*ring_word(ring, ring->cq_tail)));
}

/* The next free place of the submission queue; NULL: it is full. */
static __always_inline u64 *ring_place(struct bpfdb_ring *ring)
{
	u32 tail = LOAD(*ring_word(ring, ring->sq_tail));
	u32 head = LOAD_ACQUIRE(*ring_word(ring, ring->sq_head));
	u32 place = (tail & (BPFDB_RING_ENTRIES - 1)) * BPFDB_RING_ENTRY_WORDS;

	if (tail - head >= BPFDB_RING_ENTRIES)
		return NULL;
	OPAQUE(place);
	return &ring->entries[place & (BPFDB_RING_ENTRIES * BPFDB_RING_ENTRY_WORDS -
				       BPFDB_RING_ENTRY_WORDS)];
}

/* What was written to the place is submitted. */
static __always_inline void ring_submit(struct bpfdb_ring *ring)
{
	u32 *tail = ring_word(ring, ring->sq_tail);

	STORE_RELEASE(*tail, LOAD(*tail) + 1);
}

/* Reads bytes of a registered file into a registered buffer: `to` is an address of the process.
 * False: the queue is full. */
static __always_inline bool ring_read(struct bpfdb_ring *ring, u32 file, u64 offset, u64 to,
				      u32 bytes, u64 user_data)
{
	u64 *place = ring_place(ring);

	if (!place)
		return false;
	place[0] = IORING_OP_READ_FIXED | IOSQE_FIXED_FILE << 8 | (u64)file << 32;
	place[1] = offset;
	place[2] = to;
	place[3] = bytes;
	place[4] = user_data;
	place[5] = RING_BUFFER;
	place[6] = 0;
	place[7] = 0;
	ring_submit(ring);
	return true;
}

#endif
