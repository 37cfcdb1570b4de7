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
	return session_enter(s) ? session_leave(s, scan_ready(s, -1U)) : BPFDB_SESSION_BUSY;
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

static __always_inline int delete_number(struct bpfdb_session *s, u64 key)
{
	key_number(s, key);
	return bpfdb_delete(s);
}

static __always_inline int sees_locked(struct bpfdb_session *s, u64 key)
{
	u64 address;

	key_number(s, key);
	return cell_of_key(s, &address) ? scan_sees_locked(s, address) : 0;
}

/* A statement of `s` that the scan lock of `holder` does not let happen. */
static __always_inline bool is_kept_away(struct bpfdb_session *s, int status,
					 const struct bpfdb_session *holder)
{
	return status == BPFDB_CONFLICT && s->conflict == BPFDB_CONFLICT_SCANNED &&
	       s->conflict_with == holder->index + 1;
}

TEST(only_a_read_write_transaction_locks_what_it_scans)
{
	struct bpfdb_session *s = test_session(), *other = test_session();

	EXPECT(s && other);
	EXPECT(scan_may(s) == BPFDB_OK && !engine.scan_lock);
	EXPECT(bpfdb_begin_read_only(s) == BPFDB_OK && scan_may(s) == BPFDB_OK);
	EXPECT(bpfdb_commit(s) == BPFDB_OK && !engine.scan_lock);
	EXPECT(bpfdb_begin(s) == BPFDB_OK && set_number(s, 9, 1) == BPFDB_OK);
	EXPECT(scan_may(s) == BPFDB_OK && scan_may(s) == BPFDB_OK);
	EXPECT((u32)engine.scan_lock == s->index + 1 && sees_locked(s, 9) == 1);
	/* A second one comes too late. */
	EXPECT(bpfdb_begin(other) == BPFDB_OK);
	EXPECT(is_kept_away(other, scan_may(other), s));
	EXPECT(other->state == BPFDB_TXN_FAILED && scan_may(other) == BPFDB_WRONG_STATE);
	EXPECT(bpfdb_commit(other) == BPFDB_ROLLED_BACK);
	EXPECT(scan_may(other) == BPFDB_OK);
	EXPECT(bpfdb_rollback(s) == BPFDB_OK && !engine.scan_lock);
	EXPECT(get_number(s, 9) == BPFDB_NOT_FOUND);
	/* The end of the session is that of its lock. */
	EXPECT(bpfdb_begin(s) == BPFDB_OK && scan_may(s) == BPFDB_OK && engine.scan_lock);
	bpfdb_session_close(s);
	EXPECT(!engine.scan_lock);
	bpfdb_session_close(other);
	return 0;
}

TEST(the_scan_lock_keeps_keys_from_coming_and_going)
{
	struct bpfdb_session *s = test_session(), *other = test_session();

	EXPECT(s && other);
	EXPECT(set_number(s, 20, 1) == BPFDB_OK);
	EXPECT(bpfdb_begin(s) == BPFDB_OK && scan_may(s) == BPFDB_OK);
	/* Without a transaction. */
	EXPECT(is_kept_away(other, set_number(other, 21, 1), s));
	EXPECT(is_kept_away(other, delete_number(other, 20), s));
	/* Neither comes nor goes. */
	EXPECT(set_number(other, 20, 2) == BPFDB_OK && get_number(other, 21) == BPFDB_NOT_FOUND);
	EXPECT(delete_number(other, 21) == BPFDB_NOT_FOUND);
	/* In one. */
	EXPECT(bpfdb_begin(other) == BPFDB_OK && set_number(other, 20, 3) == BPFDB_OK);
	EXPECT(sees_locked(s, 20) == 1);
	EXPECT(is_kept_away(other, delete_number(other, 20), s));
	EXPECT(bpfdb_rollback(other) == BPFDB_OK && bpfdb_begin(other) == BPFDB_OK);
	EXPECT(get_number(other, 21) == BPFDB_NOT_FOUND);
	EXPECT(is_kept_away(other, set_number(other, 21, 1), s));
	EXPECT(bpfdb_rollback(other) == BPFDB_OK);
	/* The holder may. */
	EXPECT(delete_number(s, 20) == BPFDB_FOUND && set_number(s, 22, 1) == BPFDB_OK);
	EXPECT(sees_locked(s, 20) == 0 && sees_locked(s, 22) == 1);
	EXPECT(bpfdb_commit(s) == BPFDB_OK && !engine.scan_lock);
	EXPECT(set_number(other, 21, 1) == BPFDB_OK && delete_number(other, 22) == BPFDB_FOUND);
	bpfdb_session_close(s);
	bpfdb_session_close(other);
	return 0;
}

TEST(a_scan_meets_what_is_not_decided)
{
	struct bpfdb_session *s = test_session(), *other = test_session();

	EXPECT(s && other);
	EXPECT(set_number(s, 30, 1) == BPFDB_OK && set_number(s, 31, 1) == BPFDB_OK);
	EXPECT(bpfdb_begin(other) == BPFDB_OK && set_number(other, 30, 2) == BPFDB_OK);
	EXPECT(set_number(other, 32, 1) == BPFDB_OK && delete_number(other, 31) == BPFDB_FOUND);
	EXPECT(get_number(other, 33) == BPFDB_NOT_FOUND);
	EXPECT(bpfdb_begin(s) == BPFDB_OK && scan_may(s) == BPFDB_OK);
	EXPECT(sees_locked(s, 30) == 1 && sees_locked(s, 33) == 0);
	EXPECT(sees_locked(s, 31) == BPFDB_CONFLICT && s->conflict == BPFDB_CONFLICT_WRITTEN);
	EXPECT(sees_locked(s, 32) == BPFDB_CONFLICT && s->conflict_with == other->index + 1);
	EXPECT(bpfdb_commit(other) == BPFDB_OK);
	EXPECT(sees_locked(s, 31) == 0 && sees_locked(s, 32) == 1);
	EXPECT(bpfdb_rollback(s) == BPFDB_OK);
	bpfdb_session_close(s);
	bpfdb_session_close(other);
	return 0;
}
