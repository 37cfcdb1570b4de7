/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Splitting an index page, while everybody goes on reading and writing it.
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
 * A bucket with a cell that somebody holds latched is left for later: the page
 * stays "in split" and whoever inserts a record next takes the split up again. Until it
 * is over the halves take new records only as long as it can be finished or undone
 * (insert_reach). (It was taken up when room was needed once, and the halves took
 * whatever came: then keys that nobody had chosen were told that the index is crowded.)
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
 *  3. `splitting` is held by whoever changes the level of a bucket of that page.
 *
 * The sibling is not split before the directory names it: its own, deeper
 * entries would be overwritten when the first split reaches the directory. Who
 * wants room in it finishes the first split instead.
 */
#ifndef BPFDB_SPLIT_BPF_H
#define BPFDB_SPLIT_BPF_H

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

#include "split_undo.bpf.h"

/* ---- Whether to split ---------------------------------------------------------- */

struct halves {
	u32 page, level;
	u32 lower, upper; /* cells */
};

static long halves_cell(u64 index, struct halves *halves)
{
	void *memory = page_memory(halves->page);
	struct bpfdb_cell *cell;

	if (!memory)
		return 1;
	cell = cell_in(memory, index);
	if (!(LOAD(cell->header) & BPFDB_CELL_USED))
		return 0;
	if (split_bit(cell_hash(cell), halves->level))
		halves->upper++;
	else
		halves->lower++;
	return 0;
}

/*
 * Are there enough records, and does the next bit divide them? Else the page stays as
 * it is: keys that were chosen so that many bits of their hashes agree would be given
 * one page after the other. Records come and go meanwhile; a few do not matter.
 * (A subprogram as index_page_create is.)
 */
__noinline int split_is_worth(u32 page, u32 level)
{
	struct halves halves = {.page = page, .level = level};
	u32 cells, fewer;

	/* Unknown to the verifier, which would count them up. */
	halves.lower = halves.upper = LOAD(engine.zero);
	bpf_loop(BPFDB_CELLS_PER_PAGE, halves_cell, &halves, 0);
	cells = halves.lower + halves.upper;
	fewer = halves.lower < halves.upper ? halves.lower : halves.upper;
	return cells >= BPFDB_SPLIT_CELLS_MIN && fewer * BPFDB_SPLIT_SHARE >= cells;
}

/*
 * Is every cell within reach of this hash's home in `page` taken by a record that no
 * split will part from it, because all bits agree that the directory could ever go by?
 */
__noinline int neighbourhood_agrees(u32 page, u64 hash)
{
	u32 bits = BPFDB_CELL_BITS + config.directory_bits, agree = LOAD(engine.zero);
	struct bpfdb_slab *slab = slab_of_page(page);
	void *memory = page_memory(page);
	u64 left;

	if (!memory || !slab || LOAD(slab->level) >= config.directory_bits)
		return 0;
	left = ((1ULL << (bits & 63)) - 1) >> BPFDB_CELL_BITS >>
	       (LOAD(slab->level) & 31) << BPFDB_CELL_BITS << (LOAD(slab->level) & 31);
	repeat(i, BPFDB_NEIGHBOURHOOD)
	{
		struct bpfdb_cell *cell = cell_in(memory, home_of(hash) + i);

		if (!(LOAD(cell->header) & BPFDB_CELL_USED) || ((cell_hash(cell) ^ hash) & left))
			break;
		agree++;
	}
	return agree == BPFDB_NEIGHBOURHOOD;
}

/* In a split or in a merge. */
static __always_inline bool page_is_changing(u32 page)
{
	struct bpfdb_slab *slab = slab_of_page(page);

	return slab && (page_is_in_split(slab) || LOAD(slab->next));
}

/* ---- The split ----------------------------------------------------------------- */

struct page_init {
	u32 page, level;
	u64 generation;
};

#define GENERATION_FACTOR 0x9e3779b97f4a7c15ULL

static long page_init_cell(u64 index, struct page_init *init)
{
	void *memory = page_memory(init->page);
	struct bpfdb_cell *cell;

	if (!memory)
		return 1;
	cell = cell_in(memory, index);
	/* The counters do not begin where they did when this page, or another
	 * with the same cells, was an index page before. */
	STORE(cell->header, init->generation * BPFDB_CELL_CHANGE);
	STORE(cell->home,
	      init->generation * BPFDB_HOME_CHANGE | (u64)init->level << BPFDB_HOME_LEVEL_SHIFT);
	return 0;
}

/* Beside a page or a level: the page that is wanted is for a DELETE, and may be one of the
 * reserve. */
#define SPLIT_FOR_FREEING (1u << 31)

/* An empty index page for `prefix` of `level` bits; 0 if memory is exhausted. `wanted` is the
 * level, with SPLIT_FOR_FREEING perhaps. (A subprogram: all callers of a split together have 512
 * bytes of stack.) */
