/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * SET and DELETE: one body, since a deletion is a version without a value.
 *
 * In a transaction: exclusive lock, pending version in the lock.
 * Auto-commit: lock, pending, announced and decided in one operator; the
 * session's commit word is announced before the cell is taken, and the cell is
 * taken with lock, latch and pending in one CAS.
 */
#ifndef BPFDB_SET_BPF_H
#define BPFDB_SET_BPF_H

#include "get.bpf.h"

_Static_assert((u64)BPFDB_SEGMENTS_MAX << BPFDB_SEGMENT_BITS <= 1ULL << BPFDB_OWNED_SHIFT,
	       "an address is below the length");

/*
 * The owner of a value that is longer than the session's words: the session, from its
 * allocation to SET, which hands it to the lock; then the record. A GET leaves an
 * address that is the record's. A SET of that would give one slot to two records, to
 * be freed twice: it is refused, since the session knows what it owns.
 */
static __always_inline u64 value_owned(u32 len, u64 address)
{
	return address | (u64)len << BPFDB_OWNED_SHIFT;
}

/* Frees what was allocated, and no SET took. */
static __always_inline void value_discard(struct bpfdb_session *s)
{
	u64 owned = s->value_owned;

	if (likely(!owned))
		return;
	s->value_owned = 0;
	version_dispose(owned >> BPFDB_OWNED_SHIFT, owned & (value_owned(1, 0) - 1));
}

/* SET takes the value over. False: it is not the session's. */
static __always_inline bool value_claim(struct bpfdb_session *s)
{
	if (likely(s->value_len <= BPFDB_INLINE_MAX))
		return true;
	if (unlikely(s->value_owned != value_owned(s->value_len, s->value[0])))
		return false;
	s->value_owned = 0;
	return true;
}

static __always_inline u64 value_slot(u32 len)
{
	u64 address = bpfdb_slot_alloc(len);

	if (unlikely(!address) && memory_look())
		address = bpfdb_slot_alloc(len);
	return address;
}

/*
 * Allocates the memory for a value of `len` bytes and leaves it in the session, in
 * the place of one that no SET took. OK, or VALUE_TOO_LARGE, OUT_OF_MEMORY, MEMORY_PENDING, which fail a
 * read-write transaction as they would in SET.
 */
__noinline enum bpfdb_status bpfdb_value_alloc(struct bpfdb_session *s NONNULL, u32 len)
{
	int status = BPFDB_VALUE_TOO_LARGE;

	value_discard(s);
	if (len <= BPFDB_VALUE_MAX) {
		s->value_len = len;
		s->value[0] = s->value[1] = 0;
		if (len <= BPFDB_INLINE_MAX)
			return BPFDB_OK;
		s->value[0] = value_slot(len);
		if (unlikely(!s->value[0]) && s->keeps_index == BPFDB_INDEX_SHRINKS)
			s->value[0] = slot_from_reserve(len);
		if (s->value[0]) {
			s->value_owned = value_owned(len, s->value[0]);
			return BPFDB_OK;
		}
		status = no_memory();
	}
	/* The SET that it was for will not be. */
	count_outcome(s, BPFDB_OP_SET, status);
	return txn_result(s, status);
}

/*
 * The same for a value of `type`, no string: 1 to BPFDB_VALUE_MAX bytes, in a slot. What comes
 * next is its bytes, at s->value[0], and SET.
 */
__noinline enum bpfdb_status bpfdb_typed_alloc(struct bpfdb_session *s NONNULL, u32 len, u32 type)
{
	int status = BPFDB_BAD_REQUEST;
	u64 address;

	value_discard(s);
	if (len && len <= BPFDB_VALUE_MAX && type_is_known(type)) {
		address = value_slot(len);
		if (address) {
			s->value_len = len | type << BPFDB_FORM_LENGTH_BITS;
			s->value[0] = address;
			s->value[1] = 0;
			s->value_owned = value_owned(s->value_len, address);
			return BPFDB_OK;
		}
		status = no_memory();
	}
	/* The SET that it was for will not be. */
	count_outcome(s, BPFDB_OP_SET, status);
	return txn_result(s, status);
}

