/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The value of a version goes to a run, or comes back (storage/cold.bpf.h).
 *
 *   in memory ──bpfdb_demote──► cold ──bpfdb_promote──► in memory
 *                               cold ──bpfdb_demote──► cold, in another run
 *
 * It stays the same version, with its timestamp: nothing is logged, WATCH sees no write, and a
 * snapshot that sees the version before sees it afterwards. The swap is that of an auto-commit
 * whose timestamp is decided already, which is that of the head:
 *
 *  1. The new form becomes the pending version of lock 0, and the commit word says COMMITTED at
 *     the head's timestamp T, before the cell is taken, with lock, latch and pending in one CAS.
 *     A reader that should see version T, by a snapshot or not, sees the new form of it from then
 *     on; a reader of an older version goes to the history, as before.
 *  2. It replaces the head, which no snapshot needs kept: the new head has its timestamp.
 *  3. What the head held is retired, not freed: storage/cold.bpf.h says why.
 *
 * Is the value still the one that user space means? A large or cold one has an id. Any other is,
 * if the version's timestamp is not after the epoch: user space has read it after all commits up
 * to that epoch were decided, so a later commit would have a later timestamp.
 *
 * A record that is locked is left as it is: CONFLICT.
 */
#ifndef BPFDB_OPERATORS_COLD_BPF_H
#define BPFDB_OPERATORS_COLD_BPF_H

#include "../storage/cold.bpf.h"
#include "set.bpf.h"

/* What the head of a record must be to be swapped. */
struct swap {
	u64 id;  /* of a large or cold value; 0: it is neither */
	u64 epoch; /* without an id: no later timestamp */
	u64 len;
	u64 retired; /* address of the struct bpfdb_retired for what is taken out */
};

/* Is the head the value that is meant? By what is read before the header is compared again. */
static __always_inline bool swap_expects(const struct bpfdb_cell *cell, u32 form,
					 const struct swap *want)
{
	struct bpfdb_large *large;

	if (form == BPFDB_ABSENT)
		return false;
	if (!form_is_large(form))
		return !want->id && form_bytes(form) == want->len &&
		       version_stamp(&cell->head) <= want->epoch;
	large = bpfdb_at(LOAD(cell->head.data[0]));
	return want->id && large && LOAD(large->id) == want->id && LOAD(large->len) == want->len;
}

/* Gives the session's value the type and the expiry of the head. False: it has another type
 * already, and is not large. */
static __always_inline bool swap_form(struct bpfdb_session *s, const struct bpfdb_cell *cell,
				      u32 form)
{
	u32 type = form & BPFDB_FORM_TYPE_MASK << BPFDB_FORM_LENGTH_BITS;
	u32 len = form_length(s->value_len);

	if (form_is_large(len))
		len = BPFDB_LARGE | type;
	else if (form_type(len) != form_type(form))
		return false;
	s->value_len = form_expires(form) ? len | BPFDB_EXPIRES : len;
	s->value[1] = form_expires(form) ? LOAD(cell->head.data[1]) : 0;
	return true;
}

/* Puts the session's value into the place of the head, whose timestamp is `stamp`. False: the
 * record has changed since `header`. */
static __always_inline bool swap_head(struct bpfdb_session *s, struct bpfdb_cell *cell, u64 address,
				      u64 header, u64 stamp, struct leftovers *left)
{
	bool taken;

	preempt_off();
	lock_set_pending(&s->locks[0], s);
	STORE_RELEASE(s->commit, commit_word(BPFDB_PHASE_COMMITTED, stamp));
	taken = CAS(&cell->header, header,
		    header_next(header, (header & BPFDB_CELL_AUX) | auto_flags(s))) == header;
	/* Never false: nothing is to be kept. */
	if (taken)
		version_install(s, address, &s->locks[0], stamp, left);
	STORE_RELEASE(s->commit, 0);
	preempt_on();
	return taken;
}

