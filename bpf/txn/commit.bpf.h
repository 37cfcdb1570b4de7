/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Commit: visible at once or not at all, without a global latch.
 *
 *      NONE ──announce──► COMMITTING(n) ──decide──► COMMITTED(E) ──► NONE
 *                              │ one CAS, by the owner or            ▲
 *                              │ by a snapshot reader                │
 *                              └ E = clock                           │
 *                                      every pending version becomes the head,
 *                                      every lock is released ────────┘
 *
 * A transaction's pending versions lie in its locks; the records name the
 * owner. Whether a pending version counts is decided by one word, the owner's
 * commit word, so all of them become visible in the one CAS to COMMITTED.
 *
 * Argument (the cases of visible.bpf.h):
 *  1. Atomic. A reader judges each pending version by the same word, which
 *     goes to COMMITTED once and stays until no record names the owner. A
 *     reader reads header, word, header: equal headers mean that the record
 *     was pending under this transaction when the word was read.
 *  2. Snapshots. Reader with snapshot S meets the record
 *     a) before it is pending, or the word NONE: the announcement comes later,
 *        the clock is read later still, so E >= S + 1 > S. Ignored now and
 *        ever after.
 *     b) COMMITTING: the reader tries to decide with the clock as it is now,
 *        which is > S, and then goes by what was decided, as everybody will.
 *     c) COMMITTED(E): E is compared with S.
 *     For b and c the reader has the same header before and after the word. An
 *     auto-commit announces before its record is pending; no reader decides it
 *     then, because a reader decides only if the record was pending while it
 *     read the word.
 *  3. Strict serializability. The word is COMMITTED before COMMIT returns, so
 *     later reads see it. Locks are held until after the decision (strict
 *     2PL), so conflicting commits decide in lock order, and the clock never
 *     goes back: what a snapshot contains is closed under dependency.
 *  4. No waiting. Readers never wait; a helper's CAS carries the transaction
 *     number, so a late one fails. The owner's own steps after the decision
 *     may find a cell latched by a program it interrupted: the lock stays
 *     (readers judge it by the word), the session is FINISHING, and its next
 *     operator or the reaper does the rest.
 *  5. Bounded. One operator releases BPFDB_LOCKS_STEP locks. A longer list is
 *     FINISHING after the decision, as in point 4: it is released in steps, and
 *     readers judge by the word until no record names the owner.
 */
#ifndef BPFDB_COMMIT_BPF_H
#define BPFDB_COMMIT_BPF_H

#include "record.bpf.h"

static __always_inline bool cell_latch(struct bpfdb_cell *cell, u64 *header)
{
	repeat(i, BPFDB_TRIES)
	{
		u64 seen = LOAD(cell->header);

		if ((seen & (BPFDB_CELL_USED | BPFDB_CELL_LATCH)) == BPFDB_CELL_USED &&
		    CAS(&cell->header, seen, seen | BPFDB_CELL_LATCH) == seen) {
			*header = seen | BPFDB_CELL_LATCH;
			return true;
		}
	}
	COUNT(latch_retries);
	return false;
}

/* Makes sure that there is work for the sweeper to find. */
static __always_inline void garbage_left(void)
{
	ADD(&engine.garbage.value, 1);
}

/* By the holder of the latch: unlocks the cell. If it holds nothing, the record is
 * given up when the section has ended. */
static __always_inline void cell_settle(struct bpfdb_cell *cell, u64 address,
					struct leftovers *left)
{
	u64 flags = LOAD(cell->header) & (BPFDB_CELL_USED | BPFDB_CELL_AUX);

	if (version_form(&cell->head) == BPFDB_ABSENT && !(flags & BPFDB_CELL_AUX))
		left->empty = address;
	cell_set_header(cell, flags);
}

