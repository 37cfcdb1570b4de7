/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * EVICT: DELETE without a transaction, of the record that was chosen as a victim. FOUND: it is gone.
 * NOT_FOUND: it was written, used, or moved since, or is gone already. CONFLICT: a transaction has it
 * locked. ACCESS: what was noted of the accesses of a key.
 */
#ifndef BPFDB_EVICT_BPF_H
#define BPFDB_EVICT_BPF_H

#include "set.bpf.h"

/* One attempt: the record must have this header and this `meta` still. What changes after this
 * look changes the header, by which the record is taken. */
__noinline int evict_once(struct bpfdb_session *s NONNULL, u64 sampled_header, u64 meta)
{
	struct bpfdb_cell *cell = NULL;
	u64 address = 0, header;
	int status = record_find(s, &cell, &address, &header);

	if (status != BPFDB_OK)
		return status;
	if (!header_same_content(header, sampled_header) || LOAD(cell->head.meta) != meta)
		return BPFDB_NOT_FOUND;
	return auto_replace_found(s, cell, address, header);
}

static __always_inline int evict_locked(struct bpfdb_session *s, u64 header, u64 meta)
{
	int status = key_prepare_apart(s);

	/* What the log has of it, too. */
	s->value_len = BPFDB_ABSENT;
	s->value[0] = s->value[1] = 0;
	if (status == BPFDB_OK)
		status = record_begin(s);
	if (status != BPFDB_OK)
		return status;
	status = RETRY;
	repeat(i, BPFDB_TRIES)
	{
		status = make_room(s, evict_once(s, header, meta));
		if (status != RETRY)
			break;
	}
	return status == RETRY ? BPFDB_CONFLICT : status;
}

/* `header` and `meta`: of the record as it was sampled. */
__noinline enum bpfdb_status bpfdb_evict(struct bpfdb_session *s NONNULL, u64 header, u64 meta)
{
	int status;

	if (s->state != BPFDB_TXN_NONE)
		return BPFDB_WRONG_STATE;
	if (LOAD(s->busy))
		return BPFDB_SESSION_BUSY;
	STORE(s->busy, 1);
	status = evict_locked(s, header, meta);
	record_settle(s);
	if (status == BPFDB_FOUND)
		COUNT(records_evicted);
	return session_leave(s, status);
}

/* The `meta` of the record of the session's key: FOUND, NOT_FOUND, or an Error. It is no access, and
 * takes no lock. `word`: not 0, then it becomes the record's access word. */
__noinline enum bpfdb_status bpfdb_access(struct bpfdb_session *s NONNULL, u64 word,
					  u64 *meta NONNULL)
{
	struct bpfdb_cell *cell = NULL;
	u64 address, header, old;
	int status = key_prepare_apart(s);

	repeat(i, BPFDB_TRIES)
	{
		if (status != BPFDB_OK && status != RETRY)
			break;
		status = record_find(s, &cell, &address, &header);
		if (status != BPFDB_OK || !cell)
			continue;
		old = LOAD(cell->head.meta);
		*meta = old;
		if (!word || (!(old & BPFDB_ACCESS_WORD) && old >> BPFDB_FORM_BITS))
			return BPFDB_FOUND;
		if (CAS(&cell->head.meta, old,
			(word & ~BPFDB_FORM_MASK) | (old & BPFDB_FORM_MASK)) == old)
			return BPFDB_FOUND;
		status = RETRY;
	}
	return status == RETRY || status == BPFDB_OK ? BPFDB_EXHAUSTED : status;
}

#endif