/* One attempt: OK, NOT_FOUND (it has another value, or none), CONFLICT, RETRY. */
__noinline int swap_once(struct bpfdb_session *s NONNULL, struct swap *want NONNULL)
{
	struct bpfdb_cell *cell = NULL;
	struct leftovers left = {};
	u64 address = 0, header = 0, stamp;
	int status = record_find(s, &cell, &address, &header);
	u32 form;

	if (status != BPFDB_OK)
		return status;
	if (header & (BPFDB_CELL_EXCLUSIVE | BPFDB_CELL_FIELD_MASK | BPFDB_CELL_LATCH))
		return conflict_or_retry(s, header);
	form = version_form(&cell->head);
	stamp = version_stamp(&cell->head);
	if (!swap_expects(cell, form, want) || !swap_form(s, cell, form))
		return header_same_content(LOAD_AFTER(cell->header), header) ? BPFDB_NOT_FOUND
									     : RETRY;
	/* Counted while it is pending, and down again with what is retired. */
	if (form_expires(form))
		ADD(&engine.expiring.value, 1);
	if (!swap_head(s, cell, address, header, stamp, &left)) {
		if (form_expires(form))
			ADD(&engine.expiring.value, -1);
		return RETRY;
	}
	retired_put(want->retired, left.form, left.data);
	if (left.aux)
		bpfdb_slot_free(left.aux);
	return BPFDB_OK;
}

/* The session's value, which it owns, becomes that of the key, or is given up. */
static __always_inline int swap(struct bpfdb_session *s, struct swap *want)
{
	int status = RETRY;

	want->retired = retired_create();
	if (!want->retired)
		status = no_memory();
	repeat(i, BPFDB_TRIES)
	{
		if (status != RETRY)
			break;
		status = swap_once(s, want);
	}
	if (status == BPFDB_OK) {
		s->value_owned = 0;
		return status;
	}
	value_discard(s);
	if (want->retired)
		bpfdb_slot_free(want->retired);
	return retry_is_conflict(s, status);
}

static __always_inline int swap_begin(struct bpfdb_session *s)
{
	if (s->state != BPFDB_TXN_NONE)
		return BPFDB_WRONG_STATE;
	return key_prepare_apart(s);
}

/* The value of the session's key becomes a cold one: OK; NOT_FOUND, if it is another by now;
 * CONFLICT; or an Error: BAD_REQUEST of a key of an ordered table, too. Not in a transaction. */
__noinline int bpfdb_demote(struct bpfdb_session *s NONNULL, struct bpfdb_demotion *to NONNULL)
{
	struct swap want = {.id = to->id, .epoch = to->epoch, .len = to->len};
	int status;

	if (want.len <= BPFDB_INLINE_MAX || want.len > BPFDB_LARGE_MAX || !to->place.run)
		return BPFDB_BAD_REQUEST;
	if (!session_enter(s))
		return BPFDB_SESSION_BUSY;
	status = swap_begin(s);
	/* Programs in the kernel read these, and each way to a leaf does: none of them reads files. */
	if (status == BPFDB_OK && key_is_ordered(s))
		status = BPFDB_BAD_REQUEST;
	if (status == BPFDB_OK) {
		value_discard(s);
		s->value_len = BPFDB_LARGE;
		s->value[0] = cold_create(want.len, &to->place);
		s->value_owned = s->value[0] ? value_owned(BPFDB_LARGE, s->value[0]) : 0;
		status = s->value_owned ? swap(s, &want) : no_memory();
	}
	return session_leave(s, status);
}

/* The session's value, of `len` bytes, takes the place of the cold one with this id. As above. */
__noinline int bpfdb_promote(struct bpfdb_session *s NONNULL, u64 id, u64 len)
{
	struct swap want = {.id = id, .len = len};
	int status;

	if (!s->value_owned)
		return BPFDB_BAD_REQUEST;
	if (!session_enter(s))
		return BPFDB_SESSION_BUSY;
	status = swap_begin(s);
	if (status == BPFDB_OK)
		status = swap(s, &want);
	return session_leave(s, status);
}

/*
 * The first step for what is retired: 1 if something waits for the end of a grace period now, to
 * be disposed of after it.
 */
static __always_inline int cold_retire(void)
{
	if (!LOAD(engine.retiring.value))
		STORE(engine.retiring.value, SWAP(&engine.retired.value, 0));
	return !!LOAD(engine.retiring.value);
}

/* The second step, after a grace period: gives back up to `most` of what waits; how many. */
static __always_inline int cold_dispose(u32 most)
{
	u32 done = LOAD(engine.zero);

	repeat(i, most)
	{
		u64 address = LOAD(engine.retiring.value);
		struct bpfdb_retired *retired = address ? bpfdb_at(address) : NULL;

		if (!retired)
			break;
		STORE(engine.retiring.value, retired->next);
		version_dispose(retired->form, retired->data);
		bpfdb_slot_free(address);
		done++;
	}
	return done;
}

#endif
