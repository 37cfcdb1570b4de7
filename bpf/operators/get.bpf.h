/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * GET: key found, key not found, Error (WRONG_TYPE anywhere, others in a read-write transaction
 * only). With the value comes when it expires: s->found_expires.
 *
 * auto-commit, read-only: no lock; the record as it was at one moment.
 * read-write: under a shared lock (or an exclusive one, GET for update); if
 * there is no record, one without a value is made to carry the lock.
 */
#ifndef BPFDB_GET_BPF_H
#define BPFDB_GET_BPF_H

#include "common.bpf.h"

/* Without a lock, at `snapshot`. */
static __always_inline int get_unlocked(struct bpfdb_session *s, u64 snapshot)
{
	struct bpfdb_cell *cell;
	u64 address, header;
	int status = record_find(s, &cell, &address, &header);

	if (status != BPFDB_OK)
		return status;
	access_note(s, cell);
	return read_visible(s, cell, address, header, snapshot);
}

/* The same as a subprogram, for the loop around it: in the loop the verifier of Linux 6.12 walked it fifty
 * times, and that of 6.18 seven times. */
__noinline int get_once(struct bpfdb_session *s NONNULL, u64 snapshot)
{
	return get_unlocked(s, snapshot);
}

/* Until no writer is faster. */
static __always_inline int get_until_read(struct bpfdb_session *s, u64 snapshot)
{
	repeat(i, BPFDB_READ_TRIES)
	{
		int status = get_once(s, snapshot);

		if (status != RETRY)
			return status;
		COUNT(read_retries);
	}
	return BPFDB_EXHAUSTED;
}

/* The same as a subprogram of its own, as is everything that GET seldom needs: what is left has
 * its variables in registers. */
__noinline int get_again(struct bpfdb_session *s NONNULL, u64 snapshot)
{
	return get_until_read(s, snapshot);
}

/* Makes the record that carries the lock on an absent key. */
static __always_inline int lock_absent(struct bpfdb_session *s, u32 mode)
{
	u32 number = s->lock_count;
	struct bpfdb_lock *lock;
	u64 address = 0, flags;
	int status = lock_reserve(s, &lock);

	if (status != BPFDB_OK)
		return status;
	flags = mode == BPFDB_LOCK_SHARED ? BPFDB_CELL_READER
					  : BPFDB_CELL_EXCLUSIVE | owner_field(s, number);
	status = record_insert(s, flags, &address);
	if (status != BPFDB_OK)
		return status;
	lock = lock_at(s, number);
	if (!lock)
		return BPFDB_CORRUPT;
	/* Not out of the cell: others may have moved the record already. */
	lock_fill(lock, s, s->key_word ?: s->key[0], s->key_word ? s->hash : s->key[1], address,
		  mode);
	lock_keep(s, number, lock);
	s->value_len = BPFDB_ABSENT;
	return BPFDB_NOT_FOUND;
}

/* One attempt to lock the session's key and read it. */
__noinline int get_locked(struct bpfdb_session *s NONNULL, u32 mode)
{
	struct bpfdb_cell *cell;
	u64 address, header;
	u32 number;
	int status = record_find(s, &cell, &address, &header);

	if (status == BPFDB_NOT_FOUND) {
		/* It is no DELETE, whose key may take memory from the reserve. */
		s->value_len = 0;
		return lock_absent(s, mode);
	}
	if (status != BPFDB_OK)
		return status;
	access_note(s, cell);
	status = mode == BPFDB_LOCK_SHARED ? lock_shared(s, cell, address, &header)
					   : lock_exclusive(s, cell, address, &header, &number);
	if (status != BPFDB_OK)
		return status;
	/* By the header that the lock was taken with: a cell that the record was
	 * moved from since then has another one. */
	return read_visible(s, cell, address, header, LATEST);
}

static __always_inline int get_in_transaction(struct bpfdb_session *s, u32 mode)
{
	int status = RETRY;

	repeat(i, BPFDB_TRIES)
	{
		status = make_room(s, get_locked(s, mode));
		if (status != RETRY)
			break;
		COUNT(latch_retries);
	}
	return retry_is_conflict(s, status);
}