/*
 * Brings the operands of SET into the form of a version with an expiry: half of
 * the inline room is for the time. What has expired already is nothing, and
 * SET is DELETE.
 */
__noinline int value_expire(struct bpfdb_session *s NONNULL)
{
	u32 len = s->value_len;
	u64 address, *slot;

	if (s->expires <= session_time(s)) {
		version_dispose(s->value_len, s->value[0]);
		s->value_len = BPFDB_ABSENT;
		s->value[0] = s->value[1] = 0;
		return BPFDB_OK;
	}
	if (len > BPFDB_INLINE_EXPIRING_MAX && len <= BPFDB_INLINE_MAX) {
		address = value_slot(BPFDB_INLINE_MAX);
		slot = address ? bpfdb_at(address) : NULL;
		if (!slot)
			return no_memory();
		STORE(slot[0], s->value[0]);
		STORE(slot[1], s->value[1]);
		s->value[0] = address;
	}
	s->value[1] = s->expires;
	s->value_len = len | BPFDB_EXPIRES;
	ADD(&engine.expiring.value, 1);
	expiry_due_at(s->expires);
	return BPFDB_OK;
}

/*
 * Can the head of a record be replaced, as far as its older versions go? `header` is
 * that of the cell; if it still is after this, the answer holds. OK, or NEED_VERSIONS:
 * versions_room() comes first.
 */
static __always_inline int versions_ready(struct bpfdb_session *s, struct bpfdb_cell *cell,
					  u64 address, u64 header)
{
	struct bpfdb_aux *aux = aux_of(cell, header);
	enum head_need need;

	if (likely(!aux && snapshots_none()))
		return BPFDB_OK;
	s->room_cell = address;
	/* Without snapshots no reader needs what is in the array. An empty one is that of a
	 * lock of this session, reserved for a snapshot which has ended. */
	if (snapshots_none())
		return aux && !LOAD(aux->used) ? BPFDB_OK : NEED_VERSIONS;
	if (!aux && !s->spare_aux)
		return NEED_VERSIONS;
	/* Absence with nothing before it needs no entry: head_preserve(). */
	if (version_form(&cell->head) == BPFDB_ABSENT && (!aux || !LOAD(aux->used)))
		return BPFDB_OK;
	need = head_need(version_stamp(&cell->head));
	if (need == HEAD_UNSURE && !(s->room_tried & ROOM_VERSIONS))
		return NEED_VERSIONS;
	if (!aux)
		return config.versions > 1 || need == HEAD_FREE ? BPFDB_OK : NEED_VERSIONS;
	/* One entry is for a snapshot that begins from now on. */
	return LOAD(aux->used) < config.versions - (need != HEAD_FREE) ? BPFDB_OK : NEED_VERSIONS;
}

/* The record that this session has locked as `number` gets an aux block, now that SET
 * can still be refused. RETRY if it is not in `cell` any more, or latched. */
static __always_inline int versions_reserve(struct bpfdb_session *s, struct bpfdb_cell *cell,
					    u32 number)
{
	u64 header = LOAD_ACQUIRE(cell->header);
	int status = RETRY;

	if (snapshots_none() || (header & BPFDB_CELL_AUX))
		return BPFDB_OK;
	preempt_off();
	if (cell_is_of_lock(s, cell, header, number) && !(header & BPFDB_CELL_LATCH) &&
	    CAS(&cell->header, header, header | BPFDB_CELL_LATCH) == header) {
		status = cell_aux_attach(s, cell) ? BPFDB_OK : RETRY;
		STORE_RELEASE(cell->header, LOAD(cell->header) & ~BPFDB_CELL_LATCH);
	}
	preempt_on();
	return status;
}

/* Makes sure that COMMIT can keep the head of the record that this session has locked
 * as `number`. OK, NEED_VERSIONS, RETRY. */
