/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Slots of 23 size classes, cut from 64 KiB pages ("slabs").
 *
 * Invariants
 *  1. A slab's free slots form a list inside the slots themselves; head,
 *     number of free slots and a tag are one word, changed by CAS only. The
 *     tag grows with every change, so a stale CAS cannot succeed.
 *  2. A slab with a free slot is the open slab of some processor shard, or in
 *     its class's partial list, or held by the program that is moving it
 *     between the two.
 *  3. A slab's class changes only while its word says "no free slot" and
 *     between two changes of the word: who reads word, class, and succeeds in
 *     a CAS on that word has taken a slot of that class.
 *  4. Nothing here waits: a program may interrupt another at any instruction,
 *     and the interrupted one's CAS fails and is tried again.
 *
 * A freed slot may still be read by a program that found it earlier. Such
 * readers check the record's header after copying (bpfdb_still_valid).
 */
#ifndef BPFDB_SLAB_BPF_H
#define BPFDB_SLAB_BPF_H

#include "address.bpf.h"

#define LIST_TAG (1ULL << 32)

/* Class of a slot of `size` bytes (1 to BPFDB_VALUE_MAX): sizes are powers of
 * two from 32 and one and a half times those. */
static __always_inline u32 class_of_size(u32 size)
{
	u32 n = size - 1, bit = 0, class;

	if (size <= 32)
		return 0;
	if (n >> 8)
		bit += 8, n >>= 8;
	if (n >> 4)
		bit += 4, n >>= 4;
	if (n >> 2)
		bit += 2, n >>= 2;
	if (n >> 1)
		bit += 1;
	class = 2 * (bit - 5) + (((size - 1) >> (bit - 1)) & 1) + 1;
	/* 48 KiB slots would leave a quarter of the page unused. */
	return class >= BPFDB_CLASSES - 2 ? BPFDB_CLASSES - 1 : class;
}

static __always_inline u32 class_size(u32 class)
{
	return (class & 1 ? 48u : 32u) << (class / 2);
}

static __always_inline u32 class_capacity(u32 class)
{
	return (class & 1 ? 1365u : 2048u) >> (class / 2);
}

static __always_inline struct bpfdb_class *class_at(u32 class)
{
	u64 i = class;

	OPAQUE(i);
	return &engine.classes[i % BPFDB_CLASS_ENTRIES];
}

static __always_inline u64 slab_word(u64 head, u64 free, u64 tag_from)
{
	u64 tag = (tag_from & ~(BPFDB_SLAB_TAG - 1)) + BPFDB_SLAB_TAG;

	return tag | free << BPFDB_SLAB_FREE_SHIFT | head;
}

static __always_inline u32 slab_free_slots(u64 word)
{
	return (word >> BPFDB_SLAB_FREE_SHIFT) & BPFDB_SLAB_FREE_MASK;
}

/* ---- Lists of slabs: head is slab | tag, links are in the slabs ---------- */

static __always_inline bool list_push(u64 *list, u32 page, struct bpfdb_slab *slab)
{
	repeat(i, BPFDB_READ_TRIES)
	{
		u64 head = LOAD(*list);

		STORE(slab->next, (u32)head);
		if (CAS(list, head, ((head & ~(LIST_TAG - 1)) + LIST_TAG) | page) == head)
			return true;
	}
	return false;
}

/* Returns 0 if the list is empty (page 0 is never handed out). */
static __always_inline u32 list_pop(u64 *list)
{
	repeat(i, BPFDB_READ_TRIES)
	{
		u64 head = LOAD(*list);
		u32 page = head;
		struct bpfdb_slab *slab;

		if (!page)
			return 0;
		slab = slab_of_page(page);
		if (!slab)
			return 0;
		if (CAS(list, head, ((head & ~(LIST_TAG - 1)) + LIST_TAG) | LOAD(slab->next)) ==
		    head)
			return page;
	}
	return 0;
}

