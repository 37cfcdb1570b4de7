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

		EXPECT(s && s->in_use == 1 && s->index == i);
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
	u64 running = engine.snapshots_running.value;

	EXPECT(s && other);
	EXPECT(bpfdb_begin(s) == BPFDB_OK && set_number(s, 10, 1) == BPFDB_OK);
	EXPECT(set_number(other, 10, 2) == BPFDB_CONFLICT);
	EXPECT(bpfdb_session_close(s) == BPFDB_OK && !s->in_use);
	EXPECT(set_number(other, 10, 2) == BPFDB_OK);
	EXPECT(bpfdb_begin_read_only(other) == BPFDB_OK);
	EXPECT(engine.snapshots_running.value == running + 1);
	bpfdb_session_close(other);
	EXPECT(engine.snapshots_running.value == running);
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
	EXPECT(s->in_use == BPFDB_SESSION_CLOSING);
	reap_all(bpf_ktime_get_ns());
	EXPECT(s->in_use == BPFDB_SESSION_CLOSING);
	session_leave(s, 0);
	reap_all(bpf_ktime_get_ns());
	EXPECT(!s->in_use && s->state == BPFDB_TXN_NONE && !s->lock_count);
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
	/* The session is told until it ends the transaction. */
	EXPECT(get_number(s, 12) == BPFDB_TIMED_OUT && set_number(s, 12, 3) == BPFDB_TIMED_OUT);
	EXPECT(bpfdb_begin(s) == BPFDB_TIMED_OUT);
	EXPECT(bpfdb_commit(s) == BPFDB_TIMED_OUT && s->state == BPFDB_TXN_NONE);
	EXPECT(has_number(s, 12, 2));
	bpfdb_session_close(s);
	bpfdb_session_close(other);
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
	u64 running = engine.snapshots_running.value;

	EXPECT(reader && failed && owner);
	EXPECT(bpfdb_begin(owner) == BPFDB_OK && set_number(owner, 13, 1) == BPFDB_OK);
	EXPECT(bpfdb_begin(failed) == BPFDB_OK && set_number(failed, 13, 2) == BPFDB_CONFLICT);
	EXPECT(bpfdb_rollback(owner) == BPFDB_OK);
	EXPECT(bpfdb_begin_read_only(reader) == BPFDB_OK);
	reap_all(reader->last_active + config.idle_limit + MAINTENANCE_PERIOD);
	EXPECT(reader->state == BPFDB_TXN_EXPIRED && failed->state == BPFDB_TXN_EXPIRED);
	EXPECT(engine.snapshots_running.value == running);
	EXPECT(bpfdb_rollback(reader) == BPFDB_OK && bpfdb_rollback(failed) == BPFDB_OK);
	/* Without a transaction nothing expires. */
	reap_all(reader->last_active + 2 * config.idle_limit);
	EXPECT(reader->state == BPFDB_TXN_NONE && owner->state == BPFDB_TXN_NONE);
	bpfdb_session_close(reader);
	bpfdb_session_close(failed);
	bpfdb_session_close(owner);
	return 0;
}
