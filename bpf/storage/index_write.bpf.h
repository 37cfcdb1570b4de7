/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Changes of the index: latches of homes and cells, which cells of a page are taken, and records
 * that come and go. The invariants are those of index_read.bpf.h.
 */
#ifndef BPFDB_INDEX_WRITE_BPF_H
#define BPFDB_INDEX_WRITE_BPF_H

#include "access.bpf.h"
#include "index_read.bpf.h"
#include "scan_lock.bpf.h"

/* What replaces a header when its content changed: new flags and field. */
static __always_inline u64 header_next(u64 header, u64 flags_and_field)
{
	u64 counter = header & ~(BPFDB_CELL_CHANGE - 1);

	return counter + BPFDB_CELL_CHANGE + flags_and_field;
}

/* A slot with a copy of the session's key; 0 if memory is exhausted. */
static __always_inline u64 long_key_store(struct bpfdb_session *s)
{
	/* The record that carries the lock of a DELETE goes with it. */
	enum purpose purpose = s->value_len == BPFDB_ABSENT ? FOR_FREEING : FOR_DATA;
	u64 address = slot_alloc_for((s->key_len + 7) & ~7u, purpose);
	u64 *slot = address ? bpfdb_at(address) : NULL;

	if (!slot)
		return 0;
	for (u32 i = 0; i < BPFDB_KEY_MAX / 8; i++) {
		if (i * 8 >= s->key_len)
			break;
		STORE(slot[i], s->key[i]);
	}
	return address;
}

static __always_inline bool home_latch_once(struct bpfdb_cell *home_cell)
{
	u64 home = LOAD(home_cell->home);

	return !(home & BPFDB_HOME_LATCH) &&
	       CAS(&home_cell->home, home, home | BPFDB_HOME_LATCH) == home;
}

/* For callers that are not called again. */
static __always_inline bool home_latch(struct bpfdb_cell *home_cell)
{
	repeat(i, BPFDB_TRIES)
	{
		if (home_latch_once(home_cell))
			return true;
		COUNT(latch_retries);
	}
	return false;
}

/* A home word with another bitmap and level, not latched. */
static __always_inline u64 home_next(struct bpfdb_cell *home_cell, u32 bitmap, u32 level)
{
	u64 counter = LOAD(home_cell->home) & ~(BPFDB_HOME_CHANGE - 1);

	return (counter + BPFDB_HOME_CHANGE) | (u64)level << BPFDB_HOME_LEVEL_SHIFT | bitmap;
}

/* By its holder only: new bitmap and level, latch released. */
static __always_inline void home_publish(struct bpfdb_cell *home_cell, u32 bitmap, u32 level)
{
	STORE_RELEASE(home_cell->home, home_next(home_cell, bitmap, level));
}

/* The same, and the latch stays. */
static __always_inline void home_publish_latched(struct bpfdb_cell *home_cell, u32 bitmap,
						 u32 level)
{
	STORE_RELEASE(home_cell->home, home_next(home_cell, bitmap, level) | BPFDB_HOME_LATCH);
}

/* By its holder: new bitmap, the latch stays. */
static __always_inline void home_replace(struct bpfdb_cell *home_cell, u32 bitmap)
{
	u64 rest = LOAD(home_cell->home) & ~BPFDB_HOME_BITMAP_MASK;

	STORE_RELEASE(home_cell->home, (rest + BPFDB_HOME_CHANGE) | bitmap);
}

/* By the holder of the latch: new flags and field, and the content changed. */
static __always_inline void cell_set_header(struct bpfdb_cell *cell, u64 flags_and_field)
{
	STORE_RELEASE(cell->header, header_next(LOAD(cell->header), flags_and_field));
}

static __always_inline void home_unlatch(struct bpfdb_cell *home_cell)
{
	STORE_RELEASE(home_cell->home, LOAD(home_cell->home) & ~BPFDB_HOME_LATCH);
}

