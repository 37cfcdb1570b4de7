/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * What a reader sees of a record, without a lock.
 *
 * The reader notes the header, takes a version, copies what it needs and reads
 * the header again: the same content bits mean that what it took was the
 * record's state at one moment. Nothing here waits for a writer:
 *
 *   header            commit word of the owner    what is read
 *   no PENDING        -                           head, or history
 *   PENDING           none, or COMMITTING         head, or history
 *                     (a snapshot reader that meets COMMITTING decides the
 *                      commit timestamp first, see commit_help)
 *   PENDING           COMMITTED at <= snapshot    the pending version
 *   PENDING           COMMITTED later             head, or history
 *   PENDING+REPLACING COMMITTED at <= snapshot    the pending version
 *   PENDING+REPLACING COMMITTED later             history only: the head is
 *                                                 being overwritten
 */
#ifndef BPFDB_VISIBLE_BPF_H
#define BPFDB_VISIBLE_BPF_H

#include "far.bpf.h"
#include "history.bpf.h"

static __always_inline u64 commit_phase(u64 word)
{
	return word >> BPFDB_PHASE_SHIFT;
}

static __always_inline u64 commit_word(u64 phase, u64 payload)
{
	return phase << BPFDB_PHASE_SHIFT | payload;
}

/*
 * Decides the timestamp of a commit that was announced but not decided. The
 * transaction number in the word makes the CAS fail if the word has moved on
 * to another transaction. Returns the word as it is now.
 */
static __always_inline u64 commit_decide(u64 *word, u64 announced)
{
	u64 decided = commit_word(BPFDB_PHASE_COMMITTED, LOAD(engine.clock.value));

	CAS(word, announced, decided);
	return LOAD_ACQUIRE(*word);
}

/* What the owner's pending version is to a reader at `snapshot`. */
enum pending {
	PENDING_IGNORE,
	PENDING_VISIBLE,
	PENDING_OVER, /* the header is another by now */
};

static __always_inline enum pending pending_state(struct bpfdb_session *owner,
						  struct bpfdb_cell *cell, u64 header, u64 snapshot)
{
	u64 word = LOAD_ACQUIRE(owner->commit);

	if (commit_phase(word) == BPFDB_PHASE_COMMITTING && snapshot != LATEST) {
		/* Header, word, header: the number in the word is that of the
		 * transaction under which this record is pending. It could else be
		 * the owner's next one, announced but not yet pending anywhere:
		 * deciding that would give it a timestamp too early. */
		if (!header_same_content(LOAD_AFTER(cell->header), header))
			return PENDING_OVER;
		word = commit_decide(&owner->commit, word);
		COUNT(commits_helped);
	}
	if (commit_phase(word) != BPFDB_PHASE_COMMITTED)
		return PENDING_IGNORE;
	return (word & BPFDB_PAYLOAD_MASK) <= snapshot ? PENDING_VISIBLE : PENDING_IGNORE;
}

/* Leaves the version's form in the place of the length: read_visible. */
static __always_inline void take_version(struct bpfdb_session *s, u64 meta, u64 d0, u64 d1)
{
	s->value_len = meta & BPFDB_FORM_MASK;
	s->value[0] = d0;
	s->value[1] = d1;
}

static __always_inline void take_history(struct bpfdb_session *s, struct bpfdb_aux *aux,
					 u64 snapshot)
{
	u64 best = 0;
	bool any = false;

#pragma clang loop unroll(disable)
	for (u32 i = 0; i < BPFDB_VERSIONS_MAX; i++) {
		struct bpfdb_version *v = &aux->history[i];
		u64 stamp;

		if (i >= config.versions)
			break;
		/* Before the stamp: version_push() writes `meta` last, and what the stamp
		 * was before is that of another version. */
		if (version_unused(v))
			continue;
		stamp = version_stamp(v);
		if (stamp > snapshot || (any && stamp < best))
			continue;
		any = true;
		best = stamp;
		take_version(s, LOAD(v->meta), LOAD(v->data[0]), LOAD(v->data[1]));
	}
}

/* The cases that GET does not handle inline. Leaves the version in the session
 * (value_len ABSENT: no version is visible); the caller checks the header. */