/* Has a record with this header neither a value, nor history, nor a lock? */
static __always_inline bool cell_is_empty(u64 header, const struct bpfdb_cell *cell)
{
	u64 held = BPFDB_CELL_AUX | BPFDB_CELL_EXCLUSIVE | BPFDB_CELL_FIELD_MASK;

	return (header & (BPFDB_CELL_USED | held)) == BPFDB_CELL_USED &&
	       version_form(&cell->head) == BPFDB_ABSENT;
}

/* Takes the record in `cell` out of the index, if it still has this header, which was
 * read before whatever was asked of the record, and frees its long key. False, and it
 * stays: it is latched or has changed, or a latch of the index is in the way. */
static __always_inline bool record_take_out(struct bpfdb_cell *cell, u64 address, u64 header)
{
	u64 hash = cell_hash(cell), key_slot = 0;
	bool removed = false;

	preempt_off();
	if (!(header & BPFDB_CELL_LATCH) &&
	    CAS(&cell->header, header, header | BPFDB_CELL_LATCH) == header) {
		removed = removal_note(hash, version_stamp(&cell->head)) &&
			  index_remove(address, hash, &key_slot);
		if (!removed)
			STORE_RELEASE(cell->header, header);
	}
	preempt_on();
	if (key_slot)
		bpfdb_slot_free(key_slot);
	return removed;
}

/*
 * Takes the record at `address` out of the index if it is empty: a session that has it
 * locked gives it up itself. Any empty record will do, should this one have been moved. If
 * a latch is in the way the sweeper comes back. 1 if the record is gone.
 */
__noinline int record_give_up(u64 address)
{
	struct bpfdb_cell *cell = bpfdb_at(address);
	u64 header;

	if (!cell)
		return 0;
	header = LOAD_ACQUIRE(cell->header);
	if (!cell_is_empty(header, cell))
		return 0;
	if (record_take_out(cell, address, header))
		return 1;
	garbage_left();
	return 0;
}

/* After a latched section. */
static __always_inline void leftovers_free(const struct leftovers *left)
{
	version_dispose(left->form, left->data);
	if (unlikely(left->aux))
		bpfdb_slot_free(left->aux);
	if (unlikely(left->empty))
		record_give_up(left->empty);
}

/* Keeps the head of the latched cell for the snapshots that need it. False: there is
 * no entry for it, and no aux block in the session. */
static __always_inline bool head_preserve(struct bpfdb_session *s, struct bpfdb_cell *cell)
{
	struct bpfdb_aux *aux = aux_of(cell, LOAD(cell->header));

	/* Without older versions, absence needs no entry to be absent. */
	if (version_form(&cell->head) == BPFDB_ABSENT && (!aux || !aux->used))
		return true;
	if (!aux)
		aux = cell_aux_attach(s, cell);
	return aux && version_push(cell, aux);
}

/* Overwrites the head of the latched cell. `flags` is what the header says besides
 * REPLACING. */
static __always_inline void head_replace(struct bpfdb_cell *cell, const struct bpfdb_lock *lock,
					 u64 flags, u64 stamp)
{
	u64 kept = meta_kept(LOAD(cell->head.meta), flags & BPFDB_CELL_AUX);

	cell_set_header(cell, flags | BPFDB_CELL_REPLACING);
	/* Each after the header: a reader of one of them finds that changed. */
	STORE_RELEASE(cell->head.stamp, (cell->head.stamp & ~BPFDB_STAMP_MASK) | stamp);
	STORE_RELEASE(cell->head.data[0], lock->data[0]);
	STORE_RELEASE(cell->head.data[1], lock->data[1]);
	STORE_RELEASE(cell->head.meta, kept | (lock->meta & BPFDB_FORM_MASK));
}

/* Must the head be kept when a version of timestamp `stamp` replaces it? Asked after
 * that was decided: a snapshot that begins later sees the new version. */
static __always_inline bool head_is_kept(const struct bpfdb_cell *cell, u64 stamp)
{
	u64 head = version_stamp(&cell->head);

	/* Two commits of one epoch: no snapshot can be between them. */
	return head != stamp && head_need(head) != HEAD_FREE;
}

