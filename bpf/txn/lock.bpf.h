/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Strict two-phase locking without waiting; the locks are in the records.
 *
 *   free ──GET──► shared (n readers) ──GET by another──► shared (n + 1)
 *   free ──SET──► exclusive (owner)        shared, only me ──SET──► exclusive
 *   anything else: CONFLICT, at once, for the later comer
 *
 * A key without a record gets one without a value (a placeholder) and is
 * locked like any other; it goes when its last lock goes.
 *
 * Every change of a header here is one CAS that demands "not latched".
 */
#ifndef BPFDB_LOCK_BPF_H
#define BPFDB_LOCK_BPF_H

#include "visible.bpf.h"

static __always_inline bool lock_names(const struct bpfdb_lock *lock, u64 k0, u64 k1, u32 len)
{
	return lock->key[0] == k0 && lock->key[1] == k1 && lock->key_len == len;
}

/* Is lock `i` a shared one on the record with these key words and the
 * session's key length? */
__noinline int lock_is_shared_on(struct bpfdb_session *s NONNULL, u32 i, u64 k0, u64 k1)
{
	struct bpfdb_lock *lock = lock_at(s, i);

	return lock && lock->mode == BPFDB_LOCK_SHARED && lock_names(lock, k0, k1, s->key_len);
}

/* The same for a far lock on the record at `address`; -1 if there is none. */
static __always_inline int far_lock_search(struct bpfdb_session *s, u64 address)
{
	u32 number = far_lock_of(s, address);
	struct bpfdb_lock *lock = number ? lock_at(s, number) : NULL;

	return lock && lock->mode == BPFDB_LOCK_SHARED ? (int)number : -1;
}

/* Number of that lock, on the record at `address`; -1 if the session holds none. */
__noinline int lock_search(struct bpfdb_session *s NONNULL, u64 k0, u64 k1, u64 address)
{
	u32 count = s->lock_count;

	repeat(i, BPFDB_LOCKS_NEAR)
	{
		if (i >= count)
			return -1;
		if (lock_is_shared_on(s, i, k0, k1))
			return i;
	}
	return unlikely(lock_is_far(count - 1)) ? far_lock_search(s, address) : -1;
}

/* A lock of others, as a header shows it, is in the way. */
static __always_inline int conflict_or_retry(struct bpfdb_session *s, u64 header)
{
	if (header & BPFDB_CELL_LATCH)
		return RETRY;
	return header & BPFDB_CELL_EXCLUSIVE
		       ? conflict(s, BPFDB_CONFLICT_WRITTEN, header_owner(header) + 1)
		       : conflict(s, BPFDB_CONFLICT_READ, 0);
}

/* For an operator whose attempts have run out: a latch was held all the while. */
static __always_inline int retry_is_conflict(struct bpfdb_session *s, int status)
{
	return status == RETRY ? conflict(s, BPFDB_CONFLICT_BUSY, 0) : status;
}

/*
 * The outcome for a record that seems to be locked by the session already, by
 * what was read of the cell after its header: the cell may have been emptied, and
 * another record put there, in between.
 */
static __always_inline int lock_is_held(struct bpfdb_cell *cell, u64 header)
{
	return header_same_content(LOAD_AFTER(cell->header), header) ? BPFDB_OK : RETRY;
}

/* Takes a shared lock on `cell`, unless the session has one. *header, as it was
 * before the key was compared, goes on being the header of that record. */
static __always_inline int lock_shared(struct bpfdb_session *s, struct bpfdb_cell *cell,
				       u64 address, u64 *header)
{
	struct bpfdb_lock *lock;
	u64 before = *header;
	u32 readers = header_field(before);
	int status;

	if (before & BPFDB_CELL_EXCLUSIVE)
		return header_is_mine(s, before) ? lock_is_held(cell, before)
						 : conflict_or_retry(s, before);
	if (before & BPFDB_CELL_LATCH)
		return RETRY;
	if (readers && lock_search(s, LOAD(cell->key[0]), LOAD(cell->key[1]), address) >= 0)
		return lock_is_held(cell, before);
	if (readers >= BPFDB_READERS_MAX)
		return conflict(s, BPFDB_CONFLICT_READERS_MAX, 0);
	status = lock_reserve(s, &lock);
	if (status != BPFDB_OK)
		return status;
	lock_fill(lock, s, LOAD(cell->key[0]), LOAD(cell->key[1]), address, BPFDB_LOCK_SHARED);
	*header = before + BPFDB_CELL_READER;
	if (CAS(&cell->header, before, *header) != before)
		return RETRY;
	lock_keep(s, s->lock_count, lock);
	return BPFDB_OK;
}

/* The outcome for a record that the session has locked exclusively; *number is the lock's
 * place. */
