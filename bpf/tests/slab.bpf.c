// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* storage/slab.bpf.h: size classes, slots, pages, lists. */
#include "test.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

TEST(size_classes_fit_tightly)
{
	for (u32 size = UNKNOWN(1); size <= BPFDB_PAGE_SIZE && can_loop; size++) {
		u32 class = class_of_size(size);

		EXPECT(class < BPFDB_CLASSES);
		EXPECT(class_size(class) >= size);
		EXPECT(class_size(class) % BPFDB_GRAIN == 0);
		/* The next smaller one is too small. */
		EXPECT(!class || class_size(class - 1) < size);
	}
	EXPECT(class_of_size(16) == 0 && class_size(0) == 32);
	EXPECT(class_of_size(BPFDB_PAGE_SIZE) == BPFDB_CLASSES - 1);
	EXPECT(class_of_size(32769) == BPFDB_CLASSES - 1);
	EXPECT(class_of_size(32768) == BPFDB_CLASSES - 2);
	EXPECT(class_size(class_of_size(100)) == 112 && class_size(class_of_size(129)) == 160);
	EXPECT(class_size(class_of_size(4096)) == 4096);
	EXPECT(class_size(class_of_size(7000)) == 7280);
	return 0;
}

/* A slot is at most a quarter and a grain longer than what it holds, as long as more
 * than a few of them make a page; and a page's slots leave little of it. */
TEST(slots_waste_little)
{
	repeat(class, BPFDB_CLASSES - 1)
	{
		u32 size = class_size(class), capacity = class_capacity(class);

		EXPECT(class_size(class + 1) * 4 <= size * 5 + 4 * BPFDB_GRAIN || capacity <= 4);
		EXPECT(capacity * size >= BPFDB_PAGE_SIZE / 32 * 31);
	}
	return 0;
}

TEST(slots_of_a_class_fill_its_page)
{
	repeat(class, BPFDB_CLASSES)
	{
		u32 bytes = class_capacity(class) * class_size(class);

		EXPECT(bytes <= BPFDB_PAGE_SIZE);
		EXPECT(bytes + class_size(class) > BPFDB_PAGE_SIZE);
	}
	return 0;
}

/* Allocates up to `most` slots that form a chain: word 0 links, word 1 counts.
 * Returns the last one. */
__noinline u64 chain_alloc(u32 size, u32 most)
{
	u64 last = 0;

	repeat(i, most)
	{
		u64 address = bpfdb_slot_alloc(size), *slot;

		slot = address ? bpfdb_at(address) : NULL;
		if (!slot || address % BPFDB_GRAIN)
			break;
		slot[0] = last;
		slot[1] = i + 1;
		last = address;
	}
	return last;
}

__noinline u32 chain_count(u64 last)
{
	u64 *slot = last ? bpfdb_at(last) : NULL;

	return slot ? slot[1] : 0;
}

#define DAMAGED (~0ULL)

/* Frees the last slot of the chain; the one before it, DAMAGED if another operator
 * else wrote to the slot. */
__noinline u64 chain_step(u64 last)
{
	u64 *slot = bpfdb_at(last), next;

	if (!slot)
		return DAMAGED;
	next = slot[0];
	if (slot[1] != chain_count(next) + 1 || bpfdb_slot_free(last) != BPFDB_OK)
		return DAMAGED;
	return next;
}

/* Frees the chain; how many slots it had, 0 if one was damaged. */
__noinline u32 chain_free(u64 last)
{
	u32 count = chain_count(last);

	repeat(i, 1u << 20)
	{
		if (!last)
			return count;
		last = chain_step(last);
		if (last == DAMAGED)
			break;
	}
	return 0;
}

TEST(slots_do_not_overlap)
{
	u32 size = UNKNOWN(1);

	repeat(i, BPFDB_CLASSES)
	{
		u64 last = chain_alloc(size, 150);

		EXPECT(chain_free(last) == 150);
		size = size * 17 / 10 + 20;
		if (size > BPFDB_PAGE_SIZE)
			break;
	}
	return 0;
}