/*
 * The usual case of version_install: a value, no history, and no snapshot sees the
 * head. False: not that case, and nothing was done.
 */
static __always_inline bool version_install_plain(struct bpfdb_cell *cell,
						  const struct bpfdb_lock *lock, u64 stamp,
						  struct leftovers *left)
{
	u64 flags = LOAD(cell->header) & (BPFDB_CELL_CHANGE - 1);

	if ((flags & BPFDB_CELL_AUX) || lock->meta == BPFDB_ABSENT || head_is_kept(cell, stamp))
		return false;
	left->form = version_form(&cell->head);
	left->data = cell->head.data[0];
	head_replace(cell, lock, flags, stamp);
	cell_set_header(cell, BPFDB_CELL_USED);
	return true;
}

/*
 * Makes the pending version of `lock` the head of the latched cell, with
 * timestamp `stamp`, and settles the cell. False, with the cell still latched
 * and unchanged to readers: no place for a version that a snapshot needs. A static subprogram: it is called in a latched
 * section.
 */
static __noinline bool version_install(struct bpfdb_session *s, u64 address,
				       const struct bpfdb_lock *lock, u64 stamp,
				       struct leftovers *left)
{
	struct bpfdb_cell *cell = bpfdb_at(address);
	bool kept;

	if (!cell)
		return false;
	kept = head_is_kept(cell, stamp);
	if (kept && !head_preserve(s, cell))
		return false;
	if (!kept) {
		left->form = version_form(&cell->head);
		left->data = cell->head.data[0];
	}
	head_replace(cell, lock, LOAD(cell->header) & (BPFDB_CELL_CHANGE - 1), stamp);
	left->aux = cell_aux_detach_empty(cell);
	cell_settle(cell, address, left);
	return true;
}

/* One attempt to take a shared lock away; with the last one a placeholder goes. RETRY:
 * the cell is latched, or has changed. */
static __always_inline int release_shared_once(struct bpfdb_lock *lock, struct bpfdb_cell *cell,
					       u64 address, struct leftovers *left)
{
	u64 header = LOAD_ACQUIRE(cell->header);

	if ((header & (BPFDB_CELL_USED | BPFDB_CELL_LATCH)) != BPFDB_CELL_USED)
		return RETRY;
	/* After the header, which the CAS demands: else the record may have
	 * been moved since it was found, and the lock be another's. */
	if (!cell_has_identity(cell, lock->key[0], lock->key[1], lock->key_len))
		return BPFDB_NOT_FOUND;
	if (CAS(&cell->header, header, header - BPFDB_CELL_READER) != header)
		return RETRY;
	if (cell_is_empty(header - BPFDB_CELL_READER, cell))
		left->empty = address;
	return BPFDB_OK;
}

static __always_inline bool release_shared(struct bpfdb_lock *lock, struct leftovers *left)
{
	u64 address = lock_cell(lock);
	struct bpfdb_cell *cell = bpfdb_at(address);
	int status = RETRY;

	if (!address || !cell)
		return false;
	repeat(i, BPFDB_TRIES)
	{
		status = release_shared_once(lock, cell, address, left);
		if (status != RETRY)
			break;
	}
	return status == BPFDB_OK;
}

/* With the cell latched: the lock's pending version is installed, or thrown away.
 * False, with the cell still latched: it must be tried again later. */
static __always_inline bool release_latched(struct bpfdb_session *s, u32 number,
					    struct bpfdb_lock *lock, struct bpfdb_cell *cell,
					    u64 address, struct leftovers *left)
{
	u64 word = LOAD(s->commit);

	/* Moved between look-up and latch, and perhaps another record is there by now. */
	if (!header_is_of_lock(s, LOAD(cell->header), number) ||
	    !cell_has_identity(cell, lock->key[0], lock->key[1], lock->key_len))
		return false;
	if (lock->mode == BPFDB_LOCK_PENDING && commit_phase(word) == BPFDB_PHASE_COMMITTED)
		return version_install(s, address, lock, word & BPFDB_PAYLOAD_MASK, left);
	/* SET may have made room for a version that did not come. */
	left->aux = cell_aux_detach_empty(cell);
	cell_settle(cell, address, left);
	if (lock->mode == BPFDB_LOCK_PENDING) {
		left->form = lock->meta & BPFDB_FORM_MASK;
		left->data = lock->data[0];
	}
	return true;
}

