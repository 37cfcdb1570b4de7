/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * SCAN: all keys, in steps that may be far apart, while the index is split and
 * merged. A key that is there from the first step to the last is found at least
 * once; one that comes or goes meanwhile may be found or not; none is found
 * that was never there. In a read-only transaction it sees the snapshot, in which
 * no key comes or goes. In a read-write transaction it takes the scan lock
 * (../storage/scan_lock.bpf.h), which keeps others from making a key come or go.
 *
 * The order is fixed by the hash alone. A key's position is
 *
 *   home (10 bits) | page bits of the hash, the lowest first (22 bits)
 *
 * and the cursor is the first position not visited yet. A bucket of level L
 * holds the keys of one home whose lowest L page bits are equal: with these
 * bits first, that is an interval of 2^(22 - L) positions. A step finds the
 * bucket of the position it is at, by the index as it is now, takes all of it,
 * and goes on behind the interval that the bucket covers *at that moment*.
 *
 * Why nothing is lost: a bucket is split or merged in one store, and its home
 * word, the same before and after it was read, says level and members. So at
 * that moment every key of the interval was in it. By induction every key that
 * stays is found when the cursor passes its position, and the cursor passes
 * all. A split makes later intervals smaller; a merge may make the one at the
 * cursor begin before it: then keys are found twice.
 *
 * Why the home comes first: if the page did, a step would visit a page home by
 * home, and a page that is merged with its buddy while the cursor is at home h
 * would bring keys to homes below h that were not visited in either. Here a
 * merge affects one interval of one home. (Redis's SCAN counts in the same
 * order within a table of one size: dictScan, P. Noordhuis.) It ends: the
 * cursor only grows, each time by 1 at least.
 */
#ifndef BPFDB_SCAN_BPF_H
#define BPFDB_SCAN_BPF_H

#include "transaction.bpf.h"

#define SCAN_PAGE_BITS BPFDB_DIRECTORY_BITS_MAX
#define SCAN_END (1ULL << (BPFDB_CELL_BITS + SCAN_PAGE_BITS))

/* The lowest 22 bits, in reverse order. */
static __always_inline u32 page_bits_reverse(u32 v)
{
	v = (v >> 1 & 0x55555555) | (v & 0x55555555) << 1;
	v = (v >> 2 & 0x33333333) | (v & 0x33333333) << 2;
	v = (v >> 4 & 0x0f0f0f0f) | (v & 0x0f0f0f0f) << 4;
	v = __builtin_bswap32(v);
	return v >> (32 - SCAN_PAGE_BITS);
}

/* The bits of a hash that make the index look at this position. */
static __always_inline u64 scan_hash(u64 cursor)
{
	u64 home = cursor >> SCAN_PAGE_BITS & (BPFDB_CELLS_PER_PAGE - 1);

	return (u64)page_bits_reverse(cursor) << BPFDB_CELL_BITS | home;
}

/* The position of a hash. */
static __always_inline u64 scan_position(u64 hash)
{
	u64 home = home_of(hash);

	return home << SCAN_PAGE_BITS | page_bits_reverse(hash >> BPFDB_CELL_BITS);
}

/* The first position behind the bucket of this level. */
static __always_inline u64 scan_next(u64 cursor, u32 level)
{
	u64 interval = (1ULL << SCAN_PAGE_BITS) >> (level & 31);

	return (cursor | (interval - 1)) + 1;
}

/* An Error fails a read-write transaction, as that of every operator does. */
static __always_inline int scan_result(struct bpfdb_session *s, int status)
{
	count_error(status);
	if (status == BPFDB_CONFLICT)
		count_conflict(LOAD(s->conflict));
	if (s->state != BPFDB_TXN_WRITE)
		return status;
	status = txn_result(s, status);
	/* What has failed cannot commit, so what it has seen needs no protection. */
	if (s->state == BPFDB_TXN_FAILED)
		scan_lock_release(s);
	return status;
}

