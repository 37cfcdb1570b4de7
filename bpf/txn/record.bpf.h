/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * What a commit leaves in the log: one record with all its writes, each the whole value
 * as it is from now on. docs/decisions/0018-log.md has the argument.
 *
 * Invariants
 *  1. A commit reserves its record before it announces. So an operator that decides a timestamp up
 *     to S did so after the reservation, if the clock was moved on from S after that: the
 *     writer of the log, which closes epochs in this way, finds the record reserved.
 *  2. Before it announces, the clock is above the timestamp of every version that it
 *     replaces. So two writes of one key have different timestamps, and the later one is
 *     the later write. A key that has no version counts with what `removals` says of it,
 *     read when no other session can write the key any more.
 *  3. An operator reserves once, however often it tries, and seals: the record, or void.
 *
 * In an engine without a log (config.log_ring is 0) all this is dead code to the verifier.
 */
#ifndef BPFDB_RECORD_BPF_H
#define BPFDB_RECORD_BPF_H

#include "../log/ring.bpf.h"
#include "lock.bpf.h"
#include "removal.bpf.h"

static __always_inline u32 log_round(u32 len)
{
	return (len + BPFDB_LOG_GRAIN - 1) & ~(BPFDB_LOG_GRAIN - 1);
}

static __always_inline bool form_is_inline(u32 form)
{
	return form <= BPFDB_INLINE_MAX;
}

/* Bytes that a value of this form takes. */
static __always_inline u32 log_value_room(u32 form)
{
	u32 len = form_bytes(form);

	if (form == BPFDB_ABSENT)
		return 0;
	if (form_is_large(form))
		return sizeof(struct bpfdb_log_large);
	return len <= BPFDB_LOG_GRAIN ? BPFDB_LOG_GRAIN : log_round(len);
}

/* Bytes of a record with writes of so many bytes. */
static __always_inline u32 log_record_room(u32 writes)
{
	u32 bytes = sizeof(struct bpfdb_log_record) + writes;

	return (bytes + BPFDB_LOG_RECORD_GRAIN - 1) & ~(BPFDB_LOG_RECORD_GRAIN - 1);
}

/* Bytes of a write. */
static __always_inline u32 log_write_room(u32 key_len, u32 form)
{
	return sizeof(struct bpfdb_log_write) + log_round(key_len) + log_value_room(form);
}

static __always_inline void clock_pass(u64 stamp)
{
	if (unlikely(stamp >= LOAD(engine.clock.value)))
		(void)CAS(&engine.clock.value, stamp, stamp + 1);
}

/* Invariant 2, for a key that has no version. */
static __always_inline void clock_pass_removals(u64 hash)
{
	u64 *slot = removal_slot(hash);

	if (slot)
		clock_pass(LOAD(*slot));
}

/* Invariant 2, for a key whose last version has this timestamp. A placeholder that was never
 * written has none. */
static __always_inline void clock_pass_version(u64 stamp, u64 hash)
{
	if (likely(stamp))
		clock_pass(stamp);
	else
		clock_pass_removals(hash);
}

/* Invariant 2, for a record that is replaced only if it is still what it was when it was
 * found. */
static __always_inline void clock_pass_found(const struct bpfdb_cell *cell, u64 hash)
{
	clock_pass_version(version_stamp(&cell->head), hash);
}

/* ---- One write ------------------------------------------------------------------ */

/* From an address of the engine's memory, or none. */
static __always_inline void log_copy(void *to, u64 address, u32 len)
{
	void *from = bpfdb_at(address);

	if (from && len <= BPFDB_VALUE_MAX)
		bpf_probe_read_kernel(to, len, from);
}

/* A large value goes by reference: the record holds it. */
static __always_inline void log_large(struct bpfdb_log_large *to, u64 table)
{
	struct bpfdb_large *large = bpfdb_at(table);

	if (!large)
		return;
	/* The session that commits holds it too, until the record is sealed. */
	ADD(&large->holders, 1);
	ADD(&engine.log_holds.value, 1);
	to->id = large->id;
	to->len = large->len;
	to->table = table;
}

