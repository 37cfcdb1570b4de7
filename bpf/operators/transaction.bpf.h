/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * BEGIN, BEGIN read-only, COMMIT, ROLLBACK, and the end of sessions.
 *
 *   NONE ──BEGIN──► WRITE ──COMMIT, ROLLBACK──► NONE
 *                     │ ──Error──► FAILED ──COMMIT (says so), ROLLBACK──► NONE
 *   NONE ──BEGIN read-only──► READ ──COMMIT, ROLLBACK──► NONE
 *   WRITE, READ, FAILED ──bpfdb_expire, reaper──► EXPIRED ──COMMIT (says so), ROLLBACK──► NONE
 *   FINISHING: see commit.bpf.h
 *   EXPIRING: as EXPIRED, with locks that could not be released yet
 */
#ifndef BPFDB_TRANSACTION_BPF_H
#define BPFDB_TRANSACTION_BPF_H

#include "large.bpf.h"

static __always_inline int begin(struct bpfdb_session *s, u32 state)
{
	int status = BPFDB_OK;

	if (unlikely(s->state == BPFDB_TXN_FINISHING))
		txn_finish(s);
	status = txn_ready(s);
	if (status == BPFDB_OK && s->state != BPFDB_TXN_NONE)
		status = BPFDB_WRONG_STATE;
	if (status != BPFDB_OK)
		return status;
	if (state == BPFDB_TXN_READ)
		status = snapshot_begin(s);
	txn_touch(s);
	if (status == BPFDB_OK)
		s->state = state;
	return status;
}

__noinline int bpfdb_begin(struct bpfdb_session *s NONNULL)
{
	int status;

	if (!session_enter(s))
		return BPFDB_SESSION_BUSY;
	status = begin(s, BPFDB_TXN_WRITE);
	count_outcome(s, BPFDB_OP_BEGIN, status);
	return session_leave(s, status);
}

__noinline int bpfdb_begin_read_only(struct bpfdb_session *s NONNULL)
{
	int status;

	if (!session_enter(s))
		return BPFDB_SESSION_BUSY;
	status = begin(s, BPFDB_TXN_READ);
	count_outcome(s, BPFDB_OP_BEGIN_READ_ONLY, status);
	return session_leave(s, status);
}

/* Undoes whatever transaction the session has; it may stay FINISHING. */
static __always_inline void abandon(struct bpfdb_session *s)
{
	if (s->state == BPFDB_TXN_READ) {
		snapshot_end(s);
		s->state = BPFDB_TXN_NONE;
	} else if (s->state == BPFDB_TXN_WRITE || s->state == BPFDB_TXN_FAILED ||
		   txn_is_unfinished(s->state)) {
		s->state = BPFDB_TXN_FINISHING;
		txn_finish(s);
	} else {
		s->state = BPFDB_TXN_NONE;
	}
}

/* The same for a transaction whose client does not know yet: until COMMIT or
 * ROLLBACK, every statement says TIMED_OUT. */
static __always_inline void abandon_and_tell(struct bpfdb_session *s)
{
	if (s->state == BPFDB_TXN_READ) {
		snapshot_end(s);
		s->state = BPFDB_TXN_EXPIRED;
	} else if (s->state == BPFDB_TXN_WRITE || s->state == BPFDB_TXN_FAILED) {
		s->state = BPFDB_TXN_EXPIRING;
		txn_finish(s);
	}
}

static __always_inline int commit(struct bpfdb_session *s)
{
	switch (s->state) {
	case BPFDB_TXN_WRITE: commit_all(s); return BPFDB_OK;
	case BPFDB_TXN_READ: abandon(s); return BPFDB_OK;
	case BPFDB_TXN_FAILED: abandon(s); return BPFDB_ROLLED_BACK;
	case BPFDB_TXN_EXPIRED:
	case BPFDB_TXN_EXPIRING: abandon(s); return BPFDB_TIMED_OUT;
	default: return BPFDB_WRONG_STATE;
	}
}

__noinline int bpfdb_commit(struct bpfdb_session *s NONNULL)
{
	int status;

	if (!session_enter(s))
		return BPFDB_SESSION_BUSY;
	status = commit(s);
	count_outcome(s, BPFDB_OP_COMMIT, status);
	return session_leave(s, status);
}

__noinline int bpfdb_rollback(struct bpfdb_session *s NONNULL)
{
	int status = BPFDB_OK;

	if (!session_enter(s))
		return BPFDB_SESSION_BUSY;
	if (s->state == BPFDB_TXN_NONE || s->state == BPFDB_TXN_FINISHING)
		status = BPFDB_WRONG_STATE;
	else
		abandon(s);
	count_outcome(s, BPFDB_OP_ROLLBACK, status);
	return session_leave(s, status);
}

static __always_inline bool txn_is_open(u32 state)
{
	return state == BPFDB_TXN_WRITE || state == BPFDB_TXN_READ || state == BPFDB_TXN_FAILED;
}

/*
 * Rolls back what is open in a session whose user may still be at work: its
 * statements are those of a transaction, and must not become auto-commits. Until
 * COMMIT or ROLLBACK each says TIMED_OUT. SESSION_BUSY: an operator runs, and
 * nothing was done. Without a transaction the session is not touched: its user
 * may be in an auto-commit, which does not enter by an atomic instruction.
 */
__noinline int bpfdb_expire(struct bpfdb_session *s NONNULL)
{
	if (!txn_is_open(LOAD(s->state)))
		return BPFDB_OK;
	if (!session_enter(s))
		return BPFDB_SESSION_BUSY;
	abandon_and_tell(s);
	return session_leave(s, BPFDB_OK);
}

/* ---- Sessions ------------------------------------------------------------ */

struct session_search {
	u32 start;
	int found;
};

static long session_try(u64 i, struct session_search *search)
{
	struct bpfdb_session *s = bpfdb_session((search->start + i) % config.sessions);

	/* One that still has locks to release is not ready to be used again. */
	if (!s || LOAD(s->in_use) || LOAD(s->state) != BPFDB_TXN_NONE || CAS(&s->in_use, 0, 1))
		return 0;
	search->found = (search->start + i) % config.sessions;
	return 1;
}

/*
 * Takes a free session for `kind` (BPFDB_SESSION_). Its index, or
 * -BPFDB_NO_SESSION.
 */
__noinline int bpfdb_session_open(u32 kind)
{
	struct session_search search = {.found = -BPFDB_NO_SESSION};
	struct bpfdb_session *s;

	search.start = FETCH_ADD(&engine.session_cursor.value, 1) % config.sessions;
	bpf_loop(config.sessions, session_try, &search, 0);
	s = search.found >= 0 ? bpfdb_session(search.found) : NULL;
	if (s) {
		s->index = search.found;
		s->kind = kind;
		s->expires = 0;
	}
	return search.found;
}

/*
 * Rolls back what the session has open and frees it. If it cannot be finished
 * now, or its last operator is still running, the reaper does it.
 */
__noinline int bpfdb_session_close(struct bpfdb_session *s NONNULL)
{
	if (session_enter(s)) {
		operands_discard(s);
		spare_aux_free(s);
		abandon(s);
		session_leave(s, 0);
		if (s->state == BPFDB_TXN_NONE) {
			STORE(s->in_use, 0);
			return BPFDB_OK;
		}
	}
	STORE(s->in_use, BPFDB_SESSION_CLOSING);
	return BPFDB_OK;
}

#endif
