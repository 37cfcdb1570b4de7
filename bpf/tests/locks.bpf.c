// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* txn/lock.bpf.h: which session gets which lock, and that none stays behind. */
#include "test.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Header of the record of `key`, 0 if there is none. */
__noinline u64 header_of(struct bpfdb_session *s NONNULL, u64 key)
{
	struct bpfdb_cell *cell;
	u64 address;

	key_number(s, key);
	cell = cell_of_key(s, &address);
	return cell ? cell->header : 0;
}

static __always_inline bool unlocked(u64 header)
{
	return (header & BPFDB_CELL_USED) && !header_field(header) &&
	       !(header & (BPFDB_CELL_EXCLUSIVE | BPFDB_CELL_PENDING | BPFDB_CELL_LATCH));
}

static __always_inline bool ended(struct bpfdb_session *s)
{
	return s->state == BPFDB_TXN_NONE && !s->lock_count && !s->commit && !s->busy;
}

TEST(readers_share)
{
	struct bpfdb_session *a = test_session(), *b = test_session();

	EXPECT(a && b);
	EXPECT(set_number(a, 1, 10) == BPFDB_OK);
	EXPECT(bpfdb_begin(a) == BPFDB_OK && bpfdb_begin(b) == BPFDB_OK);
	EXPECT(has_number(a, 1, 10) && has_number(b, 1, 10));
	EXPECT(header_field(header_of(a, 1)) == 2);
	/* Once is enough. */
	EXPECT(has_number(a, 1, 10));
	EXPECT(a->lock_count == 1 && header_field(header_of(a, 1)) == 2);
	EXPECT(bpfdb_commit(a) == BPFDB_OK && bpfdb_rollback(b) == BPFDB_OK);
	EXPECT(unlocked(header_of(a, 1)) && ended(a) && ended(b));
	bpfdb_session_close(a);
	bpfdb_session_close(b);
	return 0;
}

TEST(the_only_reader_may_write)
{
	struct bpfdb_session *a = test_session(), *b = test_session();

	EXPECT(a && b);
	EXPECT(set_number(a, 2, 10) == BPFDB_OK);
	EXPECT(bpfdb_begin(a) == BPFDB_OK);
	EXPECT(has_number(a, 2, 10));
	EXPECT(set_number(a, 2, 11) == BPFDB_OK);
	EXPECT(a->lock_count == 1);
	EXPECT(header_is_mine(a, header_of(a, 2)) && !header_is_mine(b, header_of(b, 2)));
	EXPECT(has_number(a, 2, 11) && has_number(b, 2, 10));
	EXPECT(bpfdb_commit(a) == BPFDB_OK);
	EXPECT(has_number(b, 2, 11) && unlocked(header_of(a, 2)) && ended(a));
	bpfdb_session_close(a);
	bpfdb_session_close(b);
	return 0;
}

TEST(one_of_two_readers_may_not_write)
{
	struct bpfdb_session *a = test_session(), *b = test_session();

	EXPECT(a && b);
	EXPECT(set_number(a, 3, 10) == BPFDB_OK);
	EXPECT(bpfdb_begin(a) == BPFDB_OK && bpfdb_begin(b) == BPFDB_OK);
	EXPECT(has_number(a, 3, 10) && has_number(b, 3, 10));
	EXPECT(set_number(a, 3, 11) == BPFDB_CONFLICT);
	EXPECT(a->state == BPFDB_TXN_FAILED && a->failure == BPFDB_CONFLICT);
	/* Its locks stay to the end: b cannot write either. */
	EXPECT(set_number(b, 3, 12) == BPFDB_CONFLICT);
	EXPECT(get_number(a, 3) == BPFDB_WRONG_STATE);
	EXPECT(bpfdb_commit(a) == BPFDB_ROLLED_BACK && bpfdb_rollback(b) == BPFDB_OK);
	EXPECT(unlocked(header_of(a, 3)) && ended(a) && ended(b));
	EXPECT(has_number(a, 3, 10));
	bpfdb_session_close(a);
	bpfdb_session_close(b);
	return 0;
}

TEST(a_writer_excludes_everybody)
{
	struct bpfdb_session *a = test_session(), *b = test_session();

	EXPECT(a && b);
	EXPECT(bpfdb_begin(a) == BPFDB_OK);
	EXPECT(set_number(a, 4, 1) == BPFDB_OK);
	EXPECT(set_number(b, 4, 2) == BPFDB_CONFLICT);
	key_number(b, 4);
	EXPECT(bpfdb_delete(b) == BPFDB_CONFLICT);
	/* Without a transaction a read waits for no lock. */
	EXPECT(get_number(b, 4) == BPFDB_NOT_FOUND);
	EXPECT(bpfdb_begin(b) == BPFDB_OK);
	EXPECT(get_number(b, 4) == BPFDB_CONFLICT);
	EXPECT(bpfdb_rollback(b) == BPFDB_OK && bpfdb_begin(b) == BPFDB_OK);
	key_number(b, 4);
	EXPECT(bpfdb_get_for_update(b) == BPFDB_CONFLICT);
	EXPECT(bpfdb_rollback(b) == BPFDB_OK && bpfdb_rollback(a) == BPFDB_OK);
	EXPECT(header_of(a, 4) == 0 && ended(a) && ended(b));
	bpfdb_session_close(a);
	bpfdb_session_close(b);
	return 0;
}

