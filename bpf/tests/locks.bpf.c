// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* txn/lock.bpf.h: who gets which lock, and that none stays behind. */
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
	/* Without a transaction a read waits for nobody. */
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

/* Blocks of locks that session `s` has. */
__noinline u32 blocks_of(struct bpfdb_session *s NONNULL)
{
	u32 blocks = 0;

	for (u32 i = 0; i < BPFDB_LOCK_BLOCKS; i++)
		blocks += s->lock_blocks[i] != 0;
	return blocks;
}

TEST(locks_go_on_in_blocks_up_to_their_limit)
{
	struct bpfdb_session *a = test_session(), *b = test_session();

	EXPECT(a && b);
	EXPECT(bpfdb_begin(a) == BPFDB_OK);
	repeat(i, BPFDB_LOCKS_INLINE) EXPECT(set_number(a, 100 + i, i) == BPFDB_OK);
	EXPECT(blocks_of(a) == 0);
	for (u32 i = UNKNOWN(BPFDB_LOCKS_INLINE); i < config.locks_max && can_loop; i++)
		EXPECT(set_number(a, 100 + i, i) == BPFDB_OK);
	EXPECT(a->lock_count == config.locks_max);
	EXPECT(config.locks_max < BPFDB_LOCKS_MAX || blocks_of(a) == BPFDB_LOCK_BLOCKS);
	/* A key that is locked already needs no lock more. */
	EXPECT(set_number(a, 100, 7) == BPFDB_OK);
	EXPECT(set_number(a, 99, 1) == BPFDB_TOO_MANY_LOCKS);
	EXPECT(header_of(b, 99) == 0);
	repeat(i, BPFDB_LOCKS_MAX)
	{
		if (i < config.locks_max)
			EXPECT(set_number(b, 100 + i, 0) == BPFDB_CONFLICT);
	}
	EXPECT(bpfdb_rollback(a) == BPFDB_OK && ended(a) && blocks_of(a) == 0);
	repeat(i, BPFDB_LOCKS_MAX) EXPECT(header_of(b, 100 + i) == 0);
	bpfdb_session_close(a);
	bpfdb_session_close(b);
	return 0;
}

TEST(a_full_transaction_commits)
{
	struct bpfdb_session *a = test_session();

	EXPECT(a);
	EXPECT(bpfdb_begin(a) == BPFDB_OK);
	for (u32 i = UNKNOWN(0); i < config.locks_max && can_loop; i++)
		EXPECT(set_number(a, 2000 + i, i) == BPFDB_OK);
	EXPECT(bpfdb_commit(a) == BPFDB_OK && ended(a) && blocks_of(a) == 0);
	for (u32 i = UNKNOWN(0); i < config.locks_max && can_loop; i++)
		EXPECT(has_number(a, 2000 + i, i));
	bpfdb_session_close(a);
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
