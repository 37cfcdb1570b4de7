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

#include "../txn/joined.bpf.h"
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
	/* session_time() may have set it behind the end of the last transaction: expired by
	 * another user, in the middle of a SET. */
	STORE(s->time, 0);
	if (state == BPFDB_TXN_READ)
		status = snapshot_begin(s);
	txn_touch(s);
	if (status != BPFDB_OK)
		return status;
	s->interactive = 0;
	s->patient = 0;
	s->state = state;
	return BPFDB_OK;
}

__noinline enum bpfdb_status bpfdb_begin(struct bpfdb_session *s NONNULL)
{
	int status;

	if (!session_enter(s))
		return BPFDB_SESSION_BUSY;
	status = begin(s, BPFDB_TXN_WRITE);
	count_outcome(s, BPFDB_OP_BEGIN, status);
	return session_leave(s, status);
}

/* As transaction_begin, for a client that goes on with it when it likes: an operator that meets its
 * locks need not wait. */
static __always_inline enum bpfdb_status bpfdb_begin_interactive(struct bpfdb_session *s)
{
	enum bpfdb_status status = bpfdb_begin(s);

	if (status == BPFDB_OK)
		s->interactive = 1;
	return status;
}

__noinline enum bpfdb_status bpfdb_begin_read_only(struct bpfdb_session *s NONNULL)
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
		/* As in begin(): the sweeper's horizon waits for it. */
		STORE(s->time, 0);
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

/*
 * The end of a visit in a session by another than its user: the reaper, one that closes it, one
 * that expires its transaction. The user may have left them something to roll back.
 */
__noinline int session_leave_as_guest(struct bpfdb_session *s NONNULL, int status)
{
	u32 busy = CAS(&s->busy, BPFDB_BUSY_INSIDE, BPFDB_BUSY_FREE);

	/* FREE: a writer without a transaction entered and left beside the guest (write_body()). What
	 * is open since then is its user's. */
	if (likely(busy != BPFDB_BUSY_UNDO))
		return status;
	abandon(s);
	return session_leave(s, status);
}

/*
 * Finishes what an earlier COMMIT, ROLLBACK or auto-commit had to leave. What
 * keeps it is a latch for a moment, or memory for a version that a snapshot
 * came to need after SET. For callers that have frames left: the driver of user
 * space, the reaper. OK, or why it must be tried again.
 */
__noinline int bpfdb_settle(struct bpfdb_session *s NONNULL)
{
	int status = BPFDB_OK;

	if (!session_enter(s))
		return BPFDB_SESSION_BUSY;
	if (txn_is_unfinished(s->state) && !txn_finish(s))
		status = BPFDB_MEMORY_PENDING;
	return session_leave_as_guest(s, status);
}

static __always_inline int commit(struct bpfdb_session *s)
{
	switch (s->state) {
	case BPFDB_TXN_WRITE: return commit_all(s);
	case BPFDB_TXN_READ: abandon(s); return BPFDB_OK;
	case BPFDB_TXN_FAILED: abandon(s); return BPFDB_ROLLED_BACK;
	case BPFDB_TXN_EXPIRED:
	case BPFDB_TXN_EXPIRING: abandon(s); return BPFDB_TIMED_OUT;
	default: return BPFDB_WRONG_STATE;
	}
}

__noinline enum bpfdb_status bpfdb_commit(struct bpfdb_session *s NONNULL)
{
	int status;

	if (!session_enter(s))
		return BPFDB_SESSION_BUSY;
	status = commit(s);
	count_outcome(s, BPFDB_OP_COMMIT, status);
	return session_leave(s, status);
}

__noinline enum bpfdb_status bpfdb_rollback(struct bpfdb_session *s NONNULL)
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

/*
 * Takes a snapshot for one read without a transaction, whose value writers replace
 * whenever it is copied: what a snapshot has found stays. True: the read ends with
 * bpfdb_commit(). False: a transaction is open already; or with one version per record
 * writers would be refused for as long as it lasts.
 */
static __always_inline bool read_takes_snapshot(struct bpfdb_session *s)
{
	if (config.versions == 1 || (s->state != BPFDB_TXN_NONE && s->state != BPFDB_TXN_FINISHING))
		return false;
	return bpfdb_begin_read_only(s) == BPFDB_OK;
}

/*
 * A transaction is to be rolled back whose end has found a visitor in the session all the while:
 * the visitor does it when it leaves. If it has just left it is done here.
 */
__noinline int txn_undo_later(struct bpfdb_session *s NONNULL)
{
	repeat(i, BPFDB_READ_TRIES)
	{
		if (session_undo_later(s))
			break;
		if (!session_enter_once(s))
			continue;
		abandon(s);
		session_leave(s, 0);
		break;
	}
	return 0;
}

/*
 * Ends a transaction that a command has begun for itself. The reaper may be in the session
 * for a moment: left open, the transaction would be taken for the client's. If it stays, its
 * processor being taken away, the transaction is rolled back, by the visitor, and this says
 * SESSION_BUSY, as every operator does until it has left.
 *
 * The label keeps the outcomes apart: asked for after the loop, they would make the verifier
 * walk what follows once more for each.
 */
#define TXN_END_OWN(s, end)                                                                        \
	({                                                                                         \
		__label__ ended;                                                                   \
		int ended_ = BPFDB_SESSION_BUSY;                                                   \
		repeat(end_try_, BPFDB_READ_TRIES)                                                 \
		{                                                                                  \
			ended_ = end(s);                                                           \
			if (likely(ended_ != BPFDB_SESSION_BUSY))                                  \
				goto ended;                                                        \
		}                                                                                  \
		txn_undo_later(s);                                                                 \
ended:                                                                                             \
		ended_;                                                                            \
	})

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
	return session_leave_as_guest(s, BPFDB_OK);
}

