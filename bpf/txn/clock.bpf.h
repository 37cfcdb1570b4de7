/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Timestamps: an epoch clock. Read-only BEGIN advances it, and WATCH, which takes a snapshot for a
 * moment. With a log the writer does, too, for each group, and a commit that replaces a version of
 * the same epoch (record.bpf.h, invariant 2).
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
 *    (commit_help), and a later reader finds the same decision.
 */
#ifndef BPFDB_CLOCK_BPF_H
#define BPFDB_CLOCK_BPF_H

#include "expiry.bpf.h"

/* A snapshot that is larger than every timestamp: the latest version. */
#define LATEST (~0ULL)

/* No commit that is over has a later timestamp. */
static __always_inline u64 bpfdb_now(void)
{
	return LOAD(engine.clock.value);
}

/* All commits up to this timestamp are on the disk; 0: there is no log. */
static __always_inline u64 bpfdb_durable(void)
{
	return LOAD(engine.durable.value);
}

#endif
