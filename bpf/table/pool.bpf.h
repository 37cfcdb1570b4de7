/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The pool of blocks: docs/decisions/0051-buffer-pool.md draws a frame's states and numbers the invariants.
 * Block `block` of a chain is copied between its frame and the beginning of the chain's buffer. Nothing here
 * waits: without a frame the disk is read, or nothing is kept.
 */
#ifndef BPFDB_TABLE_POOL_BPF_H
#define BPFDB_TABLE_POOL_BPF_H

#include "state.bpf.h"

/* No frame has this number. */
#define NO_FRAME 0xffffffffU

/* What is copied at once: every block is a number of these. */
struct chunk {
	u64 words[BPFDB_TABLE_BLOCK_MIN / 8];
};

_Static_assert(sizeof(struct chunk) <= BPFDB_TABLE_PAD,
	       "a chunk that begins in a buffer is in memory");
_Static_assert(BPFDB_TABLE_SEGMENT >= BPFDB_TABLE_BLOCK_MAX, "a block has room in a segment");

static __always_inline struct bpfdb_table_frame *pool_frame(u32 index)
{
	return bpf_map_lookup_elem(&pool_frames, &index);
}

static __always_inline u32 *pool_hint(u64 block)
{
	u32 index = block / BPFDB_TABLE_HINTS;
	struct bpfdb_table_hints *hints = bpf_map_lookup_elem(&pool_hints, &index);

	return hints ? &hints->frames[block & (BPFDB_TABLE_HINTS - 1)] : NULL;
}

static __always_inline u32 block_chunks(void)
{
	return memory.shape.block_size / sizeof(struct chunk);
}

static __always_inline struct chunk *buffer_chunk(u32 chain, u32 number)
{
	return (struct chunk *)buffer_at(chain, number * sizeof(struct chunk));
}

/* A chunk of the block of a frame. */
static __always_inline struct chunk *pool_chunk(u32 frame, u32 number)
{
	u64 place = (u64)frame * memory.shape.block_size + number * sizeof(struct chunk);
	u32 index = place / BPFDB_TABLE_SEGMENT;
	u32 offset = place & (BPFDB_TABLE_SEGMENT - 1) & -sizeof(struct chunk);
	struct bpfdb_table_segment *segment = bpf_map_lookup_elem(&pool_segments, &index);

	return segment ? (void *)segment + offset : NULL;
}

/* Whether the frame has the block now, and nobody fills it; its version, too. */
static __always_inline bool frame_has(struct bpfdb_table_frame *frame, u64 block, u64 *version)
{
	*version = LOAD_ACQUIRE(frame->version);
	return !(*version & 1) && LOAD(frame->block) == block;
}

/* The frame that the hint names, or NO_FRAME. */
static __always_inline u32 pool_hinted(u64 block)
{
	u32 *hint = pool_hint(block);

	return hint ? LOAD(*hint) - 1 : NO_FRAME;
}

/* Copies the chain's block from its frame; false: it has none, or it has lost it meanwhile. */
__noinline int pool_take(u32 chain)
{
	struct bpfdb_table_chain *c = chain_at(chain);
	u32 index = pool_hinted(c->block), chunks = block_chunks(), i = START;
	struct bpfdb_table_frame *frame = pool_frame(index);
	u64 version;

	if (!frame || !frame_has(frame, c->block, &version))
		return false;
	each(i, chunks)
	{
		struct chunk *from = pool_chunk(index, i);

		if (!from)
			return false;
		*buffer_chunk(chain, i) = *from;
	}
	if (i < chunks || LOAD_AFTER(frame->version) != version)
		return false;
	if (!LOAD(frame->is_used))
		STORE(frame->is_used, 1);
	return true;
}

/* Takes a frame that was not used since the hand came by: the caller fills it, or NO_FRAME. */
__noinline u32 pool_claim(void)
{
	u32 i = START;

	each(i, BPFDB_TABLE_CLAIMS)
	{
		u32 index = LOAD(memory.hand);
		struct bpfdb_table_frame *frame = pool_frame(index);
		u64 version;

		STORE(memory.hand, index + 1 < memory.shape.frames ? index + 1 : 0);
		if (!frame)
			continue;
		version = LOAD(frame->version);
		if (version & 1)
			continue;
		if (LOAD(frame->is_used))
			STORE(frame->is_used, 0);
		else if (CAS(&frame->version, version, version + 1) == version)
			return index;
	}
	return NO_FRAME;
}

/* Keeps the chain's block, which has been checked. */
__noinline int pool_put(u32 chain)
{
	struct bpfdb_table_chain *c = chain_at(chain);
	u32 index = pool_hinted(c->block), chunks = block_chunks(), i = START;
	struct bpfdb_table_frame *frame = pool_frame(index);
	u32 *hint = pool_hint(c->block);
	u64 version;

	if (!hint || (frame && frame_has(frame, c->block, &version)))
		return 0;
	index = pool_claim();
	frame = pool_frame(index);
	if (!frame)
		return 0;
	version = LOAD(frame->version);
	STORE(frame->block, c->block);
	each(i, chunks)
	{
		struct chunk *to = pool_chunk(index, i);

		if (to)
			*to = *buffer_chunk(chain, i);
	}
	/* A block that is not whole is none. */
	if (i < chunks)
		STORE(frame->block, 0);
	STORE_RELEASE(frame->version, version + 1);
	STORE(*hint, index + 1);
	return 0;
}

#endif
