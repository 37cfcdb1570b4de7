// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* storage/index_read.bpf.h, index_write.bpf.h and split.bpf.h: many keys, through their splits. */
#include "test.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define MANY 12000
#define MANY_LONG 3000

/* Cells in use, by the count of each index page. */
static __always_inline u64 records(void)
{
	u64 sum = 0;

	for (u32 page = UNKNOWN(1); page < config.pages_max && can_loop; page++) {
		u32 number = page;
		struct bpfdb_slab *slab = slab_of_page(number);

		if (slab && page < engine.pages_taken.value && slab->class_ == BPFDB_PAGE_INDEX)
			sum += slab->word;
	}
	return sum;
}

static __always_inline int long_key(struct bpfdb_session *s, u32 i)
{
	return key_long(s, i + 1, 17 + i % (BPFDB_KEY_MAX - 16));
}

TEST(many_keys_come_and_go)
{
	struct bpfdb_session *s = test_session();
	u64 before = records(), pages = engine.index_pages.value;

	EXPECT(s);
	repeat(i, MANY) EXPECT(set_number(s, i, i * 3) == BPFDB_OK);
	EXPECT(records() == before + MANY);
	EXPECT(engine.index_pages.value >= pages + MANY / BPFDB_CELLS_PER_PAGE);
	repeat(i, MANY) EXPECT(has_number(s, i, i * 3));
	repeat(i, MANY) EXPECT(get_number(s, MANY + i) == BPFDB_NOT_FOUND);
	for (u32 i = UNKNOWN(0); i < MANY && can_loop; i += 2) {
		key_number(s, i);
		EXPECT(bpfdb_delete(s) == BPFDB_FOUND);
		EXPECT(bpfdb_delete(s) == BPFDB_NOT_FOUND);
	}
	repeat(i, MANY) EXPECT(has_number(s, i, i * 3) == i % 2);
	for (u32 i = UNKNOWN(1); i < MANY && can_loop; i += 2) {
		key_number(s, i);
		EXPECT(bpfdb_delete(s) == BPFDB_FOUND);
	}
	EXPECT(records() == before);
	bpfdb_session_close(s);
	return 0;
}

TEST(many_long_keys_come_and_go)
{
	struct bpfdb_session *s = test_session();
	u64 before = records();

	EXPECT(s);
	repeat(i, MANY_LONG)
	{
		EXPECT(long_key(s, i) == BPFDB_OK);
		value_number(s, i);
		EXPECT(bpfdb_set(s) == BPFDB_OK);
	}
	EXPECT(records() == before + MANY_LONG);
	repeat(i, MANY_LONG)
	{
		EXPECT(long_key(s, i) == BPFDB_OK);
		EXPECT(bpfdb_get(s) == BPFDB_FOUND && s->value[0] == i);
		/* The same beginning, another end. */
		s->key_len--;
		EXPECT(bpfdb_get(s) == BPFDB_NOT_FOUND);
	}
	repeat(i, MANY_LONG)
	{
		EXPECT(long_key(s, i) == BPFDB_OK);
		EXPECT(bpfdb_delete(s) == BPFDB_FOUND);
	}
	EXPECT(records() == before);
	bpfdb_session_close(s);
	return 0;
}

/* Is a page whole, or can it be made so? A split leaves a bucket for later whose latch the
 * sweeper has, which may run on another processor; the next operator finishes it. */
static __always_inline int page_is_whole(u32 page, struct bpfdb_slab *slab)
{
	repeat(i, BPFDB_TRIES)
	{
		if (!slab->splitting && !slab->sibling && !slab->unlisted)
			return 1;
		bpfdb_split(page);
	}
	return 0;
}

/* Every directory entry leads to an index page that answers for its bits. */
static __always_inline int directory_is_whole(void)
{
	u32 depth = engine.directory_depth.value;

	EXPECT(depth > 0 && depth <= config.directory_bits);
	for (u32 slot = UNKNOWN(0); slot < 1u << (depth & 31) && can_loop; slot++) {
		u32 number = slot, page, level;
		u32 *entry = bpf_map_lookup_elem(&directory, &number);
		struct bpfdb_slab *slab;

		EXPECT(entry);
		page = entry_page(*entry);
		level = entry_level(*entry);
		slab = slab_of_page(page);
		EXPECT(slab && slab->class_ == BPFDB_PAGE_INDEX);
		EXPECT(slab->level == level && level <= depth);
		EXPECT(slab->prefix == (slot & ((1u << (level & 31)) - 1)));
		EXPECT(page_is_whole(page, slab));
	}
	return 0;
}

