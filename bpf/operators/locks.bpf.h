/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The sessions that hold a lock on a key: for operators of a server, and seldom called. The lock
 * of a writer names its session; those of readers are only counted in the record. So each session
 * that holds locks is looked at. Nothing is locked meanwhile: a session that begins or ends a
 * transaction at this moment may be missed, or named when it is over.
 */
#ifndef BPFDB_OPERATORS_LOCKS_BPF_H
#define BPFDB_OPERATORS_LOCKS_BPF_H

#include "common.bpf.h"

/* Leaves the hash of the session's key in the session, whatever state that is in. */
__noinline int bpfdb_hash(struct bpfdb_session *s NONNULL)
{
	if (!session_enter(s))
		return BPFDB_SESSION_BUSY;
	return session_leave(s, key_prepare_apart(s));
}

/* The mode of lock `i` if it is on a key with this hash. The key is not compared: 64 bits of
 * a keyed hash are as good as the key. */
__noinline int lock_mode_at(struct bpfdb_session *s NONNULL, u32 i, u64 hash)
{
	struct bpfdb_lock *lock = lock_at(s, i);

	return lock && LOAD(lock->hash) == hash ? LOAD(lock->mode) : BPFDB_LOCK_NONE;
}

/* The same for a far lock: one of those with this hash, which are found by it. */
__noinline int far_lock_mode(struct bpfdb_session *s NONNULL, u64 hash)
{
	u32 *head = far_list(s, hash), number = head ? LOAD_ACQUIRE(*head) : 0;

	repeat(i, BPFDB_LOCKS_PER_PAGE * BPFDB_LOCK_PAGES)
	{
		struct bpfdb_lock *lock = lock_is_far(number) ? lock_at(s, number) : NULL;
		u32 next;

		if (!lock)
			break;
		if (LOAD(lock->hash) == hash)
			return LOAD(lock->mode);
		next = LOAD(lock->next);
		if (next >= number)
			break;
		number = next;
	}
	return BPFDB_LOCK_NONE;
}

/* How a session, of which this one knows nothing else, has locked the key: BPFDB_LOCK_. */
static __always_inline u32 lock_mode_of(struct bpfdb_session *s, u64 hash)
{
	repeat(i, BPFDB_LOCKS_NEAR)
	{
		u32 mode;

		if (i >= LOAD(s->lock_count))
			return BPFDB_LOCK_NONE;
		mode = lock_mode_at(s, i, hash);
		if (mode != BPFDB_LOCK_NONE)
			return mode;
	}
	return far_lock_mode(s, hash);
}

#endif