/* An absent key is locked through a record without a value, which goes with
 * its last lock. */
TEST(absence_is_locked)
{
	struct bpfdb_session *a = test_session(), *b = test_session();

	EXPECT(a && b);
	EXPECT(bpfdb_begin(a) == BPFDB_OK && bpfdb_begin(b) == BPFDB_OK);
	EXPECT(get_number(a, 5) == BPFDB_NOT_FOUND && get_number(b, 5) == BPFDB_NOT_FOUND);
	EXPECT(header_field(header_of(a, 5)) == 2);
	EXPECT(set_number(a, 5, 1) == BPFDB_CONFLICT);
	EXPECT(bpfdb_rollback(a) == BPFDB_OK);
	EXPECT(header_field(header_of(a, 5)) == 1);
	EXPECT(set_number(b, 5, 2) == BPFDB_OK && bpfdb_commit(b) == BPFDB_OK);
	EXPECT(has_number(a, 5, 2));
	EXPECT(bpfdb_begin(a) == BPFDB_OK && get_number(a, 6) == BPFDB_NOT_FOUND);
	EXPECT(bpfdb_commit(a) == BPFDB_OK && header_of(a, 6) == 0);
	bpfdb_session_close(a);
	bpfdb_session_close(b);
	return 0;
}

/* Blocks of locks that session `s` has, and its table of pages. */
__noinline u32 blocks_of(struct bpfdb_session *s NONNULL)
{
	u32 blocks = 0;

	for (u32 i = 0; i < BPFDB_LOCK_BLOCK_ENTRIES; i++)
		blocks += s->lock_blocks[i] != 0;
	return blocks;
}

static __always_inline bool gave_all_back(struct bpfdb_session *s)
{
	return ended(s) && blocks_of(s) == 0 && !s->lock_pages && !s->lock_lists;
}

/* Enough for three pages of far locks. */
#define FAR_LOCKS (BPFDB_LOCKS_NEAR + 2 * BPFDB_LOCKS_PER_PAGE + 10)

/* Locks that the tests take. */
static __always_inline u32 many(void)
{
	return config.locks_max < FAR_LOCKS ? config.locks_max : FAR_LOCKS;
}

/* Sets that many keys from `first` on, each to its number. The line of what failed, or 0. */
__noinline int set_many(struct bpfdb_session *s NONNULL, u64 first)
{
	repeat(i, FAR_LOCKS)
	{
		if (i >= many())
			break;
		EXPECT(set_number(s, first + i, i) == BPFDB_OK);
	}
	return 0;
}

/* Does the session see all of them, with their values? */
__noinline int has_many(struct bpfdb_session *s NONNULL, u64 first)
{
	repeat(i, FAR_LOCKS)
	{
		if (i >= many())
			break;
		EXPECT(has_number(s, first + i, i));
	}
	return 0;
}

/* Makes all steps that COMMIT or ROLLBACK has left. */
__noinline int settle_all(struct bpfdb_session *s NONNULL)
{
	int status = BPFDB_MEMORY_PENDING;

	repeat(i, 2 + FAR_LOCKS / BPFDB_LOCKS_STEP)
	{
		status = bpfdb_settle(s);
		if (status == BPFDB_OK)
			break;
	}
	return status;
}

TEST(locks_go_on_in_blocks_and_pages)
{
	struct bpfdb_session *a = test_session(), *b = test_session();

	EXPECT(a && b);
	EXPECT(bpfdb_begin(a) == BPFDB_OK);
	repeat(i, BPFDB_LOCKS_INLINE) EXPECT(set_number(a, 100 + i, i) == BPFDB_OK);
	EXPECT(blocks_of(a) == 0);
	PASS(set_many(a, 100));
	EXPECT(a->lock_count == many());
	EXPECT(many() < FAR_LOCKS ||
	       (blocks_of(a) == BPFDB_LOCK_BLOCKS + 1 && a->lock_pages == 3 && a->lock_lists));
	/* A key that is locked already needs no lock more. */
	EXPECT(set_number(a, 100, 7) == BPFDB_OK);
	EXPECT(set_number(a, 100 + many() - 1, 7) == BPFDB_OK);
	EXPECT(has_number(a, 100 + many() - 1, 7) && a->lock_count == many());
	EXPECT(many() < config.locks_max || set_number(a, 99, 1) == BPFDB_TOO_MANY_LOCKS);
	EXPECT(header_of(b, 99) == 0);
	repeat(i, FAR_LOCKS)
	{
		if (i < many())
			EXPECT(set_number(b, 100 + i, 0) == BPFDB_CONFLICT);
	}
	EXPECT(bpfdb_rollback(a) == BPFDB_OK);
	EXPECT(many() < FAR_LOCKS || a->state == BPFDB_TXN_FINISHING);
	EXPECT(get_number(b, 100 + many() - 1) == BPFDB_NOT_FOUND);
	EXPECT(settle_all(a) == BPFDB_OK && gave_all_back(a));
	repeat(i, FAR_LOCKS) EXPECT(header_of(b, 100 + i) == 0);
	bpfdb_session_close(a);
	bpfdb_session_close(b);
	return 0;
}