TEST(the_directory_is_whole)
{
	return directory_is_whole();
}

/* A split that found the directory taken is finished by the next one that wants room in
 * either half; the upper half is not split before. (It was once: the late finish
 * then named a page for hashes that it no longer answered for.) */
TEST(a_page_is_split_only_when_the_directory_names_it)
{
	struct bpfdb_session *s = test_session();
	u32 slot = 0, page, *entry = bpf_map_lookup_elem(&directory, &slot);
	struct bpfdb_slab *lower, *upper;

	EXPECT(entry && s);
	/* Enough for two splits of each page. */
	repeat(i, MANY) EXPECT(set_number(s, 4000000 + i, i) == BPFDB_OK);
	bpfdb_session_close(s);
	page = entry_page(*entry);
	lower = slab_of_page(page);
	EXPECT(lower);
	engine.directory_latch.value = 1;
	EXPECT(bpfdb_split(page) == BPFDB_OK);
	page = lower->sibling;
	EXPECT(page);
	upper = slab_of_page(page);
	EXPECT(upper && upper->unlisted);
	EXPECT(bpfdb_split(page) == RETRY);
	EXPECT(!upper->sibling && lower->sibling == page);
	engine.directory_latch.value = 0;

	EXPECT(bpfdb_split(page) == RETRY);
	EXPECT(!lower->sibling && !upper->unlisted && !upper->sibling);
	PASS(directory_is_whole());
	EXPECT(bpfdb_split(page) == BPFDB_OK);
	EXPECT(upper->level == lower->level + 1);
	PASS(directory_is_whole());
	return 0;
}

/* A page that was merged may lead to the next one that it is merged with, whose bucket has the level
 * that a late reader looks for. It must not be taken for the page's own. */
TEST(a_merge_that_is_over_is_not_followed)
{
	u32 slot = 0, other = 1, *entry = bpf_map_lookup_elem(&directory, &slot);
	struct bucket b = {.index = 5};
	struct bpfdb_slab *slab;
	u32 page, next;

	EXPECT(entry && entry_level(*entry) > 0);
	b.page = page = entry_page(*entry);
	slab = slab_of_page(page);
	entry = bpf_map_lookup_elem(&directory, &other);
	b.memory = page_memory(page);
	EXPECT(slab && entry && b.memory);
	next = entry_page(*entry);
	EXPECT(next != page && !slab->next && !slab->sibling);
	b.home = LOAD(cell_in(b.memory, b.index)->home);
	EXPECT(home_level(b.home) == slab->level);
	/* The directory was read when the page had a level more. */
	STORE(slab->next, next);
	EXPECT(bucket_follow(0, &b, slab->level + 1) == BPFDB_OK && b.page == page);
	STORE(slab->next, 0);
	/* And when it had one less, for a hash of its upper half. */
	STORE(slab->sibling, next);
	EXPECT(bucket_follow(~0ULL, &b, slab->level - 1) == RETRY);
	STORE(slab->sibling, 0);
	return 0;
}

/*
 * A reader saw that a bucket had moved to a sibling. Then the split was undone, and another one
 * begun, in whose page every bucket has that level from the beginning: it is not where this one
 * is, which has not moved yet.
 */
