// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* storage/reclaim.bpf.h beside allocations, when all memory is taken. */
#include "test.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define SIZE 3000
#define SLABS 5

/* Takes slots until there are none, linked by their first word. The last one. */
__noinline u64 take_all(u32 size)
{
	u64 last = 0;

	repeat(i, 1u << 20)
	{
		u64 address = bpfdb_slot_alloc(size), *slot = address ? bpfdb_at(address) : NULL;

		if (!slot)
			break;
		slot[0] = last;
		last = address;
	}
	return last;
}

/* Frees one slot in each of SLABS slabs; how many. */
__noinline u32 free_some(u64 last)
{
	u32 freed = UNKNOWN(0), page = 0;

	repeat(i, 1u << 20)
	{
		u64 *slot = last ? bpfdb_at(last) : NULL, next;

		if (!slot || freed == SLABS)
			break;
		next = slot[0];
		if (page_of(last) != page && slot_return(last, NULL) == BPFDB_OK) {
			page = page_of(last);
			freed++;
		}
		last = next;
	}
	return freed;
}

/* A slab with free slots can be allocated from while a reclaim looks at it or at others. (They
 * were all out of the list until it was over: out of memory, with memory free.) */
TEST(others_allocate_while_slabs_are_looked_at)
{
	struct reclaim r = {.class = class_of_size(SIZE)};

	EXPECT(free_some(take_all(SIZE)) == SLABS);
	repeat(i, SLABS) EXPECT(reclaim_slab(i, &r) == 0);
	EXPECT(reclaim_slab(0, &r) == 1 && !r.found);
	EXPECT(bpfdb_slot_alloc(SIZE) && bpfdb_slot_alloc(SIZE));

	/* What it leaves is there for all, and no more than that. */
	EXPECT(!reclaim_from_class(r.class, 64));
	EXPECT(!(u32)class_at(r.class)->looked_at && (u32)class_at(r.class)->partial);
	repeat(i, SLABS - 2) EXPECT(bpfdb_slot_alloc(SIZE));
	EXPECT(!bpfdb_slot_alloc(SIZE) && no_memory() == BPFDB_OUT_OF_MEMORY);
	return 0;
}