/* A slab that got a free slot back goes to its class's list, once. */
static __always_inline void slab_list(u32 page, struct bpfdb_slab *slab)
{
	u32 class;

	if (CAS(&slab->listed, 0, 1))
		return;
	/* Only now: whoever has `listed` keeps the page from being reclaimed, but
	 * it may have been before, and be another class's by now. */
	class = LOAD(slab->class_);
	if (class >= BPFDB_CLASSES || !list_push(&class_at(class)->partial, page, slab))
		STORE(slab->listed, 0); /* the next free of a slot tries again */
}

static __always_inline u32 slab_unlist(struct bpfdb_class *class)
{
	u32 page = list_pop(&class->partial);
	struct bpfdb_slab *slab = page ? slab_of_page(page) : NULL;

	if (!slab)
		return 0;
	/* Before its word is looked at: a slot freed from now on lists it anew. */
	(void)SWAP(&slab->listed, 0);
	return page;
}

/* ---- Pages ---------------------------------------------------------------- */

static __always_inline u32 page_cut(void)
{
	repeat(i, BPFDB_READ_TRIES)
	{
		u64 taken = LOAD(engine.pages_taken.value);
		u64 end = LOAD(engine.segments.value) * BPFDB_PAGES_PER_SEGMENT;

		if (taken >= end)
			return 0;
		if (CAS(&engine.pages_taken.value, taken, taken + 1) == taken)
			return taken;
	}
	return 0;
}

static __always_inline void page_give_back(u32 page)
{
	struct bpfdb_slab *slab = slab_of_page(page);

	if (!slab)
		return;
	STORE(slab->class_, BPFDB_PAGE_UNUSED);
	if (list_push(&engine.pages_free.value, page, slab))
		ADD(&engine.pages_free_count.value, 1);
	else
		COUNT(memory_lost);
}

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

/* Empty slabs of any class become pages for all. True if there were any. */
__noinline int bpfdb_memory_reclaim(void)
{
	u32 found = 0;

	repeat(class, BPFDB_CLASSES) found += reclaim_from_class(class, RECLAIM_DEPTH);
	return found;
}

/* A page for the index or for a class; 0 if there is none. Its content is
 * whatever it held before. */
static __always_inline u32 page_take(void)
{
	u32 page = list_pop(&engine.pages_free.value);

	if (!page)
		return page_cut();
	ADD(&engine.pages_free_count.value, -1);
	return page;
}

/* Why there was no page: the limit, or memory that is still to be added. */
static __always_inline int no_memory(void)
{
	return LOAD(engine.segments.value) < config.segments_max ? BPFDB_MEMORY_PENDING
								 : BPFDB_OUT_OF_MEMORY;
}

/* ---- Slots ---------------------------------------------------------------- */

/* Links all slots of a page into its list of free ones. Not a callback: that
 * would cost one of the eight frames. */
static __always_inline void slab_carve(u32 page, u32 class)
{
	u32 step = class_size(class) / BPFDB_GRAIN, last = class_capacity(class) - 1;

	repeat(i, BPFDB_PAGE_SIZE / 32)
	{
		u64 *slot = bpfdb_at(((u64)page << BPFDB_PAGE_BITS) + (u64)i * step * BPFDB_GRAIN);

		if (slot)
			STORE(*slot, i >= last ? BPFDB_SLAB_NONE : (i + 1) * step);
		if (i >= last)
			break;
	}
}

/* A fresh slab of `class`, all slots free. */
static __always_inline u32 slab_create(u32 class)
{
	struct bpfdb_slab *slab;
	u32 page;

	if (class >= BPFDB_CLASSES)
		return 0;
	page = page_take();
	slab = page ? slab_of_page(page) : NULL;
	if (!slab)
		return 0;
	slab_carve(page, class);
	STORE(slab->listed, 0);
	STORE(slab->class_, (u8) class);
	STORE(slab->word, slab_word(0, class_capacity(class), LOAD(slab->word)));
	ADD(&class_at(class)->slabs, 1);
	return page;
}

