/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * What a reply depends on. A client whose replies must be durable must not
 * see a reply before everything is durable that it exposes: what it wrote itself, the
 * value that it read, and that there is none. Each of these is the doing of a commit, and
 * a commit is durable if its timestamp is at most that of the last durable epoch.
 *
 * Invariants
 *  1. When an operator has ended, `depends` of a session that keeps it is at least the
 *     timestamp of every commit that its outcome exposes.
 *  2. It never gets smaller: what was seen once may be exposed again.
 *
 * The operator itself knows nothing of this, and costs nothing more. The key is looked up
 * again afterwards: whatever was seen had been committed by then, and what has come since
 * is later. So the timestamp of the last write that is there now is late enough. If there
 * is no record, or one that was never written, the last removal counts (removal.bpf.h). If
 * the record is just being written, or it is on its way to another page, the clock does:
 * no commit that is decided is later.
 */
#ifndef BPFDB_DEPENDS_BPF_H
#define BPFDB_DEPENDS_BPF_H

#include "common.bpf.h"

static __always_inline void depend_on(struct bpfdb_session *s, u64 stamp)
{
	if (stamp > s->depends)
		s->depends = stamp;
}

/* On everything that is committed now. */
static __always_inline void depend_on_all(struct bpfdb_session *s)
{
	depend_on(s, LOAD(engine.clock.value));
}

/* When the record was written last, if that is known; else the clock's time. */
static __always_inline u64 stamp_of_record(struct bpfdb_session *s, struct bpfdb_cell *cell,
					   u64 header)
{
	u64 stamp = version_stamp(&cell->head);

	if (header & (BPFDB_CELL_PENDING | BPFDB_CELL_REPLACING) ||
	    !header_same_content(LOAD_AFTER(cell->header), header))
		return LOAD(engine.clock.value);
	return stamp ?: removal_stamp(s->hash);
}

/* When the record was written last that this session has a pending version of. No other
 * session changes its head, but it may be moved, and another record put there. */
static __always_inline u64 stamp_below_own(struct bpfdb_session *s, struct bpfdb_cell *cell,
					   u64 header)
{
	u64 stamp = version_stamp(&cell->head);

	if (!header_same_content(LOAD_AFTER(cell->header), header))
		return LOAD(engine.clock.value);
	return stamp ?: removal_stamp(s->hash);
}

/* On what is there for the session's key, whose hash an operator has computed. Of what this
 * session has pending there was not exposed; of what that replaces, `only_writes` says: SET
 * exposes nothing of it, DELETE whether there was something. */
__noinline int bpfdb_depend_on_key(struct bpfdb_session *s NONNULL, u32 only_writes)
{
	struct bpfdb_cell *cell = NULL;
	u64 address, header = 0;
	int status = record_find(s, &cell, &address, &header);

	if (status == BPFDB_NOT_FOUND)
		depend_on(s, removal_stamp(s->hash));
	else if (status != BPFDB_OK || !cell)
		depend_on_all(s);
	else if (!(header & BPFDB_CELL_PENDING) || !header_is_mine(s, header))
		depend_on(s, stamp_of_record(s, cell, header));
	else if (!only_writes)
		depend_on(s, stamp_below_own(s, cell, header));
	return BPFDB_OK;
}

/* For what an operation of user space has exposed. `before` is the session's state before it: the
 * end of a transaction that only read exposes nothing new. One that is not finished has decided
 * its commit, which the record itself does not show yet. */
static __always_inline void depend_on_told(struct bpfdb_session *s, u32 operation, u32 before)
{
	if (txn_is_unfinished(s->state) ||
	    (operation == BPFDB_OP_COMMIT && before != BPFDB_TXN_READ))
		depend_on_all(s);
	else if (s->key_len)
		bpfdb_depend_on_key(s, operation == BPFDB_OP_SET);
}

/* The same if the session keeps that. */
static __always_inline void depend_on_outcome(struct bpfdb_session *s, u32 operation, u32 before)
{
	if (config.log_ring && unlikely(s->keeps_depends))
		depend_on_told(s, operation, before);
}

#endif
