// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* Sessions: their number, their end, and their idle limit. */
#include "test.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

TEST(there_are_as_many_as_configured)
{
	int index = 0;

	repeat(i, config.sessions)
	{
		index = bpfdb_session_open(BPFDB_SESSION_EMBEDDED);
		EXPECT(index >= 0 && (u32)index < config.sessions);
	}
	EXPECT(bpfdb_session_open(BPFDB_SESSION_EMBEDDED) == -BPFDB_NO_SESSION);
	repeat(i, config.sessions)
	{
		u32 number = i;
		struct bpfdb_session *s = bpfdb_session(number);

		EXPECT(s && session_use(s->in_use) == BPFDB_SESSION_OPEN && s->index == i);
		EXPECT(bpfdb_session_close(s) == BPFDB_OK && !s->in_use);
	}
	EXPECT(bpfdb_session(config.sessions) == NULL);
	return 0;
}

TEST(a_session_runs_one_operator_at_a_time)
{
	struct bpfdb_session *s = test_session();

	EXPECT(s && session_enter(s) && !session_enter(s));
	EXPECT(bpfdb_begin(s) == BPFDB_SESSION_BUSY);
	EXPECT(set_number(s, 1, 1) == BPFDB_SESSION_BUSY);
	EXPECT(bpfdb_commit(s) == BPFDB_SESSION_BUSY);
	session_leave(s, 0);
	EXPECT(set_number(s, 1, 1) == BPFDB_OK);
	bpfdb_session_close(s);
	return 0;
}

/* A command ends its own transaction, and a visitor is in the session and stays. */
TEST(who_is_inside_rolls_back_what_its_user_cannot)
{
	struct bpfdb_session *s = test_session(), *other = test_session();

	EXPECT(s && other);
	EXPECT(bpfdb_begin(s) == BPFDB_OK && set_number(s, 16, 1) == BPFDB_OK);
	EXPECT(session_enter(s));
	EXPECT(TXN_END_OWN(s, bpfdb_commit) == BPFDB_SESSION_BUSY);
	/* Until it leaves nothing else gets in. */
	EXPECT(TXN_END_OWN(s, bpfdb_rollback) == BPFDB_SESSION_BUSY);
	EXPECT(set_number(s, 16, 2) == BPFDB_SESSION_BUSY && session_undoes(s));
	session_leave_as_guest(s, 0);
	EXPECT(s->state == BPFDB_TXN_NONE && !s->lock_count && !s->busy);
	EXPECT(get_number(s, 16) == BPFDB_NOT_FOUND && set_number(other, 16, 3) == BPFDB_OK);

	/* The visitor expires it, and its user gets no error for what was a command's. */
	EXPECT(bpfdb_begin(s) == BPFDB_OK && set_number(s, 16, 4) == BPFDB_OK);
	EXPECT(session_enter(s));
	abandon_and_tell(s);
	EXPECT(TXN_END_OWN(s, bpfdb_rollback) == BPFDB_SESSION_BUSY);
	session_leave_as_guest(s, 0);
	EXPECT(bpfdb_begin(s) == BPFDB_OK && bpfdb_rollback(s) == BPFDB_OK);
	EXPECT(has_number(s, 16, 3));

	/* A user that leaves nothing behind is not undone. */
	EXPECT(bpfdb_begin(s) == BPFDB_OK && set_number(s, 16, 5) == BPFDB_OK);
	EXPECT(session_enter(s));
	session_leave_as_guest(s, 0);
	EXPECT(bpfdb_commit(s) == BPFDB_OK && has_number(s, 16, 5));

	/* Nor one that wrote without a transaction beside it, and has begun one since. */
	EXPECT(session_enter(s) && session_leave(s, BPFDB_OK) == BPFDB_OK);
	EXPECT(bpfdb_begin(s) == BPFDB_OK && set_number(s, 16, 6) == BPFDB_OK);
	session_leave_as_guest(s, 0);
	EXPECT(bpfdb_commit(s) == BPFDB_OK && has_number(s, 16, 6));
	bpfdb_session_close(s);
	bpfdb_session_close(other);
	return 0;
}