/* Pops a slot of slab `page`; 0 if it has none or is of another class now. */
static __always_inline u64 slab_pop(u32 page, u32 class)
{
	struct bpfdb_slab *slab = slab_of_page(page);

	if (!slab)
		return 0;
	repeat(i, BPFDB_READ_TRIES)
	{
		u64 word = LOAD(slab->word);
		u64 head = word & BPFDB_SLAB_HEAD_MASK;
		u32 free = slab_free_slots(word);
		u64 address = ((u64)page << BPFDB_PAGE_BITS) + head * BPFDB_GRAIN;
		u64 *slot;

		if (!free || LOAD(slab->class_) != class)
			return 0;
		slot = bpfdb_at(address);
		if (!slot)
			return 0;
		if (CAS(&slab->word, word,
			slab_word(LOAD(*slot) & BPFDB_SLAB_HEAD_MASK, free - 1, word)) == word)
			return address;
	}
	return 0;
}

/* Makes `page` the open slab of a shard. */
static __always_inline void slab_open(u32 class, u32 shard, u32 page)
{
	u32 replaced = SWAP(&class_at(class)->open[shard % BPFDB_ALLOC_SHARDS], page);
	struct bpfdb_slab *old = replaced && replaced != page ? slab_of_page(replaced) : NULL;

	/* Somebody may have opened that one meanwhile (an interrupt here), or freed
	 * into it: invariant 2. */
	if (old && LOAD(old->class_) == class && slab_free_slots(LOAD(old->word)))
		slab_list(replaced, old);
}

/* A slot from the class's list of slabs with free ones. Slabs that others have
 * filled since they were listed are passed over: each pop shortens the list. */
static __always_inline u64 slot_from_list(u32 class, u32 *page)
{
	repeat(i, BPFDB_READ_TRIES)
	{
		u64 address;

		*page = slab_unlist(class_at(class));
		if (!*page)
			return 0;
		address = slab_pop(*page, class);
		if (address)
			return address;
	}
	return 0;
}

/*
 * Allocates a slot for `size` bytes (1 to BPFDB_VALUE_MAX). Returns its
 * address, 0 if there is neither a free slot nor a page.
 */
__noinline u64 bpfdb_slot_alloc(u32 size)
{
	u32 class, shard = bpf_get_smp_processor_id() % BPFDB_ALLOC_SHARDS;
	u64 address;
	u32 page;

	if (!size || size > BPFDB_VALUE_MAX)
		return 0;
	class = class_of_size(size);
	if (class >= BPFDB_CLASSES)
		return 0;
	page = LOAD(class_at(class)->open[shard]);
	address = page ? slab_pop(page, class) : 0;
	if (likely(address))
		return address;
	address = slot_from_list(class, &page);
	if (!address) {
		page = slab_create(class);
		address = page ? slab_pop(page, class) : 0;
	}
	if (address)
		slab_open(class, shard, page);
	return address;
}

/* Gives a slot back. The class comes from the slab. */
__noinline int bpfdb_slot_free(u64 address)
{
	u32 page = page_of(address), class, free = 0;
	u64 grain = (address & (BPFDB_PAGE_SIZE - 1)) / BPFDB_GRAIN, word;
	struct bpfdb_slab *slab = slab_of_page(page);
	u64 *slot = bpfdb_at(address);
	bool done = false;

	if (!slab || !slot)
		return BPFDB_CORRUPT;
	class = LOAD(slab->class_);
	if (class >= BPFDB_CLASSES)
		return BPFDB_CORRUPT;
	repeat(i, BPFDB_READ_TRIES)
	{
		word = LOAD(slab->word);
		free = slab_free_slots(word);
		STORE(*slot, free ? word & BPFDB_SLAB_HEAD_MASK : BPFDB_SLAB_NONE);
		done = CAS(&slab->word, word, slab_word(grain, free + 1, word)) == word;
		if (done)
			break;
	}
	if (!done) {
		COUNT(memory_lost);
		return BPFDB_EXHAUSTED;
	}
	/* The first free slot, or (so that empty slabs can be found) the last
	 * used one. */
	if (!free || free + 1 == class_capacity(class))
		slab_list(page, slab);
	return BPFDB_OK;
}

#endif
