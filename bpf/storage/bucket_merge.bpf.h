/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Merging a bucket of one index page with the same bucket of another one: what merges
 * (merge.bpf.h), and splits that are undone (split_undo.bpf.h), consist of. P and Q are the pages
 * of merge.bpf.h.
 */
#ifndef BPFDB_BUCKET_MERGE_BPF_H
#define BPFDB_BUCKET_MERGE_BPF_H

#include "bucket_move.bpf.h"

/* Both homes are latched. DONE: the bucket is in P now and the latches are released. */
static __always_inline int bucket_merge_latched(void *to, void *from, u32 index, u32 level)
{
	struct bpfdb_cell *home_to = cell_in(to, index), *home_from = cell_in(from, index);
	u32 bitmap = LOAD(home_from->home), taken = 0;

	if (!cells_latch(from, index, bitmap))
		return MOVE_LATER;
	if (!cells_copy(from, to, index, bitmap, &taken)) {
		cells_release(to, index, taken, true);
		cells_release(from, index, bitmap, false);
		return MOVE_NO_ROOM;
	}
	/* Latched until the other one says the same: by an old entry of the directory an inserter
	 * finds this bucket, and readers with a new one do not yet. */
	home_publish_latched(home_to, (u32)LOAD(home_to->home) | taken, level - 1);
	home_publish(home_from, 0, level - 1);
	home_unlatch(home_to);
	cells_release(from, index, bitmap, true);
	cells_release(to, index, taken, false);
	return MOVE_DONE;
}

/* Latches both homes, if they can be had, and merges the bucket: *moved cells. */
static __always_inline int bucket_merge_both(void *to, void *from, u32 index, u32 level, u32 *moved)
{
	struct bpfdb_cell *home_to = cell_in(to, index), *home_from = cell_in(from, index);
	int done = MOVE_LATER;
	u32 bitmap;

	if (!home_latch(home_from))
		return MOVE_LATER;
	if (home_latch(home_to)) {
		bitmap = LOAD(home_from->home);
		done = bucket_merge_latched(to, from, index, level);
		if (done == MOVE_DONE) {
			*moved = __builtin_popcount(bitmap);
			return done;
		}
		home_unlatch(home_to);
	}
	home_unlatch(home_from);
	return done;
}

/* Merges one bucket of Q (`from`) into P (`to`): MOVE_. */
__noinline int bucket_merge(u32 to_page, u32 from_page, u32 index, u32 level)
{
	void *to = page_memory(to_page), *from = page_memory(from_page);
	u32 moved = 0;
	int done;

	if (!to || !from)
		return MOVE_LATER;
	if (home_level(LOAD(cell_in(from, index)->home)) != level)
		return MOVE_DONE;
	preempt_off();
	done = bucket_merge_both(to, from, index, level, &moved);
	preempt_on();
	page_count(to_page, moved);
	page_count(from_page, -(s64)moved);
	return done;
}

#endif
