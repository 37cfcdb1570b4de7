/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Session contexts and the locks that they hold. */
#ifndef BPFDB_SESSION_BPF_H
#define BPFDB_SESSION_BPF_H

#include "../storage/index_write.bpf.h"
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

/* The table of lock pages: BPFDB_LOCK_PAGES addresses, of which s->lock_pages are valid. */
static __always_inline u64 *lock_page_table(struct bpfdb_session *s)
{
	u64 address = LOAD(*lock_block(s, BPFDB_LOCK_BLOCKS));

	return address ? bpfdb_at(address) : NULL;
}

/* Address of far lock `i`; 0 if its page was never allocated. */
static __always_inline u64 far_lock_address(struct bpfdb_session *s, u32 i)
{
	u64 *table = lock_page_table(s), page, n = i - BPFDB_LOCKS_NEAR;

	if (!table)
		return 0;
	page = n / BPFDB_LOCKS_PER_PAGE;
	OPAQUE(page);
	page = LOAD(table[page % BPFDB_LOCK_PAGES]);
	return page ? page + n % BPFDB_LOCKS_PER_PAGE * sizeof(struct bpfdb_lock) : 0;
}

/* The same of lock `i` in a block of the session. */
static __always_inline u64 near_lock_address(struct bpfdb_session *s, u32 block, u32 i)
{
	u64 address = LOAD(*lock_block(s, block));

	i = (i - BPFDB_LOCKS_INLINE) % BPFDB_LOCKS_PER_BLOCK;
	return address ? address + i * sizeof(struct bpfdb_lock) : 0;
}

/*
 * Lock number `i` of session `s`, NULL if its block or page was never allocated. Another
 * session's may be given up at any time: its memory may hold anything by then, so the caller
 * reads only, and looks at the record's header afterwards.
 */
static __always_inline struct bpfdb_lock *lock_at(struct bpfdb_session *s, u32 i)
{
	u32 block = (i - BPFDB_LOCKS_INLINE) / BPFDB_LOCKS_PER_BLOCK;
	u64 address;

	if (i < BPFDB_LOCKS_INLINE)
		return &s->locks[i];
	if (unlikely(block >= BPFDB_LOCK_BLOCKS))
		address = far_lock_address(s, i);
	else
		address = near_lock_address(s, block, i);
	return address ? bpfdb_at(address) : NULL;
}

static __always_inline bool lock_is_far(u32 number)
{
	return number >= BPFDB_LOCKS_NEAR;
}

/* How the header of a record names lock `lock`, which is its exclusive one. */
static __always_inline u64 owner_field(const struct bpfdb_session *s, u32 lock)
{
	if (unlikely(lock_is_far(lock)))
		lock = BPFDB_OWNER_LOCK_FAR;
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

/* One operator at a time in a session. */
static __always_inline bool session_enter_once(struct bpfdb_session *s)
{
	return CAS(&s->busy, BPFDB_BUSY_FREE, BPFDB_BUSY_INSIDE) == BPFDB_BUSY_FREE;
}

/* For callers that find the session in use: as a rule by the reaper, which looks at the
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
 * the session: the visitor inside rolls it back (session_leave_as_guest() in transaction.bpf.h).
 * False: the visitor has left.
 */
static __always_inline bool session_undo_later(struct bpfdb_session *s)
{
	return CAS(&s->busy, BPFDB_BUSY_INSIDE, BPFDB_BUSY_UNDO) == BPFDB_BUSY_INSIDE;
}

/* Is what is open about to be rolled back by the visitor inside? */
static __always_inline bool session_undoes(const struct bpfdb_session *s)
{
	return LOAD(s->busy) == BPFDB_BUSY_UNDO;
}

#endif
