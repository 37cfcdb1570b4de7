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
 *     auto-commit announces before its record is pending; nobody decides it
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
 */
#ifndef BPFDB_COMMIT_BPF_H
#define BPFDB_COMMIT_BPF_H

#include "lock.bpf.h"
#include "removal.bpf.h"

static __always_inline bool cell_latch(struct bpfdb_cell *cell, u64 *header)
{
	repeat(i, BPFDB_LATCH_TRIES)
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

/*
 * By the holder of the latch: unlocks the cell and gives it up if it holds
 * nothing. Releases the latch in any case.
 */
static __always_inline void cell_settle(struct bpfdb_cell *cell, u64 address, u64 hash)
{
	u64 flags = LOAD(cell->header) & (BPFDB_CELL_USED | BPFDB_CELL_AUX);
	bool absent = version_form(&cell->head) == BPFDB_ABSENT;

	if (absent && !(flags & BPFDB_CELL_AUX) && removal_note(hash, version_stamp(&cell->head)) &&
	    index_remove(address, hash))
		return;
	if (absent)
		garbage_left();
	cell_set_header(cell, flags);
}

/* By the holder of the latch: if nothing is left in the version array, the
 * aux block goes. */
static __always_inline void cell_aux_drop_empty(struct bpfdb_cell *cell)
{
	struct bpfdb_aux *aux = cell_aux(cell);
	u64 address = cell_link(cell);

	if (!aux || aux->used)
		return;
	cell_set_header(cell, LOAD(cell->header) & (BPFDB_CELL_CHANGE - 1) & ~BPFDB_CELL_AUX);
	bpfdb_slot_free(address);
}

/* Keeps the head for the snapshots that need it. False: out of memory. */
static __always_inline bool head_preserve(struct bpfdb_cell *cell)
{
	struct bpfdb_aux *aux = cell_aux(cell);
	bool absent = version_form(&cell->head) == BPFDB_ABSENT;

	/* Without older versions, absence needs no entry to be absent. */
	if (absent && (!aux || !aux->used))
		return true;
	if (aux)
		return version_push(cell, aux);
	aux = cell_aux_create(cell);
	if (!aux)
		return false;
	version_push(cell, aux);
	cell_set_header(cell, (LOAD(cell->header) & (BPFDB_CELL_CHANGE - 1)) | BPFDB_CELL_AUX);
	return true;
}

/*
 * The part of version_install without history: overwrites the head of the
 * latched cell. `flags` is what the header says besides REPLACING.
 */
static __always_inline void head_replace(struct bpfdb_cell *cell, const struct bpfdb_lock *lock,
					 u64 flags, u64 stamp)
{
	u64 link = flags & BPFDB_CELL_AUX ? cell_link(cell) : 0;

	cell_set_header(cell, flags | BPFDB_CELL_REPLACING);
	cell->head.stamp = (cell->head.stamp & ~BPFDB_STAMP_MASK) | stamp;
	cell->head.data[0] = lock->data[0];
	cell->head.data[1] = lock->data[1];
	cell_set_meta(cell, link, lock->meta & BPFDB_FORM_MASK);
}

/*
 * The usual case of version_install: a value, no history, no snapshot running.
 * False: not that case, and nothing was done. Snapshots are looked for here,
 * after the decision: one that begins later sees the new version.
 */
static __always_inline bool version_install_plain(struct bpfdb_cell *cell,
						  const struct bpfdb_lock *lock, u64 stamp)
{
	u64 flags = LOAD(cell->header) & (BPFDB_CELL_CHANGE - 1), old_data = cell->head.data[0];
	u32 old_form = version_form(&cell->head);

	if (LOAD(engine.snapshots_running.value) || (flags & BPFDB_CELL_AUX) ||
	    lock->meta == BPFDB_ABSENT)
		return false;
	head_replace(cell, lock, flags, stamp);
	cell_set_header(cell, BPFDB_CELL_USED);
	version_dispose(old_form, old_data);
	return true;
}

/*
 * Makes the pending version of `lock` the head of the latched cell, with
 * timestamp `stamp`, and settles the cell. False, with the cell still latched
 * and unchanged to readers: no memory for a version that a snapshot needs.
 */
__noinline int version_install(struct bpfdb_lock *lock NONNULL, u64 address, u64 hash, u64 stamp)
{
	struct bpfdb_cell *cell = bpfdb_at(address);
	u32 head_needed = 0, old_form;
	u64 old_data;
	bool preserved = false;

	if (!cell)
		return 0;
	if (unlikely(LOAD(engine.snapshots_running.value) ||
		     (LOAD(cell->header) & BPFDB_CELL_AUX))) {
		history_prune(address, &head_needed);
		/* Two commits of one epoch: no snapshot can be between them. */
		if (head_needed && version_stamp(&cell->head) != stamp) {
			if (!head_preserve(cell))
				return 0;
			preserved = true;
		}
	}
	old_form = preserved ? BPFDB_ABSENT : version_form(&cell->head);
	old_data = cell->head.data[0];
	head_replace(cell, lock, LOAD(cell->header) & (BPFDB_CELL_CHANGE - 1), stamp);
	version_dispose(old_form, old_data);
	cell_aux_drop_empty(cell);
	cell_settle(cell, address, hash);
	return 1;
}

/* A shared lock goes; with the last one, a placeholder. */
static __always_inline int release_shared(struct bpfdb_lock *lock)
{
	struct bpfdb_cell *cell;
	u64 address;

	if (!lock)
		return 0;
	cell = lock_cell(lock, &address);
	if (!cell)
		return 0;
	repeat(i, BPFDB_LATCH_TRIES)
	{
		u64 header = LOAD(cell->header);
		bool last = header_field(header) == 1 && !(header & BPFDB_CELL_AUX) &&
			    version_form(&cell->head) == BPFDB_ABSENT;

		if ((header & (BPFDB_CELL_USED | BPFDB_CELL_LATCH)) != BPFDB_CELL_USED)
			continue;
		/* After the header, which the CAS demands: else the record may have
		 * been moved since it was found, and the lock be another's. */
		if (!cell_has_identity(cell, lock->key[0], lock->key[1], lock->key_len))
			return 0;
		if (CAS(&cell->header, header,
			header - BPFDB_CELL_READER + (last ? BPFDB_CELL_LATCH : 0)) != header)
			continue;
		if (last)
			cell_settle(cell, address, lock->hash);
		return 1;
	}
	return 0;
}

/* An exclusive lock goes: its pending version is installed (stamp > 0 or a
 * commit at epoch 0 is told by `commit`) or thrown away. */
static __always_inline int release_exclusive(struct bpfdb_lock *lock, u64 stamp, bool commit)
{
	struct bpfdb_cell *cell;
	u64 address, header;

	if (!lock)
		return 0;
	cell = lock_cell(lock, &address);
	if (!cell || !cell_latch(cell, &header))
		return 0;
	if (!cell_has_identity(cell, lock->key[0], lock->key[1], lock->key_len)) {
		/* Moved between look-up and latch. */
		STORE(cell->header, LOAD(cell->header) & ~BPFDB_CELL_LATCH);
		return 0;
	}
	if (lock->mode == BPFDB_LOCK_PENDING && commit) {
		if (version_install(lock, address, lock->hash, stamp))
			return 1;
		STORE(cell->header, LOAD(cell->header) & ~BPFDB_CELL_LATCH);
		return 0;
	}
	/* SET may have made room for a version that did not come. */
	cell_aux_drop_empty(cell);
	cell_settle(cell, address, lock->hash);
	if (lock->mode == BPFDB_LOCK_PENDING)
		version_dispose(lock->meta & BPFDB_FORM_MASK, lock->data[0]);
	return 1;
}

/* Releases lock `i` of a decided transaction, by its commit word. 0 if that
 * must be tried again later. */
__noinline int lock_release(struct bpfdb_session *s NONNULL, u32 i)
{
	u64 word = LOAD(s->commit), stamp = word & BPFDB_PAYLOAD_MASK;
	bool commit = commit_phase(word) == BPFDB_PHASE_COMMITTED;
	struct bpfdb_lock *lock = lock_at(s, i);
	int released;

	if (!lock || lock->mode == BPFDB_LOCK_NONE)
		return 1;
	released = lock->mode == BPFDB_LOCK_SHARED ? release_shared(lock)
						   : release_exclusive(lock, stamp, commit);
	if (released)
		lock->mode = BPFDB_LOCK_NONE;
	return released;
}

/* Is the transaction over, but for locks that could not be released? */
static __always_inline bool txn_is_unfinished(u32 state)
{
	return state == BPFDB_TXN_FINISHING || state == BPFDB_TXN_EXPIRING;
}

/*
 * Releases what the session still holds after its decision: committed if the
 * commit word says so, else rolled back. True if nothing is left.
 */
static __always_inline bool txn_finish(struct bpfdb_session *s)
{
	u32 count = s->lock_count;
	/* Not counted up: the verifier would walk every count. */
	bool left = false;

	repeat(i, BPFDB_LOCKS_MAX)
	{
		if (i >= count)
			break;
		if (!lock_release(s, i))
			left = true;
	}
	if (left) {
		if (s->state != BPFDB_TXN_EXPIRING)
			s->state = BPFDB_TXN_FINISHING;
		return 0;
	}
	lock_blocks_free(s);
	STORE(s->commit, 0);
	s->state = s->state == BPFDB_TXN_EXPIRING ? BPFDB_TXN_EXPIRED : BPFDB_TXN_NONE;
	STORE(s->time, 0);
	return 1;
}

/* Announces, decides and finishes the session's transaction. */
static __always_inline void commit_all(struct bpfdb_session *s)
{
	u64 announced = commit_word(BPFDB_PHASE_COMMITTING, ++s->transaction);

	/* Atomic: the announcement must precede the reading of the clock. */
	(void)SWAP(&s->commit, announced);
	commit_decide(&s->commit, announced);
	txn_finish(s);
}

#endif
