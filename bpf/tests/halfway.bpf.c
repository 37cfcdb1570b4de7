// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * storage/split.bpf.h and merge.bpf.h: the directory shrinks, and splits and merges that
 * were begun end, whatever fills up beside them.
 */
#include "test.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define MANY 20000

/* Merges whatever can be, as user space does, and gives it back: no other program runs. */
__noinline u32 merge_all(void)
{
	u32 merged = UNKNOWN(0), before;

	do {
		before = merged;
		for (u32 page = UNKNOWN(1); page < config.pages_max && can_loop; page++)
			merged += page_merge(page);
	} while (merged != before && can_loop);
	for (u32 page = UNKNOWN(1); page < config.pages_max && can_loop; page++)
		page_release(page);
	return merged;
}

__noinline int come(struct bpfdb_session *s NONNULL, u64 first, u32 many)
{
	repeat(i, many) EXPECT(set_number(s, first + i, i) == BPFDB_OK);
	repeat(i, many) EXPECT(has_number(s, first + i, i));
	return 0;
}

__noinline int go(struct bpfdb_session *s NONNULL, u64 first, u32 many)
{
	repeat(i, many)
	{
		key_number(s, first + i);
		EXPECT(bpfdb_delete(s) == BPFDB_FOUND);
	}
	return 0;
}

/* As small as it was, when the records have gone; and it grows again over what its upper half
 * was. */
TEST(the_directory_shrinks)
{
	struct bpfdb_session *s = test_session();

	EXPECT(s && !engine.directory_depth.value);
	repeat(round, 3)
	{
		PASS(come(s, 1000000 * round, MANY));
		EXPECT(engine.directory_depth.value >= 4);
		PASS(go(s, 1000000 * round, MANY - 100));
		EXPECT(engine.directory_depth.value >= 4);
		EXPECT(merge_all());
		EXPECT(!engine.directory_depth.value && engine.index_pages.value == 1);
		EXPECT(engine.level_pages[0] == 1 && !engine.level_pages[1]);
		repeat(i, 100)
			EXPECT(has_number(s, 1000000 * round + MANY - 100 + i, MANY - 100 + i));
		PASS(go(s, 1000000 * round + MANY - 100, 100));
	}
	bpfdb_session_close(s);
	return 0;
}

/* ---- Half-done ------------------------------------------------------------------ */

#define HOME 500

/* The next number from `n` on of this home, and this bit above it. */
__noinline u64 next_of(u64 n, u32 home, u32 bit)
{
	repeat(i, 1u << 20)
	{
		u64 hash = hash_inline_key(n, 0, 8);

		if (home_of(hash) == home && split_bit(hash, 0) == bit)
			break;
		n++;
	}
	return n;
}

/* Records of HOME and this bit, as many as asked for; their sum identifies them again. */
__noinline int fill_home(struct bpfdb_session *s NONNULL, u32 home, u32 bit, u32 many)
{
	u64 n = 0;

	repeat(i, many)
	{
		n = next_of(n, home, bit);
		EXPECT(set_number(s, n, n) == BPFDB_OK);
		n++;
	}
	return 0;
}

__noinline int home_is_there(struct bpfdb_session *s NONNULL, u32 home, u32 bit, u32 many)
{
	u64 n = 0;

	repeat(i, many)
	{
		n = next_of(n, home, bit);
		EXPECT(has_number(s, n, n));
		n++;
	}
	return 0;
}

/* Records that make the page worth a split, out of reach of the homes around HOME. */
__noinline int fill_elsewhere(struct bpfdb_session *s NONNULL, u64 first)
{
	repeat(i, 200)
	{
		u64 n = first + i;
		u32 home = home_of(hash_inline_key(n, 0, 8));

		if (home < HOME - 2 * BPFDB_NEIGHBOURHOOD || home > HOME + 2 * BPFDB_NEIGHBOURHOOD)
			EXPECT(set_number(s, n, n) == BPFDB_OK);
	}
	return 0;
}

__noinline u32 only_page(void)
{
	u32 zero = 0, *entry = bpf_map_lookup_elem(&directory, &zero);

	return entry ? entry_page(*entry) : 0;
}

/* Latches the home of bucket `index`, or lets it go: what moves buckets leaves it. */
__noinline int home_hold(u32 page, u32 index, u32 hold)
{
	void *memory = page_memory(page);

	if (!memory)
		return 0;
	if (hold)
		return home_latch(cell_in(memory, index));
	home_unlatch(cell_in(memory, index));
	return 1;
}

