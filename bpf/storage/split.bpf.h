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

struct split {
	u32 page, sibling, level;
	u32 left_behind; /* buckets that could not be moved */
	u32 no_room;     /* of these, because there was no room */
};

/* What became of one bucket that was to be moved to another page: a latch is held, by
 * somebody who will release it; done; there is no room near its home. */
#define MOVE_LATER 0
#define MOVE_DONE 1
#define MOVE_NO_ROOM 2

int bucket_merge(u32 to_page, u32 from_page, u32 index, u32 level);

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
 * Else somebody could change a copy that no bitmap names yet (the sweeper, which
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
	home_publish(cell_in(to, index), taken, level + 1);
	home_publish(home_cell, bitmap & ~upper, level + 1);
	cells_release(from, index, upper, true);
	cells_release(to, index, taken, false);
	return MOVE_DONE;
}

/*
 * Moves the cells `upper` of the bucket of `index`, if its home word is `home` still:
 * MOVE_. The sibling's bucket is latched too: who found it before a split was undone, or
 * before a merge, may have it in hand.
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

/* The other way round: the sibling's bucket comes back. */
static long split_bucket_back(u64 index, struct split *split)
{
	split_note(split, bucket_merge(split->page, split->sibling, index, split->level + 1));
	return 0;
}

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

	return slab && (LOAD(slab->sibling) || LOAD(slab->unlisted) || LOAD(slab->next));
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

/* An empty index page for `prefix` of `level` bits; 0 if memory is exhausted. (A
 * subprogram: all callers of a split together have 512 bytes of stack.) */
__noinline u32 index_page_create(u32 level, u32 prefix)
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
	STORE_RELEASE(slab->class_, BPFDB_PAGE_INDEX);
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

/* The split has not been: nobody finds the sibling any more. False if it goes on. */
static __always_inline bool split_undo(struct split *split, struct bpfdb_slab *slab)
{
	struct bpfdb_slab *sibling = slab_of_page(split->sibling);

	split->left_behind = split->no_room = LOAD(engine.zero);
	bpf_loop(BPFDB_CELLS_PER_PAGE, split_bucket_back, split, 0);
	if (!sibling || split->left_behind)
		return false;
	STORE_RELEASE(slab->sibling, 0);
	STORE_RELEASE(sibling->class_, BPFDB_PAGE_RETIRED);
	ADD(&engine.index_pages.value, -1);
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
 * Splits index page `wanted`, or takes an unfinished split of it up again. OK,
 * also if it had to be undone, an Error if there is no memory or if a split is of no use,
 * RETRY if somebody else is at it or another
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
		STORE_RELEASE(slab->splitting, 0);
		return RETRY;
	}
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
		split.sibling =
			index_page_create(split.level + 1, slab->prefix | 1u << (split.level & 31));
		if (!split.sibling) {
			result = no_memory();
			goto out;
		}
		STORE_RELEASE(slab->sibling, split.sibling);
	}
	split.no_room = LOAD(engine.zero);
	bpf_loop(BPFDB_CELLS_PER_PAGE, split_bucket, &split, 0);
	if (split.no_room) {
		if (!split_undo(&split, slab))
			result = BPFDB_INDEX_CROWDED;
		goto out;
	}
	bpf_loop(BPFDB_CELLS_PER_PAGE, pull_bucket, &page, 0);
	if (!split.left_behind)
		split_finish(page, split.sibling, split.level);
out:
	STORE_RELEASE(slab->splitting, 0);
	return result;
}

#endif
