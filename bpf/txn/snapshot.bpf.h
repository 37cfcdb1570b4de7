/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Running snapshots, and what a writer must know of them.
 *
 * A read-only transaction publishes its timestamp S in `snapshots`, in the slot
 * of its session. A writer that replaces a head of timestamp h at timestamp t
 * must keep the head iff a running snapshot has h <= S < t. All running
 * snapshots have S < t, but for those that see the new version: so the newest
 * one decides. engine.snapshots has an upper bound of it, and a writer looks at
 * that one cache line:
 *
 *   no snapshot runs               nothing is kept
 *   h > newest                     nothing: the record was written since
 *   h <= newest, which runs        the head is kept
 *   h <= newest, which has ended   newest_refresh() finds the newest that runs
 *   one is about to begin          the head is kept
 *
 * So a record pays for snapshots once after each of them began, and a snapshot
 * that is never ended costs a writer nothing afterwards, nor do thousands.
 *
 * Invariants
 *  1. A snapshot counts as starting before it reads the clock, and until its
 *     timestamp is in its slot and not above `newest`. A writer reads `active`
 *     after its commit was decided, and `newest` after that. So if a snapshot
 *     with S < t is not seen as starting, `newest` covers it.
 *  2. `newest` is lowered by a compare-and-swap only, to the newest of all slots,
 *     read while none was starting. A snapshot that registers meanwhile makes the
 *     compare-and-swap fail, or raises `newest` again.
 *  3. Timestamps of snapshots are unique. So equal words mean that nothing happened.
 *  4. A version that a registered snapshot sees stays until the snapshot ends or
 *     is revoked. A reader by a snapshot looks at its slot *after* reading: as
 *     long as it was not revoked, what was read is right.
 */
#ifndef BPFDB_SNAPSHOT_BPF_H
#define BPFDB_SNAPSHOT_BPF_H

#include "clock.bpf.h"

/* In a slot: ended by an operator that it was in the way of. Its session does not know yet. */
#define SNAPSHOT_REVOKED (~0ULL)

/* In engine.snapshots.active. */
#define SNAPSHOT_RUNNING 1ULL
#define SNAPSHOT_STARTING (1ULL << 32)

static __always_inline u64 *snapshot_slot(u32 session)
{
	return bpf_map_lookup_elem(&snapshots, &session);
}

static __always_inline u64 *snapshot_group(u32 session)
{
	u32 group = session / BPFDB_SNAPSHOT_GROUP;

	return bpf_map_lookup_elem(&snapshot_groups, &group);
}

/* Raises the bound to a snapshot. False if others did, all the time. */
static __always_inline bool newest_raise(u64 snapshot, u32 session)
{
	repeat(i, BPFDB_READ_TRIES)
	{
		u64 newest = LOAD(engine.snapshots.newest);

		if (newest >= snapshot)
			return true;
		if (CAS(&engine.snapshots.newest, newest, snapshot) != newest)
			continue;
		STORE(engine.snapshots.newest_session, session);
		return true;
	}
	return false;
}

static __always_inline void snapshot_end(struct bpfdb_session *s)
{
	u64 *slot = snapshot_slot(s->index), *group = snapshot_group(s->index);

	if (!slot || !group)
		return;
	/* All that was read by it was read before. */
	STORE_RELEASE(*slot, 0);
	STORE_RELEASE(s->time, 0);
	STORE(engine.snapshots.ended, s->snapshot);
	(void)FETCH_ADD(group, -1);
	(void)FETCH_ADD(&engine.snapshots.active, -SNAPSHOT_RUNNING);
}

/* Invariant 1. Others keep more than they need while a snapshot is starting: so
 * it is a latched section, though nothing waits for its end. */
static __always_inline int snapshot_begin(struct bpfdb_session *s)
{
	u64 *slot = snapshot_slot(s->index), *group = snapshot_group(s->index);
	bool raised;

	if (!slot || !group)
		return BPFDB_CORRUPT;
	s->begun = LOAD(engine.now.value);
	preempt_off();
	(void)FETCH_ADD(group, 1);
	STORE(s->time, TIME_STARTING);
	/* Atomic: counted before the clock is read. */
	(void)FETCH_ADD(&engine.snapshots.active, SNAPSHOT_RUNNING + SNAPSHOT_STARTING);
	s->snapshot = FETCH_ADD(&engine.clock.value, 1);
	STORE(s->time, time_now());
	STORE_RELEASE(*slot, s->snapshot + 1);
	raised = newest_raise(s->snapshot, s->index);
	(void)FETCH_ADD(&engine.snapshots.active, -SNAPSHOT_STARTING);
	preempt_on();
	if (raised)
		return BPFDB_OK;
	snapshot_end(s);
	return BPFDB_EXHAUSTED;
}

/* Is the session's snapshot still registered? Invariant 4. */
static __always_inline bool snapshot_is_registered(const struct bpfdb_session *s)
{
	u64 *slot = snapshot_slot(s->index);

	return slot && LOAD_AFTER(*slot) == s->snapshot + 1;
}

/* ---- For writers ----------------------------------------------------------- */

static __always_inline bool snapshots_none(void)
{
	return !LOAD_ACQUIRE(engine.snapshots.active);
}

static __always_inline bool snapshot_is_starting(void)
{
	return LOAD_ACQUIRE(engine.snapshots.active) >= SNAPSHOT_STARTING;
}

/* Does the snapshot that `newest` is of still run? Else it is a bound only. */
static __always_inline bool newest_runs(u64 newest)
{
	u64 *slot = snapshot_slot(LOAD(engine.snapshots.newest_session));

	return slot && LOAD(*slot) == newest + 1;
}

enum head_need {
	HEAD_FREE, /* no snapshot will ask for it */
	HEAD_NEEDED,
	HEAD_UNSURE, /* the snapshot that needed it has ended: newest_refresh() knows */
};

/* Must a head of this timestamp be kept when it is replaced by a later one? */
static __always_inline enum head_need head_need(u64 stamp)
{
	u64 active = LOAD_ACQUIRE(engine.snapshots.active), newest;

	if (likely(!active))
		return HEAD_FREE;
	if (active >= SNAPSHOT_STARTING)
		return HEAD_NEEDED;
	newest = LOAD_ACQUIRE(engine.snapshots.newest);
	if (stamp > newest)
		return HEAD_FREE;
	return newest_runs(newest) ? HEAD_NEEDED : HEAD_UNSURE;
}

#endif
