/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * WATCH: a token for what a key holds. Equal tokens mean that the key was not
 * written in between, not even with the same value; nor has it expired.
 *
 * Of a key with a record the token is the place of the cell and its header,
 * whose counter changes with everything that is done to the record. Of a key
 * that was never written it is the place and the word of its home: a record
 * comes and goes by a change of the bitmap there, and of its counter.
 *
 * The locks of one's own transaction do not count, so that it can tell whether
 * a key, now locked, still is what it was when it was watched:
 *
 *   WATCH     t = watch(key), for each key, without a transaction
 *   EXEC      BEGIN; for each key: GET or GET for update, then
 *             watch(key) == t, else ROLLBACK; the commands; COMMIT
 *
 * The locks keep what was compared until the commit, so all reads between WATCH
 * and EXEC have the result that they would have had at the commit: together
 * they are one serializable transaction.
 *
 * Tokens may differ though nobody wrote: the record was moved by a split or a
 * merge, somebody else locked it exclusively, the sweeper tidied it, a record was
 * inserted beside an absent key. A counter that has gone round (2^30 changes of a
 * record, 2^23 of the bucket of an absent key) could make them equal by chance.
 */
#ifndef BPFDB_WATCH_BPF_H
#define BPFDB_WATCH_BPF_H

#include "transaction.bpf.h"

/* Bits of a place: addresses of cells have none of them. */
#define WATCH_HOME 1
#define WATCH_EXPIRED 2

/* The home as it was before the key's record, at `bit`, was inserted; bit 0: as
 * it is. */
static __always_inline void watch_home(struct bpfdb_watch *token, const struct bucket *b, u32 bit)
{
	u64 home = b->home & ~BPFDB_HOME_LATCH;

	token->place = cell_address(b->page, b->index) | WATCH_HOME;
	token->word = bit ? (home - BPFDB_HOME_CHANGE) & ~(u64)bit : home;
}

/* Is the record but the bearer of locks? One that is locked exclusively by
 * somebody else may be a commit that is not installed yet. */
static __always_inline bool record_is_placeholder(struct bpfdb_session *s, struct bpfdb_cell *cell,
						  u64 header)
{
	if ((header & BPFDB_CELL_PENDING) ||
	    ((header & BPFDB_CELL_EXCLUSIVE) && !header_is_mine(s, header)))
		return false;
	return version_form(&cell->head) == BPFDB_ABSENT && !version_stamp(&cell->head);
}

/* The header without the session's own lock, which one change took. */
static __always_inline u64 watch_header(struct bpfdb_session *s, u64 header)
{
	if (!header_is_mine(s, header) || (header & BPFDB_CELL_PENDING))
		return header_content(header);
	return header_content(header - BPFDB_CELL_CHANGE) &
	       ~(BPFDB_CELL_EXCLUSIVE | BPFDB_CELL_FIELD_MASK);
}

static __always_inline void watch_record(struct bpfdb_session *s, struct bpfdb_watch *token,
					 struct bpfdb_cell *cell, u64 address, u64 header)
{
	u32 form = version_form(&cell->head);
	bool expired = form_expires(form) && form_is_gone(s, form, LOAD(cell->head.data[1]));

	token->place = address | (expired ? WATCH_EXPIRED : 0);
	token->word = watch_header(s, header);
}

__noinline int watch_once(struct bpfdb_session *s NONNULL, struct bpfdb_watch *token NONNULL)
{
	struct bpfdb_cell *cell;
	struct bucket b = {};
	int status = bucket_find(s->hash, &b), index;
	u64 header;
	u32 bit;

	if (status != BPFDB_OK)
		return status;
	index = bucket_search(s, &b, &header);
	if (index < 0) {
		watch_home(token, &b, 0);
		return bucket_unchanged(&b) ? BPFDB_OK : RETRY;
	}
	cell = cell_in(b.memory, index);
	bit = 1u << ((index - b.index) % BPFDB_NEIGHBOURHOOD);
	if (record_is_placeholder(s, cell, header))
		watch_home(token, &b, bit);
	else
		watch_record(s, token, cell, cell_address(b.page, index), header);
	return header_same_content(LOAD(cell->header), header) && bucket_unchanged(&b) ? BPFDB_OK
										       : RETRY;
}

/* The token of the session's key: OK or an Error, which fails nothing. */
__noinline int bpfdb_watch(struct bpfdb_session *s NONNULL, struct bpfdb_watch *token NONNULL)
{
	int status;

	if (!session_enter(s))
		return BPFDB_SESSION_BUSY;
	status = get_begin(s);
	if (status == BPFDB_OK) {
		repeat(i, BPFDB_READ_TRIES)
		{
			status = watch_once(s, token);
			if (status != RETRY)
				break;
			COUNT(read_retries);
		}
		txn_touch(s);
	}
	return session_leave(s, status == RETRY ? BPFDB_EXHAUSTED : status);
}

#endif