static __always_inline int lock_is_mine(struct bpfdb_session *s, struct bpfdb_cell *cell,
					u64 address, u64 header, u32 *number)
{
	*number = header_lock(header);
	if (unlikely(*number == BPFDB_OWNER_LOCK_FAR)) {
		*number = far_lock_of(s, address);
		if (!*number)
			return RETRY;
	}
	return lock_is_held(cell, header);
}

/* Takes an exclusive lock on `cell`; *number is the lock's place. *header as
 * above. */
static __always_inline int lock_exclusive(struct bpfdb_session *s, struct bpfdb_cell *cell,
					  u64 address, u64 *header, u32 *number)
{
	u64 before = *header, kept = before & BPFDB_CELL_FLAGS_MASK;
	u32 readers = header_field(before);
	struct bpfdb_lock *lock;
	int status, mine;

	if (before & BPFDB_CELL_EXCLUSIVE)
		return header_is_mine(s, before) ? lock_is_mine(s, cell, address, before, number)
						 : conflict_or_retry(s, before);
	if (before & BPFDB_CELL_LATCH)
		return RETRY;
	mine = readers ? lock_search(s, LOAD(cell->key[0]), LOAD(cell->key[1]), address) : -1;
	if (readers > 1 || (readers == 1 && mine < 0))
		return conflict(s, BPFDB_CONFLICT_READ, 0);
	if (mine >= 0) {
		lock = lock_at(s, mine);
		*number = mine;
		status = lock ? BPFDB_OK : BPFDB_CORRUPT;
	} else {
		*number = s->lock_count;
		status = lock_reserve(s, &lock);
	}
	if (status != BPFDB_OK)
		return status;
	if (mine < 0)
		lock_fill(lock, s, LOAD(cell->key[0]), LOAD(cell->key[1]), address,
			  BPFDB_LOCK_EXCLUSIVE);
	*header = header_next(before, kept | BPFDB_CELL_EXCLUSIVE | owner_field(s, *number));
	if (CAS(&cell->header, before, *header) != before)
		return RETRY;
	lock->mode = BPFDB_LOCK_EXCLUSIVE;
	if (mine < 0)
		lock_keep(s, *number, lock);
	return BPFDB_OK;
}

/* Does this header name exclusive lock `number` of the session? All far locks have the same
 * name: cell_is_of_lock() tells them apart. */
static __always_inline bool header_is_of_lock(const struct bpfdb_session *s, u64 header, u32 number)
{
	return (header & (BPFDB_CELL_USED | BPFDB_CELL_EXCLUSIVE | BPFDB_CELL_FIELD_MASK)) ==
	       (BPFDB_CELL_USED | BPFDB_CELL_EXCLUSIVE | owner_field(s, number));
}

/* Is the record in `cell` the one that the session holds by exclusive lock `number`? `header`
 * is that of the cell, read before this: if it stays, so does the answer. */
static __always_inline bool cell_is_of_lock(struct bpfdb_session *s, const struct bpfdb_cell *cell,
					    u64 header, u32 number)
{
	struct bpfdb_lock *lock;

	if (!header_is_of_lock(s, header, number))
		return false;
	if (likely(!lock_is_far(number)))
		return true;
	lock = lock_at(s, number);
	return lock && cell_has_identity(cell, lock->key[0], lock->key[1], lock->key_len);
}

/*
 * Address of the cell of a lock that this session holds; 0 if it is not found now: it
 * is being moved. A subprogram of its own: inlined twice, its loop does not converge
 * for the verifier (6.18, clang 22).
 */
__noinline u64 lock_cell(struct bpfdb_lock *lock NONNULL)
{
	struct bpfdb_cell *cell = bpfdb_at(lock->cell);
	struct bucket b = {};
	u32 bitmap;

	/* What looks like the cell may be the bytes of a value by now. */
	if (cell && address_is_of_cell(lock->cell) &&
	    (LOAD_ACQUIRE(cell->header) & BPFDB_CELL_USED) &&
	    cell_has_identity(cell, lock->key[0], lock->key[1], lock->key_len))
		return lock->cell;
	if (bucket_find(lock->hash, &b) != BPFDB_OK)
		return 0;
	bitmap = b.home & BPFDB_HOME_BITMAP_MASK;
	repeat(i, BPFDB_NEIGHBOURHOOD)
	{
		if (!(bitmap >> i))
			break;
		cell = cell_in(b.memory, b.index + i);
		if (!(bitmap >> i & 1) || !(LOAD_ACQUIRE(cell->header) & BPFDB_CELL_USED) ||
		    !cell_has_identity(cell, lock->key[0], lock->key[1], lock->key_len))
			continue;
		lock->cell = cell_address(b.page, b.index + i);
		return lock->cell;
	}
	return 0;
}

#endif