__noinline u32 index_page_create(u32 wanted, u32 prefix)
{
	u32 level = wanted & ~SPLIT_FOR_FREEING;
	struct page_init init = {.level = level};
	struct bpfdb_slab *slab;

	/* An odd factor: all values of the counters come before one comes again. */
	init.generation = FETCH_ADD(&engine.index_generation.value, 1) * GENERATION_FACTOR;
	init.page = page_take(wanted & SPLIT_FOR_FREEING ? FOR_FREEING : FOR_DATA);
	slab = init.page ? slab_of_page(init.page) : NULL;
	if (!slab)
		return 0;
	bpf_loop(BPFDB_CELLS_PER_PAGE, page_init_cell, &init, 0);
	STORE(slab->listed, 1); /* never in a list of slabs again */
	STORE(slab->level, (u8)level);
	STORE(slab->prefix, prefix);
	STORE(slab->sibling, 0);
	STORE(slab->next, 0);
	STORE(slab->unlisted, level ? BPFDB_UNLISTED : 0);
	STORE(slab->splitting, 0);
	STORE(slab->word, 0);
	/* Last: a merge looks for pages of this class, and goes by their level and prefix. */
	STORE_RELEASE(slab->class_, BPFDB_PAGE_INDEX);
	ADD(&engine.index_pages.value, 1);
	return init.page;
}

struct directory_change {
	u32 first, step, value;
};

static long directory_set(u64 i, struct directory_change *change)
{
	u32 slot = change->first + i * change->step;
	u32 *entry = bpf_map_lookup_elem(&directory, &slot);

	if (entry)
		STORE_RELEASE(*entry, change->value);
	return 0;
}

/* Points all directory entries that end in `prefix` of `level` bits to `page`. */
static __always_inline void directory_point(u32 prefix, u32 level, u32 page)
{
	u32 depth = LOAD(engine.directory_depth.value);
	struct directory_change change = {prefix, 1u << (level & 31), entry_of(page, level)};

	bpf_loop(1u << ((depth - level) & 31), directory_set, &change, 0);
}

static long directory_copy(u64 i, u32 *half)
{
	u32 from = i, to = *half + i;
	u32 *old = bpf_map_lookup_elem(&directory, &from);
	u32 *new = bpf_map_lookup_elem(&directory, &to);

	if (old && new)
		STORE(*new, LOAD(*old));
	return 0;
}

/* Twice as many entries, the second half as the first. By the holder of the
 * directory's latch. */
static __always_inline void directory_double(u32 depth)
{
	u32 half = 1u << (depth & 31);

	bpf_loop(half, directory_copy, &half, 0);
	STORE_RELEASE(engine.directory_depth.value, depth + 1);
}

static __always_inline u64 *level_pages(u32 level)
{
	u64 of = level;

	OPAQUE(of);
	return &engine.level_pages[of % BPFDB_LEVEL_ENTRIES];
}

/* So many pages more of this level. By the holder of the directory's latch. */
static __always_inline void level_count(u32 level, s64 pages)
{
	STORE(*level_pages(level), LOAD(*level_pages(level)) + pages);
}

/*
 * The directory goes by fewer bits again, as few as its deepest page needs. By the
 * holder of its latch.
 *
 * The entries of the upper half, which equal those of the lower, stay as they are, and
 * become old: only who read the larger depth before reads them. What he finds there
 * answered for his hash then, and as long as its bucket has the level that the
 * entry says, it does now: a page that answers for a prefix of so many bits is the
 * only one. Else he follows the links of a split or a merge, or tries again. No
 * page that he finds is released before he ends: it was in the directory when he
 * began (merge.bpf.h). Before the depth grows again all the upper half is written anew.
 */
static __always_inline void directory_halve(void)
{
	u32 depth = LOAD(engine.directory_depth.value);

	repeat(i, BPFDB_DIRECTORY_BITS_MAX)
	{
		if (!depth || LOAD(*level_pages(depth)))
			break;
		--depth;
		STORE_RELEASE(engine.directory_depth.value, depth);
	}
}

/*
 * Makes a complete split known to the directory. False if another split is at
 * the directory: readers go on by the link to the sibling, and the next one who
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
 * Splits index page `which`, with SPLIT_FOR_FREEING perhaps, or takes an unfinished split of it
 * up again. OK, also if it had to be undone, an Error if there is no memory or if a split is of no use,
 * MEMORY_PENDING if a bucket was left whose latch somebody holds, RETRY if somebody else is at
 * it or another split had to be finished first.
 */
__noinline int bpfdb_split(u32 which)
{
	u32 freeing = which & SPLIT_FOR_FREEING, wanted = which & ~SPLIT_FOR_FREEING;
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
	if (!split.sibling && !split_is_worth(page, split.level)) {
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
		/* A bucket that is latched at this moment is no reason to refuse: whoever takes
		 * the split up finishes or undoes it. */
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
