// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * storage/split_worth.bpf.h: pages whose records lie nearly all on one side of the next split, and whose keys
 * nobody has chosen.
 */
#include "test.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define ROUNDS 10
/* Records of the one side, and then of both: nine tenths of a page. */
#define ONE_SIDE 640
#define BOTH_SIDES 290
/* Numbers of a round. */
#define NUMBERS 10000

/* So many numbers from `first` on whose next bits are `bits` where `mask` says so. */
__noinline int come_to_one_side(struct bpfdb_session *s NONNULL, u64 first, u32 mask, u32 bits)
{
	u32 come = UNKNOWN(0);

	repeat(i, NUMBERS / 2)
	{
		if (come >= ONE_SIDE)
			break;
		if ((hash_inline_key(first + i, 0, 8) >> BPFDB_CELL_BITS & mask) != bits)
			continue;
		EXPECT(set_number(s, first + i, i) == BPFDB_OK);
		come++;
	}
	EXPECT(come == ONE_SIDE);
	return 0;
}

__noinline int go(struct bpfdb_session *s NONNULL, u64 first)
{
	repeat(i, NUMBERS)
	{
		key_number(s, first + i);
		bpfdb_delete(s);
	}
	return 0;
}

/* Merges whatever can be, as user space does, and gives it back: no other program runs. */
__noinline int merge_all(void)
{
	u32 merged = UNKNOWN(1);

	while (merged && can_loop) {
		merged = 0;
		for (u32 page = UNKNOWN(1); page < config.pages_max && can_loop; page++)
			merged += page_merge(page);
	}
	for (u32 page = UNKNOWN(1); page < config.pages_max && can_loop; page++)
		page_release(page);
	EXPECT(!engine.directory_depth.value && engine.index_pages.value == 1);
	return 0;
}

__noinline int take_ordinary_keys(struct bpfdb_session *s NONNULL, u32 mask, u32 bits)
{
	repeat(round, ROUNDS)
	{
		u64 first = (1ULL << 32) + (u64)round * NUMBERS;

		PASS(come_to_one_side(s, first, mask, bits));
		repeat(i, BOTH_SIDES) EXPECT(set_number(s, first + NUMBERS / 2 + i, i) == BPFDB_OK);
		repeat(i, BOTH_SIDES) EXPECT(has_number(s, first + NUMBERS / 2 + i, i));
		/* Each split that parts nothing but prepares the next one takes a page. */
		EXPECT(engine.index_pages.value <= 1 + BPFDB_SPLIT_BITS);
		PASS(go(s, first));
		PASS(merge_all());
	}
	return 0;
}

/* Of two pages that were merged the one had nearly no records: eviction goes over pages one after the other. Then
 * ordinary keys come. (Some of them were refused, as if they had been chosen.) */
TEST(a_merged_page_that_had_lost_a_half_takes_ordinary_keys)
{
	struct bpfdb_session *s = test_session();

	EXPECT(s && engine.index_pages.value == 1);
	PASS(take_ordinary_keys(s, 1, 1));
	bpfdb_session_close(s);
	return 0;
}

/* The same where four pages became one, of which three had nearly none. */
TEST(b_nor_does_one_of_four_refuse_them)
{
	struct bpfdb_session *s = test_session();

	EXPECT(s && engine.index_pages.value == 1);
	PASS(take_ordinary_keys(s, 3, 2));
	bpfdb_session_close(s);
	return 0;
}
