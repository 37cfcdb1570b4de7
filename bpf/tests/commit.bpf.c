// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* txn/commit.bpf.h: which operator decides a commit, and what is left to finish. */
#include "test.bpf.h"
#include "../operators/depends.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* A commit that was interrupted between its announcement and its decision. */
static __always_inline u64 announce(struct bpfdb_session *s)
{
	u64 announced = commit_word(BPFDB_PHASE_COMMITTING, ++s->transaction);

	STORE(s->commit, announced);
	return announced;
}

TEST(a_reader_decides_for_an_interrupted_commit)
{
	struct bpfdb_session *w = test_session(), *r = test_session();
	u64 announced, decided;

	EXPECT(w && r);
	EXPECT(set_number(w, 1, 10) == BPFDB_OK && set_number(w, 2, 10) == BPFDB_OK);
	EXPECT(bpfdb_begin(w) == BPFDB_OK);
	EXPECT(set_number(w, 1, 11) == BPFDB_OK && set_number(w, 2, 11) == BPFDB_OK);
	EXPECT(bpfdb_begin_read_only(r) == BPFDB_OK);
	announced = announce(w);

	/* The reader goes on, and the commit is after its snapshot. */
	EXPECT(has_number(r, 1, 10));
	decided = w->commit;
	EXPECT(commit_phase(decided) == BPFDB_PHASE_COMMITTED);
	EXPECT((decided & BPFDB_PAYLOAD_MASK) == r->snapshot + 1);
	EXPECT(has_number(r, 2, 10));
	EXPECT(bpfdb_commit(r) == BPFDB_OK);

	/* Later snapshots and all other readers see all of it. */
	EXPECT(has_number(r, 1, 11) && has_number(r, 2, 11));
	EXPECT(bpfdb_begin_read_only(r) == BPFDB_OK);
	EXPECT(has_number(r, 1, 11) && has_number(r, 2, 11));
	EXPECT(bpfdb_commit(r) == BPFDB_OK);

	/* The owner comes back: what was decided stays. */
	EXPECT(commit_decide(&w->commit, announced) == decided);
	EXPECT(txn_finish(w) && w->state == BPFDB_TXN_NONE && w->commit == 0);
	EXPECT(has_number(r, 1, 11) && has_number(r, 2, 11));
	bpfdb_session_close(w);
	bpfdb_session_close(r);
	return 0;
}

TEST(a_reader_of_the_latest_version_decides_nothing)
{
	struct bpfdb_session *w = test_session(), *r = test_session();
	u64 announced;

	EXPECT(w && r);
	EXPECT(set_number(w, 3, 10) == BPFDB_OK && bpfdb_begin(w) == BPFDB_OK);
	EXPECT(set_number(w, 3, 11) == BPFDB_OK);
	announced = announce(w);
	EXPECT(has_number(r, 3, 10));
	EXPECT(w->commit == announced);
	commit_decide(&w->commit, announced);
	EXPECT(has_number(r, 3, 11));
	EXPECT(txn_finish(w));
	bpfdb_session_close(w);
	bpfdb_session_close(r);
	return 0;
}

TEST(a_late_helper_changes_nothing)
{
	struct bpfdb_session *w = test_session();
	u64 late, announced, decided;

	EXPECT(w);
	late = announce(w);
	announced = announce(w);
	EXPECT(commit_decide(&w->commit, late) == announced);
	decided = commit_decide(&w->commit, announced);
	EXPECT(commit_phase(decided) == BPFDB_PHASE_COMMITTED);
	EXPECT(commit_decide(&w->commit, announced) == decided);
	STORE(w->commit, 0);
	EXPECT(commit_decide(&w->commit, announced) == 0);
	bpfdb_session_close(w);
	return 0;
}

/* The header of the cell of `key`, changed under its latch. */
static __always_inline int latch_set(struct bpfdb_session *s, u64 key, bool latched)
{
	struct bpfdb_cell *cell;
	u64 address;

	key_number(s, key);
	cell = cell_of_key(s, &address);
	EXPECT(cell);
	if (latched)
		STORE(cell->header, cell->header | BPFDB_CELL_LATCH);
	else
		STORE(cell->header, cell->header & ~BPFDB_CELL_LATCH);
	return 0;
}

/* What COMMIT cannot finish, because it interrupted the holder of a latch, is
 * committed all the same; a later operator finishes it. */
