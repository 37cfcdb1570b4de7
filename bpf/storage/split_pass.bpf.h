/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * A split, and the passes over its buckets that move them to the sibling (split.bpf.h).
 */
#ifndef BPFDB_SPLIT_PASS_BPF_H
#define BPFDB_SPLIT_PASS_BPF_H

#include "bucket_move.bpf.h"

struct split {
	u32 page, sibling, level;
	u32 left_behind; /* buckets that could not be moved */
	u32 no_room;     /* of these, because there was no room */
};

static long pull_bucket(u64 index, u32 *page)
{
	bucket_pull(*page, index);
	return 0;
}

static __always_inline void split_note(struct split *split, int done)
{
	split->left_behind += done != MOVE_DONE;
	split->no_room += done == MOVE_NO_ROOM;
}

static long split_bucket(u64 index, struct split *split)
{
	void *memory = page_memory(split->page);
	struct bpfdb_cell *home_cell;

	if (!memory)
		return 1;
	home_cell = cell_in(memory, index);
	if (home_level(LOAD(home_cell->home)) != split->level)
		return 0;
	split_note(split, bucket_move(split->page, split->sibling, index, split->level));
	return 0;
}

/* Moves the buckets that have not moved. */
static __always_inline void split_pass(struct split *split)
{
	split->left_behind = split->no_room = LOAD(engine.zero);
	bpf_loop(BPFDB_CELLS_PER_PAGE, split_bucket, split, 0);
}

/* Twice, because latches are held for less time than a pass takes. Then no cell of the page
 * lies farther from its home than it must, unless buckets were left. */
static __always_inline void split_passes(struct split *split)
{
	split_pass(split);
	if (split->left_behind && !split->no_room)
		split_pass(split);
	if (!split->left_behind)
		bpf_loop(BPFDB_CELLS_PER_PAGE, pull_bucket, &split->page, 0);
}

#endif