/* The value of a version: `data` is its words. */
static __always_inline void log_value(void *to, u32 form, u64 data0, u64 data1)
{
	u32 len = form_length(form);
	u64 *words = to;

	if (form == BPFDB_ABSENT)
		return;
	if (form_is_large(form)) {
		log_large(to, data0);
	} else if (len <= (form_expires(form) ? BPFDB_INLINE_EXPIRING_MAX : BPFDB_INLINE_MAX)) {
		words[0] = data0;
		words[1] = form_expires(form) ? 0 : data1;
	} else {
		log_copy(to, data0, form_bytes(form));
	}
}

/* The key: its words, or the address of its slot and the length of a long one. */
static __always_inline void log_key(void *to, u64 key0, u64 key1, u32 len)
{
	u64 *words = to;

	if (key_is_inline(len)) {
		words[0] = key0;
		words[1] = key1;
	} else {
		log_copy(to, key0, len & (2 * BPFDB_KEY_MAX - 1));
	}
}

static __always_inline u64 log_meta(u32 key_len, u32 form)
{
	return form | (u64)key_len << BPFDB_FORM_BITS;
}

/* ---- Auto-commit ---------------------------------------------------------------- */

/* The usual write: key and value have a grain each. */
static __always_inline bool write_is_short(const struct bpfdb_session *s)
{
	return key_is_inline(s->key_len) &&
	       (form_is_inline(s->value_len) || s->value_len == BPFDB_ABSENT);
}

/* Fills any other. */
__noinline int record_fill(struct bpfdb_session *s NONNULL)
{
	u64 key_room = log_round(s->key_len) & (2 * BPFDB_KEY_MAX - 1);
	struct bpfdb_log_record *record = log_memory(s->log_ring, s->log_at);
	struct bpfdb_log_write *write = (void *)(record + 1);
	u32 form = s->value_len;
	void *key;

	if (!record)
		return BPFDB_CORRUPT;
	write->meta = log_meta(s->key_len, form);
	write->expires = form_expires(form) ? s->value[1] : 0;
	key = write + 1;
	bpf_probe_read_kernel(key, s->key_len & (2 * BPFDB_KEY_MAX - 1), s->key);
	log_value(key + key_room, form, s->value[0], s->value[1]);
	return BPFDB_OK;
}

static __always_inline void record_fill_short(struct bpfdb_session *s)
{
	struct bpfdb_log_record *record = log_memory(s->log_ring, s->log_at);
	struct bpfdb_log_write *write = (void *)(record + 1);
	u64 *words = (void *)(write + 1);

	if (!record)
		return;
	write->meta = log_meta(s->key_len, s->value_len);
	write->expires = 0;
	words[0] = s->key[0];
	words[1] = s->key[1];
	/* Of a deletion it is the next record's room, which comes later. */
	if (s->value_len != BPFDB_ABSENT) {
		words[2] = s->value[0];
		words[3] = s->value[1];
	}
}

/* Reserves and fills the record of an auto-commit, whose operands are ready. OK, LOG_FULL,
 * LOG_CLOSED. */
static __always_inline int record_begin(struct bpfdb_session *s)
{
	u32 bytes, ring;
	int status;

	if (!config.log_ring || unlikely(s->unlogged))
		return BPFDB_OK;
	bytes = log_record_room(log_write_room(s->key_len, s->value_len));
	ring = log_own_ring();
	status = log_reserve(ring, bytes, &s->log_at);
	if (unlikely(status != BPFDB_OK))
		return status;
	s->log_ring = ring;
	s->log_grains = bytes / BPFDB_LOG_RECORD_GRAIN;
	if (likely(write_is_short(s)))
		record_fill_short(s);
	else
		record_fill(s);
	return BPFDB_OK;
}

