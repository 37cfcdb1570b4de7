/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Large values as operands (storage/large.bpf.h has their layout).
 *
 *   none ──bpfdb_large_begin──► building ──bpfdb_large_piece, in order──► building
 *   building ──bpfdb_large_take──► operand of SET ──bpfdb_set──► a version, or given back
 *   building ──bpfdb_large_begin, bpfdb_large_discard, end of the session──► given back
 *
 * What is being built belongs to the session, so that nothing is lost with a daemon
 * that dies. Memory that is still to be added fails no transaction here: the next
 * piece is asked for again.
 */
#ifndef BPFDB_OPERATORS_LARGE_BPF_H
#define BPFDB_OPERATORS_LARGE_BPF_H

#include "set.bpf.h"

/* The SET that it was for will not be. */
static __always_inline int large_refuse(struct bpfdb_session *s, int status)
{
	count_outcome(s, BPFDB_OP_SET, status);
	return txn_result(s, status);
}

/* Gives up what is being built. */
__noinline int bpfdb_large_discard(struct bpfdb_session *s NONNULL)
{
	u64 table = s->building;

	s->building = 0;
	return table ? bpfdb_large_free(table) : BPFDB_OK;
}

/* Gives up what the session owns and no SET took: at its end. */
static __always_inline void operands_discard(struct bpfdb_session *s)
{
	bpfdb_large_discard(s);
	value_discard(s);
}

/*
 * Begins a value of `len` bytes in the place of one that is being built: OK,
 * MEMORY_PENDING (try again), or an Error that fails a read-write transaction as
 * it would in SET.
 */
__noinline int bpfdb_large_begin(struct bpfdb_session *s NONNULL, u64 len)
{
	int status = txn_ready(s);

	bpfdb_large_discard(s);
	if (status == BPFDB_OK && s->state == BPFDB_TXN_READ)
		status = BPFDB_READ_ONLY;
	if (status == BPFDB_OK && (len <= BPFDB_VALUE_MAX || len > BPFDB_LARGE_MAX))
		status = BPFDB_VALUE_TOO_LARGE;
	if (status == BPFDB_OK && !large_fits(len))
		status = BPFDB_OUT_OF_MEMORY;
	if (status != BPFDB_OK)
		return large_refuse(s, status);
	s->building = large_create(len);
	if (!s->building && memory_look())
		s->building = large_create(len);
	if (s->building)
		return BPFDB_OK;
	status = no_memory();
	return status == BPFDB_MEMORY_PENDING ? status : large_refuse(s, status);
}

/*
 * Memory for the bytes of piece `i`, which is one there is, or the next: OK with
 * its address in *address, MEMORY_PENDING (try again), or an Error that has given
 * up what was being built.
 */
__noinline int bpfdb_large_piece(struct bpfdb_session *s NONNULL, u32 i, u64 *address NONNULL)
{
	u64 table = s->building;
	int status;

	if (!table)
		return BPFDB_BAD_REQUEST;
	*address = large_piece_make(table, i);
	if (!*address && memory_look())
		*address = large_piece_make(table, i);
	if (*address)
		return BPFDB_OK;
	status = no_memory();
	if (status == BPFDB_MEMORY_PENDING)
		return status;
	bpfdb_large_discard(s);
	return large_refuse(s, status);
}

/* What was built becomes the session's value for SET, of this type, if it is all there and
 * `len` bytes long; else VALUE_TOO_LARGE, which fails a transaction. BAD_REQUEST, which fails it
 * too: there is no such type. */
__noinline int bpfdb_large_take(struct bpfdb_session *s NONNULL, u64 len, u32 type)
{
	u64 table = s->building;
	struct bpfdb_large *large = table ? bpfdb_at(table) : NULL;

	if (!large || large->len != len || !large_is_whole(large))
		return large_refuse(s, BPFDB_VALUE_TOO_LARGE);
	if (type != BPFDB_TYPE_STRING && !type_is_known(type))
		return large_refuse(s, BPFDB_BAD_REQUEST);
	s->building = 0;
	value_discard(s);
	s->value_len = BPFDB_LARGE | type << BPFDB_FORM_LENGTH_BITS;
	s->value[0] = table;
	s->value[1] = 0;
	s->value_owned = value_owned(s->value_len, table);
	return BPFDB_OK;
}

/*
 * GET for update of a value of any type: FOUND, NOT_FOUND or an Error. A large one in memory that
 * it found is what the session has built then, and can be taken for a SET: two versions hold it,
 * and not a byte is copied. One operator, because the lock must be there while a holder is added:
 * between two operators the transaction may be rolled back.
 */
__noinline int bpfdb_large_share(struct bpfdb_session *s NONNULL)
{
	struct bpfdb_large *large;
	int status;

	if (!session_enter(s))
		return BPFDB_SESSION_BUSY;
	status = get_begin(s);
	if (status == BPFDB_OK && s->state != BPFDB_TXN_WRITE)
		status = s->state == BPFDB_TXN_READ ? BPFDB_READ_ONLY : BPFDB_WRONG_STATE;
	if (status == BPFDB_OK)
		status = OF_ANY_TYPE(s, get_in_transaction(s, BPFDB_LOCK_EXCLUSIVE));
	txn_touch(s);
	large = bpfdb_at(s->value[0]);
	/* What was built before is no value of this key. */
	bpfdb_large_discard(s);
	/* A cold one has one holder, and no bytes for the log: it is copied. */
	if (status == BPFDB_FOUND && form_is_large(s->value_len) && large &&
	    !large_is_cold(large)) {
		ADD(&large->holders, 1);
		s->building = s->value[0];
	}
	status = txn_result(s, status);
	count_outcome(s, BPFDB_OP_GET_FOR_UPDATE, status);
	return session_leave(s, status);
}

/*
 * Reads the session's key once more, without counting it: FOUND with the value in
 * the session if it is the large one with this id, of whatever type, else NOT_FOUND, or an Error.
 */
__noinline int bpfdb_large_find(struct bpfdb_session *s NONNULL, u64 id)
{
	struct bpfdb_large *large;
	int status;

	if (!session_enter(s))
		return BPFDB_SESSION_BUSY;
	status = get_begin(s);
	if (status == BPFDB_OK)
		status = OF_ANY_TYPE(s, get_at_rest(s));
	txn_touch(s);
	if (status == BPFDB_FOUND) {
		large = bpfdb_at(s->value[0]);
		if (!form_is_large(s->value_len) || !large || LOAD(large->id) != id)
			status = BPFDB_NOT_FOUND;
	}
	return session_leave(s, status);
}

#endif
