/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Values longer than a slot: a table (struct bpfdb_large) that names pages, and what
 * they leave: a slot of half a page, if it is more than that, and one for the tail.
 *
 *   version ──► table ──► page, page, page, ...
 *                   ├───► half
 *                   └───► tail
 *
 * They are read and written in pieces of BPFDB_PIECE_SIZE bytes, of which a page is two.
 *
 * Invariants
 *  1. Pieces are added in order, by the session that builds the value and by
 *     no other one; when SET has taken it, no byte of it changes any more.
 *  2. `holders` counts what names the table: versions wherever they are, and
 *     sessions in `building` or as an operand of SET. A holder is added only by
 *     a session that keeps another one from going: under an exclusive lock. The
 *     session that takes the last one away puts the table into the list of engine.large_garbage;
 *     table and pieces are given back by large_collect, soon after.
 *  3. An id is given once. So bytes that were copied at different times are of one
 *     value if the id was the same each time, and nothing had been given back
 *     after each copying (bpfdb_still_valid).
 *
 * The table of a cold value has no pieces, but the place of the value in a file: cold.bpf.h.
 *
 * A reader may come by a table that is other memory by now: whatever it
 * finds there leads to memory of the engine or nowhere, and is not believed.
 */
#ifndef BPFDB_LARGE_BPF_H
#define BPFDB_LARGE_BPF_H

#include "reclaim.bpf.h"

_Static_assert(BPFDB_VALUE_MAX < BPFDB_LARGE, "the flag is no length");
_Static_assert(BPFDB_LARGE < BPFDB_EXPIRES && !(BPFDB_LARGE & BPFDB_EXPIRES),
	       "a large value may expire");
_Static_assert(sizeof(struct bpfdb_large) + BPFDB_LARGE_PAGES * sizeof(u32) <= BPFDB_PAGE_SIZE,
	       "the table is one slot");
_Static_assert(BPFDB_VALUE_MAX == BPFDB_PIECE_SIZE, "the shortest large value has two pieces");

_Static_assert(sizeof(struct bpfdb_large) == 64, "a cold value takes one slot of 64 bytes");

#define PIECE_MASK (BPFDB_PIECE_SIZE - 1)

/* Whole pages of a value of `len` bytes. */
static __always_inline u32 large_pages(u64 len)
{
	return len >> BPFDB_PAGE_BITS;
}

static __always_inline u32 large_pieces(u64 len)
{
	return (len + PIECE_MASK) >> BPFDB_PIECE_BITS;
}

/* Do the pages leave more than a piece? */
static __always_inline bool large_has_half(u64 len)
{
	return (len & (BPFDB_PAGE_SIZE - 1)) > BPFDB_PIECE_SIZE;
}

/* Bytes of the tail. */
static __always_inline u32 large_tail(u64 len)
{
	u32 left = len & (BPFDB_PAGE_SIZE - 1);

	return left > BPFDB_PIECE_SIZE ? left - BPFDB_PIECE_SIZE : left;
}

static __always_inline u32 *large_page(struct bpfdb_large *large, u64 i)
{
	OPAQUE(i);
	i &= BPFDB_LARGE_PAGES - 1;
	return (u32 *)(large + 1) + i;
}

/* Is every piece there? */
static __always_inline bool large_is_whole(const struct bpfdb_large *large)
{
	return large->pages == large_pages(large->len) &&
	       (large->half || !large_has_half(large->len)) &&
	       (large->tail || !large_tail(large->len));
}

/* Fills a table without pieces, in memory and held once. */
static __always_inline void large_init(struct bpfdb_large *large, u64 len)
{
	large->id = FETCH_ADD(&engine.large_values.value, 1) + 1;
	large->len = len;
	large->half = 0;
	large->tail = 0;
	large->pages = 0;
	large->holders = 1;
	large->next = 0;
	large->place = (struct bpfdb_place){};
}

/* A table without pieces, held once: its address, 0 if there is no memory. */
__noinline u64 large_create(u64 len)
{
	u64 address = bpfdb_slot_alloc(sizeof(struct bpfdb_large) + large_pages(len) * sizeof(u32));
	struct bpfdb_large *large = address ? bpfdb_at(address) : NULL;

	if (!large)
		return 0;
	large_init(large, len);
	return address;
}

/* Is the value with this table cold: in a file? */
static __always_inline bool large_is_cold(const struct bpfdb_large *large)
{
	return LOAD(large->place.run);
}

/* One cold value more or less that versions have in its file. */
static __always_inline void run_use_add(const struct bpfdb_large *large, s64 values)
{
	struct bpfdb_run_use *use = &engine.runs[large->place.run % BPFDB_RUNS_MAX];

	ADD(&use->values, values);
	ADD(&use->bytes, values * (s64)large->len);
}

/* Address of piece `i`; 0: there is none. */
static __always_inline u64 large_piece(struct bpfdb_large *large, u32 i)
{
	u32 page = i / 2, second = i % 2;
	u64 len = LOAD(large->len);

	if (page < LOAD(large->pages))
		return ((u64)LOAD(*large_page(large, page)) << BPFDB_PAGE_BITS) +
		       second * BPFDB_PIECE_SIZE;
	if (page != large_pages(len))
		return 0;
	if (large_has_half(len))
		return second ? LOAD(large->tail) : LOAD(large->half);
	return second ? 0 : LOAD(large->tail);
}

