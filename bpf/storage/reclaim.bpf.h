/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Slots and pages that are not used, back for all: when an allocation finds no
 * memory, and when user space asks.
 */
#ifndef BPFDB_RECLAIM_BPF_H
#define BPFDB_RECLAIM_BPF_H

#include "slab.bpf.h"

struct reclaim {
	u32 class;
	u32 found;
};

static __always_inline bool slab_claim_empty(struct bpfdb_slab *slab, u32 class)
{
	u64 word = LOAD_ACQUIRE(slab->word);

	return LOAD(slab->class_) == class && slab_free_slots(word) == class_capacity(class) &&
	       CAS(&slab->word, word, slab_word(BPFDB_SLAB_NONE, 0, word)) == word;
}

/*
 * Puts a slab that was taken from a list into another one, `listed` set all the while.
 * One without free slots is left out, as by an allocation, unless one was freed since.
 */
static __always_inline void slab_list_again(u64 *list, u32 page, struct bpfdb_slab *slab)
{
	if (!slab_free_slots(LOAD(slab->word))) {
		(void)SWAP(&slab->listed, 0);
		if (!slab_free_slots(LOAD(slab->word)) || CAS(&slab->listed, 0, 1))
			return;
	}
	if (!list_push(list, page, slab))
		STORE_RELEASE(slab->listed, 0); /* the next free of a slot lists it */
}

/* Looks at the next slab. False if there is none. */
static __always_inline bool slab_look(struct reclaim *r)
{
	struct bpfdb_class *class = class_at(r->class);
	/* `listed` stays set: it is listed by no other, before or after. */
	u32 page = list_pop(&class->partial);
	struct bpfdb_slab *slab = page ? slab_of_page(page) : NULL;

	if (!slab)
		return false;
	if (slab_claim_empty(slab, r->class)) {
		ADD(&class->slabs, -1);
		COUNT(pages_reclaimed);
		page_give_back(page);
		r->found++;
		return true;
	}
	slab_list_again(&class->looked_at, page, slab);
	return true;
}

static long reclaim_slab(u64 i, struct reclaim *r)
{
	bool more;

	if (r->class >= BPFDB_CLASSES)
		return 1;
	preempt_off();
	more = slab_look(r);
	preempt_on();
	return !more;
}

/* Puts back what was looked at. */
static long return_slab(u64 i, struct reclaim *r)
{
	struct bpfdb_class *class = class_at(r->class);
	struct bpfdb_slab *slab;
	u32 page;

	preempt_off();
	page = list_pop(&class->looked_at);
	slab = page ? slab_of_page(page) : NULL;
	if (slab)
		slab_list_again(&class->partial, page, slab);
	preempt_on();
	return !slab;
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
 * back the pages of those that are not used. Returns how many.
 *
 * Others allocate meanwhile: what was looked at is in a list of its own, where they
 * look too, and only one slab at a time is in neither, with preemption off.
 */
__noinline int reclaim_from_class(u32 class, u32 depth)
{
	struct reclaim r = {.class = class};

	bpf_loop(depth, reclaim_slab, &r, 0);
	bpf_loop(depth, return_slab, &r, 0);
	return r.found;
}

/* From now on no slot is taken from this slab; its class, or BPFDB_CLASSES if it is none. */
static __always_inline u32 slab_close(u32 page)
{
	struct bpfdb_slab *slab = slab_of_page(page);
	u32 class = slab ? LOAD(slab->class_) : BPFDB_CLASSES;

	if (!slab || class >= BPFDB_CLASSES)
		return BPFDB_CLASSES;
	STORE(slab->closing, 1);
	return class;
}

/* The end of that: if it has free slots, they are found again. */
static __always_inline void slab_reopen(u32 page)
{
	struct bpfdb_slab *slab = slab_of_page(page);

	if (!slab || !LOAD(slab->closing))
		return;
	STORE(slab->closing, 0);
	if (slab_free_slots(LOAD_ACQUIRE(slab->word)))
		slab_list(page, slab);
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