/* Before a step of a scan of these keyspaces: OK or an Error. The session is entered. */
static __always_inline int scan_ready(struct bpfdb_session *s, u32 keyspaces)
{
	int status = txn_ready(s);

	if (status == BPFDB_OK && s->state == BPFDB_TXN_WRITE) {
		status = scan_lock_take(s, keyspaces);
		/* By this it judges what has expired; published before anything is looked at. */
		session_time(s);
	}
	return scan_result(s, status);
}

/* ---- With the scan lock ------------------------------------------------------ */

static __always_inline bool form_is_plain(u32 form)
{
	return form < BPFDB_EXPIRES;
}

/* Another session has a version pending in `cell`. OK: whatever becomes of it, the key is there or not as
 * read_visible() says. RETRY: it may be decided soon. */
static __always_inline int scan_pending(struct bpfdb_cell *cell, u64 address, u64 header)
{
	struct bpfdb_session *owner = bpfdb_session(header_owner(header));
	struct bpfdb_lock *lock = owner ? lock_of_header(owner, header, address) : NULL;
	u32 form, head = version_form(&cell->head);
	u64 phase;

	if (!lock)
		return RETRY;
	form = LOAD(lock->meta) & BPFDB_FORM_MASK;
	phase = commit_phase(LOAD_ACQUIRE(owner->commit));
	if (phase == BPFDB_PHASE_COMMITTED)
		return BPFDB_OK;
	return phase == BPFDB_PHASE_NONE && form_is_plain(form) && form_is_plain(head) ? BPFDB_OK
										       : RETRY;
}

/* One look at the record: FOUND, WRONG_TYPE, NOT_FOUND, or RETRY. Invariant 3 of scan_lock.bpf.h: a
 * header that is not latched, and by which no version is pending, is changed. */
static __always_inline int scan_look(struct bpfdb_session *s, struct bpfdb_cell *cell, u64 address,
				     u64 header)
{
	u64 next = header_next(header, header & (BPFDB_CELL_CHANGE - 1));

	if (!(header & BPFDB_CELL_USED))
		return BPFDB_NOT_FOUND;
	if (header & BPFDB_CELL_LATCH)
		return RETRY;
	if (header_is_mine(s, header))
		return read_visible(s, cell, address, header, LATEST);
	if (header & BPFDB_CELL_PENDING) {
		if (scan_pending(cell, address, header) != BPFDB_OK)
			return RETRY;
		return read_visible(s, cell, address, header, LATEST);
	}
	if (CAS(&cell->header, header, next) != header)
		return RETRY;
	return read_visible(s, cell, address, next, LATEST);
}

/* As scan_sees(), for the holder of the scan lock; or CONFLICT. */
__noinline int scan_sees_locked(struct bpfdb_session *s NONNULL, u64 address)
{
	struct bpfdb_cell *cell = bpfdb_at(address);
	u64 header = 0;

	if (!cell)
		return 0;
	repeat(i, BPFDB_READ_TRIES)
	{
		int status;

		header = LOAD_ACQUIRE(cell->header);
		status = scan_look(s, cell, address, header);
		if (status != RETRY)
			return status == BPFDB_FOUND || status == BPFDB_WRONG_TYPE;
		COUNT(read_retries);
	}
	return header & BPFDB_CELL_EXCLUSIVE
		       ? conflict(s, BPFDB_CONFLICT_WRITTEN, header_owner(header) + 1)
		       : conflict(s, BPFDB_CONFLICT_BUSY, 0);
}

/* ---- Without it -------------------------------------------------------------- */

/*
 * Is there a value in the record at `address` for this session: 1 or 0. One
 * that is being written all the time counts as there. After scan_ready().
 */
__noinline int scan_sees(struct bpfdb_session *s NONNULL, u64 address)
{
	u64 snapshot = s->state == BPFDB_TXN_READ ? s->snapshot : LATEST;
	struct bpfdb_cell *cell = bpfdb_at(address);

	if (!cell)
		return 0;
	repeat(i, BPFDB_TRIES)
	{
		u64 header = LOAD_ACQUIRE(cell->header);
		int status;

		if (!(header & BPFDB_CELL_USED))
			return 0;
		status = read_visible(s, cell, address, header, snapshot);
		if (status != RETRY)
			return status == BPFDB_FOUND || status == BPFDB_WRONG_TYPE;
	}
	return 1;
}

#endif