__noinline int bpfdb_read_slow(struct bpfdb_session *s NONNULL, u64 address, u64 header,
			       u64 snapshot)
{
	struct bpfdb_cell *cell = bpfdb_at(address);

	s->value_len = BPFDB_ABSENT;
	if (!cell)
		return BPFDB_CORRUPT;
	if (header & BPFDB_CELL_PENDING) {
		struct bpfdb_session *owner = bpfdb_session(header_owner(header));
		struct bpfdb_lock *lock = owner ? lock_of_header(owner, header, address) : NULL;
		enum pending state = PENDING_VISIBLE;

		if (!lock)
			return RETRY;
		/* A session sees its own writes, but not what it has rolled back
		 * and not released yet (FINISHING). */
		if (!header_is_mine(s, header) || s->state != BPFDB_TXN_WRITE)
			state = pending_state(owner, cell, header, snapshot);
		if (state == PENDING_OVER)
			return RETRY;
		if (state == PENDING_VISIBLE) {
			take_version(s, LOAD(lock->meta), LOAD(lock->data[0]), LOAD(lock->data[1]));
			return BPFDB_OK;
		}
	}
	if (!(header & BPFDB_CELL_REPLACING) && version_stamp(&cell->head) <= snapshot) {
		take_version(s, LOAD(cell->head.meta), LOAD(cell->head.data[0]),
			     LOAD(cell->head.data[1]));
		return BPFDB_OK;
	}
	if (header & BPFDB_CELL_AUX) {
		struct bpfdb_aux *aux = bpfdb_at(cell_link(cell));

		if (!aux)
			return RETRY;
		take_history(s, aux, snapshot);
	}
	return BPFDB_OK;
}

/*
 * Is what the session read still what it was? The header shows it; but a snapshot's
 * versions stay as they are until it ends, however busy the writers are (invariant 4
 * of snapshot.bpf.h).
 */
static __always_inline bool view_is_valid(const struct bpfdb_session *s)
{
	struct bpfdb_cell *cell;

	if (s->state == BPFDB_TXN_READ)
		return snapshot_is_registered(s);
	cell = bpfdb_at(s->view_cell);
	return cell && header_same_content(LOAD_AFTER(cell->header), s->view_header);
}

/*
 * The session has taken a version with an expiry: makes it what GET promises,
 * with bytes of up to BPFDB_INLINE_MAX in the session. FOUND, NOT_FOUND, RETRY.
 */
static __always_inline int read_expiring(struct bpfdb_session *s)
{
	u32 len = form_length(s->value_len);
	u64 expires = s->value[1], *slot;

	if (expires <= session_time(s)) {
		s->value_len = BPFDB_ABSENT;
		return BPFDB_NOT_FOUND;
	}
	s->value_len = len;
	s->value[1] = 0;
	if (len > BPFDB_INLINE_EXPIRING_MAX && len <= BPFDB_INLINE_MAX) {
		slot = bpfdb_at(s->value[0]);
		if (!slot)
			return RETRY;
		s->value[0] = LOAD(slot[0]);
		s->value[1] = LOAD(slot[1]);
		if (!view_is_valid(s))
			return RETRY;
	}
	if (len <= BPFDB_INLINE_MAX)
		s->view_cell = 0;
	s->found_expires = expires;
	return BPFDB_FOUND;
}

/* What the session has taken is no short string that stays for ever: FOUND, NOT_FOUND, RETRY,
 * or WRONG_TYPE. */
__noinline int read_special(struct bpfdb_session *s NONNULL)
{
	int status = BPFDB_FOUND;

	if (s->value_len == BPFDB_ABSENT)
		return BPFDB_NOT_FOUND;
	if (s->value_len >= BPFDB_EXPIRES)
		status = read_expiring(s);
	if (status != BPFDB_FOUND)
		return status;
	return form_type(s->value_len) && s->value_type != BPFDB_TYPE_ANY ? BPFDB_WRONG_TYPE
									  : BPFDB_FOUND;
}

/*
 * Reads the version of `cell` that `snapshot` sees into the session. FOUND,
 * NOT_FOUND, WRONG_TYPE, or RETRY if a writer was faster.
 */
static __always_inline int read_visible(struct bpfdb_session *s, struct bpfdb_cell *cell,
					u64 address, u64 header, u64 snapshot)
{
	if (likely(!(header & (BPFDB_CELL_PENDING | BPFDB_CELL_REPLACING | BPFDB_CELL_AUX))) &&
	    snapshot == LATEST) {
		take_version(s, LOAD(cell->head.meta), LOAD(cell->head.data[0]),
			     LOAD(cell->head.data[1]));
	} else {
		int status = bpfdb_read_slow(s, address, header, snapshot);

		if (status != BPFDB_OK)
			return status;
	}
	if (unlikely(!header_same_content(LOAD_AFTER(cell->header), header)))
		return RETRY;
	/* A short value is in the session already: nothing of it can change. */
	if (likely(s->value_len <= BPFDB_INLINE_MAX)) {
		s->view_cell = 0;
		return BPFDB_FOUND;
	}
	s->view_cell = address;
	s->view_header = header;
	return likely(s->value_len <= BPFDB_VALUE_MAX) ? BPFDB_FOUND : read_special(s);
}

#endif
