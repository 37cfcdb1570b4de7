// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* storage/index.bpf.h: a neighbourhood that is full. In an object of its own,
 * because it wants an index of one page, almost empty. */
#include "test.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define HOME 77

/* The next number from `n` on whose home is HOME. */
static __always_inline u64 next_at_home(u64 n)
{
	repeat(i, 1u << 20)
	{
		if (home_of(hash_inline_key(n, 0, 8)) == HOME)
			break;
		n++;
	}
	return n;
}

static __always_inline u32 home_bitmap(struct bpfdb_session *s)
{
	struct bucket b = {};

	if (key_prepare(s) != BPFDB_OK || bucket_find(s->hash, &b) != BPFDB_OK)
		return 0;
	return b.home;
}

/* Records that make the page worth a split and leave the neighbourhood alone. */
static __always_inline int fill_elsewhere(struct bpfdb_session *s)
{
	repeat(i, 600)
	{
		u64 n = (1ULL << 40) + i;
		u32 behind = (home_of(hash_inline_key(n, 0, 8)) - HOME + BPFDB_NEIGHBOURHOOD) %
			     BPFDB_CELLS_PER_PAGE;

		if (behind > 3 * BPFDB_NEIGHBOURHOOD)
			EXPECT(set_number(s, n, n) == BPFDB_OK);
	}
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