/* Claims a free cell less than `within` cells behind `index`; its offset, or -1. It has LATCH without
 * USED then, which no reader and no other claimant takes. */
static __always_inline int cell_claim(void *memory, u32 index, u32 within)
{
	repeat(i, within)
	{
		struct bpfdb_cell *cell = cell_in(memory, index + i);
		u64 header = LOAD(cell->header);

		if (!(header & BPFDB_CELL_FLAGS_MASK) &&
		    CAS(&cell->header, header, header | BPFDB_CELL_LATCH) == header)
			return i;
	}
	return -1;
}

static __always_inline void page_count(u32 page, s64 cells)
{
	struct bpfdb_slab *slab = slab_of_page(page);

	if (slab)
		ADD(&slab->word, cells);
}

/* A record came (1) or went (-1) whose key has this length and begins with this word: those of reserved
 * keyspaces are counted, so that the number of all others is known. */
static __always_inline void keyspace_count(u64 word, u32 key_len, s64 records)
{
	if (unlikely(key_is_reserved(word)) && key_len >= BPFDB_RESERVED_LEN)
		ADD(&engine.keyspaces[word >> BPFDB_KEYSPACE_SHIFT & (BPFDB_KEYSPACES - 1)],
		    records);
}

/* The first word of the key in a cell that the caller has latched. */
static __always_inline u64 cell_key_word(const struct bpfdb_cell *cell)
{
	const u64 *slot;

	if (key_is_inline(cell_key_len(cell)))
		return cell->key[0];
	slot = bpfdb_at(cell->key[0]);
	return slot ? LOAD(*slot) : 0;
}

/* Is it half of a split that is not finished? */
static __always_inline bool page_is_in_split(struct bpfdb_slab *slab)
{
	return LOAD(slab->sibling) || LOAD(slab->unlisted);
}

/*
 * Is a split of this page wanted? Beyond so many cells records lie far from their homes.
 * And one that was begun is finished before its halves fill up.
 */
static __always_inline bool page_wants_split(u32 page)
{
	struct bpfdb_slab *slab = slab_of_page(page);

	return slab && (LOAD(slab->word) >= BPFDB_SPLIT_CELLS || page_is_in_split(slab));
}

/* In the middle of a split: has this page all the records that it can take, so that the
 * buckets which have not moved yet find room in the sibling, or all of them in the page? */
static __always_inline bool half_is_closed(struct bpfdb_slab *slab)
{
	u32 page = LOAD(slab->sibling);
	struct bpfdb_slab *sibling = page ? slab_of_page(page) : NULL;

	if (sibling)
		return LOAD(slab->word) + LOAD(sibling->word) >= BPFDB_HALVES_CELLS;
	return LOAD(slab->unlisted) == BPFDB_UNLISTED && LOAD(slab->word) >= BPFDB_SIBLING_CELLS;
}

/* How far from its home a new record may lie in this page, in cells; 0: it takes none. */
static __always_inline u32 insert_reach(u32 page)
{
	struct bpfdb_slab *slab = slab_of_page(page);

	if (likely(!slab || !page_is_in_split(slab)))
		return BPFDB_NEIGHBOURHOOD;
	if (half_is_closed(slab))
		return 0;
	return LOAD(slab->unlisted) == BPFDB_UNLISTED ? BPFDB_SIBLING_REACH : BPFDB_NEIGHBOURHOOD;
}

/*
 * Inserts a record for the session's key, without a value, with `flags` (and
 * owner or readers) in its header from its first visible moment. OK: *address
 * is the cell; from then on it may be moved, unless it is latched. RETRY: it was inserted meanwhile, or a latch was taken. NEED_SPLIT:
 * there is no room near the key's home in page session->room_page, or little. CONFLICT, NOT_INDEXED: it
 * would be PENDING, and presence_allowed() forbids that.
 * A latched section: the caller has preemption off.
 */
