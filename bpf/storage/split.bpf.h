/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Splitting an index page, while all operators go on reading and writing it.
 *
 * Page P answers for the hashes with certain `level` bits above the home. A split
 * gives P a sibling, which takes the keys whose next bit is 1, bucket by
 * bucket:
 *
 *     latch the bucket's home ─► latch its upper cells ─► copy them to the
 *     sibling ─► one store of the home word: upper bits gone, level + 1,
 *     latch released ─► clear the old cells
 *
 * A reader that comes by an old directory entry sees level + 1 in the home
 * word and follows the sibling (bucket_find). When every bucket has moved, the
 * directory is changed and the link is cut.
 *
 * A bucket with a latched cell is left for later: the page
 * stays "in split" and the next insertion takes the split up again. Until it
 * is over the halves take new records only as long as it can be finished or undone
 * (insert_reach). (It was taken up when room was needed once, and the halves took
 * whatever came: then ordinary keys were refused, as if the index were crowded.)
 * Transaction locks do not hinder a split: they move with their cells.
 *
 * If a bucket has no room in the sibling, because others took it since the split was
 * begun, the split is undone: all buckets come back, the sibling is retired as after a
 * merge (merge.bpf.h), and the next split begins with an empty one.
 *
 * Invariants
 *  1. While P has a sibling, each of its buckets has P's level, and then all its cells
 *     are in P and the sibling's bucket is empty; or one more, and then its lower cells
 *     are in P, its upper ones in the sibling. A pass in either direction moves a bucket
 *     from the one state to the other, under its latch: so a split can be finished or
 *     undone from wherever it stands.
 *  2. The sibling is known to P only, until every bucket is of the second kind (the
 *     directory names it), or of the first (it is retired).
 *  3. `splitting` is held by an operator that changes the level of a bucket of that page.
 *
 * The sibling is not split before the directory names it: its own, deeper
 * entries would be overwritten when the first split reaches the directory. An
 * operator that wants room in it finishes the first split instead.
 */
#ifndef BPFDB_SPLIT_BPF_H
#define BPFDB_SPLIT_BPF_H

#include "directory.bpf.h"
#include "index_page.bpf.h"
#include "split_undo.bpf.h"
#include "split_worth.bpf.h"

/* In a split or in a merge. */
static __always_inline bool page_is_changing(u32 page)
{
	struct bpfdb_slab *slab = slab_of_page(page);

	return slab && (page_is_in_split(slab) || LOAD(slab->next));
}

/*
 * Makes a complete split known to the directory. False if another split is at
 * the directory: readers go on by the link to the sibling, and the next operator that
 * wants room in this page tries again.
 */
__noinline int split_finish(u32 page, u32 upper_page, u32 level)
{
	struct bpfdb_slab *slab = slab_of_page(page), *sibling = slab_of_page(upper_page);
	u32 prefix = slab ? slab->prefix : 0;

	level &= 31;
	if (!slab || !sibling || CAS(&engine.directory_latch.value, 0, 1))
		return false;
	if (LOAD(engine.directory_depth.value) == level)
		directory_double(level);
	directory_point(prefix | 1u << level, level + 1, upper_page);
	directory_point(prefix, level + 1, page);
	level_count(level, -1);
	level_count(level + 1, 2);
	STORE(slab->level, (u8)(level + 1));
	STORE_RELEASE(slab->sibling, 0);
	STORE_RELEASE(sibling->unlisted, 0);
	STORE_RELEASE(engine.directory_latch.value, 0);
	COUNT(page_splits);
	return true;
}

/* The page whose split comes first: `page`, or the one that it was split off. */
static __always_inline u32 page_to_split(u32 page)
{
	struct bpfdb_slab *slab = slab_of_page(page);
	u32 slot, *entry;

	if (!slab || !LOAD(slab->unlisted))
		return page;
	slot = directory_slot((u64)slab->prefix << BPFDB_CELL_BITS,
			      LOAD(engine.directory_depth.value));
	entry = bpf_map_lookup_elem(&directory, &slot);
	return entry ? entry_page(LOAD(*entry)) : page;
}

/*
 * Splits index page `which`, with SPLIT_FOR_FREEING and SPLIT_SPARSE perhaps, or takes an unfinished
 * split of it up again. OK, also if it had to be undone, an Error if there is no memory or if a split is of no use,
 * MEMORY_PENDING if a bucket was left whose latch is held, RETRY if another operator is at
 * it or another split had to be finished first.
 */
__noinline int bpfdb_split(u32 which)
{
	u32 freeing = which & SPLIT_FOR_FREEING, wanted = which & ~SPLIT_FLAGS;
	u32 page = page_to_split(wanted);
	struct bpfdb_slab *slab = slab_of_page(page), *sibling;
	struct split split = {.page = page, .left_behind = LOAD(engine.zero)};
	int result = page == wanted ? BPFDB_OK : RETRY;

	if (!slab)
		return BPFDB_CORRUPT;
	/* Else it was merged away since it was found crowded. */
	if (LOAD(slab->class_) != BPFDB_PAGE_INDEX || CAS(&slab->splitting, 0, 1))
		return RETRY;
	/* It is being merged; or what was to be finished is finished; or it was
	 * split off a moment ago. */
	if (LOAD(slab->next) || (page != wanted && !LOAD(slab->sibling)) || LOAD(slab->unlisted)) {
		STORE_RELEASE(slab->splitting, 0);
		return RETRY;
	}
	split.no_room = LOAD(engine.zero);
	split.level = slab->level;
	if (split.level >= config.directory_bits) {
		result = BPFDB_OUT_OF_MEMORY;
		goto out;
	}
	split.sibling = LOAD(slab->sibling);
	if (!split.sibling && !(which & SPLIT_SPARSE) && !split_is_worth(page, split.level)) {
		result = BPFDB_INDEX_CROWDED;
		goto out;
	}
	if (!split.sibling) {
		split.sibling = index_page_create((split.level + 1) | freeing,
						  slab->prefix | 1u << (split.level & 31));
		if (!split.sibling) {
			result = no_memory();
			goto out;
		}
		STORE_RELEASE(slab->sibling, split.sibling);
	}
	sibling = slab_of_page(split.sibling);
	if (!sibling) {
		result = BPFDB_CORRUPT;
		goto out;
	}
	if (LOAD(sibling->unlisted) != BPFDB_UNLISTED_WHOLE)
		split_passes(&split);
	if (split.no_room) {
		/* A bucket that is latched at this moment is no reason to refuse: the operator that
		 * takes the split up finishes or undoes it. */
		if (!split_undo(&split, slab))
			result = split.no_room ? BPFDB_INDEX_CROWDED : BPFDB_MEMORY_PENDING;
		goto out;
	}
	if (split.left_behind) {
		result = BPFDB_MEMORY_PENDING;
		goto out;
	}
	STORE(sibling->unlisted, BPFDB_UNLISTED_WHOLE);
	split_finish(page, split.sibling, split.level);
out:
	STORE_RELEASE(slab->splitting, 0);
	return result;
}

#endif
