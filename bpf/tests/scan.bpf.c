// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* operators/scan.bpf.h: the order in which a scan visits buckets. */
#include "test.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define MANY 1000

/* Looks random, and differs for every i. */
static __always_inline u64 some_hash(u64 i)
{
	return hash_inline_key(i, 0, 8);
}

/* What of a hash the index goes by: home and page bits. */
static __always_inline u64 index_bits(u64 hash)
{
	return hash & (SCAN_END - 1);
}

TEST(every_hash_has_a_position)
{
	repeat(i, MANY)
	{
		u64 hash = some_hash(i), position = scan_position(hash);

		EXPECT(position < SCAN_END);
		EXPECT(scan_hash(position) == index_bits(hash));
	}
	EXPECT(scan_hash(UNKNOWN(0)) == 0);
	EXPECT(scan_hash(UNKNOWN(1)) == 1ULL << (BPFDB_CELL_BITS + SCAN_PAGE_BITS - 1));
	EXPECT(scan_hash(UNKNOWN(1) << SCAN_PAGE_BITS) == 1);
	return 0;
}

/* Keys of one bucket lie in one interval, others outside. */
TEST(a_bucket_is_an_interval)
{
	repeat(i, MANY)
	{
		u64 hash = some_hash(i), position = scan_position(hash);
		u32 level = i % (SCAN_PAGE_BITS + 1);
		/* Another hash of this bucket; one of its buddy. */
		u64 inside = hash ^ some_hash(i + MANY) << (BPFDB_CELL_BITS + level);
		u64 buddy = inside ^ (level ? 1ULL << (BPFDB_CELL_BITS + level - 1) : 1);
		u64 end = scan_next(position, level);
		u64 start = end - ((1ULL << SCAN_PAGE_BITS) >> level);

		EXPECT(start <= position && position < end);
		EXPECT(scan_position(inside) >= start && scan_position(inside) < end);
		EXPECT(scan_position(buddy) < start || scan_position(buddy) >= end);
	}
	return 0;
}

/* The level of a bucket of a lopsided index: as many as its position begins
 * with ones, and one more. */
static __always_inline u32 lopsided(u64 position)
{
	u32 level = UNKNOWN(1);

	for (; level < SCAN_PAGE_BITS && can_loop; level++) {
		if (!(position >> (SCAN_PAGE_BITS - level) & 1))
			break;
	}
	return level;
}

TEST(pages_of_all_levels_are_visited_once)
{
	u64 cursor = 0;
	u32 buckets = UNKNOWN(0);

	repeat(i, (SCAN_PAGE_BITS + 1) * BPFDB_CELLS_PER_PAGE + 1)
	{
		u64 next;

		if (cursor >= SCAN_END)
			break;
		next = scan_next(cursor, lopsided(cursor));
		EXPECT(next > cursor);
		cursor = next;
		buckets++;
	}
	EXPECT(cursor == SCAN_END);
	EXPECT(buckets == (SCAN_PAGE_BITS + 1) * BPFDB_CELLS_PER_PAGE);
	return 0;
}

/* A merge behind the cursor's back: the bucket begins before it, and is visited
 * again whole; a split: it goes on with the half at the cursor. */
TEST(the_cursor_stands_splits_and_merges)
{
	u64 half = 1ULL << (SCAN_PAGE_BITS - 1), quarter = half / 2;

	EXPECT(scan_next(UNKNOWN(half), 0) == 2 * half);
	EXPECT(scan_next(UNKNOWN(quarter), 1) == half);
	EXPECT(scan_next(UNKNOWN(0), 2) == quarter);
	EXPECT(scan_next(UNKNOWN(half + quarter), 22) == half + quarter + 1);
	return 0;
}

static __always_inline int sees(struct bpfdb_session *s, u64 key)
{
	u64 address;

	key_number(s, key);
	return cell_of_key(s, &address) && scan_sees(s, address);
}

static __always_inline int scan_may(struct bpfdb_session *s)
{
	return session_enter(s) ? session_leave(s, scan_ready(s)) : BPFDB_SESSION_BUSY;
}

TEST(a_scan_sees_values_only)
{
	struct bpfdb_session *s = test_session(), *other = test_session();

	EXPECT(s && other);
	EXPECT(set_number(s, 1, 1) == BPFDB_OK && sees(s, 1));
	EXPECT(bpfdb_begin(s) == BPFDB_OK && set_number(s, 2, 1) == BPFDB_OK);
	EXPECT(get_number(s, 3) == BPFDB_NOT_FOUND);
	EXPECT(sees(other, 1) && !sees(other, 2) && !sees(other, 3));
	EXPECT(bpfdb_commit(s) == BPFDB_OK && sees(other, 2));
	bpfdb_session_close(s);
	bpfdb_session_close(other);
	return 0;
}

/* What it did not find would not be protected. */
TEST(a_read_write_transaction_does_not_scan)
{
	struct bpfdb_session *s = test_session();

	EXPECT(s);
	EXPECT(scan_may(s) == BPFDB_OK);
	EXPECT(bpfdb_begin_read_only(s) == BPFDB_OK && scan_may(s) == BPFDB_OK);
	EXPECT(bpfdb_commit(s) == BPFDB_OK);
	EXPECT(bpfdb_begin(s) == BPFDB_OK && set_number(s, 9, 1) == BPFDB_OK);
	EXPECT(scan_may(s) == BPFDB_SCAN_IN_TRANSACTION);
	EXPECT(s->state == BPFDB_TXN_FAILED && s->failure == BPFDB_SCAN_IN_TRANSACTION);
	EXPECT(scan_may(s) == BPFDB_WRONG_STATE);
	EXPECT(bpfdb_commit(s) == BPFDB_ROLLED_BACK);
	EXPECT(get_number(s, 9) == BPFDB_NOT_FOUND);
	bpfdb_session_close(s);
	return 0;
}
