/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Clients that wait for keys (BLPOP and its kin), and pushes that are executed here.
 *
 * The daemon knows the clients that wait, and serves them when the key was written: by its own
 * notes if it has executed the write itself. So a push to a key that is waited for is left to
 * the daemon. While no client waits for a key of this hash, that costs one load.
 *
 *   the daemon, for BLPOP k              the kernel, for LPUSH k
 *   1. waiting.clients[hash of k]++      a. lock k
 *   2. lock k, look, unlock it           b. look at waiting.clients[hash of k]
 *   3. sleep, if there was nothing       c. 0: write, commit; else undo, leave it to the daemon
 *
 * No write is missed. A lock is exclusive, so either a comes after 2, or 2 after c:
 *
 * - a after 2: 1 comes before 2 in the daemon's thread, and a before b here. 1 is an atomic
 *   addition, 2 and a take the lock by a compare-and-swap of the same word, and all of these
 *   order what is before them before what is behind. So b sees 1, and the daemon gets the push.
 * - 2 after c: 2 sees what was written.
 * - 2 while the lock is held: it fails with CONFLICT, and the daemon does 2 again in a moment,
 *   until it succeeds. So it does for keys that an open transaction has written, or read, before
 *   the client began to wait.
 *
 * An absent key is locked as any other (a placeholder carries the lock). An attempt in vain of
 * the daemon, 2, always is one that locks (`commands/blocking.rs` in crates/bpfdb-server). A
 * transaction of the client's that has left one push to the daemon stays there until it ends.
 *
 * Compiled procedures that the server's clients call, or the daemon for them, share the table, and do
 * the same: a push to a key that is waited for gives up the call, which the daemon then executes. In a
 * process of its own, or in a program that embeds the engine, the table is empty. What these write is
 * found by the daemon, which compares waited keys with what they were several times a second.
 *
 * The table has a word for many keys: one of these that no client waits for is pushed to by the
 * daemon then, which is slower, and nothing else.
 */
#ifndef BPFDB_VALUES_WAITING_BPF_H
#define BPFDB_VALUES_WAITING_BPF_H

#include "../operators/common.bpf.h"
#include <bpfdb/waiting.h>

struct bpfdb_waiting waiting SEC(".data.waiting");

_Static_assert(!(BPFDB_WAITING_KEYS & (BPFDB_WAITING_KEYS - 1)), "a mask bounds the index");

/* Does a client wait for the key of the session, which must be locked? */
static __always_inline bool is_waited_for(const struct bpfdb_session *s)
{
	return LOAD(waiting.clients[s->hash & (BPFDB_WAITING_KEYS - 1)]);
}

#endif