TEST(a_slab_that_is_full_is_followed_by_another)
{
	struct bpfdb_class *class = class_at(0);
	u64 slabs = class->slabs, last;
	u32 count;

	last = chain_alloc(32, 5000);
	count = chain_count(last);
	EXPECT(count == 5000);
	EXPECT(class->slabs >= slabs + 2);
	EXPECT(chain_free(last) == count);
	/* What is free again is used before another page is. */
	slabs = class->slabs;
	last = chain_alloc(32, 5000);
	count = chain_count(last);
	EXPECT(class->slabs == slabs);
	EXPECT(chain_free(last) == count);
	return 0;
}

TEST(empty_slabs_are_reclaimed)
{
	u64 free = engine.pages_free_count.value, last;
	u32 count, found;

	last = chain_alloc(1000, 640);
	count = chain_count(last);
	EXPECT(count == 640);
	EXPECT(chain_free(last) == count);
	spares_release(class_of_size(1000));
	found = reclaim_from_class(class_of_size(1000), 64);
	/* Ten slabs; the open one of this processor is not in the list. */
	EXPECT(found >= 9);
	EXPECT(engine.pages_free_count.value == free + found);
	return 0;
}

TEST(a_slot_that_was_freed_is_the_next_of_its_class)
{
	u64 first = bpfdb_slot_alloc(5000), second = bpfdb_slot_alloc(5000), word;
	u32 class = class_of_size(5000);
	struct bpfdb_slab *slab;

	EXPECT(first && second && first != second);
	EXPECT(bpfdb_slot_free(first) == BPFDB_OK);
	slab = slab_of_page(page_of(first));
	EXPECT(slab);
	word = slab->word;
	/* A spare is not in its slab, and is no other class's. */
	EXPECT(bpfdb_slot_alloc(5001) == first);
	EXPECT(slab->word == word);
	EXPECT(bpfdb_slot_free(first) == BPFDB_OK);
	EXPECT(bpfdb_slot_free(second) == BPFDB_OK);
	EXPECT(spares_release(class) == 1);
	EXPECT(spares_release(class) == 0);
	EXPECT(slab->word != word);
	return 0;
}

TEST(a_slab_in_use_is_not_reclaimed)
{
	u32 class = class_of_size(3000), count;
	struct bpfdb_slab *slab;
	u64 kept, last;

	while (reclaim_from_class(class, 64) && can_loop)
		;
	kept = bpfdb_slot_alloc(3000);
	last = chain_alloc(3000, 200);
	count = chain_count(last);
	EXPECT(kept && count == 200);
	EXPECT(chain_free(last) == count);
	reclaim_from_class(class, 64);
	slab = slab_of_page(page_of(kept));
	EXPECT(slab && slab->class_ == class);
	EXPECT(bpfdb_slot_free(kept) == BPFDB_OK);
	return 0;
}

/* All memory goes to one class, comes back, and serves another. */
TEST(exhaustion_is_said_and_memory_comes_back)
{
	struct bpfdb_session *s = test_session();
	u32 count, again;
	u64 last;

	EXPECT(s);
	while (bpfdb_memory_reclaim() && can_loop)
		;
	last = chain_alloc(BPFDB_PAGE_SIZE, 100000);
	count = chain_count(last);
	EXPECT(count > 400 && count < 2000);
	EXPECT(bpfdb_slot_alloc(BPFDB_PAGE_SIZE) == 0);
	EXPECT(no_memory() == BPFDB_OUT_OF_MEMORY);
	EXPECT(bpfdb_value_alloc(s, BPFDB_VALUE_MAX) == BPFDB_OUT_OF_MEMORY);
	EXPECT(chain_free(last) == count);
	EXPECT(bpfdb_value_alloc(s, 20000) == BPFDB_OK);
	EXPECT(bpfdb_slot_free(s->value[0]) == BPFDB_OK);
	while (bpfdb_memory_reclaim() && can_loop)
		;
	last = chain_alloc(BPFDB_PAGE_SIZE, 100000);
	again = chain_count(last);
	EXPECT(again + 2 >= count);
	EXPECT(chain_free(last) == again);
	while (bpfdb_memory_reclaim() && can_loop)
		;
	bpfdb_session_close(s);
	return 0;
}

