/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* An empty page of the index. */
#ifndef BPFDB_INDEX_PAGE_BPF_H
#define BPFDB_INDEX_PAGE_BPF_H

#include "index_read.bpf.h"
#include "reclaim.bpf.h"

struct page_init {
	u32 page, level;
	u64 generation;
};

#define GENERATION_FACTOR 0x9e3779b97f4a7c15ULL

static long page_init_cell(u64 index, struct page_init *init)
{
	void *memory = page_memory(init->page);
	struct bpfdb_cell *cell;

	if (!memory)
		return 1;
	cell = cell_in(memory, index);
	/* The counters do not begin where they did when this page, or another
	 * with the same cells, was an index page before. */
	STORE(cell->header, init->generation * BPFDB_CELL_CHANGE);
	STORE(cell->home,
	      init->generation * BPFDB_HOME_CHANGE | (u64)init->level << BPFDB_HOME_LEVEL_SHIFT);
	return 0;
}

/* Beside a page or a level: the page that is wanted is for a DELETE, and may be one of the
 * reserve. */
#define SPLIT_FOR_FREEING (1u << 31)
/* The page may have few records: those near the home of a key have to be parted. */
#define SPLIT_SPARSE (1u << 30)
#define SPLIT_FLAGS (SPLIT_FOR_FREEING | SPLIT_SPARSE)

/* An empty index page for `prefix` of `level` bits; 0 if memory is exhausted. `wanted` is the
 * level, with SPLIT_FOR_FREEING perhaps. (A subprogram: all callers of a split together have 512
 * bytes of stack.) */
__noinline u32 index_page_create(u32 wanted, u32 prefix)
{
	u32 level = wanted & ~SPLIT_FOR_FREEING;
	struct page_init init = {.level = level};
	struct bpfdb_slab *slab;

	/* An odd factor: all values of the counters come before one comes again. */
	init.generation = FETCH_ADD(&engine.index_generation.value, 1) * GENERATION_FACTOR;
	init.page = page_take(wanted & SPLIT_FOR_FREEING ? FOR_FREEING : FOR_DATA);
	slab = init.page ? slab_of_page(init.page) : NULL;
	if (!slab)
		return 0;
	bpf_loop(BPFDB_CELLS_PER_PAGE, page_init_cell, &init, 0);
	STORE(slab->listed, 1); /* never in a list of slabs again */
	STORE(slab->level, (u8)level);
	STORE(slab->prefix, prefix);
	STORE(slab->sibling, 0);
	STORE(slab->next, 0);
	STORE(slab->unlisted, level ? BPFDB_UNLISTED : 0);
	STORE(slab->splitting, 0);
	STORE(slab->word, 0);
	/* Last: a merge looks for pages of this class, and goes by their level and prefix. */
	STORE_RELEASE(slab->class_, BPFDB_PAGE_INDEX);
	ADD(&engine.index_pages.value, 1);
	return init.page;
}

#endif