TEST(a_split_that_was_undone_is_not_followed)
{
	u32 slot = 0, other = 1, *entry = bpf_map_lookup_elem(&directory, &slot), page, sibling;
	u64 one_level = 1ULL << BPFDB_HOME_LEVEL_SHIFT, stays, stays_there, *home, *home_there;
	void *memory, *there;
	struct bpfdb_slab *slab;
	struct bucket b = {};
	int followed, stale;

	EXPECT(entry && entry_level(*entry) > 0);
	page = entry_page(*entry);
	entry = bpf_map_lookup_elem(&directory, &other);
	EXPECT(entry);
	sibling = entry_page(*entry);
	slab = slab_of_page(page);
	memory = page_memory(page);
	there = page_memory(sibling);
	EXPECT(slab && memory && there && sibling != page && !slab->sibling && !slab->next);
	home = &cell_in(memory, 5)->home;
	home_there = &cell_in(there, 5)->home;
	stays = LOAD(*home);
	stays_there = LOAD(*home_there);

	/* While the split goes on. */
	STORE(slab->sibling, sibling);
	STORE(*home, stays + one_level);
	STORE(*home_there, (stays & ~BPFDB_HOME_BITMAP_MASK) + one_level);
	b = (struct bucket){.memory = memory, .home = *home, .page = page, .index = 5};
	followed = bucket_follow(~0ULL, &b, slab->level) == BPFDB_OK && b.page == sibling;
	/* The bucket was moved back: the same level again later, but not the same word. */
	b = (struct bucket){.memory = memory, .home = *home, .page = page, .index = 5};
	STORE(*home, stays + BPFDB_HOME_CHANGE);
	stale = bucket_follow(~0ULL, &b, slab->level);

	STORE(*home_there, stays_there + BPFDB_HOME_CHANGE);
	STORE(slab->sibling, 0);
	EXPECT(followed && stale == RETRY);
	return 0;
}

/* A lock's hint is only a hint: records that a split moves keep their locks. */
TEST(locks_move_with_their_records)
{
	struct bpfdb_session *owner = test_session(), *s = test_session();
	u64 pages = engine.index_pages.value;

	EXPECT(owner && s);
	EXPECT(bpfdb_begin(owner) == BPFDB_OK);
	repeat(i, 500) EXPECT(set_number(owner, 1000000 + i, i) == BPFDB_OK);
	repeat(i, 2 * MANY) EXPECT(set_number(s, 2000000 + i, i) == BPFDB_OK);
	EXPECT(engine.index_pages.value > pages);
	repeat(i, 500) EXPECT(set_number(s, 1000000 + i, 0) == BPFDB_CONFLICT);
	EXPECT(bpfdb_commit(owner) == BPFDB_OK);
	repeat(i, 500) EXPECT(has_number(s, 1000000 + i, i));
	EXPECT(owner->lock_count == 0 && owner->state == BPFDB_TXN_NONE);
	bpfdb_session_close(owner);
	bpfdb_session_close(s);
	return 0;
}

/* The sweeper goes over the cells of a page, not over what its bitmaps name: it
 * must leave copies alone that a split has made and not published yet. */
TEST(the_sweeper_leaves_copies_alone)
{
	struct bpfdb_session *s = test_session();
	struct sweep sweep = {.horizon = EVER, .due = EVER};
	u64 address, header;
	u32 taken = 0, home, bit;
	struct bpfdb_cell *cell;
	void *from, *to;

	EXPECT(s);
	engine.time.fixed = 1000;
	key_number(s, 1);
	value_number(s, 1);
	s->expires = 2000;
	EXPECT(bpfdb_set(s) == BPFDB_OK);
	cell = cell_of_key(s, &address);
	EXPECT(cell);
	home = home_of(s->hash);
	bit = 1u << (((address & (BPFDB_PAGE_SIZE - 1)) / BPFDB_CELL_SIZE - home) % 32);
	sweep.page = index_page_create(1, 0);
	from = page_memory(page_of(address));
	to = page_memory(sweep.page);
	EXPECT(from && to && sweep.page);

	EXPECT(cells_latch(from, home, bit));
	EXPECT(cells_copy(from, to, home, bit, &taken) && taken == 1);
	cell = cell_in(to, home);
	header = cell->header;
	EXPECT((header & BPFDB_CELL_USED) && cell_has_expired(cell, EVER));
	sweep_cell(home, &sweep);
	EXPECT(cell->header == header && !sweep.expired);

	/* Released, it would go. */
	cells_release(to, home, taken, false);
	EXPECT(!cell_is_locked(cell->header));
	cells_release(to, home, taken, true);
	cells_release(from, home, bit, false);
	EXPECT(has_number(s, 1, 1));
	engine.time.fixed = 0;
	bpfdb_session_close(s);
	return 0;
}
