/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Moving a bucket from one index page to the same place in another one: what splits
 * (split.bpf.h) and merges (merge.bpf.h) consist of. A bucket is moved whole or not at
 * all, under the latches of its home in both pages.
 */
#ifndef BPFDB_BUCKET_MOVE_BPF_H
#define BPFDB_BUCKET_MOVE_BPF_H

#include "index_write.bpf.h"

/* What became of one bucket that was to be moved to another page: a latch is held, by
 * an operator that will release it; done; there is no room near its home. */
#define MOVE_LATER 0
#define MOVE_DONE 1
#define MOVE_NO_ROOM 2

/*
 * The cells of a bucket with this bitmap that go up. They are those also when the bucket
 * is latched afterwards and its home word is the same: a record comes and goes by a change
 * of that word. (A subprogram, and so before the latched section: all callers together
 * have 512 bytes of stack.)
 */
__noinline u32 upper_cells(u32 page, u32 index, u32 bitmap, u32 level)
{
	void *memory = page_memory(page);
	u32 upper = 0;

	if (!memory)
		return 0;

	repeat(i, BPFDB_NEIGHBOURHOOD)
	{
		if ((bitmap >> i & 1) && split_bit(cell_hash(cell_in(memory, index + i)), level))
			upper |= 1u << i;
	}
	return upper;
}

/* Releases the latches, or (moved) clears the cells. */
static __always_inline void cells_release(void *memory, u32 index, u32 upper, bool moved)
{
	repeat(i, BPFDB_NEIGHBOURHOOD)
	{
		struct bpfdb_cell *cell = cell_in(memory, index + i);
		u64 header;

		if (!(upper >> i & 1))
			continue;
		header = LOAD(cell->header);
		STORE_RELEASE(cell->header,
			      moved ? header_next(header, 0) : header & ~BPFDB_CELL_LATCH);
	}
}

/* Latches the cells of `bitmap`. False, and none latched, if one is taken. */
static __always_inline bool cells_latch(void *memory, u32 index, u32 bitmap)
{
	u32 latched = 0;
	bool all = true;

	repeat(i, BPFDB_NEIGHBOURHOOD)
	{
		struct bpfdb_cell *cell = cell_in(memory, index + i);
		u64 header;

		if (!(bitmap >> i & 1))
			continue;
		header = LOAD(cell->header);
		if ((header & BPFDB_CELL_LATCH) ||
		    CAS(&cell->header, header, header | BPFDB_CELL_LATCH) != header) {
			all = false;
			break;
		}
		latched |= 1u << i;
	}
	if (!all)
		cells_release(memory, index, latched, false);
	return all;
}

/* A claimed cell becomes what `old`, latched by the caller, is; latched too. */
static __always_inline void cell_fill(struct bpfdb_cell *new, const struct bpfdb_cell *old)
{
	new->key[0] = old->key[0];
	new->key[1] = old->key[1];
	new->head = old->head;
	cell_set_header(new, LOAD(old->header) & (BPFDB_CELL_CHANGE - 1));
}

static __always_inline int cell_copy(void *from, void *to, u32 index, u32 i)
{
	int offset = cell_claim(to, index, BPFDB_NEIGHBOURHOOD);

	if (offset >= 0)
		cell_fill(cell_in(to, index + offset), cell_in(from, index + i));
	return offset;
}

/* Copies the cells of `bitmap` to the same bucket of page `to`; *taken says
 * where they are there. */
static __always_inline bool cells_copy(void *from, void *to, u32 index, u32 bitmap, u32 *taken)
{
	u32 bits = 0;
	bool all = true;

	repeat(i, BPFDB_NEIGHBOURHOOD)
	{
		int offset;

		if (!(bitmap >> i & 1))
			continue;
		offset = cell_copy(from, to, index, i);
		if (offset < 0) {
			all = false;
			break;
		}
		bits |= 1u << (offset & 31);
	}
	*taken = bits;
	return all;
}

/*
 * Moves one bucket whose home is latched, in both pages. DONE: its upper half is in the
 * sibling now, and the latches released.
 *
 * The copies are latched until the cells that they were made from are cleared.
 * Else an operator could change a copy that no bitmap names yet (the sweeper, which
 * goes over cells, would remove the record, and its bit would be published all
 * the same); or overwrite the value through the copy while readers still find
 * the old header, by which they judge what they read of it, unchanged.
 */
