/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The list of locks of a transaction. docs/decisions/0025-many-locks.md has the argument.
 *
 *   number     0 … 7        8 … 967          968 … BPFDB_LOCKS_MAX - 1
 *   lies in    the session  blocks of 64     pages of 1,024
 *              near locks                    far locks
 *   a record   names the number              says FAR: the lock is found by the key
 *
 *   session->lock_blocks ──► [0 … 14] blocks
 *                        └─► [15] table ──► pages of far locks ◄── lists by hash ◄── lock_lists
 *
 * Invariants
 *  1. A far lock is in its list before a version is pending under it, and stays there until
 *     the list of locks is given up. So an operator that finds a record PENDING under a far lock
 *     finds the lock, unless the record's header has changed since.
 *  2. In each list the numbers descend. A reader of another session's lists may find memory
 *     that has been given up: it stops where a number does not descend, and takes a lock for
 *     the record's only if all of the key's identity is equal. Then it looks at the header.
 *  3. Locks never move: a number is that lock's for as long as the transaction lasts.
 *  4. Only the session's own operators change any of this, one at a time (session_enter()).
 */
#ifndef BPFDB_FAR_BPF_H
#define BPFDB_FAR_BPF_H

#include "session.bpf.h"

/* Head of the list for keys with this hash; NULL if the session has no far locks. */
static __always_inline u32 *far_list(struct bpfdb_session *s, u64 hash)
{
	u64 address = LOAD(s->lock_lists);
	u32 *heads = address ? bpfdb_at(address) : NULL;

	OPAQUE(hash);
	return heads ? &heads[hash % BPFDB_LOCK_LISTS] : NULL;
}

/* Lock `number`, which the session holds from now on, can be found if it is a far one. */
static __always_inline void far_list_add(struct bpfdb_session *s, u32 number,
					 struct bpfdb_lock *lock)
{
	u32 *head = far_list(s, lock->hash);

	if (!head)
		return;
	STORE(lock->next, LOAD(*head));
	STORE_RELEASE(*head, number);
}

/*
 * Number of the far lock that `owner` holds on the record in the cell at `address`; 0: none is
 * found. As invariant 2 says, if `owner` is another session.
 */
__noinline u32 far_lock_of(struct bpfdb_session *owner NONNULL, u64 address)
{
	struct bpfdb_cell *cell = bpfdb_at(address);
	u32 *head, number;
	u64 hash;

	if (!cell)
		return 0;
	hash = cell_hash(cell);
	head = far_list(owner, hash);
	if (!head)
		return 0;
	number = LOAD_ACQUIRE(*head);
	repeat(i, BPFDB_LOCKS_PER_PAGE * BPFDB_LOCK_PAGES)
	{
		struct bpfdb_lock *lock;
		u32 next;

		if (!lock_is_far(number) || number >= BPFDB_LOCKS_MAX)
			return 0;
		lock = lock_at(owner, number);
		if (!lock)
			return 0;
		if (LOAD(lock->hash) == hash &&
		    cell_has_identity(cell, LOAD(lock->key[0]), LOAD(lock->key[1]),
				      LOAD(lock->key_len)))
			return number;
		next = LOAD(lock->next);
		if (next >= number)
			return 0;
		number = next;
	}
	return 0;
}

/* The lock of `owner` under which the record at `address` is locked exclusively, as `header`
 * says; NULL if the header is out of date. */
static __always_inline struct bpfdb_lock *lock_of_header(struct bpfdb_session *owner, u64 header,
							 u64 address)
{
	u32 number = header_lock(header);

	if (unlikely(number == BPFDB_OWNER_LOCK_FAR)) {
		number = far_lock_of(owner, address);
		if (!number)
			return NULL;
	}
	return lock_at(owner, number);
}

/* ---- Room for one more --------------------------------------------------- */

static __always_inline void far_lists_clear(u64 *heads)
{
	repeat(i, BPFDB_PAGE_SIZE / sizeof(u64))
	{
		u64 at = i;

		OPAQUE(at);
		STORE(heads[at % (BPFDB_PAGE_SIZE / sizeof(u64))], 0);
	}
}