static __always_inline int versions_check_locked(struct bpfdb_session *s, struct bpfdb_cell *cell,
						 u64 address, u32 number)
{
	u64 header = LOAD_ACQUIRE(cell->header);
	int status = versions_ready(s, cell, address, header);

	if (!cell_is_of_lock(s, cell, header, number) || LOAD_AFTER(cell->header) != header)
		return RETRY;
	return status == BPFDB_OK ? versions_reserve(s, cell, number) : status;
}

/* The session's value into its lock. A reader of the version that was there before
 * finds that version's header changed: so each store comes after that. */
static __always_inline void lock_set_pending(struct bpfdb_lock *lock, const struct bpfdb_session *s)
{
	STORE_RELEASE(lock->data[0], s->value[0]);
	STORE_RELEASE(lock->data[1], s->value[1]);
	STORE_RELEASE(lock->meta, (u64)s->value_len);
}

/* May the session's value, in the place of the head of `cell`, make the key come or go: by time,
 * too? scan_lock.bpf.h has the meaning of presence. */
static __always_inline bool presence_may_change(const struct bpfdb_session *s,
						const struct bpfdb_cell *cell)
{
	return s->value_len >= BPFDB_EXPIRES || version_form(&cell->head) >= BPFDB_EXPIRES;
}

/* May the session's value replace its pending version: OK, NOT_INDEXED, or CONFLICT? The holder of the
 * scan lock takes a plain version that is pending over a plain one for present. A plain one is
 * nothing to that holder; but in the place of a deletion it makes the key come, which takes the index. */
static __always_inline int replacing_allowed(struct bpfdb_session *s, struct bpfdb_lock *lock)
{
	int status;
	u64 old;

	if (s->value_len < BPFDB_EXPIRES)
		return (lock->meta & BPFDB_FORM_MASK) < BPFDB_EXPIRES ? BPFDB_OK : index_allows(s);
	/* Atomic: it must be seen before the lock is read. */
	old = SWAP(&lock->meta, BPFDB_ABSENT);
	status = presence_allowed(s);
	if (unlikely(status != BPFDB_OK))
		STORE_RELEASE(lock->meta, old);
	return status;
}

/* The session's value takes the place of the pending version of its lock. */
static __always_inline int pending_replace(struct bpfdb_session *s, struct bpfdb_lock *lock)
{
	u32 old_form = lock->meta & BPFDB_FORM_MASK;
	u64 old_data = lock->data[0];
	u32 bytes = record_with(s, s->key_len, s->value_len, log_write_room(s->key_len, old_form));
	int status;

	if (!record_fits(bytes))
		return BPFDB_TXN_TOO_LARGE;
	status = replacing_allowed(s, lock);
	if (status != BPFDB_OK)
		return status;
	lock_set_pending(lock, s);
	record_count(s, bytes);
	version_dispose(old_form, old_data);
	return BPFDB_OK;
}

/*
 * The session's value becomes the pending version of lock `number`, which owns it from then
 * on. After that there is no Error: a body that refuses a SET gives the value up, and ROLLBACK
 * gives up what locks own.
 */
static __always_inline int pending_set(struct bpfdb_session *s, struct bpfdb_cell *cell, u32 number)
{
	struct bpfdb_lock *lock = lock_at(s, number);
	u64 header, kept;
	u32 bytes;

	if (!lock)
		return BPFDB_CORRUPT;
	if (lock->mode == BPFDB_LOCK_PENDING)
		return pending_replace(s, lock);
	bytes = record_with(s, s->key_len, s->value_len, 0);
	if (!record_fits(bytes))
		return BPFDB_TXN_TOO_LARGE;
	lock_set_pending(lock, s);
	header = LOAD_ACQUIRE(cell->header);
	kept = header & (BPFDB_CELL_CHANGE - 1);
	/* Moved, or about to be. */
	if (!cell_is_of_lock(s, cell, header, number) || (header & BPFDB_CELL_LATCH))
		return RETRY;
	if (presence_may_change(s, cell)) {
		int status = presence_allowed(s);

		if (status != BPFDB_OK)
			return status;
	}
	if (CAS(&cell->header, header, header_next(header, kept | BPFDB_CELL_PENDING)) != header)
		return RETRY;
	lock->mode = BPFDB_LOCK_PENDING;
	record_count(s, bytes);
	return BPFDB_OK;
}