static __always_inline bool release_exclusive(struct bpfdb_session *s, u32 number,
					      struct bpfdb_lock *lock, struct leftovers *left)
{
	u64 address = lock_cell(lock), header;
	struct bpfdb_cell *cell = bpfdb_at(address);
	bool released = false;

	if (!address || !cell)
		return false;
	preempt_off();
	if (cell_latch(cell, &header)) {
		released = release_latched(s, number, lock, cell, address, left);
		if (!released)
			STORE_RELEASE(cell->header, LOAD(cell->header) & ~BPFDB_CELL_LATCH);
	}
	preempt_on();
	return released;
}

static __always_inline bool has_far_locks(const struct bpfdb_session *s)
{
	return s->lock_count > BPFDB_LOCKS_NEAR;
}

/*
 * The lock that is the `nth` to be released. Without far locks the last one is the first: others wait for what
 * transactions lock first, as the head of a large collection, and what they lock next is free then.
 */
static __always_inline u32 release_place(const struct bpfdb_session *s, u32 nth)
{
	return unlikely(has_far_locks(s)) ? nth : s->lock_count - 1 - nth;
}

/* Releases a lock of a decided transaction, by its commit word. 0 if that
 * must be tried again later. It finds the place by itself: in the caller's loop the verifier of Linux 6.12
 * walks every count of locks. */
__noinline int lock_release(struct bpfdb_session *s NONNULL, u32 nth)
{
	u32 i = release_place(s, nth);
	struct bpfdb_lock *lock = lock_at(s, i);
	struct leftovers left = {};
	bool released;

	if (!lock || lock->mode == BPFDB_LOCK_NONE)
		return 1;
	if (lock->mode == BPFDB_LOCK_SHARED) {
		released = release_shared(lock, &left);
	} else {
		/* For a snapshot that began after SET. */
		if (lock->mode == BPFDB_LOCK_PENDING && unlikely(!snapshots_none()))
			spare_aux_ready(s);
		released = release_exclusive(s, i, lock, &left);
	}
	if (!released) {
		/* Perhaps its version array was full. */
		if (lock->mode == BPFDB_LOCK_PENDING && !snapshots_none())
			history_prune(lock->cell, 0);
		return 0;
	}
	lock->mode = BPFDB_LOCK_NONE;
	leftovers_free(&left);
	return 1;
}

/* Is the transaction over, but for locks that could not be released? */
static __always_inline bool txn_is_unfinished(u32 state)
{
	return state == BPFDB_TXN_FINISHING || state == BPFDB_TXN_EXPIRING;
}

/*
 * After a step through a long list of locks, which began with `first` and has `left` some of them
 * locked. Is there another step to be made? A round looks at each lock once; those that it had to
 * leave are for the next round.
 */
static __always_inline bool release_goes_on(struct bpfdb_session *s, u32 first, bool left)
{
	bool ends = first + BPFDB_LOCKS_STEP >= s->lock_count;

	left |= s->release_left;
	s->release_left = !ends && left;
	s->release_next = ends ? 0 : first + BPFDB_LOCKS_STEP;
	return !ends || left;
}

/*
 * Releases what the session still holds after its decision: committed if the
 * commit word says so, else rolled back. True if nothing is left. With far locks it is one step,
 * and there are more of them: the session stays FINISHING or EXPIRING.
 *
 * A transaction that ran out of time stays one, even if its user notes an Error beside this
 * (txn_result): what comes next of it must not be taken for the next one.
 */