/* The heads of the lists, all empty. False: no memory. */
static __always_inline bool far_lists_make(struct bpfdb_session *s)
{
	u64 address, *heads;

	if (s->lock_lists)
		return true;
	address = slot_alloc_for(BPFDB_PAGE_SIZE, FOR_FREEING);
	heads = address ? bpfdb_at(address) : NULL;
	if (!heads)
		return false;
	far_lists_clear(heads);
	STORE_RELEASE(s->lock_lists, address);
	return true;
}

static __always_inline bool far_table_make(struct bpfdb_session *s)
{
	u64 address;

	if (LOAD(*lock_block(s, BPFDB_LOCK_BLOCKS)))
		return true;
	address = slot_alloc_for(BPFDB_LOCK_PAGES * sizeof(u64), FOR_FREEING);
	/* No page yet, whatever the slot holds: readers of this session's far locks are those
	 * of a record that names one. */
	s->lock_pages = 0;
	STORE(*lock_block(s, BPFDB_LOCK_BLOCKS), address);
	return address;
}

/* Makes sure that far lock `number`, the next one, has a place. OK, or why not. */
__noinline int far_lock_reserve(struct bpfdb_session *s NONNULL, u32 number)
{
	u64 page = (number - BPFDB_LOCKS_NEAR) / BPFDB_LOCKS_PER_PAGE, address, *table;

	if (!lock_is_far(number) || page >= BPFDB_LOCK_PAGES)
		return BPFDB_TOO_MANY_LOCKS;
	/* The table first: whether there is one says whether anything is to be given up. */
	if (!far_table_make(s) || !far_lists_make(s))
		return no_memory();
	if (page < s->lock_pages)
		return BPFDB_OK;
	table = lock_page_table(s);
	address = slot_alloc_for(BPFDB_PAGE_SIZE, FOR_FREEING);
	if (!table || !address)
		return no_memory();
	OPAQUE(page);
	STORE(table[page % BPFDB_LOCK_PAGES], address);
	s->lock_pages++;
	return BPFDB_OK;
}

static __always_inline int near_lock_reserve(struct bpfdb_session *s, u32 number)
{
	u32 block = (number - BPFDB_LOCKS_INLINE) / BPFDB_LOCKS_PER_BLOCK;
	u64 address;

	if (number < BPFDB_LOCKS_INLINE || *lock_block(s, block))
		return BPFDB_OK;
	address = slot_alloc_for(BPFDB_LOCKS_PER_BLOCK * sizeof(struct bpfdb_lock), FOR_FREEING);
	if (!address)
		return no_memory();
	STORE(*lock_block(s, block), address);
	return BPFDB_OK;
}

/* Entry for one more lock. Not counted until lock_keep(). */
static __always_inline int lock_reserve(struct bpfdb_session *s, struct bpfdb_lock **lock)
{
	u32 number = s->lock_count;
	int status;

	if (number >= config.locks_max)
		return BPFDB_TOO_MANY_LOCKS;
	status = likely(!lock_is_far(number)) ? near_lock_reserve(s, number)
					      : far_lock_reserve(s, number);
	if (status != BPFDB_OK)
		return status;
	*lock = lock_at(s, number);
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

/* The session holds the lock that it has reserved and filled, with this number. */
static __always_inline void lock_keep(struct bpfdb_session *s, u32 number, struct bpfdb_lock *lock)
{
	if (unlikely(lock_is_far(number)))
		far_list_add(s, number, lock);
	s->lock_count = number + 1;
}

/* ---- The end of the list --------------------------------------------------- */

/* Gives back the pages of far locks, their table and their lists. */
__noinline int far_locks_free(struct bpfdb_session *s NONNULL)
{
	u64 *table = lock_page_table(s);
	u32 pages = s->lock_pages;

	repeat(i, BPFDB_LOCK_PAGES)
	{
		u64 at = i;

		if (!table || at >= pages)
			break;
		OPAQUE(at);
		bpfdb_slot_free(LOAD(table[at % BPFDB_LOCK_PAGES]));
	}
	s->lock_pages = 0;
	bpfdb_slot_free(SWAP(lock_block(s, BPFDB_LOCK_BLOCKS), 0));
	if (s->lock_lists)
		bpfdb_slot_free(SWAP(&s->lock_lists, 0));
	return BPFDB_OK;
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
		if (unlikely(LOAD(*lock_block(s, BPFDB_LOCK_BLOCKS))))
			far_locks_free(s);
	}
	s->lock_count = 0;
	s->log_bytes = 0;
}

#endif