/* Is there a value for this session to delete? The cell is locked by it. */
static __always_inline bool has_value(struct bpfdb_session *s, struct bpfdb_cell *cell, u32 number)
{
	struct bpfdb_lock *lock = lock_at(s, number);

	if (lock && lock->mode == BPFDB_LOCK_PENDING)
		return !form_is_gone(s, lock->meta & BPFDB_FORM_MASK, lock->data[1]);
	return !form_is_gone(s, version_form(&cell->head), cell->head.data[1]);
}

/* One attempt in a read-write transaction. FOUND tells DELETE that there was a
 * value. */
__noinline int set_locked(struct bpfdb_session *s NONNULL)
{
	bool deletes = s->value_len == BPFDB_ABSENT;
	struct bpfdb_cell *cell;
	u64 address, header;
	u32 number = s->lock_count;
	int status = record_find(s, &cell, &address, &header);

	if (status == BPFDB_NOT_FOUND) {
		u32 len = s->value_len;

		status = lock_absent(s, BPFDB_LOCK_EXCLUSIVE);
		s->value_len = len;
		if (status != BPFDB_NOT_FOUND || deletes)
			return status;
		/* The lock is held; the next attempt finds the record. */
		return RETRY;
	}
	if (status != BPFDB_OK)
		return status;
	/* The session that has it locked has noted the access before. */
	if (!header_is_mine(s, header))
		access_note(s, cell);
	status = lock_exclusive(s, cell, address, &header, &number);
	if (status != BPFDB_OK)
		return status;
	if (deletes && !has_value(s, cell, number))
		return cell_is_of_lock(s, cell, LOAD_AFTER(cell->header), number) ? BPFDB_NOT_FOUND
										  : RETRY;
	status = versions_check_locked(s, cell, address, number);
	if (status == BPFDB_OK)
		status = pending_set(s, cell, number);
	return status == BPFDB_OK && deletes ? BPFDB_FOUND : status;
}

/* ---- Auto-commit ------------------------------------------------------------- */

/* Flags of a record that an auto-commit of this session has in hand. */
static __always_inline u64 auto_flags(const struct bpfdb_session *s)
{
	return BPFDB_CELL_USED | BPFDB_CELL_LATCH | BPFDB_CELL_EXCLUSIVE | BPFDB_CELL_PENDING |
	       owner_field(s, 0);
}

/*
 * Takes the cell for an auto-commit: lock, latch and pending in one step. Atomic: a
 * snapshot that begins when the clock has been read must find the version pending,
 * else it would see the old value first and then the new one (case 2a of
 * commit.bpf.h).
 */
static __always_inline int auto_take(struct bpfdb_session *s, struct bpfdb_cell *cell, u64 address,
				     u64 header)
{
	int status;

	if (header & (BPFDB_CELL_EXCLUSIVE | BPFDB_CELL_FIELD_MASK | BPFDB_CELL_LATCH))
		return conflict_or_retry(s, header);
	status = versions_ready(s, cell, address, header);
	if (unlikely(status != BPFDB_OK))
		return status;
	if (unlikely(presence_may_change(s, cell))) {
		status = presence_allowed(s);
		if (status != BPFDB_OK)
			return status;
	}
	return CAS(&cell->header, header,
		   header_next(header, (header & BPFDB_CELL_AUX) | auto_flags(s))) == header
		       ? BPFDB_OK
		       : RETRY;
}

/* Committed, and seen so by everybody; installing must wait until there is a place for
 * what a snapshot came to need meanwhile. */
static __always_inline void auto_finish_later(struct bpfdb_session *s, struct bpfdb_cell *cell,
					      u64 address)
{
	struct bpfdb_lock *lock = &s->locks[0];

	lock->hash = s->hash;
	lock->key[0] = cell->key[0];
	lock->key[1] = cell->key[1];
	lock->cell = address;
	lock->key_len = s->key_len;
	lock->mode = BPFDB_LOCK_PENDING;
	s->lock_count = 1;
	s->state = BPFDB_TXN_FINISHING;
	STORE_RELEASE(cell->header, LOAD(cell->header) & ~BPFDB_CELL_LATCH);
}

