/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Session contexts and the locks that they hold. */
#ifndef BPFDB_SESSION_BPF_H
#define BPFDB_SESSION_BPF_H

#include "../storage/index.bpf.h"
#include "../storage/large.bpf.h"

static __always_inline struct bpfdb_session *bpfdb_session(u32 index)
{
	return bpf_map_lookup_elem(&sessions, &index);
}

static __always_inline u64 *lock_block(struct bpfdb_session *s, u64 block)
{
	OPAQUE(block);
	return &s->lock_blocks[block % BPFDB_LOCK_BLOCK_ENTRIES];
}

/* Lock number `i` of session `s`, NULL if its block was never allocated. */
static __always_inline struct bpfdb_lock *lock_at(struct bpfdb_session *s, u32 i)
{
	u32 block = (i - BPFDB_LOCKS_INLINE) / BPFDB_LOCKS_PER_BLOCK;
	u64 address;

	if (i < BPFDB_LOCKS_INLINE)
		return &s->locks[i];
	if (block >= BPFDB_LOCK_BLOCKS)
		return NULL;
	address = LOAD(*lock_block(s, block));
	if (!address)
		return NULL;
	i = (i - BPFDB_LOCKS_INLINE) % BPFDB_LOCKS_PER_BLOCK;
	return bpfdb_at(address + i * sizeof(struct bpfdb_lock));
}

static __always_inline u64 owner_field(const struct bpfdb_session *s, u32 lock)
{
	return ((u64)s->index << BPFDB_OWNER_LOCK_BITS | lock) << BPFDB_CELL_FIELD_SHIFT;
}

static __always_inline u64 header_field(u64 header)
{
	return (header & BPFDB_CELL_FIELD_MASK) >> BPFDB_CELL_FIELD_SHIFT;
}

static __always_inline u32 header_owner(u64 header)
{
	return header_field(header) >> BPFDB_OWNER_LOCK_BITS;
}

static __always_inline u32 header_lock(u64 header)
{
	return header_field(header) & BPFDB_OWNER_LOCK_MASK;
}

static __always_inline bool header_is_mine(const struct bpfdb_session *s, u64 header)
{
	return (header & BPFDB_CELL_EXCLUSIVE) && header_owner(header) == s->index;
}

/* Entry for one more lock. Not counted until lock_keep(). */
static __always_inline int lock_reserve(struct bpfdb_session *s, struct bpfdb_lock **lock)
{
	u32 i = s->lock_count, block = (i - BPFDB_LOCKS_INLINE) / BPFDB_LOCKS_PER_BLOCK;

	if (i >= config.locks_max)
		return BPFDB_TOO_MANY_LOCKS;
	if (i >= BPFDB_LOCKS_INLINE && !*lock_block(s, block)) {
		u64 address = bpfdb_slot_alloc(BPFDB_LOCKS_PER_BLOCK * sizeof(struct bpfdb_lock));

		if (!address)
			return no_memory();
		STORE(*lock_block(s, block), address);
	}
	*lock = lock_at(s, i);
	return *lock ? BPFDB_OK : BPFDB_TOO_MANY_LOCKS;
}

/* `k0` and `k1`: the key words of the record at `address`. */
static __always_inline void lock_fill(struct bpfdb_lock *lock, struct bpfdb_session *s, u64 k0,
				      u64 k1, u64 address, u32 mode)
{
	lock->hash = s->hash;
	lock->key[0] = k0;
	lock->key[1] = k1;
	lock->cell = address;
	lock->key_len = s->key_len;
	lock->mode = mode;
	/* A reader of the lock that was here before finds its header changed. */
	STORE_RELEASE(lock->meta, BPFDB_ABSENT);
}

/* Gives back the blocks of a transaction that holds no locks any more. */
static __always_inline void lock_blocks_free(struct bpfdb_session *s)
{
	/* Equal: the block may be there for a lock that was not taken. */
	if (s->lock_count >= BPFDB_LOCKS_INLINE) {
		for (u32 i = 0; i < BPFDB_LOCK_BLOCKS; i++) {
			u64 address = s->lock_blocks[i];

			if (!address)
				break;
			STORE(s->lock_blocks[i], 0);
			bpfdb_slot_free(address);
		}
	}
	s->lock_count = 0;
	s->log_bytes = 0;
}

/* One operator at a time in a session. */
static __always_inline bool session_enter_once(struct bpfdb_session *s)
{
	return CAS(&s->busy, BPFDB_BUSY_FREE, BPFDB_BUSY_INSIDE) == BPFDB_BUSY_FREE;
}

/* For those who find somebody inside: as a rule it is the reaper, which looks at the
 * session for a moment. */
__noinline int session_enter_again(struct bpfdb_session *s NONNULL)
{
	repeat(i, BPFDB_TRIES)
	{
		if (session_enter_once(s))
			return true;
	}
	return false;
}

static __always_inline bool session_enter(struct bpfdb_session *s)
{
	return likely(session_enter_once(s)) || session_enter_again(s);
}

static __always_inline int session_leave(struct bpfdb_session *s, int status)
{
	STORE_RELEASE(s->busy, BPFDB_BUSY_FREE);
	return status;
}

/*
 * A command or a procedure ends a transaction that it has begun for itself, and cannot get into
 * the session: whoever is inside rolls it back (session_leave_as_guest() in transaction.bpf.h).
 * False: nobody is inside any more.
 */
static __always_inline bool session_undo_later(struct bpfdb_session *s)
{
	return CAS(&s->busy, BPFDB_BUSY_INSIDE, BPFDB_BUSY_UNDO) == BPFDB_BUSY_INSIDE;
}

/* Is what is open about to be rolled back by the one who is inside? */
static __always_inline bool session_undoes(const struct bpfdb_session *s)
{
	return LOAD(s->busy) == BPFDB_BUSY_UNDO;
}

#endif