/* The auto-commit was decided. */
static __always_inline void record_end(struct bpfdb_session *s, u64 stamp)
{
	if (!config.log_ring || unlikely(!s->log_grains))
		return;
	log_seal(s->log_ring, s->log_at, s->log_grains, stamp);
	s->log_grains = 0;
}

/* There was none. */
__noinline int record_void(struct bpfdb_session *s NONNULL)
{
	/* The operand is still the session's, which gives it up: so does the record. */
	if (form_is_large(s->value_len)) {
		ADD(&engine.log_holds.value, -1);
		bpfdb_large_free(s->value[0]);
	}
	log_seal(s->log_ring, s->log_at, s->log_grains | BPFDB_LOG_VOID, 0);
	s->log_grains = 0;
	return BPFDB_OK;
}

/* At the end of an operator: what it has reserved and not sealed is void. */
static __always_inline void record_settle(struct bpfdb_session *s)
{
	if (config.log_ring && unlikely(s->log_grains))
		record_void(s);
}

/* ---- COMMIT --------------------------------------------------------------------- */

/* What the pending versions of a transaction take in its record with another one of this key
 * and form in the place of `replaced`, in bytes. */
static __always_inline u32 record_with(const struct bpfdb_session *s, u32 key_len, u32 form,
				       u32 replaced)
{
	return s->log_bytes + log_write_room(key_len, form) - replaced;
}

static __always_inline bool record_fits(u32 bytes)
{
	return !config.log_ring || bytes <= config.log_ring / BPFDB_LOG_SHARE;
}

static __always_inline void record_count(struct bpfdb_session *s, u32 bytes)
{
	if (config.log_ring)
		s->log_bytes = bytes;
}

/* The timestamp of a locked record. False: it is on its way to another page. A split or a merge
 * moves it in spite of the lock, and may put another record there, at any moment: the key and the
 * timestamp are of one record if the header has not changed meanwhile. */
static __always_inline bool locked_stamp(struct bpfdb_lock *lock, u64 *stamp)
{
	u64 address = lock_cell(lock), header;
	struct bpfdb_cell *cell = address ? bpfdb_at(address) : NULL;

	if (!cell)
		return false;
	header = LOAD_ACQUIRE(cell->header);
	/* One that is not in use still has the key, and may be claimed without a change of what
	 * counts of the header. */
	if (!(header & BPFDB_CELL_USED) ||
	    !cell_has_identity(cell, lock->key[0], lock->key[1], lock->key_len))
		return false;
	*stamp = version_stamp(&cell->head);
	return header_same_content(LOAD_AFTER(cell->header), header);
}

/* Invariant 2, for a record that is locked. If it is on its way to another page, the clock
 * passes whatever it is. */
static __always_inline void clock_pass_locked(struct bpfdb_lock *lock)
{
	u64 stamp = 0;

	if (likely(locked_stamp(lock, &stamp)))
		clock_pass_version(stamp, lock->hash);
	else
		(void)FETCH_ADD(&engine.clock.value, 1);
}

/* The write of lock `i` at `position`: the bytes that it takes, 0 if it is none. */
__noinline u32 record_add(struct bpfdb_session *s NONNULL, u32 i, u32 ring, u64 position)
{
	struct bpfdb_lock *lock = lock_at(s, i);
	struct bpfdb_log_write *write;
	u64 key_room;
	u32 form;
	void *key;

	if (!lock || lock->mode != BPFDB_LOCK_PENDING)
		return 0;
	write = log_memory(ring, position);
	if (!write)
		return 0;
	form = lock->meta & BPFDB_FORM_MASK;
	key_room = log_round(lock->key_len) & (2 * BPFDB_KEY_MAX - 1);
	write->meta = log_meta(lock->key_len, form);
	write->expires = form_expires(form) ? lock->data[1] : 0;
	key = write + 1;
	log_key(key, lock->key[0], lock->key[1], lock->key_len);
	log_value(key + key_room, form, lock->data[0], lock->data[1]);
	clock_pass_locked(lock);
	return log_write_room(lock->key_len, form);
}

#endif