/* Commits the pending version of lock 0 in the cell that was taken. */
static __always_inline void auto_commit(struct bpfdb_session *s, struct bpfdb_cell *cell,
					u64 address, struct leftovers *left)
{
	/* Not kept since auto_announce(): callers need the stack (6.18, clang 22). */
	u64 announced = commit_word(BPFDB_PHASE_COMMITTING, s->transaction);
	u64 stamp = commit_decide(&s->commit, announced) & BPFDB_PAYLOAD_MASK;
	struct bpfdb_lock *lock = &s->locks[0];

	record_end(s, stamp);
	if (likely(version_install_plain(cell, lock, stamp, left))) {
		STORE_RELEASE(s->commit, 0);
		return;
	}
	if (version_install(s, address, lock, stamp, left))
		STORE_RELEASE(s->commit, 0);
	else
		auto_finish_later(s, cell, address);
}

/* The session's value becomes the pending version of lock 0. */
static __always_inline void auto_announce(struct bpfdb_session *s)
{
	u64 announced = commit_word(BPFDB_PHASE_COMMITTING, ++s->transaction);
	struct bpfdb_lock *lock = &s->locks[0];

	lock_set_pending(lock, s);
	/* Before the atomic operation that makes the version pending: a barrier also
	 * between that and the reading of the clock. */
	STORE_RELEASE(s->commit, announced);
}

/* Commits the pending version of lock 0 in a cell that was inserted for it: there is
 * nothing that a snapshot could need, nor anything to give up. */
static __always_inline void auto_commit_first(struct bpfdb_session *s, struct bpfdb_cell *cell)
{
	u64 announced = commit_word(BPFDB_PHASE_COMMITTING, s->transaction);
	u64 stamp = commit_decide(&s->commit, announced) & BPFDB_PAYLOAD_MASK;

	record_end(s, stamp);
	head_replace(cell, &s->locks[0], LOAD(cell->header) & (BPFDB_CELL_CHANGE - 1), stamp);
	cell_set_header(cell, BPFDB_CELL_USED);
	STORE_RELEASE(s->commit, 0);
}

/* Before a record is inserted for an auto-commit. */
static __always_inline void auto_announce_insert(struct bpfdb_session *s)
{
	if (config.log_ring)
		lock_set_pending(&s->locks[0], s);
	else
		auto_announce(s);
}

/*
 * With a log the announcement comes when the record is there, pending: before that,
 * another session may still insert, commit and delete the key, and the clock must pass
 * all of that.
 */
static __always_inline void auto_announce_inserted(struct bpfdb_session *s)
{
	if (!config.log_ring)
		return;
	clock_pass_removals(s->hash);
	(void)SWAP(&s->commit, commit_word(BPFDB_PHASE_COMMITTING, ++s->transaction));
}

/* A record for a key that has none: inserted, pending and latched, then committed. */
__noinline int auto_insert(struct bpfdb_session *s NONNULL)
{
	struct bpfdb_cell *cell = NULL;
	u64 address = 0;
	int status;

	if (!record_key_store(s))
		return no_memory();
	preempt_off();
	auto_announce_insert(s);
	status = index_insert(s, auto_flags(s), s->key_word, &address);
	if (status == BPFDB_OK)
		cell = bpfdb_at(address);
	if (cell) {
		auto_announce_inserted(s);
		auto_commit_first(s, cell);
	} else {
		STORE_RELEASE(s->commit, 0);
	}
	preempt_on();
	if (status != BPFDB_OK && s->key_word)
		bpfdb_slot_free(s->key_word);
	return status;
}

/* Is there nothing for DELETE, by the header that was read before? */
static __always_inline bool auto_has_no_value(struct bpfdb_session *s, struct bpfdb_cell *cell,
					      u64 header)
{
	return form_is_gone(s, version_form(&cell->head), LOAD(cell->head.data[1])) &&
	       !(header & BPFDB_CELL_EXCLUSIVE) &&
	       header_same_content(LOAD_AFTER(cell->header), header);
}