static __always_inline int get_begin(struct bpfdb_session *s)
{
	int status = txn_ready(s);

	return status == BPFDB_OK ? key_prepare_apart(s) : status;
}

/*
 * Without a lock: in a read-only transaction, or without one. A snapshot that was
 * revoked while it was read by may have lost the version: so that is asked afterwards.
 */
static __always_inline int get_at_rest(struct bpfdb_session *s)
{
	bool has_snapshot = s->state == BPFDB_TXN_READ;
	int status = get_until_read(s, has_snapshot ? s->snapshot : LATEST);

	return !has_snapshot || snapshot_is_registered(s) ? status : BPFDB_SNAPSHOT_TOO_OLD;
}

/* GET in whatever transaction the session has, or none. */
__noinline int get_stateful(struct bpfdb_session *s NONNULL, u32 mode, u32 operation)
{
	int status;

	if (!session_enter(s))
		return BPFDB_SESSION_BUSY;
	status = get_begin(s);
	if (status == BPFDB_OK) {
		if (s->state == BPFDB_TXN_WRITE)
			status = get_in_transaction(s, mode);
		else if (mode == BPFDB_LOCK_EXCLUSIVE)
			status = s->state == BPFDB_TXN_READ ? BPFDB_READ_ONLY : BPFDB_WRONG_STATE;
		else
			status = get_at_rest(s);
		txn_touch(s);
	}
	status = txn_result(s, status);
	count_outcome(s, operation, status);
	return session_leave(s, status);
}

/* Direct style: see bpfdb.bpf.h. */
__noinline enum bpfdb_status bpfdb_get(struct bpfdb_session *s NONNULL)
{
	int status;

	/* What is FINISHING is committed, or undone: readers know. */
	if (unlikely(s->state != BPFDB_TXN_NONE && s->state != BPFDB_TXN_FINISHING))
		return get_stateful(s, BPFDB_LOCK_SHARED, BPFDB_OP_GET);
	status = key_prepare(s);
	if (likely(status == BPFDB_OK)) {
		status = get_unlocked(s, LATEST);
		if (unlikely(status == RETRY))
			status = get_again(s, LATEST);
	}
	count_outcome(s, BPFDB_OP_GET, status);
	return status;
}

/* The same without a transaction, and not counted: to find out whether a
 * lock is worth its while. */
__noinline enum bpfdb_status bpfdb_peek(struct bpfdb_session *s NONNULL)
{
	int status = key_prepare(s);

	return status == BPFDB_OK ? get_again(s, LATEST) : status;
}

/* The outcome of `call`, of GET and its kin, which finds values of any type. */
#define OF_ANY_TYPE(s, call)                                                                       \
	({                                                                                         \
		enum bpfdb_status of_any_;                                                         \
		(s)->value_type = BPFDB_TYPE_ANY;                                                  \
		of_any_ = (call);                                                                  \
		(s)->value_type = BPFDB_TYPE_STRING;                                               \
		of_any_;                                                                           \
	})

/* The outcome of `call`, whose look-ups are no accesses. */
#define UNTRACKED(s, call)                                                                         \
	({                                                                                         \
		u32 untracked_ = (s)->untracked;                                                   \
		enum bpfdb_status outcome_;                                                        \
		(s)->untracked = 1;                                                                \
		outcome_ = (call);                                                                 \
		(s)->untracked = untracked_;                                                       \
		outcome_;                                                                          \
	})

__noinline enum bpfdb_status bpfdb_get_for_update(struct bpfdb_session *s NONNULL)
{
	return get_stateful(s, BPFDB_LOCK_EXCLUSIVE, BPFDB_OP_GET_FOR_UPDATE);
}

/* GET that takes the lock which a write to come needs: a reader of the key counts it as GET, in the
 * server's hits and misses too. */
__noinline enum bpfdb_status bpfdb_get_exclusive(struct bpfdb_session *s NONNULL)
{
	return get_stateful(s, BPFDB_LOCK_EXCLUSIVE, BPFDB_OP_GET);
}

/*
 * 1 if the slot that the last GET pointed to has not been given up since: what
 * was copied from it is the value.
 */
__noinline int bpfdb_still_valid(struct bpfdb_session *s NONNULL)
{
	return !s->view_cell || view_is_valid(s);
}

#endif
