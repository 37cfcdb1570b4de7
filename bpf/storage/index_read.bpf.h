/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The index: where a key's record is.
 *
 * An extendible hash table (Fagin et al., 1979) of pages of 1024 cells. The
 * lowest ten bits of a hash are the key's home cell in a page. The directory
 * maps the bits above, as many as its depth says, to a page. A record lies in
 * one of the 32 cells from its home on, and the bitmap in the home cell says
 * where (hopscotch hashing, Herlihy et al., 2008, without displacement: a
 * crowded page is split). Three of four records lie in their home cell.
 *
 * Invariants
 *  1. A cell's key, once the cell is USED, changes only after USED is cleared,
 *     and every change of a cell's content changes its header's counter.
 *  2. The home word of a bucket changes only under its latch, and every change
 *     of it, but for the latch, changes its counter. It holds bitmap and level
 *     together, so a bucket moves to another page in one store.
 *  3. A key exists at most once among the buckets that a reader can reach:
 *     inserting it happens under the home latch, after a search under it.
 *  4. Readers take no latch. "Not found" is believed only if the home word and
 *     the depth of the directory are the same after the search as before (with
 *     an old depth, an entry that was right may name the other half's page).
 *  5. A latch is never waited for without bound.
 *
 * Here is what finds a record; index_write.bpf.h changes what is found.
 */
#ifndef BPFDB_INDEX_READ_BPF_H
#define BPFDB_INDEX_READ_BPF_H

#include "hash.bpf.h"
#include "slab.bpf.h"

static __always_inline u32 home_level(u64 home)
{
	return (home >> BPFDB_HOME_LEVEL_SHIFT) & BPFDB_HOME_LEVEL_MASK;
}

static __always_inline u32 cell_key_len(const struct bpfdb_cell *cell)
{
	return LOAD(cell->head.stamp) >> BPFDB_STAMP_BITS;
}

static __always_inline bool key_is_inline(u32 key_len)
{
	return key_len <= BPFDB_INLINE_MAX;
}

/* Is a key reserved that begins with this word? (include/bpfdb/limits.h) */
static __always_inline bool key_is_reserved(u64 word)
{
	return (word & BPFDB_RESERVED_MASK) == BPFDB_RESERVED_KEYS;
}

/* Headers that differ only in what does not touch the content: the latch and
 * the number of shared locks. */
static __always_inline u64 header_content(u64 header)
{
	u64 ignored = BPFDB_CELL_LATCH;

	if (!(header & BPFDB_CELL_EXCLUSIVE))
		ignored |= BPFDB_CELL_FIELD_MASK;
	return header & ~ignored;
}

static __always_inline bool header_same_content(u64 a, u64 b)
{
	return likely(a == b) || header_content(a) == header_content(b);
}

/* Hash of the key of a used cell. */
static __always_inline u64 cell_hash(const struct bpfdb_cell *cell)
{
	u32 len = cell_key_len(cell);

	return key_is_inline(len) ? hash_inline_key(cell->key[0], cell->key[1], len) : cell->key[1];
}

/* Does the slot at `address` hold the session's key? Static: it is called in latched
 * sections too. Not inlined: it is called in loops over cells. */
static __noinline int long_key_equal(struct bpfdb_session *s, u64 address)
{
	u64 *slot = bpfdb_at(address);
	u32 words = (s->key_len + 7) / 8;

	if (!slot)
		return 0;
	repeat(i, BPFDB_KEY_MAX / 8)
	{
		/* Bounded here for the verifier, which forgets what the loop says. */
		u64 word = i;

		OPAQUE(word);
		word %= BPFDB_KEY_MAX / 8;
		if (i >= words)
			break;
		if (LOAD(slot[word]) != s->key[word])
			return 0;
	}
	return 1;
}

/* Entry of the directory for a hash. Dense at any depth: the first 2^depth
 * entries are all there is, so a small index has a small directory. */
static __always_inline u32 directory_slot(u64 hash, u32 depth)
{
	return (hash >> BPFDB_CELL_BITS) & ((1u << (depth & 31)) - 1);
}

/* What an entry of the directory says: BPFDB_ENTRY_. */
static __always_inline u32 entry_of(u32 page, u32 level)
{
	return page | level << BPFDB_ENTRY_PAGE_BITS;
}

static __always_inline u32 entry_page(u32 entry)
{
	return entry & BPFDB_ENTRY_PAGE_MASK;
}

static __always_inline u32 entry_level(u32 entry)
{
	return entry >> BPFDB_ENTRY_PAGE_BITS;
}

/* Which half of a page of `level` bits a hash goes to when it is split. */
static __always_inline bool split_bit(u64 hash, u32 level)
{
	return hash >> ((BPFDB_CELL_BITS + level) & 63) & 1;
}

/* A key's home cell. */
static __always_inline u32 home_of(u64 hash)
{
	return hash & (BPFDB_CELLS_PER_PAGE - 1);
}

/* Where a key's home is. */
struct bucket {
	void *memory; /* of the page */
	u64 home;     /* the home word as it was read */
	u32 page;
	u32 index; /* of the home cell */
	u32 level; /* of the bucket */
	u32 depth; /* of the directory when it was read */
};

/* Goes on to `page`, whose bucket must have level b->level. */
static __always_inline int bucket_go_to(struct bucket *b, u32 page)
{
	b->page = page;
	b->memory = page ? page_memory(page) : NULL;
	if (!b->memory)
		return RETRY;
	b->home = LOAD_ACQUIRE(cell_in(b->memory, b->index)->home);
	return home_level(b->home) == b->level ? BPFDB_OK : RETRY;
}

/*
 * The bucket at `hash`'s home has level `found`, not `level` as the directory says: its
 * page is being split or merged, or was since the directory was read. Which page's bucket
 * of level `found` answers; 0 if that is not known, or is a bucket of another level.
 *
 * A function of its own, as it is rare and its registers are not: inlined, they make the
 * stacks of its callers grow beyond what a program may have. Static, as it is called with
 * preemption off, where Linux 6.12 has no global function called.
 */
static __noinline u32 page_after_change(u64 hash, u32 page, u32 level, u32 found)
{
	struct bpfdb_slab *slab = slab_of_page(page);
	u32 other;

	if (!slab)
		return 0;
	/* Split: the upper half is in the sibling already. If the page has the new level, the split
	 * is over, and a sibling is that of a later one. */
	if (found == level + 1) {
		if (!split_bit(hash, level))
			return page;
		other = LOAD_ACQUIRE(slab->sibling);
		return LOAD(slab->level) == level ? other : 0;
	}
	/* Merged: it is in the buddy, or this is the buddy. If the page has the new level, it is,
	 * and the merge is over: what it leads to by now is merged with it next, and has a bucket
	 * of that level, too, which never answered for this hash. */
	if (found + 1 == level) {
		other = LOAD_ACQUIRE(slab->next);
		return other && LOAD(slab->level) == level ? other : page;
	}
	return 0;
}

/*
 * Goes on to the page that answers when the bucket is not of the level that the directory
 * says. The home word must be what it was: each move of a bucket changes its counter, so the
 * change that moved it had not been undone, nor another begun, when the link was read. (In a
 * page that a later split has just made, a bucket that has not moved looks like one that
 * answers.)
 */
static __always_inline int bucket_follow(u64 hash, struct bucket *b, u32 level)
{
	u32 page;

	b->level = home_level(b->home);
	page = page_after_change(hash, b->page, level, b->level);
	if (LOAD_AFTER(cell_in(b->memory, b->index)->home) != b->home)
		return RETRY;
	return page == b->page ? BPFDB_OK : bucket_go_to(b, page);
}

/*
 * Finds the bucket that answers for `hash`. RETRY if the directory was read
 * while the page was being split and the trail is cold; CORRUPT if it names
 * no page.
 */
static __always_inline int bucket_find(u64 hash, struct bucket *b)
{
	u32 depth = LOAD_ACQUIRE(engine.directory_depth.value), slot = directory_slot(hash, depth);
	u32 *entry = bpf_map_lookup_elem(&directory, &slot);
	u32 page, level;

	b->depth = depth;
	if (!entry)
		return BPFDB_CORRUPT;
	page = LOAD_ACQUIRE(*entry);
	level = entry_level(page);
	page = entry_page(page);
	/* The depth has grown since: the page may be that of the other half. */
	if (unlikely(level > depth))
		return RETRY;
	b->index = home_of(hash);
	b->page = page;
	b->level = level;
	b->memory = page_memory(page);
	if (!b->memory)
		return BPFDB_CORRUPT;
	b->home = LOAD_ACQUIRE(cell_in(b->memory, b->index)->home);
	if (likely(home_level(b->home) == level))
		return BPFDB_OK;
	return bucket_follow(hash, b, level);
}

static __always_inline bool bucket_unchanged(const struct bucket *b)
{
	return LOAD_AFTER(cell_in(b->memory, b->index)->home) == b->home &&
	       LOAD(engine.directory_depth.value) == b->depth;
}

/* Is the session's key in this cell? */
static __always_inline bool cell_has_key(struct bpfdb_session *s, const struct bpfdb_cell *cell)
{
	u32 len = s->key_len;

	if (cell_key_len(cell) != len)
		return false;
	if (key_is_inline(len))
		return LOAD(cell->key[0]) == s->key[0] && LOAD(cell->key[1]) == s->key[1];
	return LOAD(cell->key[1]) == s->hash && long_key_equal(s, LOAD(cell->key[0]));
}

/* Is this the cell of the record that a lock names? */
static __always_inline bool cell_has_identity(const struct bpfdb_cell *cell, u64 k0, u64 k1,
					      u32 len)
{
	return LOAD(cell->key[0]) == k0 && LOAD(cell->key[1]) == k1 && cell_key_len(cell) == len;
}

/* Is the session's key in the cell at `offset` from its home? *header is what
 * the header was before the key was compared: as long as its content bits stay,
 * the cell holds this key. */
static __always_inline bool bucket_has_key_at(struct bpfdb_session *s, struct bucket *b, u32 offset,
					      u64 *header)
{
	struct bpfdb_cell *cell = cell_in(b->memory, b->index + offset);

	*header = LOAD_ACQUIRE(cell->header);
	return (*header & BPFDB_CELL_USED) && cell_has_key(s, cell);
}

/* Index of the cell of bucket `b` with the session's key, or -1; *header as
 * above. The home cell, where three of four records are, without the loop. */
static __always_inline int bucket_search(struct bpfdb_session *s, struct bucket *b, u64 *header)
{
	u32 bitmap = b->home & BPFDB_HOME_BITMAP_MASK;

	if (likely(b->home & 1) && likely(bucket_has_key_at(s, b, 0, header)))
		return b->index;
	repeat(i, BPFDB_NEIGHBOURHOOD)
	{
		if (!(bitmap >> i))
			break;
		if ((bitmap >> i & 1) && bucket_has_key_at(s, b, i, header))
			return (b->index + i) % BPFDB_CELLS_PER_PAGE;
	}
	return -1;
}

#endif
