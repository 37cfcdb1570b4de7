/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * An index that will have many records is made at its size, while it is empty: recovery then
 * splits no page that it has just filled. Level by level each page is given a sibling, as
 * splits do it, so that the index is whole after each page.
 *
 * No other program uses the engine meanwhile: buckets change their level without their latches.
 */
#ifndef BPFDB_DRIVER_PRESIZE_BPF_H
#define BPFDB_DRIVER_PRESIZE_BPF_H

#include "../operators/maintenance.bpf.h"

struct presize {
	u32 level, slot, done;
};

struct relevel {
	u32 page, level;
};

static long relevel_home(u64 index, struct relevel *relevel)
{
	void *memory = page_memory(relevel->page);
	struct bpfdb_cell *home_cell;

	if (!memory)
		return 1;
	home_cell = cell_in(memory, index);
	home_publish(home_cell, 0, relevel->level);
	return 0;
}

/* May this page, whose splitting latch is held, be split without looking? */
static __always_inline bool page_is_empty(struct bpfdb_slab *slab, u32 level)
{
	return LOAD(slab->class_) == BPFDB_PAGE_INDEX && slab->level == level &&
	       !LOAD(slab->word) && !LOAD(slab->sibling) && !LOAD(slab->next) &&
	       !LOAD(slab->unlisted);
}

/* Splits an empty page of `level`. False if it is none, or if there is no memory. */
__noinline int page_split_empty(u32 page, u32 level)
{
	struct bpfdb_slab *slab = slab_of_page(page);
	struct relevel relevel = {.page = page, .level = level + 1};
	int done = false;
	u32 sibling;

	if (!slab || level >= config.directory_bits || CAS(&slab->splitting, 0, 1))
		return false;
	if (page_is_empty(slab, level)) {
		sibling = index_page_create(level + 1, slab->prefix | 1u << (level & 31));
		if (sibling) {
			STORE_RELEASE(slab->sibling, sibling);
			bpf_loop(BPFDB_CELLS_PER_PAGE, relevel_home, &relevel, 0);
			done = split_finish(page, sibling, level);
		}
	}
	STORE_RELEASE(slab->splitting, 0);
	return done;
}

static long presize_page(u64 i, struct presize *presize)
{
	u32 slot = presize->slot + i;
	u32 *entry = bpf_map_lookup_elem(&directory, &slot);

	if (!entry || !page_split_empty(entry_page(LOAD(*entry)), presize->level))
		return 1;
	presize->done++;
	return 0;
}

/* Gives the page a sibling, if it can have one. */
static __always_inline int split_begin(u32 page, struct bpfdb_slab *slab)
{
	u32 level = slab->level, sibling;

	if (LOAD(slab->class_) != BPFDB_PAGE_INDEX || level >= config.directory_bits ||
	    LOAD(slab->sibling) || LOAD(slab->next) || LOAD(slab->unlisted))
		return BPFDB_OK;
	sibling = index_page_create(level + 1, slab->prefix | 1u << (level & 31));
	if (!sibling)
		return no_memory();
	STORE_RELEASE(slab->sibling, sibling);
	return BPFDB_OK;
}

/*
 * ctx: index page. Splits it, also if that does not part its records well: what recovery brings
 * comes in the order of the index, so the one half of a page may be there before the other;
 * and a checkpoint that was made beside writers may have much of the one and little of the
 * other. Anybody may use the engine. As bpfdb_split().
 */
static __noinline int run_split_anyway(struct bpf_raw_tracepoint_args *ctx)
{
	u32 page = ctx->args[1];
	struct bpfdb_slab *slab = slab_of_page(page);
	int status;

	if (!slab || CAS(&slab->splitting, 0, 1))
		return BPFDB_MEMORY_PENDING;
	status = split_begin(page, slab);
	STORE_RELEASE(slab->splitting, 0);
	return status == BPFDB_OK ? bpfdb_split(page) : status;
}

/* ctx: level, first entry of the directory, how many. Splits their pages, which are empty and
 * of that level; how many, and fewer if there is no memory. */
static __noinline int run_presize(struct bpf_raw_tracepoint_args *ctx)
{
	struct presize presize = {
		.level = ctx->args[1],
		.slot = ctx->args[2],
		.done = LOAD(engine.zero),
	};

	bpf_loop(ctx->args[3], presize_page, &presize, 0);
	return presize.done;
}

#endif
