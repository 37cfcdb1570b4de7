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
 * stays "in split" and whoever needs room next takes the split up again.
 * Transaction locks do not hinder a split: they move with their cells.
 *
 * The sibling is not split before the directory names it: its own, deeper
 * entries would be overwritten when the first split reaches the directory. Who
 * wants room in it finishes the first split instead.
 */
#ifndef BPFDB_SPLIT_BPF_H
#define BPFDB_SPLIT_BPF_H

struct split {
	u32 page, sibling, level;
	u32 left_behind; /* buckets that could not be moved */
};

/* The cells of a latched bucket that go up. Their keys stay: a record comes and
 * goes under the home latch only. */
static __always_inline u32 upper_cells(void *memory, u32 index, u32 bitmap, u32 level)
{
	u32 upper = 0;

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
		STORE(cell->header, moved ? header_next(header, 0) : header & ~BPFDB_CELL_LATCH);
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
 * Moves one latched bucket; true if its upper half is in the sibling now.
 *
 * The copies are latched until the cells that they were made from are cleared.
 * Else somebody could change a copy that no bitmap names yet (the sweeper, which
 * goes over cells, would remove the record, and its bit would be published all
 * the same); or overwrite the value through the copy while readers still find
 * the old header, by which they judge what they read of it, unchanged.
 */
__noinline int bucket_move(u32 page, u32 sibling, u32 index, u32 level)
{
	void *from = page_memory(page), *to = page_memory(sibling);
	u32 upper, taken = 0, bitmap;
	struct bpfdb_cell *home_cell;

	level &= 31;
	if (!from || !to)
		return 0;
	home_cell = cell_in(from, index);
	bitmap = LOAD(home_cell->home);
	upper = upper_cells(from, index, bitmap, level);
	if (!cells_latch(from, index, upper))
		return 0;
	if (!cells_copy(from, to, index, upper, &taken)) {
		cells_release(to, index, taken, true);
		cells_release(from, index, upper, false);
		return 0;
	}
	home_publish(cell_in(to, index), taken, level + 1);
	home_publish(home_cell, bitmap & ~upper, level + 1);
	cells_release(from, index, upper, true);
	cells_release(to, index, taken, false);
	page_count(sibling, __builtin_popcount(upper));
	page_count(page, -(s64)__builtin_popcount(upper));
	return 1;
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
	if (!((u32)LOAD(home_cell->home) >> 1) || !home_latch(home_cell))
		return 0;
	bitmap = LOAD(home_cell->home);
	repeat(i, BPFDB_NEIGHBOURHOOD)
	{
		if (i && bitmap >> i & 1)
			bitmap = cell_pull(memory, index, bitmap, i);
	}
	home_unlatch(home_cell);
	return 1;
}

static long pull_bucket(u64 index, u32 *page)
{
	bucket_pull(*page, index);
	return 0;
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
	if (!home_latch(home_cell)) {
		split->left_behind++;
		return 0;
	}
	/* Only the split changes levels, and there is one split of a page. */
	if (!bucket_move(split->page, split->sibling, index, split->level)) {
		home_unlatch(home_cell);
		split->left_behind++;
	}
	return 0;
}

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

/* An empty index page for `prefix` of `level` bits; 0 if memory is exhausted. */
static __always_inline u32 index_page_create(u32 level, u32 prefix)
{
	struct page_init init = {.level = level};
	struct bpfdb_slab *slab;

	/* An odd factor: all values of the counters come before one comes again. */
	init.generation = FETCH_ADD(&engine.index_generation.value, 1) * GENERATION_FACTOR;
	init.page = page_take();
	slab = init.page ? slab_of_page(init.page) : NULL;
	if (!slab)
		return 0;
	bpf_loop(BPFDB_CELLS_PER_PAGE, page_init_cell, &init, 0);
	STORE(slab->listed, 1); /* never in a list of slabs again */
	STORE(slab->class_, BPFDB_PAGE_INDEX);
	STORE(slab->level, (u8)level);
	STORE(slab->prefix, prefix);
	STORE(slab->sibling, 0);
	STORE(slab->next, 0);
	STORE(slab->unlisted, level != 0);
	STORE(slab->splitting, 0);
	STORE(slab->word, 0);
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
		STORE(*entry, change->value);
	return 0;
}

/* Points all directory entries that end in `prefix` of `level` bits to `page`. */
static __always_inline void directory_point(u32 prefix, u32 level, u32 page)
{
	u32 depth = LOAD(engine.directory_depth.value);
	struct directory_change change = {prefix, 1u << (level & 31), page | level << 24};

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
	STORE(engine.directory_depth.value, depth + 1);
}

/*
 * Makes a complete split known to the directory. False if another split is at
 * the directory: readers go on by the link to the sibling, and the next one who
 * wants room in this page tries again.
 */
static __always_inline bool split_finish(struct split *split, struct bpfdb_slab *slab)
{
	struct bpfdb_slab *sibling = slab_of_page(split->sibling);
	u32 prefix = slab->prefix, level = split->level & 31;

	if (!sibling || CAS(&engine.directory_latch.value, 0, 1))
		return false;
	if (LOAD(engine.directory_depth.value) == level)
		directory_double(level);
	directory_point(prefix | 1u << level, level + 1, split->sibling);
	directory_point(prefix, level + 1, split->page);
	STORE(slab->level, (u8)(level + 1));
	STORE(slab->sibling, 0);
	STORE(sibling->unlisted, 0);
	STORE(engine.directory_latch.value, 0);
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
	return entry ? LOAD(*entry) & 0xffffff : page;
}

/*
 * Splits index page `wanted`, or takes an unfinished split of it up again. OK,
 * an Error if there is no memory, RETRY if somebody else is at it or another
 * split had to be finished first.
 */
__noinline int bpfdb_split(u32 wanted)
{
	u32 page = page_to_split(wanted);
	struct bpfdb_slab *slab = slab_of_page(page);
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
		STORE(slab->splitting, 0);
		return RETRY;
	}
	split.level = slab->level;
	if (split.level >= config.directory_bits) {
		result = BPFDB_OUT_OF_MEMORY;
		goto out;
	}
	split.sibling = LOAD(slab->sibling);
	if (!split.sibling) {
		split.sibling =
			index_page_create(split.level + 1, slab->prefix | 1u << (split.level & 31));
		if (!split.sibling) {
			result = no_memory();
			goto out;
		}
		STORE(slab->sibling, split.sibling);
	}
	bpf_loop(BPFDB_CELLS_PER_PAGE, split_bucket, &split, 0);
	bpf_loop(BPFDB_CELLS_PER_PAGE, pull_bucket, &page, 0);
	if (!split.left_behind)
		split_finish(&split, slab);
out:
	STORE(slab->splitting, 0);
	return result;
}

#endif