TEST(states_allow_what_they_should)
{
	struct bpfdb_session *s = test_session();

	EXPECT(s);
	EXPECT(bpfdb_commit(s) == BPFDB_WRONG_STATE && bpfdb_rollback(s) == BPFDB_WRONG_STATE);
	EXPECT(bpfdb_begin(s) == BPFDB_OK);
	EXPECT(bpfdb_begin(s) == BPFDB_WRONG_STATE);
	EXPECT(bpfdb_begin_read_only(s) == BPFDB_WRONG_STATE);
	EXPECT(bpfdb_rollback(s) == BPFDB_OK);
	EXPECT(bpfdb_begin_read_only(s) == BPFDB_OK);
	EXPECT(set_number(s, 1, 1) == BPFDB_READ_ONLY);
	key_number(s, 1);
	EXPECT(bpfdb_delete(s) == BPFDB_READ_ONLY);
	EXPECT(bpfdb_get_for_update(s) == BPFDB_READ_ONLY);
	/* That was no reason to fail. */
	EXPECT(s->state == BPFDB_TXN_READ && bpfdb_commit(s) == BPFDB_OK);
	bpfdb_session_close(s);
	return 0;
}

TEST(close_rolls_back)
{
	struct bpfdb_session *s = test_session(), *other = test_session();
	u64 running = engine.snapshots.active;

	EXPECT(s && other);
	EXPECT(bpfdb_begin(s) == BPFDB_OK && set_number(s, 10, 1) == BPFDB_OK);
	EXPECT(set_number(other, 10, 2) == BPFDB_CONFLICT);
	EXPECT(bpfdb_session_close(s) == BPFDB_OK && !s->in_use);
	EXPECT(set_number(other, 10, 2) == BPFDB_OK);
	EXPECT(bpfdb_begin_read_only(other) == BPFDB_OK);
	EXPECT(engine.snapshots.active == running + 1);
	bpfdb_session_close(other);
	EXPECT(engine.snapshots.active == running);
	return 0;
}

/* Looks at every session, as if it were `now`. */
static __always_inline void reap_all(u64 now)
{
	for (u32 i = UNKNOWN(0); i < config.sessions && can_loop; i += REAP_STEP)
		reap_some(now);
}

/* A session that is closed while its operator runs elsewhere. */
TEST(a_busy_session_is_closed_by_the_reaper)
{
	struct bpfdb_session *s = test_session();

	EXPECT(s && bpfdb_begin(s) == BPFDB_OK && set_number(s, 11, 1) == BPFDB_OK);
	EXPECT(session_enter(s));
	bpfdb_session_close(s);
	EXPECT(session_use(s->in_use) == BPFDB_SESSION_CLOSING);
	reap_all(bpf_ktime_get_ns());
	EXPECT(session_use(s->in_use) == BPFDB_SESSION_CLOSING);
	session_leave(s, 0);
	reap_all(bpf_ktime_get_ns());
	EXPECT(!s->in_use && s->state == BPFDB_TXN_NONE && !s->lock_count);
	return 0;
}

/* It was CLOSING when the reaper looked at it, and was freed and opened since. */
TEST(the_reaper_looks_again_when_it_has_entered)
{
	struct bpfdb_session *s = test_session();

	EXPECT(s && bpfdb_begin(s) == BPFDB_OK && set_number(s, 16, 1) == BPFDB_OK);
	session_reap(s, true, bpf_ktime_get_ns());
	EXPECT(session_use(s->in_use) == BPFDB_SESSION_OPEN && s->state == BPFDB_TXN_WRITE);
	EXPECT(bpfdb_commit(s) == BPFDB_OK && has_number(s, 16, 1));
	EXPECT(bpfdb_session_close(s) == BPFDB_OK && !s->in_use);
	/* The same of one that is free. */
	session_reap(s, true, bpf_ktime_get_ns());
	EXPECT(!s->in_use && !s->busy);
	return 0;
}

