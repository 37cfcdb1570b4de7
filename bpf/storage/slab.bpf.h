/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Slots of 42 size classes, cut from 64 KiB pages ("slabs").
 *
 * Invariants
 *  1. A slab's free slots form a list inside the slots themselves; head,
 *     number of free slots and a tag are one word, changed by CAS only. The
 *     tag grows with every change, so a stale CAS cannot succeed.
 *  2. A slab with a free slot is the open slab of some processor shard, or in
 *     its class's partial list, or held by the program that is moving it
 *     between the two.
 *  3. A slab's class changes only while its word says "no free slot" and
 *     between two changes of the word: a program that reads word, class, and succeeds in
 *     a CAS on that word has taken a slot of that class.
 *  4. A slot is taken from its slab, and so keeps the page, while it is the spare
 *     of a shard: freed there, not yet in the slab's list.
 *  5. From a slab that is closing no slot is taken. It may be in no list (against 2) until its last
 *     slot is freed, which lists it for a reclaim, or slab_reopen().
 *  6. Nothing here waits: a program may interrupt another at any instruction,
 *     and the interrupted one's CAS fails and is tried again.
 *
 * A freed slot may still be read by a program that found it earlier. Such
 * readers check the record's header after copying (bpfdb_still_valid).
 */
#ifndef BPFDB_SLAB_BPF_H
#define BPFDB_SLAB_BPF_H

#include "address.bpf.h"

#define LIST_TAG (1ULL << 32)

/*
 * Size classes, so that a slot is at most a quarter longer than what it holds, and a
 * tenth on average:
 *
 *   to 128 bytes   every grain: 32, 48, 64, ... 128
 *   to 4096        four to a doubling: 160, 192, 224, 256, 320, ... 4096
 *   beyond         as much as 15, 14, 13, ... 1 to a page leave each of them: 4368,
 *                  4672, ... 21840, 32768, 65536. Even steps would leave up to a
 *                  quarter of the page unused.
 */
#define CLASS_OF_SHORT(size) (((size) - 17) / BPFDB_GRAIN)
#define SHORT_CLASSES 7
#define SHORT_MAX 128u
#define MIDDLE_CLASSES 20
#define MIDDLE_MAX 4096u
_Static_assert(BPFDB_CLASSES == SHORT_CLASSES + MIDDLE_CLASSES + 15, "as the rule says");

/* Of the classes between: 2^(5 + double) times 5, 6, 7, 8. */
static __always_inline u32 middle_double(u32 class)
{
	return (class - SHORT_CLASSES) / 4;
}

static __always_inline u32 middle_factor(u32 class)
{
	return 5 + (class - SHORT_CLASSES) % 4;
}

/* Class of a slot of `size` bytes, 1 to BPFDB_PAGE_SIZE. */
static __always_inline u32 class_of_size(u32 size)
{
	u32 n = size - 1, bit = 7;

	if (size <= SHORT_MAX)
		return size <= 32 ? 0 : CLASS_OF_SHORT(size);
	if (size > MIDDLE_MAX)
		return BPFDB_CLASSES - BPFDB_PAGE_SIZE / ((n | (BPFDB_GRAIN - 1)) + 1);
	/* The highest bit of n, 7 to 11, and the two below it. */
	if (n >> 9)
		bit += 2;
	if (n >> (bit + 2))
		bit += 2;
	if (n >> (bit + 1))
		bit += 1;
	return SHORT_CLASSES + 4 * (bit - 7) + ((n >> (bit - 2)) & 3);
}

/* Slots of a page. */
static __always_inline u32 class_capacity(u32 class)
{
	if (class < SHORT_CLASSES)
		return BPFDB_PAGE_SIZE / BPFDB_GRAIN / (class + 2);
	if (class < SHORT_CLASSES + MIDDLE_CLASSES)
		return (BPFDB_PAGE_SIZE / 32 / middle_factor(class)) >> middle_double(class);
	return class < BPFDB_CLASSES ? BPFDB_CLASSES - class : 1;
}