/* Numbers from `first` on, but for those of HOME: how many are refused, because that will be
 * over. */
__noinline int come_beside(struct bpfdb_session *s NONNULL, u64 first, u32 many,
			   u32 *refused NONNULL)
{
	repeat(i, many)
	{
		int status;

		if (home_of(hash_inline_key(first + i, 0, 8)) == HOME)
			continue;
		status = set_number(s, first + i, i);
		EXPECT(status == BPFDB_OK || status == BPFDB_MEMORY_PENDING);
		*refused += status != BPFDB_OK;
	}
	return 0;
}

/* The only page is half split: the bucket of HOME is left, whose latch is held. */
__noinline int split_but_for_home(struct bpfdb_session *s NONNULL, u32 page, u64 first)
{
	PASS(come(s, first, 300));
	PASS(fill_home(s, HOME, 1, 2));
	EXPECT(home_hold(page, HOME, 1));
	EXPECT(bpfdb_split(page) == BPFDB_MEMORY_PENDING && engine.index_pages.value == 2);
	return 0;
}

/* As it was before. */
__noinline int come_to_nothing(struct bpfdb_session *s NONNULL)
{
	u64 n = next_of(0, HOME, 1);

	PASS(go(s, n, 1));
	PASS(go(s, next_of(n + 1, HOME, 1), 1));
	EXPECT(merge_all() && engine.index_pages.value == 1);
	return 0;
}

/* The operator that inserts a record next finishes the split, be there room or not. */
TEST(a_split_that_was_left_is_taken_up)
{
	struct bpfdb_session *s = test_session();
	u32 page = only_page();
	struct bpfdb_slab *slab = slab_of_page(page);

	EXPECT(s && slab && !engine.directory_depth.value);
	PASS(split_but_for_home(s, page, 1ULL << 32));
	EXPECT(slab->sibling);
	EXPECT(home_hold(page, HOME, 0));
	PASS(come(s, 1ULL << 33, 1));
	EXPECT(!slab->sibling && slab->level == 1);
	PASS(go(s, 1ULL << 32, 300));
	PASS(go(s, 1ULL << 33, 1));
	PASS(come_to_nothing(s));
	bpfdb_session_close(s);
	return 0;
}

/*
 * If the latch is held for long, others do not fill the halves until the bucket that was left
 * has no room in either: they wait. (They did, and from then on got the error that
 * the index is crowded.)
 */
TEST(a_split_that_was_left_has_room_to_end)
{
	struct bpfdb_session *s = test_session();
	u32 page = only_page(), refused = UNKNOWN(0), late = UNKNOWN(0);
	struct bpfdb_slab *slab = slab_of_page(page);

	EXPECT(s && slab && !engine.directory_depth.value);
	PASS(split_but_for_home(s, page, 1ULL << 32));
	PASS(come_beside(s, 1ULL << 33, 3000, &refused));
	EXPECT(slab->sibling && refused > 1000 && refused < 2500);
	EXPECT(home_hold(page, HOME, 0));

	PASS(come_beside(s, 1ULL << 33, 3000, &late));
	EXPECT(!late && !slab->sibling);
	PASS(home_is_there(s, HOME, 1, 2));
	repeat(i, 3000)
	{
		key_number(s, (1ULL << 33) + i);
		bpfdb_delete(s);
	}
	PASS(go(s, 1ULL << 32, 300));
	PASS(come_to_nothing(s));
	bpfdb_session_close(s);
	return 0;
}

/*
 * A split is begun and leaves the bucket of HOME, whose latch is held. Meanwhile
 * others fill that neighbourhood of the sibling: HOME's upper cells have no room there. The
 * split is undone and done again. (It was taken up again by every request, in vain, for
 * ever.)
 */