/* ---- Sessions ------------------------------------------------------------ */

/*
 * Free sessions form a list, changed by CAS only; its head has a tag that grows with
 * every change, so a stale CAS cannot succeed. A session is in the list, or in_use, or
 * between the two in one program, or was never opened: these are numbered from
 * `sessions_made` on, so that a new engine needs no list.
 *
 * The caller that turns in_use to 0 puts the session into the list, once: it does so inside the
 * session (`busy`), where it has seen that in_use was not 0. A caller that does not get into a
 * session can only mark it, for the reaper; since `in_use` counts how often the session was
 * opened, the mark is on the one that was seen, and not its successor.
 */
static __always_inline u32 session_use(u32 in_use)
{
	return in_use & BPFDB_SESSION_USE_MASK;
}

static __always_inline u64 sessions_head(u64 from, u32 link)
{
	return ((from & ~(LIST_TAG - 1)) + LIST_TAG) | link;
}

static __always_inline bool session_push(struct bpfdb_session *s)
{
	repeat(i, BPFDB_READ_TRIES)
	{
		u64 head = LOAD(engine.sessions_free.value);

		STORE(s->next_free, (u32)head);
		if (CAS(&engine.sessions_free.value, head, sessions_head(head, s->index + 1)) ==
		    head)
			return true;
	}
	return false;
}

/* Index of a session that was closed; negative: there is none. */
static __always_inline int session_pop(void)
{
	repeat(i, BPFDB_READ_TRIES)
	{
		u64 head = LOAD_ACQUIRE(engine.sessions_free.value);
		u32 index = (u32)head - 1;
		struct bpfdb_session *s = bpfdb_session(index);

		/* Also if the list is empty. */
		if (!s)
			return -BPFDB_NO_SESSION;
		if (CAS(&engine.sessions_free.value, head,
			sessions_head(head, LOAD(s->next_free))) == head)
			return index;
	}
	return -BPFDB_NO_SESSION;
}

/* Index of a session that was never opened. */
static __always_inline int session_make(void)
{
	repeat(i, BPFDB_READ_TRIES)
	{
		u64 made = LOAD(engine.sessions_made.value);

		if (made >= config.sessions)
			break;
		if (CAS(&engine.sessions_made.value, made, made + 1) == made)
			return made;
	}
	return -BPFDB_NO_SESSION;
}

static __always_inline int session_take(u32 kind, u32 holder)
{
	int index = session_pop();
	struct bpfdb_session *s;

	if (index < 0)
		index = session_make();
	s = index < 0 ? NULL : bpfdb_session(index);
	if (!s)
		return -BPFDB_NO_SESSION;
	s->index = index;
	s->kind = kind;
	s->holder = holder;
	s->expires = 0;
	s->unlogged = 0;
	s->keeps_index = 0;
	s->keeps_depends = 0;
	s->untracked = 0;
	s->depends = 0;
	s->opened += BPFDB_SESSION_OPENING;
	/* Last: from here on the reaper looks at it. */
	(void)SWAP(&s->in_use, s->opened | BPFDB_SESSION_OPEN);
	return index;
}

/*
 * Takes a free session for `kind` (BPFDB_SESSION_), in constant time. Its index, or
 * -BPFDB_NO_SESSION, or -BPFDB_NOT_JOINED. When the programs of this object are gone, the
 * engine's owner closes it.
 */
__noinline int bpfdb_session_open(u32 kind)
{
	if (!is_joined()) {
		if (is_laid_out())
			count_error(BPFDB_NOT_JOINED);
		return -BPFDB_NOT_JOINED;
	}
	return session_take(kind, config.holder);
}

/* Rolls back what a session has open that was entered and is in use; leaves it, and
 * frees it. False: it could not be finished. */
static __always_inline bool session_end(struct bpfdb_session *s)
{
	bool ended;

	operands_discard(s);
	abandon(s);
	/* Only now: what is rolled back may have taken one. */
	spare_aux_free(s);
	ended = s->state == BPFDB_TXN_NONE;
	if (ended)
		STORE_RELEASE(s->in_use, 0);
	session_leave_as_guest(s, 0);
	/* Only when it was left: a session that is taken from the list may be entered at once. */
	if (!ended || session_push(s))
		return ended;
	STORE_RELEASE(s->in_use, BPFDB_SESSION_CLOSING);
	return true;
}

/* The reaper is to close the session, if it still is the one that had this in_use. */
static __always_inline void session_close_later(struct bpfdb_session *s, u32 in_use)
{
	if (session_use(in_use) == BPFDB_SESSION_OPEN)
		CAS(&s->in_use, in_use, (in_use & ~BPFDB_SESSION_USE_MASK) | BPFDB_SESSION_CLOSING);
}

/* Closes the session if it is this holder's. */
static __always_inline int session_close(struct bpfdb_session *s, u32 holder)
{
	bool entered = session_enter(s);
	/* Before its holder: of a session that was opened since it is another one. */
	u32 in_use = LOAD_ACQUIRE(s->in_use);

	if (!in_use || LOAD(s->holder) != holder) {
		if (entered)
			session_leave_as_guest(s, 0);
		return BPFDB_BAD_REQUEST;
	}
	if (!entered || !session_end(s))
		session_close_later(s, in_use);
	return BPFDB_OK;
}

/*
 * Rolls back what the session has open and frees it. If it cannot be finished
 * now, or its last operator is still running, the reaper does it. BAD_REQUEST: it is
 * closed already, or was opened by others; nothing was done.
 */
__noinline int bpfdb_session_close(struct bpfdb_session *s NONNULL)
{
	return session_close(s, config.holder);
}

#endif