static __always_inline int bucket_move_latched(void *from, void *to, u32 index, u32 level,
					       u32 upper)
{
	struct bpfdb_cell *home_cell = cell_in(from, index);
	u32 bitmap = LOAD(home_cell->home), taken = 0;

	if (!cells_latch(from, index, upper))
		return MOVE_LATER;
	if (!cells_copy(from, to, index, upper, &taken)) {
		cells_release(to, index, taken, true);
		cells_release(from, index, upper, false);
		return MOVE_NO_ROOM;
	}
	/* Latched until the other one says the same: an operator that has found it before a split
	 * was undone must not insert what readers do not look for there yet. */
	home_publish_latched(cell_in(to, index), taken, level + 1);
	home_publish(home_cell, bitmap & ~upper, level + 1);
	home_unlatch(cell_in(to, index));
	cells_release(from, index, upper, true);
	cells_release(to, index, taken, false);
	return MOVE_DONE;
}

/*
 * Moves the cells `upper` of the bucket of `index`, if its home word is `home` still:
 * MOVE_. The sibling's bucket is latched too: an operator that found it before a split was undone,
 * or before a merge, may have it in hand.
 */
__noinline int bucket_move_upper(u32 page, u32 sibling, u32 index, u64 home, u32 upper)
{
	void *from = page_memory(page), *to = page_memory(sibling);
	struct bpfdb_cell *home_cell, *home_to;
	int done = MOVE_LATER;

	if (!from || !to)
		return MOVE_LATER;
	home_cell = cell_in(from, index);
	home_to = cell_in(to, index);
	preempt_off();
	if (home_latch(home_cell)) {
		if (LOAD(home_cell->home) == (home | BPFDB_HOME_LATCH) && home_latch(home_to)) {
			done = bucket_move_latched(from, to, index, home_level(home), upper);
			if (done != MOVE_DONE)
				home_unlatch(home_to);
		}
		if (done != MOVE_DONE)
			home_unlatch(home_cell);
	}
	preempt_on();
	return done;
}

/* Moves the bucket of `index`, if it is of `level`: MOVE_. */
static __always_inline int bucket_move(u32 page, u32 sibling, u32 index, u32 level)
{
	void *memory = page_memory(page);
	u64 home = memory ? LOAD_ACQUIRE(cell_in(memory, index)->home) : 0;
	u32 upper;
	int done;

	if (!memory || home_level(home) != (level & 31) || (home & BPFDB_HOME_LATCH))
		return MOVE_LATER;
	upper = upper_cells(page, index, home, level);
	done = bucket_move_upper(page, sibling, index, home, upper);
	if (done == MOVE_DONE) {
		page_count(sibling, __builtin_popcount(upper));
		page_count(page, -(s64)__builtin_popcount(upper));
	}
	return done;
}

/* Brings the cell at offset `from` of a latched bucket to a free one nearer to
 * its home, if there is one. Returns the bitmap. */
static __always_inline u32 cell_pull(void *memory, u32 index, u32 bitmap, u32 from)
{
	struct bpfdb_cell *old = cell_in(memory, index + from), *home_cell = cell_in(memory, index);
	u64 header = LOAD(old->header);
	int to = cell_claim(memory, index, from);

	if (to < 0)
		return bitmap;
	if ((header & BPFDB_CELL_LATCH) ||
	    CAS(&old->header, header, header | BPFDB_CELL_LATCH) != header) {
		cell_set_header(cell_in(memory, index + to), 0);
		return bitmap;
	}
	cell_fill(cell_in(memory, index + to), old);
	bitmap = (bitmap & ~(1u << (from & 31))) | 1u << (to & 31);
	home_replace(home_cell, bitmap);
	cell_set_header(old, 0);
	cells_release(memory, index, 1u << (to & 31), false);
	return bitmap;
}

/* Brings the cells of a bucket nearer to their home, after the split has made
 * room: what lies in the home pair is found without a detour. */
__noinline int bucket_pull(u32 page, u32 index)
{
	void *memory = page_memory(page);
	struct bpfdb_cell *home_cell;
	u32 bitmap;

	if (!memory)
		return 0;
	home_cell = cell_in(memory, index);
	if (!((u32)LOAD(home_cell->home) >> 1))
		return 0;
	preempt_off();
	if (home_latch(home_cell)) {
		bitmap = LOAD(home_cell->home);
		repeat(i, BPFDB_NEIGHBOURHOOD)
		{
			if (i && bitmap >> i & 1)
				bitmap = cell_pull(memory, index, bitmap, i);
		}
		home_unlatch(home_cell);
	}
	preempt_on();
	return 1;
}

#endif