/* One attempt without a transaction on the record that was found with this header. FOUND tells
 * DELETE that there was a value. */
static __always_inline int auto_replace_found(struct bpfdb_session *s, struct bpfdb_cell *cell,
					      u64 address, u64 header)
{
	bool deletes = s->value_len == BPFDB_ABSENT;
	struct leftovers left;
	int status;

	if (deletes && auto_has_no_value(s, cell, header))
		return BPFDB_NOT_FOUND;
	/* Needed soon, and not to be had in a latched section. */
	if (unlikely(!snapshots_none()))
		spare_aux_ready(s);
	left = (struct leftovers){};
	/* If the head is another by then, the cell is not taken. */
	if (config.log_ring)
		clock_pass_found(cell, s->hash);
	preempt_off();
	auto_announce(s);
	status = auto_take(s, cell, address, header);
	if (likely(status == BPFDB_OK))
		auto_commit(s, cell, address, &left);
	else
		STORE_RELEASE(s->commit, 0);
	preempt_on();
	leftovers_free(&left);
	return status == BPFDB_OK && deletes ? BPFDB_FOUND : status;
}

/* The same on a record that is there. NOT_FOUND: there is none. */
static __always_inline int auto_replace(struct bpfdb_session *s)
{
	struct bpfdb_cell *cell = NULL;
	u64 address = 0, header;
	int status = record_find(s, &cell, &address, &header);

	if (status != BPFDB_OK)
		return status;
	access_note(s, cell);
	return auto_replace_found(s, cell, address, header);
}

static __always_inline int set_in_transaction(struct bpfdb_session *s)
{
	int status = RETRY;

	repeat(i, BPFDB_TRIES)
	{
		status = make_room(s, set_locked(s));
		if (status != RETRY)
			break;
		COUNT(latch_retries);
	}
	txn_touch(s);
	return retry_is_conflict(s, status);
}

/* The same as a subprogram, for the loop around it. */
__noinline int auto_replace_again(struct bpfdb_session *s NONNULL)
{
	return auto_replace(s);
}

/* After auto_replace, not in it: Linux 6.12 adds up the frames of all programs that
 * call each other (later kernels give some programs a stack for each), and those of
 * both would be more than 512 bytes. */
static __always_inline int auto_insert_absent(struct bpfdb_session *s, int status)
{
	return status == BPFDB_NOT_FOUND && s->value_len != BPFDB_ABSENT ? auto_insert(s) : status;
}

/* After a first attempt that ended with `status`, an Error or RETRY. */
static __always_inline int set_auto_again(struct bpfdb_session *s, int status)
{
	repeat(i, BPFDB_TRIES)
	{
		status = make_room(s, status);
		if (status != RETRY && status != BPFDB_CONFLICT)
			return status;
		COUNT(autocommit_retries);
		status = auto_insert_absent(s, auto_replace_again(s));
		if (status < BPFDB_FIRST_ERROR)
			return status;
	}
	/* A lock may be kept by its session; the rest is over soon: the page is being
	 * split all the while, or a latch is held by the very program that this one
	 * interrupted. */
	return status == RETRY || status == NEED_SPLIT || status == NEED_VERSIONS
		       ? BPFDB_MEMORY_PENDING
		       : status;
}

/* The first attempt came to `status`. */
static __always_inline int set_auto_commit(struct bpfdb_session *s, int status)
{
	status = auto_insert_absent(s, status);
	return likely(status < BPFDB_FIRST_ERROR) ? status : set_auto_again(s, status);
}

static __always_inline int write_in_state(struct bpfdb_session *s)
{
	int status = txn_ready(s);

	if (status != BPFDB_OK)
		return status;
	if (s->state == BPFDB_TXN_READ)
		return BPFDB_READ_ONLY;
	status = key_prepare_apart(s);
	return status == BPFDB_OK ? set_in_transaction(s) : status;
}