TEST(a_session_is_freed_once)
{
	struct bpfdb_session *s = test_session();
	int first, second;

	EXPECT(s && bpfdb_session_close(s) == BPFDB_OK);
	EXPECT(bpfdb_session_close(s) == BPFDB_BAD_REQUEST);
	session_reap(s, true, bpf_ktime_get_ns());
	first = bpfdb_session_open(BPFDB_SESSION_EMBEDDED);
	second = bpfdb_session_open(BPFDB_SESSION_EMBEDDED);
	EXPECT(first >= 0 && second >= 0 && first != second);
	s = bpfdb_session(first);
	EXPECT(s && bpfdb_session_close(s) == BPFDB_OK);
	s = bpfdb_session(second);
	EXPECT(s && bpfdb_session_close(s) == BPFDB_OK);
	return 0;
}

/* A caller that closes it could not enter, because another one did, and closed it; and before
 * it is marked for the reaper it was opened again. */
TEST(a_late_close_spares_who_opened_the_session_since)
{
	struct bpfdb_session *s = test_session(), *again;
	u32 seen;

	EXPECT(s);
	seen = s->in_use;
	EXPECT(bpfdb_session_close(s) == BPFDB_OK && !s->in_use);
	again = test_session();
	EXPECT(again == s && session_use(s->in_use) == BPFDB_SESSION_OPEN);
	session_close_later(s, seen);
	EXPECT(session_use(s->in_use) == BPFDB_SESSION_OPEN);
	session_close_later(s, s->in_use);
	EXPECT(session_use(s->in_use) == BPFDB_SESSION_CLOSING);
	reap_all(bpf_ktime_get_ns());
	EXPECT(!s->in_use);
	return 0;
}

TEST(a_session_is_closed_by_its_holder)
{
	struct bpfdb_session *s = test_session();

	EXPECT(config.holder && s && s->holder == config.holder);
	s->holder++;
	EXPECT(bpfdb_session_close(s) == BPFDB_BAD_REQUEST &&
	       session_use(s->in_use) == BPFDB_SESSION_OPEN && !s->busy);
	s->holder--;
	EXPECT(bpfdb_session_close(s) == BPFDB_OK && !s->in_use);
	return 0;
}

TEST(an_idle_transaction_expires)
{
	struct bpfdb_session *s = test_session(), *other = test_session();

	EXPECT(s && other && config.idle_limit);
	EXPECT(bpfdb_begin(s) == BPFDB_OK && set_number(s, 12, 1) == BPFDB_OK);
	reap_all(s->last_active + config.idle_limit);
	EXPECT(s->state == BPFDB_TXN_WRITE);
	EXPECT(set_number(other, 12, 2) == BPFDB_CONFLICT);
	reap_all(s->last_active + config.idle_limit + 1);
	EXPECT(s->state == BPFDB_TXN_EXPIRED && !s->lock_count);
	EXPECT(set_number(other, 12, 2) == BPFDB_OK);
	/* The session gets the error until it ends the transaction. */
	EXPECT(get_number(s, 12) == BPFDB_TIMED_OUT && set_number(s, 12, 3) == BPFDB_TIMED_OUT);
	EXPECT(bpfdb_begin(s) == BPFDB_TIMED_OUT);
	EXPECT(bpfdb_commit(s) == BPFDB_TIMED_OUT && s->state == BPFDB_TXN_NONE);
	EXPECT(has_number(s, 12, 2));
	bpfdb_session_close(s);
	bpfdb_session_close(other);
	return 0;
}

/* SET takes the time for its expiry when a visitor has just ended the transaction: the next one
 * takes its own, and the sweeper does not wait for it. */
TEST(a_time_that_was_taken_too_late_does_not_stay)
{
	struct bpfdb_session *s = test_session();

	EXPECT(s && bpfdb_begin(s) == BPFDB_OK && bpfdb_expire(s) == BPFDB_OK);
	STORE(s->time, 5);
	EXPECT(bpfdb_rollback(s) == BPFDB_OK && !s->time);
	STORE(s->time, 5);
	EXPECT(bpfdb_begin(s) == BPFDB_OK && !s->time);
	EXPECT(bpfdb_rollback(s) == BPFDB_OK);
	bpfdb_session_close(s);
	return 0;
}

