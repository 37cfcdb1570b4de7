/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Whether a split of an index page helps: only if one of the next bits of the hashes divides its records, or
 * the next one those near the home of the key that needs room. */
#ifndef BPFDB_SPLIT_WORTH_BPF_H
#define BPFDB_SPLIT_WORTH_BPF_H

#include "index_read.bpf.h"

struct halves {
	u32 page, level;
	u32 cells;
	u64 upper; /* cells of which a bit is 1: a count for each of the next bits (split_lanes) */
};

/* Bits of a count: more than all cells of a page. */
#define SPLIT_LANE 16

_Static_assert(64 / SPLIT_LANE >= BPFDB_SPLIT_BITS, "the counts fit a word");
_Static_assert(BPFDB_CELLS_PER_PAGE >> SPLIT_LANE == 0, "a page fits a count");

/* The lowest of these bits, each at the beginning of its count. */
static __always_inline u64 split_lanes(u64 bits)
{
	u64 lanes = 0;

	for (u32 i = 0; i < BPFDB_SPLIT_BITS; i++)
		lanes |= (bits >> i & 1) << (i * SPLIT_LANE);
	return lanes;
}

static long halves_cell(u64 index, struct halves *halves)
{
	void *memory = page_memory(halves->page);
	struct bpfdb_cell *cell;

	if (!memory)
		return 1;
	cell = cell_in(memory, index);
	if (!(LOAD(cell->header) & BPFDB_CELL_USED))
		return 0;
	halves->cells++;
	halves->upper += split_lanes(cell_hash(cell) >> BPFDB_CELL_BITS >> (halves->level & 31));
	return 0;
}

/* Does the bit divide the cells, of which it is 1 in so many? */
static __always_inline bool split_divides(u32 cells, u32 upper)
{
	u32 fewer = upper < cells - upper ? upper : cells - upper;

	return fewer * BPFDB_SPLIT_SHARE >= cells;
}

/*
 * Are there enough records, and does one of the next bits divide them? Else the page stays as
 * it is: keys that were chosen so that many bits of their hashes agree would be given
 * one page after the other. Records come and go meanwhile; a few do not matter.
 *
 * The next bit alone says nothing of keys that nobody has chosen. Eviction goes over pages one after the
 * other; then one that has lost nearly all of its records becomes one with its buddy, which has many
 * (emptying/pairs.rs), and the bit that parted them parts few. (Ordinary keys were refused then where they found no cell
 * near their home.)
 * (A subprogram as index_page_create is.)
 */
__noinline int split_is_worth(u32 page, u32 level)
{
	struct halves halves = {.page = page, .level = level};
	int worth = LOAD(engine.zero);

	/* Unknown to the verifier, which would count them up. */
	halves.cells = LOAD(engine.zero);
	halves.upper = LOAD(engine.zero);
	bpf_loop(BPFDB_CELLS_PER_PAGE, halves_cell, &halves, 0);
	for (u32 i = 0; i < BPFDB_SPLIT_BITS; i++) {
		u32 upper = halves.upper >> (i * SPLIT_LANE) & ((1 << SPLIT_LANE) - 1);

		if (level + i < config.directory_bits)
			worth |= split_divides(halves.cells, upper);
	}
	return worth && halves.cells >= BPFDB_SPLIT_CELLS_MIN;
}

/*
 * Is every cell within reach of this hash's home in `page` taken by a record that no
 * split will part from it, because all bits agree that the directory could ever go by?
 */
__noinline int neighbourhood_agrees(u32 page, u64 hash)
{
	u32 bits = BPFDB_CELL_BITS + config.directory_bits, agree = LOAD(engine.zero);
	struct bpfdb_slab *slab = slab_of_page(page);
	void *memory = page_memory(page);
	u64 left;

	if (!memory || !slab || LOAD(slab->level) >= config.directory_bits)
		return 0;
	left = ((1ULL << (bits & 63)) - 1) >> BPFDB_CELL_BITS >>
	       (LOAD(slab->level) & 31) << BPFDB_CELL_BITS << (LOAD(slab->level) & 31);
	repeat(i, BPFDB_NEIGHBOURHOOD)
	{
		struct bpfdb_cell *cell = cell_in(memory, home_of(hash) + i);

		if (!(LOAD(cell->header) & BPFDB_CELL_USED) || ((cell_hash(cell) ^ hash) & left))
			break;
		agree++;
	}
	return agree == BPFDB_NEIGHBOURHOOD;
}

/*
 * Does the next bit divide the records within reach of this hash's home in `page`? Where many records
 * were deleted in the order of their cells, by eviction or by a client that lists keys and deletes them,
 * the few that are left lie side by side: then a split makes room, though it is not worth it for the page.
 * The reach is full of records when this is called. But those that stay together may fill it once more: a
 * page may be made for as few as BPFDB_SPLIT_NEAR_MIN records, if their keys were chosen.
 */
__noinline int neighbourhood_divides(u32 page, u64 hash)
{
	struct bpfdb_slab *slab = slab_of_page(page);
	void *memory = page_memory(page);
	u32 upper = LOAD(engine.zero), used = LOAD(engine.zero), fewer;

	if (!memory || !slab)
		return 0;
	repeat(i, BPFDB_NEIGHBOURHOOD)
	{
		struct bpfdb_cell *cell = cell_in(memory, home_of(hash) + i);

		if (!(LOAD(cell->header) & BPFDB_CELL_USED))
			continue;
		used++;
		upper += split_bit(cell_hash(cell), LOAD(slab->level) & 31);
	}
	fewer = upper < used - upper ? upper : used - upper;
	return used == BPFDB_NEIGHBOURHOOD && fewer >= BPFDB_SPLIT_NEAR_MIN;
}

#endif
