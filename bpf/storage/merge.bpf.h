/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Merging two index pages that are nearly empty, the reverse of a split: after
 * many records were deleted their memory is for values again.
 *
 * P answers for the hashes with a certain `level` bits of which the last is 0,
 * Q, its buddy, for those where it is 1. Bucket by bucket, Q's cells go to P:
 *
 *     latch both homes ─► latch Q's cells ─► copy them to P ─► P's home word:
 *     new bitmap, level - 1 ─► Q's home word: empty, level - 1 ─► clear Q's cells
 *     ─► unlatch the copies (why not before: bucket_move)
 *
 * A reader that comes by an old directory entry of P finds level - 1 there and
 * is right; one that comes by Q's finds level - 1 and goes on to P (bucket_find).
 * Between the two stores Q's keys are in both pages, but reached through Q only,
 * where their cells are latched.
 *
 * If a bucket has no room in P, because others took it since the merge was begun, the
 * merge is undone: the buckets that had moved are split again (bucket_move), and the
 * links are cut. Their levels say which are where, as in a split (split.bpf.h).
 *
 * When all buckets have moved the directory is changed, and Q is RETIRED: no program
 * finds it any more, but programs that found it before may still read it. User
 * space waits for them (a grace period of RCU, under which all programs run that
 * may use the engine) and then has it given back.
 */
#ifndef BPFDB_MERGE_BPF_H
#define BPFDB_MERGE_BPF_H

#include "bucket_merge.bpf.h"
#include "directory.bpf.h"
#include "reclaim.bpf.h"

/* Pages with more cells than this between them stay two: else the next inserts
 * would split them again. An evictor for which writes wait allows more. */
#define MERGE_FILL (BPFDB_CELLS_PER_PAGE / 4)

struct merge {
	u32 to, from, level;
	u32 left_behind;
	u32 no_room; /* of these */
	u32 most;    /* cells of both together */
};

static long merge_bucket(u64 index, struct merge *merge)
{
	int done = bucket_merge(merge->to, merge->from, index, merge->level);

	merge->left_behind += done != MOVE_DONE;
	merge->no_room += done == MOVE_NO_ROOM;
	return 0;
}

/* The other way round: Q gets its half of the bucket again. */
static long merge_bucket_back(u64 index, struct merge *merge)
{
	void *to = page_memory(merge->to);

	if (!to || home_level(LOAD(cell_in(to, index)->home)) == merge->level)
		return 0;
	if (bucket_move(merge->to, merge->from, index, merge->level - 1) != MOVE_DONE)
		merge->left_behind++;
	return 0;
}

/* The merge has not been, if all buckets can come back. */
static __always_inline void merge_undo(struct merge *merge, struct bpfdb_slab *to,
				       struct bpfdb_slab *from)
{
	merge->left_behind = LOAD(engine.zero);
	bpf_loop(BPFDB_CELLS_PER_PAGE, merge_bucket_back, merge, 0);
	if (merge->left_behind)
		return;
	STORE_RELEASE(from->next, 0);
	STORE_RELEASE(to->next, 0);
}

/* All of Q is in P: the directory forgets Q. */
static __always_inline bool merge_finish(struct merge *merge, struct bpfdb_slab *to,
					 struct bpfdb_slab *from)
{
	if (CAS(&engine.directory_latch.value, 0, 1))
		return false;
	directory_point(to->prefix, merge->level - 1, merge->to);
	level_count(merge->level, -2);
	level_count(merge->level - 1, 1);
	directory_halve();
	STORE(to->level, (u8)(merge->level - 1));
	STORE_RELEASE(to->next, 0);
	STORE_RELEASE(from->class_, BPFDB_PAGE_RETIRED);
	STORE_RELEASE(engine.directory_latch.value, 0);
	ADD(&engine.index_pages.value, -1);
	COUNT(page_merges);
	return true;
}

/* May these two be merged, now that both are held? Or are they in the middle of
 * it already? */
static __always_inline bool merge_wanted(struct bpfdb_slab *to, struct bpfdb_slab *from,
					 const struct merge *merge)
{
	u32 level = merge->level;

	/* The one may have been merged, too, since it was found. */
	if (LOAD(to->class_) != BPFDB_PAGE_INDEX || LOAD(from->class_) != BPFDB_PAGE_INDEX ||
	    !level || from->level != level || LOAD(to->sibling) || LOAD(from->sibling))
		return false;
	if (from->prefix != (to->prefix | 1u << ((level - 1) & 31)))
		return false;
	return LOAD(from->next) == merge->to || LOAD(to->word) + LOAD(from->word) <= merge->most;
}

/* With the split latches of both pages, which keep splits away. */
static __always_inline bool merge_held(u32 to_page, u32 from_page, u32 most, struct bpfdb_slab *to,
				       struct bpfdb_slab *from)
{
	struct merge merge = {
		.to = to_page,
		.from = from_page,
		.level = to->level,
		.left_behind = LOAD(engine.zero),
		.most = most,
	};

	if (!merge_wanted(to, from, &merge))
		return false;
	/* From now on Q's readers know where its buckets go, and neither page is
	 * split before this is over. */
	STORE(from->next, to_page);
	STORE(to->next, to_page);
	merge.no_room = LOAD(engine.zero);
	bpf_loop(BPFDB_CELLS_PER_PAGE, merge_bucket, &merge, 0);
	if (merge.no_room) {
		merge_undo(&merge, to, from);
		return false;
	}
	return !merge.left_behind && merge_finish(&merge, to, from);
}

/*
 * Merges index page `page` with its buddy if it is the lower half and both have no more than
 * `most` cells. 1 if a page was retired.
 */
__noinline int page_merge_up_to(u32 page, u32 most)
{
	struct bpfdb_slab *to = slab_of_page(page), *from;
	u32 slot, *entry, buddy;
	int merged = 0;

	if (!to || LOAD(to->class_) != BPFDB_PAGE_INDEX || !to->level)
		return 0;
	slot = to->prefix | 1u << ((to->level - 1) & 31);
	entry = slot == to->prefix ? NULL : bpf_map_lookup_elem(&directory, &slot);
	buddy = entry ? entry_page(LOAD(*entry)) : 0;
	from = buddy && buddy != page ? slab_of_page(buddy) : NULL;
	if (!from || CAS(&to->splitting, 0, 1))
		return 0;
	if (!CAS(&from->splitting, 0, 1)) {
		merged = merge_held(page, buddy, most, to, from);
		STORE_RELEASE(from->splitting, 0);
	}
	STORE_RELEASE(to->splitting, 0);
	return merged;
}

/* The same if both are nearly empty. */
static __always_inline int page_merge(u32 page)
{
	return page_merge_up_to(page, MERGE_FILL);
}

/* Goes on with an unfinished merge that `page` is part of, if there is one: until
 * it is over the page cannot be split, and the merges that user space orders
 * when memory is short may have stopped. False if there is none. */
static __always_inline bool merge_take_up(u32 page)
{
	struct bpfdb_slab *slab = slab_of_page(page);
	u32 to = slab ? LOAD(slab->next) : 0;

	if (!to || LOAD(slab->class_) != BPFDB_PAGE_INDEX)
		return false;
	page_merge(to);
	return true;
}

/* After the grace period. 1 if the page was retired and is free now. */
__noinline int page_release(u32 page)
{
	struct bpfdb_slab *slab = slab_of_page(page);

	if (!slab || LOAD(slab->class_) != BPFDB_PAGE_RETIRED)
		return 0;
	page_give_back(page);
	return 1;
}

#endif