static __always_inline bool txn_finish(struct bpfdb_session *s)
{
	u32 count = s->lock_count;
	bool tells = s->state == BPFDB_TXN_EXPIRING;
	/* Not counted up: the verifier would walk every count. */
	bool left = false;
	u32 first = unlikely(has_far_locks(s)) ? s->release_next : 0;

	scan_lock_release(s);
	repeat(i, BPFDB_LOCKS_STEP)
	{
		if (first + i >= count)
			break;
		if (!lock_release(s, first + i))
			left = true;
	}
	if (unlikely(has_far_locks(s)))
		left = release_goes_on(s, first, left);
	if (left) {
		s->state = tells ? BPFDB_TXN_EXPIRING : BPFDB_TXN_FINISHING;
		return 0;
	}
	lock_blocks_free(s);
	STORE_RELEASE(s->commit, 0);
	s->state = tells ? BPFDB_TXN_EXPIRED : BPFDB_TXN_NONE;
	STORE_RELEASE(s->time, 0);
	return 1;
}

/*
 * Fills the part of a transaction's record, from `position` to `end`, that is of the locks from
 * `first` on, BPFDB_LOCKS_STEP of them at most. Where it ends.
 *
 * A subprogram, because the kernel (6.15 on) ends a loop with can_loop by the clock when its frame
 * has gone round 65,535 times: a record that is filled in part must never be sealed. No frame
 * here goes round more than BPFDB_LOCKS_STEP times, or once for each such step.
 */
__noinline u64 record_fill_step(struct bpfdb_session *s NONNULL, u32 first, u32 ring, u64 position,
				u64 end)
{
	u32 count = s->lock_count;

	repeat(i, BPFDB_LOCKS_STEP)
	{
		if (first + i >= count || position >= end)
			break;
		position += record_add(s, first + i, ring, position);
	}
	return position;
}

/* Fills the record of a transaction, from `position` to `end`. */
static __always_inline void record_fill_all(struct bpfdb_session *s, u32 ring, u64 position,
					    u64 end)
{
	position += sizeof(struct bpfdb_log_record);
	repeat(step, BPFDB_LOCKS_MAX / BPFDB_LOCKS_STEP + 1)
	{
		if (step * BPFDB_LOCKS_STEP >= s->lock_count || position >= end)
			break;
		position = record_fill_step(s, step * BPFDB_LOCKS_STEP, ring, position, end);
	}
}

/* Announces and decides the session's transaction. */
static __always_inline u64 commit_decide_all(struct bpfdb_session *s)
{
	u64 announced = commit_word(BPFDB_PHASE_COMMITTING, ++s->transaction);

	/* Atomic: the announcement must precede the reading of the clock. */
	(void)SWAP(&s->commit, announced);
	return commit_decide(&s->commit, announced) & BPFDB_PAYLOAD_MASK;
}

/* The same with a record in the log: OK; or LOG_FULL or LOG_CLOSED, and the
 * transaction is still open. */
__noinline int commit_logged(struct bpfdb_session *s NONNULL)
{
	u32 bytes = log_record_room(s->log_bytes), ring = log_own_ring();
	u64 position = 0, stamp;
	int status = log_reserve(ring, bytes, &position);

	if (status != BPFDB_OK)
		return status;
	record_fill_all(s, ring, position, position + bytes);
	stamp = commit_decide_all(s);
	log_seal(ring, position, bytes / BPFDB_LOG_RECORD_GRAIN, stamp);
	return BPFDB_OK;
}

/* Announces, decides and finishes the session's transaction. */
static __always_inline int commit_all(struct bpfdb_session *s)
{
	int status = BPFDB_OK;

	if (config.log_ring && s->log_bytes && !s->unlogged)
		status = commit_logged(s);
	else
		commit_decide_all(s);
	if (status == BPFDB_OK)
		txn_finish(s);
	return status;
}

#endif
