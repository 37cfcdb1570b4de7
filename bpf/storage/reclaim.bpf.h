/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Slots and pages that nobody uses, back for all: when an allocation finds no
 * memory, and when user space asks.
 */
#ifndef BPFDB_RECLAIM_BPF_H
#define BPFDB_RECLAIM_BPF_H

#include "slab.bpf.h"

struct reclaim {
	u32 class;
	u32 found;
	u32 first, last; /* slabs in use, to be put back as one chain */
};

static __always_inline bool slab_claim_empty(struct bpfdb_slab *slab, u32 class)
{
	u64 word = LOAD(slab->word);

	return LOAD(slab->class_) == class && slab_free_slots(word) == class_capacity(class) &&
	       CAS(&slab->word, word, slab_word(BPFDB_SLAB_NONE, 0, word)) == word;
}

static long reclaim_slab(u64 i, struct reclaim *r)
{
	u32 page;
	struct bpfdb_slab *slab;

	if (r->class >= BPFDB_CLASSES)
		return 1;
	/* `listed` stays set: nobody else lists it, before or after. */
	page = list_pop(&class_at(r->class)->partial);
	slab = page ? slab_of_page(page) : NULL;
	if (!slab)
		return 1;
	if (slab_claim_empty(slab, r->class)) {
		ADD(&class_at(r->class)->slabs, -1);
		COUNT(pages_reclaimed);
		page_give_back(page);
		r->found++;
		return 0;
	}
	/* Still in use. If it has free slots it stays listed, through us. */
	if (!slab_free_slots(LOAD(slab->word))) {
		(void)SWAP(&slab->listed, 0);
		if (!slab_free_slots(LOAD(slab->word)) || CAS(&slab->listed, 0, 1))
			return 0;
	}
	STORE(slab->next, r->first);
	r->first = page;
	if (!r->last)
		r->last = page;
	return 0;
}

static __always_inline void list_push_chain(u64 *list, u32 first, struct bpfdb_slab *last)
{
	repeat(i, BPFDB_READ_TRIES)
	{
		u64 head = LOAD(*list);

		STORE(last->next, (u32)head);
		if (CAS(list, head, ((head & ~(LIST_TAG - 1)) + LIST_TAG) | first) == head)
			return;
	}
	COUNT(memory_lost);
}

/* The spares of a class go back to their slabs. How many. */
__noinline int spares_release(u32 class)
{
	u32 released = 0;

	repeat(shard, BPFDB_ALLOC_SHARDS)
	{
		u64 address = spare_take(spares_of(shard), class);

		if (address && slot_return(address, NULL) == BPFDB_OK)
			released++;
	}
	return released;
}

/*
 * Looks through up to `depth` slabs of `class` that have free slots, and gives
 * back the pages of those that nobody uses. Returns how many.
 */
__noinline int reclaim_from_class(u32 class, u32 depth)
{
	struct reclaim r = {.class = class};
	struct bpfdb_slab *last;

	bpf_loop(depth, reclaim_slab, &r, 0);
	last = r.last ? slab_of_page(r.last) : NULL;
	if (last)
		list_push_chain(&class_at(class)->partial, r.first, last);
	return r.found;
}

/* Slabs looked at in each class when an allocation finds every page taken;
 * user space has the programs look at all of them (bpfdb_reclaim). */
#define RECLAIM_DEPTH 32

/* Spares can be taken by all, and empty slabs of any class become pages for all. True
 * if there were any. */
static __always_inline int slabs_reclaim(void)
{
	u32 found = 0;

	repeat(class, BPFDB_CLASSES)
	{
		found += spares_release(class);
		found += reclaim_from_class(class, RECLAIM_DEPTH);
	}
	return found;
}

#endif
