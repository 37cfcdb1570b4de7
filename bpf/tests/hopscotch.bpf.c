// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* storage/index_write.bpf.h: a neighbourhood that is full. In an object of its own,
 * because it wants an index of one page, almost empty. */
#include "test.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define HOME 77

/* The next number from `n` on with this home. */
static __always_inline u64 next_at(u32 home, u64 n)
{
	repeat(i, 1u << 20)
	{
		if (home_of(hash_inline_key(n, 0, 8)) == home)
			break;
		n++;
	}
	return n;
}

static __always_inline u64 next_at_home(u64 n)
{
	return next_at(HOME, n);
}

static __always_inline u32 home_bitmap(struct bpfdb_session *s)
{
	struct bucket b = {};

	if (key_prepare(s) != BPFDB_OK || bucket_find(s->hash, &b) != BPFDB_OK)
		return 0;
	return b.home;
}

/* Records that make the page worth a split and leave the neighbourhood alone; so few that
 * no other neighbourhood happens to be full. */
static __always_inline int fill_elsewhere(struct bpfdb_session *s)
{
	repeat(i, 400)
	{
		u64 n = (1ULL << 40) + i;
		u32 behind = (home_of(hash_inline_key(n, 0, 8)) - HOME + BPFDB_NEIGHBOURHOOD) %
			     BPFDB_CELLS_PER_PAGE;

		if (behind > 3 * BPFDB_NEIGHBOURHOOD)
			EXPECT(set_number(s, n, n) == BPFDB_OK);
	}
	return 0;
}

/*
 * An operator is splitting the page, and has lost the processor: another one that has no room has
 * to come again, or that it is a conflict; all others go on.
 */
__noinline int while_it_is_split(struct bpfdb_session *s NONNULL, u64 without_room)
{
	struct bpfdb_slab *slab = slab_of_page(s->room_page);
	u64 with_room = next_at(HOME + 8 * BPFDB_NEIGHBOURHOOD, 1ULL << 41);

	EXPECT(slab && slab->class_ == BPFDB_PAGE_INDEX);
	STORE(slab->splitting, 1);
	EXPECT(set_number(s, without_room, 1) == BPFDB_MEMORY_PENDING);
	EXPECT(set_number(s, with_room, 1) == BPFDB_OK && has_number(s, with_room, 1));
	EXPECT(bpfdb_begin(s) == BPFDB_OK);
	EXPECT(set_number(s, with_room, 2) == BPFDB_OK);
	EXPECT(set_number(s, without_room, 2) == BPFDB_CONFLICT);
	EXPECT(bpfdb_rollback(s) == BPFDB_OK && has_number(s, with_room, 1));
	STORE(slab->splitting, 0);
	return 0;
}

TEST(a_full_neighbourhood_is_split)
{
	struct bpfdb_session *s = test_session();
	u64 n = 0, first, last = 0;

	EXPECT(s);
	PASS(fill_elsewhere(s));
	EXPECT(engine.index_pages.value == 1);
	first = next_at_home(0);
	repeat(i, BPFDB_NEIGHBOURHOOD)
	{
		n = next_at_home(n);
		EXPECT(set_number(s, n, n) == BPFDB_OK);
		last = n++;
	}
	EXPECT(home_bitmap(s) == ~0u);
	EXPECT(engine.index_pages.value == 1);

	/* Room that is given back is taken again, without a split. */
	key_number(s, first);
	EXPECT(bpfdb_delete(s) == BPFDB_FOUND);
	EXPECT(home_bitmap(s) != ~0u && home_bitmap(s));
	n = next_at_home(n);
	EXPECT(set_number(s, n, n) == BPFDB_OK);
	EXPECT(home_bitmap(s) == ~0u);
	EXPECT(engine.index_pages.value == 1);
	EXPECT(get_number(s, first) == BPFDB_NOT_FOUND);

	/* One too many. */
	n = next_at_home(n + 1);
	PASS(while_it_is_split(s, n));
	EXPECT(engine.index_pages.value == 1);
	EXPECT(set_number(s, n, n) == BPFDB_OK);
	EXPECT(engine.index_pages.value > 1);
	EXPECT(has_number(s, n, n) && has_number(s, last, last));
	n = next_at_home(first + 1);
	repeat(i, BPFDB_NEIGHBOURHOOD)
	{
		EXPECT(has_number(s, n, n));
		n = next_at_home(n + 1);
	}
	bpfdb_session_close(s);
	return 0;
}