/* Nothing was done: it may be tried again, in the same transaction. */
TEST(a_statement_whose_session_is_busy_fails_nothing)
{
	struct bpfdb_session *s = test_session();

	EXPECT(s && bpfdb_begin(s) == BPFDB_OK && set_number(s, 18, 1) == BPFDB_OK);
	EXPECT(session_enter(s) && set_number(s, 18, 2) == BPFDB_SESSION_BUSY);
	key_number(s, 18);
	EXPECT(bpfdb_delete(s) == BPFDB_SESSION_BUSY);
	session_leave(s, 0);
	EXPECT(s->state == BPFDB_TXN_WRITE && set_number(s, 18, 3) == BPFDB_OK);
	EXPECT(bpfdb_commit(s) == BPFDB_OK && has_number(s, 18, 3));
	bpfdb_session_close(s);
	return 0;
}

/* Its user is gone, or does not know yet, and its statements come after all. */
TEST(what_comes_after_a_transaction_expired_does_nothing)
{
	struct bpfdb_session *s = test_session(), *other = test_session();

	EXPECT(s && other);
	EXPECT(bpfdb_expire(s) == BPFDB_OK && s->state == BPFDB_TXN_NONE);
	EXPECT(bpfdb_begin(s) == BPFDB_OK && set_number(s, 14, 1) == BPFDB_OK);
	EXPECT(session_enter(s) && bpfdb_expire(s) == BPFDB_SESSION_BUSY);
	session_leave(s, 0);
	EXPECT(s->state == BPFDB_TXN_WRITE);
	EXPECT(bpfdb_expire(s) == BPFDB_OK);
	EXPECT(s->state == BPFDB_TXN_EXPIRED && !s->lock_count);
	EXPECT(set_number(other, 14, 2) == BPFDB_OK);
	EXPECT(set_number(s, 14, 3) == BPFDB_TIMED_OUT && set_number(s, 15, 3) == BPFDB_TIMED_OUT);
	EXPECT(bpfdb_expire(s) == BPFDB_OK && s->state == BPFDB_TXN_EXPIRED);
	EXPECT(bpfdb_rollback(s) == BPFDB_OK && s->state == BPFDB_TXN_NONE);
	EXPECT(has_number(s, 14, 2) && get_number(s, 15) == BPFDB_NOT_FOUND);
	bpfdb_session_close(s);
	bpfdb_session_close(other);
	return 0;
}

TEST(an_idle_snapshot_and_a_failed_transaction_expire)
{
	struct bpfdb_session *reader = test_session(), *failed = test_session();
	struct bpfdb_session *owner = test_session();
	u64 running = engine.snapshots.active;

	EXPECT(reader && failed && owner);
	EXPECT(bpfdb_begin(owner) == BPFDB_OK && set_number(owner, 13, 1) == BPFDB_OK);
	EXPECT(bpfdb_begin(failed) == BPFDB_OK && set_number(failed, 13, 2) == BPFDB_CONFLICT);
	EXPECT(bpfdb_rollback(owner) == BPFDB_OK);
	EXPECT(bpfdb_begin_read_only(reader) == BPFDB_OK);
	reap_all(reader->last_active + config.idle_limit + MAINTENANCE_PERIOD);
	EXPECT(reader->state == BPFDB_TXN_EXPIRED && failed->state == BPFDB_TXN_EXPIRED);
	EXPECT(engine.snapshots.active == running);
	EXPECT(bpfdb_rollback(reader) == BPFDB_OK && bpfdb_rollback(failed) == BPFDB_OK);
	/* Without a transaction nothing expires. */
	reap_all(reader->last_active + 2 * config.idle_limit);
	EXPECT(reader->state == BPFDB_TXN_NONE && owner->state == BPFDB_TXN_NONE);
	bpfdb_session_close(reader);
	bpfdb_session_close(failed);
	bpfdb_session_close(owner);
	return 0;
}

#define LONG 100

/* Is a slot of `size` bytes that was freed a moment ago handed out again, and once? It
 * is the spare of this processor, or the first ones of its slab's list. */
__noinline int is_free_once(u64 slot, u32 size)
{
	u64 a = bpfdb_slot_alloc(size), b = bpfdb_slot_alloc(size);
	u64 c = bpfdb_slot_alloc(size), d = bpfdb_slot_alloc(size);

	bpfdb_slot_free(d);
	bpfdb_slot_free(c);
	bpfdb_slot_free(b);
	bpfdb_slot_free(a);
	return (a == slot) + (b == slot) + (c == slot) + (d == slot) == 1;
}