TEST(a_split_whose_sibling_filled_up_ends)
{
	struct bpfdb_session *s = test_session();
	u32 page = only_page();
	struct bpfdb_slab *slab = slab_of_page(page);

	EXPECT(s && slab && !engine.directory_depth.value);
	PASS(fill_elsewhere(s, 1ULL << 40));
	PASS(fill_home(s, HOME, 1, 14));
	EXPECT(home_hold(page, HOME, 1));
	EXPECT(bpfdb_split(page) == BPFDB_MEMORY_PENDING);
	EXPECT(slab->sibling);
	/* The homes around: 24 cells from HOME - 1 on, of which HOME reaches 33. */
	PASS(fill_home(s, HOME - 1, 1, 13));
	PASS(fill_home(s, HOME + 8, 1, 11));
	EXPECT(home_hold(page, HOME, 0));

	/* It is undone, but for a bucket that another operator has in hand: that is over soon, and
	 * no reason to say that the index is crowded. */
	EXPECT(home_hold(page, HOME + 300, 1));
	EXPECT(bpfdb_split(page) == BPFDB_MEMORY_PENDING);
	EXPECT(slab->sibling);
	EXPECT(home_hold(page, HOME + 300, 0));

	repeat(i, 8)
	{
		if (!slab->sibling && slab->level)
			break;
		bpfdb_split(page);
	}
	EXPECT(!slab->sibling && slab->level == 1 && engine.index_pages.value == 2);
	PASS(home_is_there(s, HOME, 1, 14));
	PASS(home_is_there(s, HOME - 1, 1, 13));
	PASS(home_is_there(s, HOME + 8, 1, 11));
	bpfdb_session_close(s);
	return 0;
}

/*
 * A merge is begun and leaves one bucket of the upper page. Meanwhile the lower one fills up
 * there. The merge is undone, and the page can be split again. (It could not be, nor merged,
 * for ever.)
 */
TEST(a_merge_whose_target_filled_up_is_undone)
{
	struct bpfdb_session *s = test_session();
	u32 page = only_page(), buddy, slot = 1, *entry = bpf_map_lookup_elem(&directory, &slot);
	struct bpfdb_slab *slab = slab_of_page(page), *upper;

	EXPECT(s && slab && entry && engine.directory_depth.value == 1);
	buddy = entry_page(*entry);
	upper = slab_of_page(buddy);
	EXPECT(upper && buddy != page);
	EXPECT(slab->word + upper->word <= MERGE_FILL);
	EXPECT(home_hold(buddy, HOME, 1));
	EXPECT(!page_merge(page) && slab->next == page && upper->next == page);
	/* Those of the lower page, and those that have moved to it. */
	PASS(fill_home(s, HOME - 1, 0, 3));
	PASS(fill_home(s, HOME + 8, 0, 3));
	EXPECT(home_hold(buddy, HOME, 0));

	/* Again, if the sweeper has a latch at that moment. */
	EXPECT(merge_take_up(page));
	repeat(i, 100)
	{
		if (!merge_take_up(page))
			break;
	}
	EXPECT(!slab->next && !upper->next);
	EXPECT(slab->level == 1 && upper->level == 1);
	PASS(home_is_there(s, HOME, 1, 14));
	PASS(home_is_there(s, HOME - 1, 1, 13));
	PASS(home_is_there(s, HOME + 8, 1, 11));
	PASS(home_is_there(s, HOME - 1, 0, 3));
	PASS(home_is_there(s, HOME + 8, 0, 3));
	/* The pages become worth a split before a record comes to the crowd around HOME. */
	PASS(fill_elsewhere(s, 1ULL << 42));
	PASS(come(s, 1ULL << 41, 3000));
	EXPECT(slab->level > 1);
	bpfdb_session_close(s);
	return 0;
}

/* Makes an empty page of the index that the directory does not name free again. */
__noinline int page_drop(u32 page)
{
	struct bpfdb_slab *slab = slab_of_page(page);

	if (!slab)
		return 0;
	STORE(slab->class_, BPFDB_PAGE_RETIRED);
	ADD(&engine.index_pages.value, -1);
	return page_release(page);
}

/* An insert may have the sibling's bucket in hand, if it found it before a split was undone:
 * what it stores must not overwrite what the next split brings there. */
TEST(a_bucket_does_not_move_to_one_that_is_latched)
{
	u32 page = index_page_create(1, 0), sibling = index_page_create(2, 2);

	EXPECT(page && sibling);
	EXPECT(home_hold(sibling, HOME, 1));
	EXPECT(bucket_move(page, sibling, HOME, 1) == MOVE_LATER);
	EXPECT(home_hold(sibling, HOME, 0));
	EXPECT(bucket_move(page, sibling, HOME, 1) == MOVE_DONE);
	EXPECT(page_drop(page) && page_drop(sibling));
	return 0;
}