TEST(a_latched_cell_is_finished_later)
{
	struct bpfdb_session *w = test_session(), *r = test_session();

	EXPECT(w && r);
	EXPECT(set_number(w, 4, 10) == BPFDB_OK && set_number(w, 5, 10) == BPFDB_OK);
	EXPECT(bpfdb_begin(w) == BPFDB_OK);
	EXPECT(set_number(w, 4, 11) == BPFDB_OK && set_number(w, 5, 11) == BPFDB_OK);
	PASS(latch_set(r, 4, true));
	EXPECT(bpfdb_commit(w) == BPFDB_OK);
	EXPECT(w->state == BPFDB_TXN_FINISHING);
	EXPECT(commit_phase(w->commit) == BPFDB_PHASE_COMMITTED);
	EXPECT(has_number(r, 4, 11) && has_number(r, 5, 11));
	EXPECT(set_number(r, 5, 12) == BPFDB_OK);
	EXPECT(set_number(r, 4, 12) >= BPFDB_FIRST_ERROR);
	EXPECT(bpfdb_begin(w) >= BPFDB_FIRST_ERROR);
	EXPECT(w->state == BPFDB_TXN_FINISHING);

	PASS(latch_set(r, 4, false));
	EXPECT(bpfdb_begin(w) == BPFDB_OK);
	EXPECT(w->state == BPFDB_TXN_WRITE && w->commit == 0 && w->lock_count == 0);
	EXPECT(has_number(r, 4, 11));
	EXPECT(set_number(r, 4, 12) == BPFDB_OK);
	EXPECT(bpfdb_rollback(w) == BPFDB_OK);
	bpfdb_session_close(w);
	bpfdb_session_close(r);
	return 0;
}

TEST(a_rollback_at_a_latched_cell_is_finished_later)
{
	struct bpfdb_session *w = test_session(), *r = test_session();

	EXPECT(w && r);
	EXPECT(set_number(w, 6, 10) == BPFDB_OK && bpfdb_begin(w) == BPFDB_OK);
	EXPECT(set_number(w, 6, 11) == BPFDB_OK);
	PASS(latch_set(r, 6, true));
	EXPECT(bpfdb_rollback(w) == BPFDB_OK);
	EXPECT(w->state == BPFDB_TXN_FINISHING);
	/* Undone, for itself too; it cannot go on yet. */
	EXPECT(has_number(r, 6, 10) && has_number(w, 6, 10));
	EXPECT(set_number(w, 6, 12) == BPFDB_MEMORY_PENDING);
	EXPECT(bpfdb_settle(w) >= BPFDB_FIRST_ERROR);
	PASS(latch_set(r, 6, false));
	EXPECT(bpfdb_settle(w) == BPFDB_OK && w->state == BPFDB_TXN_NONE);
	EXPECT(set_number(w, 6, 12) == BPFDB_OK);
	EXPECT(w->state == BPFDB_TXN_NONE && has_number(r, 6, 12));
	bpfdb_session_close(w);
	bpfdb_session_close(r);
	return 0;
}

/* A synchronous client that has seen it waits for it: not for what the record shows, which
 * is the version before. */
TEST(what_is_finished_later_is_depended_on)
{
	struct bpfdb_session *w = test_session(), *r = test_session();
	u64 stamp;

	EXPECT(w && r && set_number(w, 90, 10) == BPFDB_OK);
	EXPECT(bpfdb_begin(w) == BPFDB_OK && set_number(w, 90, 11) == BPFDB_OK);
	/* Moves the clock. */
	EXPECT(bpfdb_begin_read_only(r) == BPFDB_OK && bpfdb_commit(r) == BPFDB_OK);
	PASS(latch_set(r, 90, true));
	EXPECT(bpfdb_commit(w) == BPFDB_OK && w->state == BPFDB_TXN_FINISHING);
	stamp = w->commit & BPFDB_PAYLOAD_MASK;
	w->depends = 0;
	key_number(w, 90);
	depend_on_told(w, BPFDB_OP_SET, BPFDB_TXN_NONE);
	EXPECT(stamp && w->depends >= stamp);
	w->depends = 0;
	depend_on_told(w, BPFDB_OP_DELETE, BPFDB_TXN_NONE);
	EXPECT(w->depends >= stamp);
	/* So does a reader of it that has seen the version that is not installed yet. */
	r->depends = 0;
	EXPECT(has_number(r, 90, 11) && bpfdb_depend_on_key(r, 0) == BPFDB_OK);
	EXPECT(r->depends >= stamp);
	PASS(latch_set(r, 90, false));
	EXPECT(bpfdb_settle(w) == BPFDB_OK);
	bpfdb_session_close(w);
	bpfdb_session_close(r);
	return 0;
}