static __always_inline u32 class_size(u32 class)
{
	if (class < SHORT_CLASSES)
		return (class + 2) * BPFDB_GRAIN;
	if (class < SHORT_CLASSES + MIDDLE_CLASSES)
		return (middle_factor(class) * 32) << middle_double(class);
	return (BPFDB_PAGE_SIZE / class_capacity(class)) & ~(BPFDB_GRAIN - 1);
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

/* ---- Spares ----------------------------------------------------------------- */

/*
 * An overwrite takes a slot and frees one of the same class. Handed from the one
 * to the other it costs no access to slab and slot: the link that freeing writes
 * into the slot is a cache miss, and the CAS behind it waits for that.
 */
static __always_inline u64 *spares_of(u32 shard)
{
	u64 of = shard;

	OPAQUE(of);
	return engine.spares[of % BPFDB_ALLOC_SHARDS].slots;
}

static __always_inline u64 spare_take(u64 *spares, u32 class)
{
	u64 *spare = spares + class % BPFDB_CLASS_ENTRIES;

	return LOAD(*spare) ? SWAP(spare, 0) : 0;
}

static __always_inline bool spare_keep(u64 *spares, u32 class, u64 address)
{
	u64 *spare = spares + class % BPFDB_CLASS_ENTRIES;

	return !LOAD(*spare) && CAS(spare, 0, address) == 0;
}

static __always_inline u32 this_shard(void)
{
	return bpf_get_smp_processor_id() % BPFDB_ALLOC_SHARDS;
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
		u64 head = LOAD_ACQUIRE(*list);
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
	/* Only now: the program that has `listed` keeps the page from being reclaimed, but
	 * it may have been before, and be another class's by now. */
	class = LOAD(slab->class_);
	if (class >= BPFDB_CLASSES || !list_push(&class_at(class)->partial, page, slab))
		STORE_RELEASE(slab->listed, 0); /* the next free of a slot tries again */
}

static __always_inline u32 slab_unlist(struct bpfdb_class *class)
{
	u32 page = list_pop(&class->partial);
	struct bpfdb_slab *slab;

	/* A reclaim is under way. */
	if (!page)
		page = list_pop(&class->looked_at);
	slab = page ? slab_of_page(page) : NULL;
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
		u64 end = LOAD_ACQUIRE(engine.segments.value) * BPFDB_PAGES_PER_SEGMENT;

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

/* Pages of a memory of `limit` pages that are set aside. */
static __always_inline u64 reserve_of(u64 limit)
{
	u64 pages = limit / BPFDB_RESERVE_SHARE;

	if (pages < BPFDB_RESERVE_MIN)
		return BPFDB_RESERVE_MIN;
	return pages > BPFDB_RESERVE_MAX ? BPFDB_RESERVE_MAX : pages;
}

/* Pages that data may still take, those that may still be added included: all that are not in
 * use, but for the reserves. After the limit was lowered there may be none. */
static __always_inline u64 pages_left(void)
{
	u64 limit = LOAD(engine.segments_limit.value) * BPFDB_PAGES_PER_SEGMENT;
	u64 used = LOAD(engine.pages_taken.value) - LOAD(engine.pages_free_count.value);
	u64 kept = used + reserve_of(limit) + LOAD(engine.tier_reserve.value);

	return limit > kept ? limit - kept : 0;
}

/* What the memory is for. */
enum purpose {
	FOR_DATA,
	FOR_FREEING, /* for locks, or what a DELETE needs: the reserve is for these */
};

/* A page for the index or for a class; 0 if there is none. Its content is
 * whatever it held before. */
static __always_inline u32 page_take(enum purpose purpose)
{
	u32 page;

	if (purpose == FOR_DATA && unlikely(!pages_left()))
		return 0;
	page = list_pop(&engine.pages_free.value);
	if (!page)
		return page_cut();
	ADD(&engine.pages_free_count.value, -1);
	return page;
}

/* Why there was no page: the limit, or memory that is still to be added, or to be
 * given back, by the evictor too. */
static __always_inline int no_memory(void)
{
	if (LOAD(engine.segments.value) < LOAD(engine.segments_limit.value))
		return BPFDB_MEMORY_PENDING;
	if (LOAD(engine.eviction) == BPFDB_EVICTION_ON)
		return BPFDB_MEMORY_PENDING;
	/* Another program is giving back what a large value had, or what snapshots kept, or
	 * will, when the log is on the disk, or a value that goes to a file. */
	return LOAD(engine.large_garbage.value) || LOAD(engine.snapshots.sweeping) ||
			       LOAD(engine.demoting.value) ||
			       (config.log_ring && LOAD(engine.log_holds.value))
		       ? BPFDB_MEMORY_PENDING
		       : BPFDB_OUT_OF_MEMORY;
}

/* ---- Slots ---------------------------------------------------------------- */

/* Links all slots of a page into its list of free ones. Not a callback: that
 * would cost one of the eight frames. */
static __always_inline void slab_carve(u32 page, u32 class)
{
	u32 last = class_capacity(class) - 1, step = class_size(class) / BPFDB_GRAIN;

	/* Two numbers, not what clang computes them from: callers need the stack. */
	OPAQUE(last);
	OPAQUE(step);
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
static __always_inline u32 slab_create(u32 class, enum purpose purpose)
{
	struct bpfdb_slab *slab;
	u32 page;

	if (class >= BPFDB_CLASSES)
		return 0;
	page = page_take(purpose);
	slab = page ? slab_of_page(page) : NULL;
	if (!slab)
		return 0;
	slab_carve(page, class);
	STORE(slab->listed, 0);
	STORE(slab->closing, 0);
	STORE(slab->class_, (u8) class);
	STORE_RELEASE(slab->word, slab_word(0, class_capacity(class), LOAD(slab->word)));
	ADD(&class_at(class)->slabs, 1);
	return page;
}

/* Pops a slot of slab `page`; 0 if it has none, is of another class now, or closing. */
static __always_inline u64 slab_pop(u32 page, u32 class)
{
	struct bpfdb_slab *slab = slab_of_page(page);

	if (!slab)
		return 0;
	repeat(i, BPFDB_READ_TRIES)
	{
		u64 word = LOAD_ACQUIRE(slab->word);
		u64 head = word & BPFDB_SLAB_HEAD_MASK;
		u32 free = slab_free_slots(word);
		u64 address = ((u64)page << BPFDB_PAGE_BITS) + head * BPFDB_GRAIN;
		u64 *slot;

		if (!free || LOAD(slab->class_) != class || LOAD(slab->closing))
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

	/* That one may have been opened meanwhile (by an interrupt here), or freed
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

/* Class of a slot of `size` bytes; BPFDB_CLASSES: no slot has so many, or none. */
static __always_inline u32 class_for(u32 size)
{
	u32 class;

	if (!size || size > BPFDB_PAGE_SIZE)
		return BPFDB_CLASSES;
	class = class_of_size(size);
	/* clang knows that a class is less than BPFDB_CLASSES, and would leave out the
	 * comparison of the caller; the verifier knows nothing of a quotient. */
	OPAQUE(class);
	return class;
}

/*
 * Allocates a slot for `size` bytes (1 to BPFDB_PAGE_SIZE). Returns its
 * address, 0 if there is neither a free slot nor a page for data.
 */
__noinline u64 bpfdb_slot_alloc(u32 size)
{
	u32 class = class_for(size), shard = this_shard(), page;
	u64 address;

	if (class >= BPFDB_CLASSES)
		return 0;
	address = spare_take(spares_of(shard), class);
	if (likely(address))
		return address;
	page = LOAD(class_at(class)->open[shard]);
	address = page ? slab_pop(page, class) : 0;
	if (likely(address))
		return address;
	address = slot_from_list(class, &page);
	if (!address) {
		page = slab_create(class, FOR_DATA);
		address = page ? slab_pop(page, class) : 0;
	}
	/* The shard once more: to keep it would take stack that callers need. */
	if (address)
		slab_open(class, this_shard(), page);
	return address;
}

/* The same from a fresh page, which may be one of the reserve. A function of its own: the
 * purpose as an argument of the one above would take stack that callers need. */
__noinline u64 slot_from_reserve(u32 size)
{
	u32 class = class_for(size), page;
	u64 address;

	if (class >= BPFDB_CLASSES)
		return 0;
	page = slab_create(class, FOR_FREEING);
	address = page ? slab_pop(page, class) : 0;
	if (address)
		slab_open(class, this_shard(), page);
	return address;
}

static __always_inline u64 slot_alloc_for(u32 size, enum purpose purpose)
{
	u64 address = bpfdb_slot_alloc(size);

	if (unlikely(!address) && purpose == FOR_FREEING)
		address = slot_from_reserve(size);
	return address;
}

/* Puts a slot into the list of its slab, or makes it the spare of a shard (0: of
 * none). The class comes from the slab. */
static __always_inline int slot_return(u64 address, u64 *spares)
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
	if (spares && likely(!LOAD(slab->closing)) && likely(spare_keep(spares, class, address)))
		return BPFDB_OK;
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

/* Gives a slot back. */
__noinline int bpfdb_slot_free(u64 address)
{
	return slot_return(address, spares_of(this_shard()));
}

#endif