/* While its locks are released, in steps, all of it is seen, and none of it can be written. */
TEST(a_long_transaction_is_committed_at_once)
{
	struct bpfdb_session *a = test_session(), *b = test_session();

	EXPECT(a && b);
	EXPECT(bpfdb_begin(a) == BPFDB_OK);
	PASS(set_many(a, 20000));
	EXPECT(get_number(b, 20000 + many() - 1) == BPFDB_NOT_FOUND);
	EXPECT(bpfdb_commit(a) == BPFDB_OK);
	PASS(has_many(b, 20000));
	if (many() == FAR_LOCKS) {
		EXPECT(a->state == BPFDB_TXN_FINISHING);
		EXPECT(unlocked(header_of(b, 20000)));
		EXPECT(set_number(b, 20000 + many() - 1, 1) == BPFDB_CONFLICT);
		/* One step more. */
		EXPECT(bpfdb_settle(a) == BPFDB_MEMORY_PENDING);
		PASS(has_many(b, 20000));
	}
	EXPECT(settle_all(a) == BPFDB_OK && gave_all_back(a));
	PASS(has_many(b, 20000));
	repeat(i, FAR_LOCKS)
	{
		if (i < many())
			EXPECT(unlocked(header_of(b, 20000 + i)));
	}
	bpfdb_session_close(a);
	bpfdb_session_close(b);
	return 0;
}

/* Far locks that are shared are found by their key: once is enough, and the only reader may
 * write. */
TEST(far_locks_are_shared_and_upgraded)
{
	struct bpfdb_session *a = test_session(), *b = test_session();
	u32 last = many() - 1, count;

	EXPECT(a && b);
	PASS(set_many(b, 40000));
	EXPECT(bpfdb_begin(a) == BPFDB_OK && bpfdb_begin(b) == BPFDB_OK);
	PASS(has_many(a, 40000));
	count = a->lock_count;
	PASS(has_many(a, 40000));
	EXPECT(a->lock_count == count && header_field(header_of(a, 40000 + last)) == 1);
	EXPECT(set_number(a, 40000 + last, 9) == BPFDB_OK && a->lock_count == count);
	EXPECT(header_is_mine(a, header_of(a, 40000 + last)));
	EXPECT(has_number(a, 40000 + last, 9));
	EXPECT(get_number(b, 40000 + last) == BPFDB_CONFLICT);
	EXPECT(bpfdb_rollback(b) == BPFDB_OK);
	EXPECT(bpfdb_commit(a) == BPFDB_OK && settle_all(a) == BPFDB_OK && gave_all_back(a));
	EXPECT(has_number(b, 40000 + last, 9) && unlocked(header_of(b, 40000 + last)));
	EXPECT(unlocked(header_of(b, 40000)));
	bpfdb_session_close(a);
	bpfdb_session_close(b);
	return 0;
}

/* A close of a session in the middle of a long transaction leaves the rest to the reaper. */
TEST(the_reaper_releases_what_a_closed_session_held)
{
	struct bpfdb_session *a = test_session(), *b = test_session();

	EXPECT(a && b);
	EXPECT(bpfdb_begin(a) == BPFDB_OK);
	PASS(set_many(a, 60000));
	bpfdb_session_close(a);
	EXPECT(many() < FAR_LOCKS || a->in_use);
	repeat(i, 2 + FAR_LOCKS / BPFDB_LOCKS_STEP) reap_some(bpf_ktime_get_ns());
	EXPECT(!a->in_use && gave_all_back(a));
	repeat(i, FAR_LOCKS) EXPECT(header_of(b, 60000 + i) == 0);
	bpfdb_session_close(b);
	return 0;
}

/* The page of a lock's hint may hold values by now, and a client choose bytes
 * that look like the cell. */
TEST(a_hint_is_believed_in_the_index_only)
{
	struct bpfdb_session *s = test_session();
	struct bpfdb_cell *cell, *forged;
	u64 address, slot;

	EXPECT(s);
	EXPECT(bpfdb_begin(s) == BPFDB_OK && set_number(s, 1, 2) == BPFDB_OK);
	cell = cell_of_key(s, &address);
	slot = bpfdb_slot_alloc(sizeof(*cell));
	forged = bpfdb_at(slot);
	EXPECT(cell && forged);
	*forged = *cell;
	s->locks[0].cell = slot;
	EXPECT(bpfdb_commit(s) == BPFDB_OK && s->state == BPFDB_TXN_NONE);
	EXPECT(has_number(s, 1, 2));
	EXPECT(set_number(s, 1, 3) == BPFDB_OK);
	EXPECT(bpfdb_slot_free(slot) == BPFDB_OK);
	bpfdb_session_close(s);
	return 0;
}