/* A session that was closed in that state is finished by the reaper. */
TEST(the_reaper_finishes_what_close_could_not)
{
	struct bpfdb_session *w = test_session(), *r = test_session();
	u32 index;

	EXPECT(w && r);
	index = w->index;
	EXPECT(bpfdb_begin(w) == BPFDB_OK && set_number(w, 7, 11) == BPFDB_OK);
	PASS(latch_set(r, 7, true));
	bpfdb_session_close(w);
	EXPECT(session_use(w->in_use) == BPFDB_SESSION_CLOSING);
	PASS(latch_set(r, 7, false));
	repeat(i, BPFDB_SESSIONS_MAX / REAP_STEP + 1)
	{
		reap_some(bpf_ktime_get_ns());
		if (!w->in_use)
			break;
	}
	EXPECT(w->in_use == 0 && w->state == BPFDB_TXN_NONE && w->index == index);
	EXPECT(get_number(r, 7) == BPFDB_NOT_FOUND && set_number(r, 7, 1) == BPFDB_OK);
	bpfdb_session_close(r);
	return 0;
}

/* Two commits without a snapshot between them have one timestamp. */
TEST(only_snapshots_move_the_clock)
{
	struct bpfdb_session *w = test_session(), *r = test_session();
	u64 clock = engine.clock.value;

	EXPECT(w && r);
	EXPECT(set_number(w, 8, 1) == BPFDB_OK && set_number(w, 8, 2) == BPFDB_OK);
	EXPECT(engine.clock.value == clock);
	EXPECT(bpfdb_begin_read_only(r) == BPFDB_OK);
	EXPECT(r->snapshot == clock && engine.clock.value == clock + 1);
	EXPECT(bpfdb_commit(r) == BPFDB_OK);
	bpfdb_session_close(w);
	bpfdb_session_close(r);
	return 0;
}

/* The idle limit rolls a transaction back whose lock cannot be released yet. Its
 * client hears of it all the same, whenever it asks. */
TEST(what_expires_at_a_latched_cell_is_told)
{
	struct bpfdb_session *w = test_session(), *r = test_session();

	EXPECT(w && r);
	EXPECT(set_number(w, 70, 10) == BPFDB_OK && bpfdb_begin(w) == BPFDB_OK);
	EXPECT(set_number(w, 70, 11) == BPFDB_OK);
	PASS(latch_set(r, 70, true));
	session_reap(w, false, w->last_active + config.idle_limit + 1);
	EXPECT(w->state == BPFDB_TXN_EXPIRING && w->lock_count);
	EXPECT(get_number(w, 70) == BPFDB_TIMED_OUT);
	EXPECT(set_number(w, 80, 12) == BPFDB_TIMED_OUT);
	EXPECT(bpfdb_begin(w) == BPFDB_TIMED_OUT);
	EXPECT(w->state == BPFDB_TXN_EXPIRING);

	PASS(latch_set(r, 70, false));
	EXPECT(bpfdb_settle(w) == BPFDB_OK);
	EXPECT(w->state == BPFDB_TXN_EXPIRED && !w->lock_count);
	EXPECT(set_number(w, 80, 12) == BPFDB_TIMED_OUT);
	EXPECT(bpfdb_commit(w) == BPFDB_TIMED_OUT && w->state == BPFDB_TXN_NONE);
	EXPECT(has_number(r, 70, 10) && get_number(r, 80) == BPFDB_NOT_FOUND);

	/* Asked while the lock is still there. */
	EXPECT(bpfdb_begin(w) == BPFDB_OK && set_number(w, 70, 11) == BPFDB_OK);
	PASS(latch_set(r, 70, true));
	session_reap(w, false, w->last_active + config.idle_limit + 1);
	EXPECT(bpfdb_commit(w) == BPFDB_TIMED_OUT && w->state == BPFDB_TXN_FINISHING);
	PASS(latch_set(r, 70, false));
	EXPECT(bpfdb_settle(w) == BPFDB_OK && w->state == BPFDB_TXN_NONE);
	EXPECT(has_number(r, 70, 10));
	bpfdb_session_close(w);
	bpfdb_session_close(r);
	return 0;
}