static __always_inline int set_long(struct bpfdb_session *s, u64 key)
{
	int status = bpfdb_value_alloc(s, LONG);

	key_number(s, key);
	return status == BPFDB_OK ? bpfdb_set(s) : status;
}

TEST(a_slot_that_was_read_is_not_set_again)
{
	struct bpfdb_session *s = test_session();
	u64 slot;

	EXPECT(s && set_long(s, 1) == BPFDB_OK);
	EXPECT(get_number(s, 1) == BPFDB_FOUND && s->value_len == LONG);
	slot = s->value[0];
	key_number(s, 2);
	EXPECT(bpfdb_set(s) == BPFDB_BAD_REQUEST);
	EXPECT(get_number(s, 2) == BPFDB_NOT_FOUND);
	/* Nor for the record that it is from, nor with something else allocated. */
	EXPECT(get_number(s, 1) == BPFDB_FOUND && bpfdb_set(s) == BPFDB_BAD_REQUEST);
	EXPECT(bpfdb_value_alloc(s, LONG) == BPFDB_OK && s->value[0] != slot);
	EXPECT(get_number(s, 1) == BPFDB_FOUND && s->value[0] == slot);
	EXPECT(bpfdb_set(s) == BPFDB_BAD_REQUEST);
	bpfdb_session_close(s);

	s = test_session();
	EXPECT(s && get_number(s, 1) == BPFDB_FOUND && s->value[0] == slot);
	EXPECT(bpfdb_delete(s) == BPFDB_FOUND && is_free_once(slot, LONG));
	bpfdb_session_close(s);
	return 0;
}

TEST(a_slot_is_set_once_with_its_length)
{
	struct bpfdb_session *s = test_session();
	u64 slot;

	EXPECT(s && bpfdb_value_alloc(s, LONG) == BPFDB_OK);
	slot = s->value[0];
	/* Longer than what was allocated: others' bytes would be read. */
	s->value_len = LONG + 1;
	key_number(s, 1);
	EXPECT(bpfdb_set(s) == BPFDB_BAD_REQUEST);
	s->value_len = LONG;
	EXPECT(bpfdb_set(s) == BPFDB_OK && !s->value_owned);
	s->value_len = LONG;
	s->value[0] = slot;
	EXPECT(bpfdb_set(s) == BPFDB_BAD_REQUEST);
	/* Taken over, Error or not. */
	EXPECT(bpfdb_begin_read_only(s) == BPFDB_OK && set_long(s, 2) == BPFDB_READ_ONLY);
	EXPECT(!s->value_owned && bpfdb_commit(s) == BPFDB_OK);
	/* It fails a transaction as every Error does. */
	EXPECT(bpfdb_begin(s) == BPFDB_OK && get_number(s, 1) == BPFDB_FOUND);
	EXPECT(bpfdb_set(s) == BPFDB_BAD_REQUEST && s->state == BPFDB_TXN_FAILED);
	EXPECT(bpfdb_rollback(s) == BPFDB_OK);
	EXPECT(get_number(s, 1) == BPFDB_FOUND && bpfdb_delete(s) == BPFDB_FOUND);
	EXPECT(is_free_once(slot, LONG));
	bpfdb_session_close(s);
	return 0;
}

TEST(a_slot_that_was_not_set_is_freed)
{
	struct bpfdb_session *s = test_session();
	u64 slot, other;

	EXPECT(s && bpfdb_value_alloc(s, LONG) == BPFDB_OK);
	slot = s->value[0];
	/* By the next allocation, of whatever length. */
	EXPECT(bpfdb_value_alloc(s, 1000) == BPFDB_OK && is_free_once(slot, LONG));
	other = s->value[0];
	EXPECT(bpfdb_value_alloc(s, 8) == BPFDB_OK && !s->value_owned);
	EXPECT(is_free_once(other, 1000));
	/* Not by a SET of a short value, but by the end of the session. */
	EXPECT(bpfdb_value_alloc(s, LONG) == BPFDB_OK);
	slot = s->value[0];
	EXPECT(set_number(s, 1, 1) == BPFDB_OK && s->value_owned);
	bpfdb_session_close(s);
	EXPECT(!s->value_owned && is_free_once(slot, LONG));
	return 0;
}
