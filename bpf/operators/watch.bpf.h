/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * WATCH: a token that shows later whether a key was written since,
 * be it with the same value, or has expired.
 *
 * Without a transaction the token is a moment and whether there was a value
 * then. The moment is a timestamp S, taken as a snapshot takes it (clock.bpf.h),
 * but nothing is kept for it. Inside a transaction, read-only or not, the token
 * says when the key was written last, and whether it has a value:
 *
 *   WATCH     t = watch(key), for each key, without a transaction
 *   EXEC      BEGIN; for each key: GET or GET for update, then n = watch(key);
 *             n.changed <= t.snapshot and n.present == t.present, else ROLLBACK;
 *             the commands; COMMIT
 *
 * Argument
 *  1. WATCH reads the key as a reader with snapshot S does, so that a commit it
 *     meets half way is decided, and what commit.bpf.h says of snapshots holds: the
 *     commits of this key with timestamps <= S are visible to every later
 *     reader, all others come later and have timestamps > S.
 *  2. A record that was not removed since has the timestamp of its last commit
 *     in its head. If it was removed, the timestamp is in the table of
 *     removal.bpf.h; should there be a record again it has a later one, or it is
 *     a placeholder, with none: then the table counts.
 *  3. Expiry has no commit. But a key that was absent by the clock stays so
 *     until it is written; so it shows as a value that was present and is not.
 *  4. The locks of EXEC keep what was compared until the commit. So all reads
 *     between WATCH and EXEC have the result that they would have had at the
 *     commit: together they are one serializable transaction.
 *  5. An EXEC that only reads takes no locks: its transaction is a snapshot, and the
 *     token is taken when that has begun. A key that was not written up to then was
 *     not written up to the snapshot: all reads have the result that they would
 *     have had at its moment. A change that the snapshot does not see may void EXEC;
 *     it has done nothing then, and came after that change. A pending version that
 *     is not committed voids nothing: its commit will come after the snapshot.
 *
 * Locks, taken by whomever and in vain, splits, merges and the sweeper change
 * neither timestamps nor values, so they do not matter. One case remains in which
 * it was not written and seems so: the key is absent, and another one with the same
 * place in the table was deleted or expired since, one in BPFDB_REMOVALS.
 */
#ifndef BPFDB_WATCH_BPF_H
#define BPFDB_WATCH_BPF_H

#include "transaction.bpf.h"

/* A change that no moment comes after. */
#define WATCH_CHANGING (~0ULL)

static __always_inline void watch_absent(struct bpfdb_session *s, struct bpfdb_watch *token)
{
	token->present = 0;
	token->changed = removal_stamp(s->hash);
}

/* Does the head say when the record was written last? Not if it was written in this
 * transaction, or by a session that may be committing. A snapshot knows more: what is
 * undecided when it has begun comes after it. */
static __always_inline enum pending watch_pending(struct bpfdb_session *s, struct bpfdb_cell *cell,
						  u64 header)
{
	struct bpfdb_session *owner;

	if (!(header & BPFDB_CELL_PENDING))
		return PENDING_IGNORE;
	if (s->state != BPFDB_TXN_READ || (header & BPFDB_CELL_REPLACING))
		return PENDING_VISIBLE;
	owner = bpfdb_session(header_owner(header));
	return owner ? pending_state(owner, cell, header, s->snapshot) : PENDING_OVER;
}

static __always_inline void watch_record(struct bpfdb_session *s, struct bpfdb_watch *token,
					 struct bpfdb_cell *cell, enum pending pending)
{
	u32 form = version_form(&cell->head);
	u64 stamp = version_stamp(&cell->head);

	token->present = !form_is_gone(s, form, LOAD(cell->head.data[1]));
	token->changed = stamp;
	if (form == BPFDB_ABSENT && !stamp)
		watch_absent(s, token);
	if (pending == PENDING_VISIBLE)
		token->changed = WATCH_CHANGING;
}

/* When the key was written last. */
__noinline int watch_last(struct bpfdb_session *s NONNULL, struct bpfdb_watch *token NONNULL)
{
	enum pending pending;
	struct bpfdb_cell *cell;
	u64 address, header;
	int status = record_find(s, &cell, &address, &header);

	if (status == BPFDB_NOT_FOUND) {
		watch_absent(s, token);
		return BPFDB_OK;
	}
	if (status != BPFDB_OK)
		return status;
	pending = watch_pending(s, cell, header);
	if (pending == PENDING_OVER)
		return RETRY;
	watch_record(s, token, cell, pending);
	return header_same_content(LOAD_AFTER(cell->header), header) ? BPFDB_OK : RETRY;
}

/* A moment, and the key at that moment. */
static __always_inline int watch_begin(struct bpfdb_session *s, struct bpfdb_watch *token)
{
	int status;

	token->snapshot = FETCH_ADD(&engine.clock.value, 1);
	status = OF_ANY_TYPE(s, get_again(s, token->snapshot));
	token->present = status == BPFDB_FOUND;
	return status < BPFDB_FIRST_ERROR ? BPFDB_OK : status;
}

static __always_inline int watch_end(struct bpfdb_session *s, struct bpfdb_watch *token)
{
	repeat(i, BPFDB_READ_TRIES)
	{
		int status = watch_last(s, token);

		if (status != RETRY)
			return status;
		COUNT(read_retries);
	}
	return BPFDB_EXHAUSTED;
}

/* The token of the session's key: OK or an Error, which fails nothing. */
__noinline int bpfdb_watch(struct bpfdb_session *s NONNULL, struct bpfdb_watch *token NONNULL)
{
	int status;

	if (!session_enter(s))
		return BPFDB_SESSION_BUSY;
	status = get_begin(s);
	if (status == BPFDB_OK) {
		status = s->state == BPFDB_TXN_NONE ? watch_begin(s, token) : watch_end(s, token);
		txn_touch(s);
	}
	return session_leave(s, status);
}

#endif
