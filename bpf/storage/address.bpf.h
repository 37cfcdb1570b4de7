/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* From an address (see abi.h) to memory. */
#ifndef BPFDB_ADDRESS_BPF_H
#define BPFDB_ADDRESS_BPF_H

#include "engine_state.bpf.h"

/* Start of the segment that holds `address`, or NULL if it was never added. */
static __always_inline void *segment_of(u64 address)
{
	u32 number = address >> BPFDB_SEGMENT_BITS, zero = 0;
	void *map = bpf_map_lookup_elem(&segments, &number);

	if (!map)
		return NULL;
	return bpf_map_lookup_elem(map, &zero);
}

/* Memory at `address`: BPFDB_PAGE_SIZE bytes may be accessed (the pad behind
 * each segment makes that true at its end too). NULL if the address is void. */
static __always_inline void *bpfdb_at(u64 address)
{
	char *segment = segment_of(address);
	u64 offset = address & (BPFDB_SEGMENT_SIZE - 1);

	if (!segment)
		return NULL;
	OPAQUE(offset);
	/* Everything lies on a grain; atomic instructions need the verifier to
	 * know that. */
	offset &= BPFDB_SEGMENT_SIZE - BPFDB_GRAIN;
	return segment + offset;
}

static __always_inline struct bpfdb_slab *slab_of_page(u32 page)
{
	return bpf_map_lookup_elem(&slabs, &page);
}

static __always_inline u32 page_of(u64 address)
{
	return address >> BPFDB_PAGE_BITS;
}

/* First byte of index page `page`; add a cell offset with cell_in(). */
static __always_inline void *page_memory(u32 page)
{
	char *segment = segment_of((u64)page << BPFDB_PAGE_BITS);
	u64 offset = (u64)(page % BPFDB_PAGES_PER_SEGMENT) << BPFDB_PAGE_BITS;

	if (!segment)
		return NULL;
	OPAQUE(offset);
	offset &= (BPFDB_SEGMENT_SIZE - 1) & ~(u64)(BPFDB_PAGE_SIZE - 1);
	return segment + offset;
}

static __always_inline struct bpfdb_cell *cell_in(void *page, u64 index)
{
	u64 offset;

	/* Not an induction variable of its own in loops over cells: the
	 * verifier would see a new range in every round. */
	OPAQUE(index);
	offset = index * BPFDB_CELL_SIZE;
	OPAQUE(offset);
	offset &= BPFDB_PAGE_SIZE - BPFDB_CELL_SIZE;
	return page + offset;
}

static __always_inline u64 cell_address(u32 page, u64 index)
{
	return ((u64)page << BPFDB_PAGE_BITS) + (index % BPFDB_CELLS_PER_PAGE) * BPFDB_CELL_SIZE;
}

#endif
