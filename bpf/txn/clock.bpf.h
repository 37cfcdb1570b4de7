/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Timestamps: an epoch clock that only read-only BEGIN advances.
 *
 * A commit takes the clock's value E as its timestamp without changing it; a
 * read-only BEGIN takes S = E and moves the clock on to E + 1. A snapshot sees
 * the versions with timestamp <= S. So commits share no written cache line,
 * and commits between two snapshots have equal timestamps, which no snapshot
 * can tell apart. (The published BPF-DB increments a latched timestamp in
 * every COMMIT; epochs are as in Silo, Tu et al. 2013.)
 *
 * Why a snapshot is consistent, together with commit.bpf.h:
 *  - a commit acknowledged before BEGIN has timestamp <= S, since it read the
 *    clock before BEGIN advanced it;
 *  - a commit whose session announced COMMITTING after BEGIN has timestamp
 *    > S, since it reads the clock after announcing;
 *  - in between, the reader that meets COMMITTING decides the timestamp itself
 *    (commit_help), and whoever reads afterwards finds the same decision.
 */
#ifndef BPFDB_CLOCK_BPF_H
#define BPFDB_CLOCK_BPF_H

#include "expiry.bpf.h"

/* A snapshot that is larger than every timestamp: the latest version. */
#define LATEST (~0ULL)
/* Published while a read-only BEGIN is taking its timestamp: everything is
 * needed. */
#define SNAPSHOT_STARTING (~0ULL)

static __always_inline u64 *snapshot_group(u32 session)
{
	u32 group = session / BPFDB_SNAPSHOT_GROUP;

	return bpf_map_lookup_elem(&snapshot_groups, &group);
}

/*
 * Announced in this order: counters, STARTING, clock, timestamp. A program
 * that decides what to prune reads them after its commit was decided: if it
 * does not see the counter, this BEGIN's clock is read later and the snapshot
 * sees that commit; if it sees STARTING, it prunes nothing.
 */
static __always_inline int snapshot_begin(struct bpfdb_session *s)
{
	u32 index = s->index;
	u64 *slot = bpf_map_lookup_elem(&snapshots, &index), *group = snapshot_group(index);

	if (!slot || !group)
		return BPFDB_CORRUPT;
	ADD(group, 1);
	ADD(&engine.snapshots_running.value, 1);
	STORE(*slot, SNAPSHOT_STARTING);
	STORE(s->time, TIME_STARTING);
	s->snapshot = FETCH_ADD(&engine.clock.value, 1);
	STORE(s->time, time_now());
	STORE(*slot, s->snapshot + 1);
	return BPFDB_OK;
}

static __always_inline void snapshot_end(struct bpfdb_session *s)
{
	u32 index = s->index;
	u64 *slot = bpf_map_lookup_elem(&snapshots, &index), *group = snapshot_group(index);

	if (!slot || !group)
		return;
	STORE(*slot, 0);
	STORE(s->time, 0);
	ADD(group, -1);
	ADD(&engine.snapshots_running.value, -1);
}

#endif