static __always_inline int index_insert(struct bpfdb_session *s, u64 flags, u64 key_slot,
					u64 *address)
{
	struct bpfdb_cell *home_cell, *cell;
	struct bucket b = {};
	int found = bucket_find(s->hash, &b), offset;
	u64 header;

	if (found != BPFDB_OK)
		return found;
	s->room_page = b.page;
	if (page_wants_split(b.page) && !s->room_tried)
		return NEED_SPLIT;
	home_cell = cell_in(b.memory, b.index);
	/* The operator tries again, and looks for the bucket anew. */
	if (!home_latch_once(home_cell))
		return RETRY;
	b.home = LOAD(home_cell->home);
	if (home_level(b.home) != b.level || LOAD(engine.directory_depth.value) != b.depth ||
	    bucket_search(s, &b, &header) >= 0) {
		home_unlatch(home_cell);
		return RETRY;
	}
	if (flags & BPFDB_CELL_PENDING) {
		found = presence_allowed(s);
		if (found != BPFDB_OK) {
			home_unlatch(home_cell);
			return found;
		}
	}
	offset = cell_claim(b.memory, b.index, insert_reach(b.page));
	if (offset < 0) {
		home_unlatch(home_cell);
		return NEED_SPLIT;
	}
	cell = cell_in(b.memory, b.index + offset);
	cell->key[0] = key_slot ?: s->key[0];
	cell->key[1] = key_slot ? s->hash : s->key[1];
	cell->head.stamp = (u64)s->key_len << BPFDB_STAMP_BITS;
	cell->head.meta = BPFDB_ABSENT | access_word_first();
	header = LOAD(cell->header);
	STORE_RELEASE(cell->header, header_next(header, BPFDB_CELL_USED | flags));
	/* Atomic: a record that is inserted PENDING must be found by every snapshot
	 * that begins after the clock is read for it (case 2a of commit.bpf.h). */
	b.home = LOAD(home_cell->home);
	(void)SWAP(&home_cell->home,
		   home_next(home_cell, (u32)b.home | 1u << offset, home_level(b.home)));
	/* Read again, both of them: less is kept on the stack, which is short. */
	page_count(s->room_page, 1);
	keyspace_count(s->key[0], s->key_len, 1);
	*address = cell_address(s->room_page, home_of(s->hash) + offset);
	return BPFDB_OK;
}

/*
 * Takes the record in the cell at `address`, latched by the caller, out of the
 * index. *key_slot is the slot of its long key, or 0: the caller frees it, after
 * it has left its latched section, in which no global subprogram may be called
 * (bpfdb/types.bpf.h). False, with *key_slot 0, if the home latch could not be
 * had in BPFDB_TRIES tries: the cell stays, latched.
 */
static __always_inline bool index_remove(u64 address, u64 hash, u64 *key_slot)
{
	u32 home_index = home_of(hash), page = page_of(address), bitmap, offset;
	struct bpfdb_cell *cell, *home_cell;
	void *memory = page_memory(page);
	u64 home;

	*key_slot = 0;
	if (!memory)
		return 0;
	home_cell = cell_in(memory, home_index);
	if (!home_latch(home_cell))
		return 0;
	cell = cell_in(memory, (address & (BPFDB_PAGE_SIZE - 1)) / BPFDB_CELL_SIZE);
	offset = ((address & (BPFDB_PAGE_SIZE - 1)) / BPFDB_CELL_SIZE - home_index) %
		 BPFDB_CELLS_PER_PAGE;
	home = LOAD(home_cell->home);
	if (!key_is_inline(cell_key_len(cell)))
		*key_slot = cell->key[0];
	keyspace_count(cell_key_word(cell), cell_key_len(cell), -1);
	bitmap = (u32)home & ~(1u << (offset % BPFDB_NEIGHBOURHOOD));
	home_publish(home_cell, bitmap, home_level(home));
	STORE_RELEASE(cell->header, header_next(LOAD(cell->header), 0));
	page_count(page, -1);
	return 1;
}

#endif
