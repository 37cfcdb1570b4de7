/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The scan lock: what a read-write transaction that lists keys holds until it ends, so that no
 * other one makes a key come or go in the keyspaces that it has listed. There is one, for all of them.
 *
 *   engine.scan_lock:  0, or index of the holder's session + 1 (32 bits) | keyspaces (32 bits)
 *
 * Invariants
 *  1. One transaction holds it, from its first scan to its decision, or to a scan that fails it; a second one that scans has
 *     CONFLICT. Only the holder changes the word while it is not 0.
 *  2. *Presence* is whether a key has a value. It may change with a version that is not plain
 *     (absent, or with an expiry), or that replaces one. Only a writer of such a version asks for
 *     the lock; reads, and writes of plain values over plain ones, never do.
 *  3. A writer reads the word after the header of the record (or having latched the home of one that
 *     it inserts), and before the atomic operation on the same word that makes its version
 *     pending. The holder has set the word before it looks at a record, and then changes the
 *     header, or waits for the latch. So either the writer sees the lock, or the holder sees that
 *     the version is pending, or the writer's atomic operation fails, and it looks again.
 *  4. The holder has CONFLICT where it meets a version that changes presence and is not decided.
 *     So all that it has seen stays as it was until the lock goes: no writer that has not seen the
 *     lock was left, and none that has seen it changes anything.
 *
 * Placeholders are no change: a session that has one locked asks when it writes (invariant 3).
 */
#ifndef BPFDB_SCAN_LOCK_BPF_H
#define BPFDB_SCAN_LOCK_BPF_H

#include "index_read.bpf.h"

#define SCAN_LOCK_KEYSPACES 32

/* CONFLICT, with its reason. `with`: index of the session that holds the key + 1, or 0. */
static __always_inline int conflict(struct bpfdb_session *s, enum bpfdb_conflict why, u32 with)
{
	s->conflict = why;
	s->conflict_with = with;
	return BPFDB_CONFLICT;
}

/* Number of the keyspace of a key with this length that begins with this word. Behind a shorter key
 * the word has zeros, as a reserved one may have. */
static __always_inline u32 keyspace_of(u64 word, u32 key_len)
{
	if (likely(!key_is_reserved(word)) || key_len < BPFDB_RESERVED_LEN)
		return BPFDB_KEYSPACE_NONE;
	return word >> BPFDB_KEYSPACE_SHIFT & (BPFDB_KEYSPACES - 1);
}

/* Does another session hold the lock `word`, for the keyspace of this session's key? Then the reason
 * of the conflict is noted. Static, as it is called with preemption off. */
static __noinline bool scan_lock_is_in_the_way(struct bpfdb_session *s, u64 word)
{
	u32 holder = word;

	if (holder == s->index + 1 ||
	    !(word >> SCAN_LOCK_KEYSPACES >> keyspace_of(s->key[0], s->key_len) & 1))
		return false;
	conflict(s, BPFDB_CONFLICT_SCANNED, holder);
	return true;
}

/* Must the session not make its key come or go? */
static __always_inline bool scan_lock_forbids(struct bpfdb_session *s)
{
	u64 word = LOAD(engine.scan_lock);

	return unlikely(word) && scan_lock_is_in_the_way(s, word);
}

/* May the session write keys that have an index? Recovery brings the nodes with the rows. */
static __always_inline bool session_keeps_index(const struct bpfdb_session *s)
{
	return s->keeps_index || s->unlogged;
}

/* Is the session's key, which has been prepared, a row of an ordered table, or a node of an index? */
static __always_inline bool key_is_ordered(const struct bpfdb_session *s)
{
	u32 keyspace = s->key[0] >> BPFDB_KEYSPACE_SHIFT;

	return unlikely(key_is_reserved(s->key[0])) && keyspace >= BPFDB_KEYSPACE_ORDERED &&
	       keyspace <= BPFDB_KEYSPACE_NODES;
}

static __noinline bool index_is_in_the_way(const struct bpfdb_session *s)
{
	return key_is_ordered(s) && !session_keeps_index(s);
}

/* May the session make its key come or go, as far as an index is concerned: OK, or NOT_INDEXED. */
static __always_inline int index_allows(const struct bpfdb_session *s)
{
	return unlikely(key_is_reserved(s->key[0])) && index_is_in_the_way(s) ? BPFDB_NOT_INDEXED
									      : BPFDB_OK;
}

/* May its value be written over: OK, or NOT_INDEXED of a node? That of a row may. The key need not be
 * prepared: of one that is too long its words are those of the key before. */
static __always_inline int node_allows(const struct bpfdb_session *s)
{
	u64 nodes = BPFDB_RESERVED_KEYS | (u64)BPFDB_KEYSPACE_NODES << BPFDB_KEYSPACE_SHIFT;

	return unlikely(s->key[0] == nodes) && s->key_len >= BPFDB_KEYSPACE_PREFIX &&
			       s->key_len <= BPFDB_KEY_MAX && !session_keeps_index(s)
		       ? BPFDB_NOT_INDEXED
		       : BPFDB_OK;
}

/* May the session make its key come or go: OK, NOT_INDEXED, or CONFLICT. */
static __always_inline int presence_allowed(struct bpfdb_session *s)
{
	int status = index_allows(s);

	if (unlikely(status != BPFDB_OK))
		return status;
	return scan_lock_forbids(s) ? BPFDB_CONFLICT : BPFDB_OK;
}

static __always_inline bool scan_lock_is_mine(const struct bpfdb_session *s)
{
	return unlikely((u32)LOAD(engine.scan_lock) == s->index + 1);
}

/* Takes the lock for these keyspaces, beside those that the session has it for. */
static __always_inline int scan_lock_take(struct bpfdb_session *s, u32 keyspaces)
{
	u64 mine = (u64)keyspaces << SCAN_LOCK_KEYSPACES | (s->index + 1);

	repeat(i, BPFDB_TRIES)
	{
		u64 word = LOAD(engine.scan_lock);

		if (word && (u32)word != s->index + 1)
			return conflict(s, BPFDB_CONFLICT_SCANNED, (u32)word);
		if ((word | mine) == word || CAS(&engine.scan_lock, word, word | mine) == word)
			return BPFDB_OK;
	}
	return conflict(s, BPFDB_CONFLICT_BUSY, 0);
}

/* The transaction is decided, or a scan has failed it. */
static __always_inline void scan_lock_release(const struct bpfdb_session *s)
{
	if (scan_lock_is_mine(s))
		STORE_RELEASE(engine.scan_lock, 0);
}

#endif