/* SET, and DELETE (value_len ABSENT), in the transaction that the session has. */
__noinline int write_stateful(struct bpfdb_session *s NONNULL)
{
	return session_enter(s) ? session_leave(s, write_in_state(s)) : BPFDB_SESSION_BUSY;
}

/* SET, and DELETE, whose first attempt is a subprogram: so there is no second copy of it for the
 * kernel to verify and to patch. */
static __always_inline int write_body(struct bpfdb_session *s, bool deletes)
{
	int status;

	if (unlikely(s->state != BPFDB_TXN_NONE))
		return write_stateful(s);
	/* Without a transaction only the session's user has business here:
	 * not the reaper, not a reader. Two users at once are a mistake, which is
	 * told if seen; seeing it for certain would cost a locked instruction. */
	if (LOAD(s->busy))
		return BPFDB_SESSION_BUSY;
	STORE(s->busy, 1);
	status = key_prepare(s);
	if (likely(status == BPFDB_OK))
		status = record_begin(s);
	if (likely(status == BPFDB_OK))
		status = set_auto_commit(s, deletes ? auto_replace_again(s) : auto_replace(s));
	record_settle(s);
	return session_leave(s, status);
}

static __always_inline int set_write(struct bpfdb_session *s)
{
	int status = node_allows(s);

	return likely(status == BPFDB_OK) ? write_body(s, false) : status;
}

static __always_inline int delete_write(struct bpfdb_session *s)
{
	return write_body(s, true);
}

/*
 * What becomes of the value that no version took. SESSION_BUSY: the request comes again, and
 * brings its value; but a large one is not in the request, so the session keeps it as what it
 * has built.
 */
static __always_inline void value_refused(struct bpfdb_session *s, int status)
{
	if (status != BPFDB_SESSION_BUSY || !form_is_large(s->value_len)) {
		version_dispose(s->value_len, s->value[0]);
		return;
	}
	if (s->value_len & BPFDB_EXPIRES)
		ADD(&engine.expiring.value, -1);
	s->building = s->value[0];
}

/* How a version is written: set_write() or delete_write(), or what is left of them where there
 * always is a transaction. An argument of inlined functions, so nothing is called by address. */
typedef int version_writer(struct bpfdb_session *s);

/* A value that bpfdb_value_alloc() or its kin gave becomes a version. */
static __always_inline int set_body(struct bpfdb_session *s, version_writer *write)
{
	int status = BPFDB_OK;

	if (unlikely(!value_claim(s)))
		return BPFDB_BAD_REQUEST;
	if (unlikely(s->expires))
		status = value_expire(s);
	if (likely(status == BPFDB_OK))
		status = write(s);
	if (unlikely(status >= BPFDB_FIRST_ERROR)) {
		value_refused(s, status);
		return status;
	}
	/* Of a value that had expired already it is DELETE's outcome. */
	return BPFDB_OK;
}

/* What every SET ends with. */
static __always_inline enum bpfdb_status set_end(struct bpfdb_session *s, int status)
{
	s->expires = 0;
	status = txn_result(s, status);
	count_outcome(s, BPFDB_OP_SET, status);
	return status;
}

static __always_inline enum bpfdb_status delete_by(struct bpfdb_session *s, version_writer *write)
{
	int status;

	s->value_len = BPFDB_ABSENT;
	s->value[0] = s->value[1] = 0;
	status = txn_result(s, write(s));
	count_outcome(s, BPFDB_OP_DELETE, status);
	return status;
}

/* Can this be the length, or else the form, of a value? */
static __always_inline bool value_fits(u32 len)
{
	return likely(len <= BPFDB_VALUE_MAX) || len == BPFDB_LARGE || form_is_typed(len);
}

/* Direct style: see bpfdb.bpf.h. */
__noinline enum bpfdb_status bpfdb_set(struct bpfdb_session *s NONNULL)
{
	return set_end(s,
		       value_fits(s->value_len) ? set_body(s, set_write) : BPFDB_VALUE_TOO_LARGE);
}

__noinline enum bpfdb_status bpfdb_delete(struct bpfdb_session *s NONNULL)
{
	return delete_by(s, delete_write);
}

#endif