TEST(void_addresses_are_refused)
{
	u64 outside = (u64)config.segments_max << BPFDB_SEGMENT_BITS;

	EXPECT(bpfdb_slot_free(outside) == BPFDB_CORRUPT);
	EXPECT(bpfdb_at(outside) == NULL);
	EXPECT(bpfdb_slot_alloc(0) == 0);
	EXPECT(bpfdb_slot_alloc(BPFDB_PAGE_SIZE + 1) == 0);
	return 0;
}

TEST(a_stale_slab_word_does_not_come_back)
{
	u64 address = bpfdb_slot_alloc(100), again, word;
	struct bpfdb_slab *slab = slab_of_page(page_of(address));

	EXPECT(address && slab);
	word = slab->word;
	EXPECT(slot_return(address, NULL) == BPFDB_OK);
	again = bpfdb_slot_alloc(100);
	/* The same slot, head and number of free slots; another tag. */
	EXPECT(again == address);
	EXPECT((word & (BPFDB_SLAB_TAG - 1)) == (slab->word & (BPFDB_SLAB_TAG - 1)));
	EXPECT(word != slab->word);
	EXPECT(CAS(&slab->word, word, 0) != word);
	EXPECT(bpfdb_slot_free(again) == BPFDB_OK);
	return 0;
}

u64 test_list;

TEST(a_stale_list_head_does_not_come_back)
{
	u32 a = config.pages_max - 1, b = config.pages_max - 2;
	struct bpfdb_slab *slab_a = slab_of_page(a), *slab_b = slab_of_page(b);
	u64 stale;

	EXPECT(slab_a && slab_b);
	EXPECT(list_pop(&test_list) == 0);
	EXPECT(list_push(&test_list, a, slab_a));
	EXPECT(list_push(&test_list, b, slab_b));
	stale = test_list;
	EXPECT(list_pop(&test_list) == b);
	EXPECT(list_pop(&test_list) == a);
	EXPECT(list_push(&test_list, b, slab_b));
	/* b is first again, but what follows is not what it was. */
	EXPECT((u32)test_list == (u32)stale && test_list != stale);
	EXPECT(CAS(&test_list, stale, (u64)a) != stale);
	EXPECT(list_pop(&test_list) == b);
	EXPECT(list_pop(&test_list) == 0);
	return 0;
}

/* As a number: in a map, for the verifier allows no arithmetic with the pointer. */
static u64 address_taken;

static __always_inline bool begins_line(const void *p)
{
	STORE(address_taken, (u64)p);
	return p && LOAD(address_taken) % BPFDB_LINE_SIZE == 0;
}

/* What abi.h says of offsets holds of addresses, if these begin with a line. */
TEST(processors_do_not_share_lines)
{
	struct bpfdb_slab *slab;
	struct bpfdb_session *s;

	EXPECT(begins_line(&engine));
	EXPECT(begins_line(&engine.clock) && begins_line(&engine.time));
	EXPECT(begins_line(&engine.spares[1]) && begins_line(&engine.classes[1].open));
	for (u32 i = 0; i < 3; i++) {
		s = bpfdb_session(i);
		slab = slab_of_page(i + 1);
		EXPECT(s && begins_line(s) && begins_line(s->locks) && begins_line(s->key));
		EXPECT(slab && begins_line(slab));
	}
	return 0;
}