/* Makes the next page; the address of its first piece. 0: no memory. */
static __always_inline u64 large_page_make(struct bpfdb_large *large)
{
	u64 address = bpfdb_slot_alloc(BPFDB_PAGE_SIZE);
	u32 pages = large->pages;

	if (!address)
		return 0;
	*large_page(large, pages) = page_of(address);
	large->pages = pages + 1;
	return address;
}

/* Makes what the pages leave: the half of a page, then the tail. */
static __always_inline u64 large_rest_make(struct bpfdb_large *large)
{
	bool half = large_has_half(large->len) && !large->half;
	u64 address = bpfdb_slot_alloc(half ? BPFDB_PIECE_SIZE : large_tail(large->len));

	if (half)
		large->half = address;
	else
		large->tail = address;
	return address;
}

/* Address of piece `i`, which is made if it is the next one. 0: no memory for it, or
 * not the next. */
__noinline u64 large_piece_make(u64 table, u32 i)
{
	struct bpfdb_large *large = bpfdb_at(table);
	u64 address;

	if (!large)
		return 0;
	address = large_piece(large, i);
	if (address)
		return address;
	/* Of a page both pieces are made at once. */
	if (i != 2 * large->pages + (large->half != 0))
		return 0;
	return large->pages < large_pages(large->len) ? large_page_make(large)
						      : large_rest_make(large);
}

/*
 * One holder less. What has no holder any more waits for large_collect, since it may
 * take long, and a program that disposes of a version may have a latch, and has neither a
 * frame nor stack to spare.
 */
__noinline int bpfdb_large_free(u64 table)
{
	struct bpfdb_large *large = bpfdb_at(table);

	if (!large)
		return BPFDB_CORRUPT;
	if (FETCH_ADD(&large->holders, -1) != 1)
		return BPFDB_OK;
	repeat(i, BPFDB_READ_TRIES)
	{
		u64 first = LOAD(engine.large_garbage.value);

		STORE(large->next, first);
		if (CAS(&engine.large_garbage.value, first, table) == first)
			return BPFDB_OK;
	}
	COUNT(memory_lost);
	return BPFDB_EXHAUSTED;
}

/* Takes a piece out of the first table that waits; its address, 0 if there is none
 * now. The table itself comes last. By the holder of the latch: no other program takes
 * tables out of the list, so that the first one's successor stays what it is. */
static __always_inline u64 garbage_piece(u64 table)
{
	struct bpfdb_large *large = bpfdb_at(table);
	u64 address;
	u32 pages;

	if (!large)
		return 0;
	pages = large->pages;
	if (pages) {
		large->pages = pages - 1;
		return (u64)*large_page(large, pages - 1) << BPFDB_PAGE_BITS;
	}
	address = large->half ? large->half : large->tail;
	if (large->half)
		large->half = 0;
	else
		large->tail = 0;
	if (address)
		return address;
	/* Else another one came before it: this one has its turn again. */
	if (CAS(&engine.large_garbage.value, table, LOAD(large->next)) != table)
		return 0;
	if (large_is_cold(large))
		run_use_add(large, -1);
	return table;
}

/*
 * Gives back up to `most` pieces of values that have no holder; how many. Called from
 * the timer, and by operators that look for memory. Waits for no other caller.
 */
__noinline int large_collect(u32 most)
{
	u32 found = LOAD(engine.zero);

	if (!LOAD(engine.large_garbage.value) || CAS(&engine.large_collecting.value, 0, 1))
		return 0;
	repeat(i, most)
	{
		u64 table = LOAD_ACQUIRE(engine.large_garbage.value), address;

		if (!table)
			break;
		address = garbage_piece(table);
		if (!address)
			continue;
		bpfdb_slot_free(address);
		found = 1;
	}
	STORE_RELEASE(engine.large_collecting.value, 0);
	return found;
}

/* Pieces that an operator which needs memory gives back before it goes on. */
#define COLLECT_SOME 1024

/* Memory that is not in use becomes pages for all: that of large values, and empty
 * slabs of any class. True if there was any. */
__noinline int bpfdb_memory_reclaim(void)
{
	int collected = large_collect(COLLECT_SOME);

	return slabs_reclaim() || collected;
}

/* ---- Is there room? -------------------------------------------------------- */

/*
 * Could a value of `len` bytes find room now? Asked before it takes any: what must
 * fail should not leave others without memory for a time. A yes is no promise. What
 * has no page of its own may find its slots where no page is left, as others do.
 */
__noinline int large_fits(u64 len)
{
	u32 pages = large_pages(len) + 1;

	if (len < BPFDB_PAGE_SIZE || pages_left() >= pages)
		return 1;
	large_collect(config.pages_max);
	reclaim_from_class(BPFDB_CLASSES - 1, config.pages_max);
	if (pages_left() >= pages)
		return 1;
	bpfdb_memory_reclaim();
	return pages_left() >= pages;
}

#endif
