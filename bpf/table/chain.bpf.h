/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* A chain: from the root to its end. */
#ifndef BPFDB_TABLE_CHAIN_BPF_H
#define BPFDB_TABLE_CHAIN_BPF_H

#include "field.bpf.h"
#include "pool.bpf.h"
#include "ring.bpf.h"

static __always_inline u64 chain_user_data(u32 chain, const struct bpfdb_table_chain *c)
{
	return KIND_READ << KIND_SHIFT | (u64)c->generation << GENERATION_SHIFT | chain;
}

static __always_inline void chain_end(u32 chain, struct bpfdb_table_chain *c, u32 outcome)
{
	c->outcome = outcome;
	if (CAS(&c->state, BPFDB_TABLE_RUNNING, BPFDB_TABLE_DONE) != BPFDB_TABLE_RUNNING) {
		/* ABANDONED. */
		STORE_RELEASE(c->state, BPFDB_TABLE_FREE);
		return;
	}
	if (LOAD(c->is_waited))
		ring_wake(chain);
}

/* Reads `reading` blocks from `block` on. */
static __always_inline void chain_submit(u32 chain, struct bpfdb_table_chain *c)
{
	u32 size = memory.shape.block_size;

	c->reads++;
	STORE(c->heard, bpf_ktime_get_ns());
	if (!chain_ring_read(chain, c->block * size, c->reading * size, chain_user_data(chain, c)))
		chain_end(chain, c, BPFDB_TABLE_CROWDED);
}

/* Leaves that are read at once, from `block` on. */
static __always_inline u32 chain_span(const struct bpfdb_table_chain *c)
{
	u64 left = memory.shape.leaves + 1 - c->block;

	if (c->left < left)
		left = c->left;
	return left < c->span ? left : c->span;
}

/* Whether all blocks that were read are what they were, and of the level. If not, `block` is the first that is not. */
__noinline int chain_check(u32 chain)
{
	struct bpfdb_table_chain *c = chain_at(chain);
	u32 size = memory.shape.block_size, reading = c->reading, i = START;

	each(i, reading)
	{
		u32 base = i * size;

		if (!block_is_whole(chain, base, size, memory.shape.id + c->block + i) ||
		    load_u16(chain, base + 8) != c->level) {
			c->block += i;
			return false;
		}
	}
	return i == reading;
}

/* Whether the pool may have the block, and is to get it: what a look-up needs. */
static __always_inline bool chain_is_pooled(const struct bpfdb_table_chain *c)
{
	bool is_range = c->operation == BPFDB_TABLE_COUNT || c->operation == BPFDB_TABLE_FIELDS;

	return memory.shape.frames && c->reading == 1 && (c->level || !is_range);
}

/* The block of a child is the next; false: the chain has ended. */
static __always_inline bool chain_descend(u32 chain, struct bpfdb_table_chain *c)
{
	int behind = block_search(chain, 0, 1, FROM), count = load_u16(chain, 10);
	u64 child = load_u64(chain, 16) + behind - 1;

	/* Children are in front of their parent: a chain ends, whatever the file has. */
	if (behind < 1 || behind > count || child < 1 || child >= c->block ||
	    (c->level == 1 && child > memory.shape.leaves)) {
		chain_end(chain, c, BPFDB_TABLE_DAMAGED);
		return false;
	}
	c->block = child;
	c->level--;
	c->reading = c->level ? 1 : chain_span(c);
	return true;
}

static __always_inline void chain_get(u32 chain, struct bpfdb_table_chain *c)
{
	int index = block_search(chain, 0, 0, FROM), count = load_u16(chain, 10);
	u32 outcome = BPFDB_TABLE_ABSENT;
	struct entry entry;

	if (index < 0) {
		outcome = BPFDB_TABLE_DAMAGED;
	} else if (index < count) {
		if (!entry_find(chain, 0, index, true, &entry)) {
			outcome = BPFDB_TABLE_DAMAGED;
		} else if (key_compare(chain, entry.key_at, entry.key_len, FROM) == EQUAL) {
			outcome = BPFDB_TABLE_FOUND;
			c->value_at = entry.value_at;
			c->value_len = entry.value_len;
		}
	}
	chain_end(chain, c, outcome);
}

/* What came of the leaves that were read. */
enum leaves {
	LEAVES_GO_ON,
	LEAVES_END, /* the rest of the table is not in the range */
	LEAVES_WRONG,
};

/* Counts the entries of one leaf that are in the range, and adds their fields. */
__noinline int leaf_add(u32 chain, u32 base)
{
	struct bpfdb_table_chain *c = chain_at(chain);
	int count = load_u16(chain, base + 10);
	int index = 0, end = count;

	if (!c->is_inside)
		index = block_search(chain, base, 0, FROM);
	if (c->to_len != BPFDB_TABLE_NO_END)
		end = block_search(chain, base, 0, TO);
	if (index < 0 || end < 0 || index > count || end > count)
		return LEAVES_WRONG;
	c->is_inside = true;
	if (end > index) {
		c->entries += end - index;
		if (c->operation == BPFDB_TABLE_FIELDS && fields_add(chain, base, index, end) < 0)
			return LEAVES_WRONG;
	}
	return end < count ? LEAVES_END : LEAVES_GO_ON;
}

__noinline int leaves_add(u32 chain)
{
	struct bpfdb_table_chain *c = chain_at(chain);
	u32 reading = c->reading, i = START;

	each(i, reading)
	{
		int outcome = leaf_add(chain, i * memory.shape.block_size);

		if (outcome == LEAVES_WRONG)
			c->block += i;
		if (outcome != LEAVES_GO_ON)
			return outcome;
	}
	return i == reading ? LEAVES_GO_ON : LEAVES_WRONG;
}

/* The leaves behind are the next; false: the chain has ended. */
static __always_inline bool chain_add(u32 chain, struct bpfdb_table_chain *c)
{
	int outcome = leaves_add(chain);

	if (outcome == LEAVES_WRONG) {
		chain_end(chain, c, BPFDB_TABLE_DAMAGED);
		return false;
	}
	c->is_over = outcome == LEAVES_END || c->block + c->reading > memory.shape.leaves;
	if (c->is_over || c->left <= c->reading) {
		chain_end(chain, c, BPFDB_TABLE_FOUND);
		return false;
	}
	c->left -= c->reading;
	c->block += c->reading;
	c->reading = chain_span(c);
	return true;
}

/* Looks at the blocks that are in the buffer; true: others are the next. */
static __always_inline bool chain_look(u32 chain, struct bpfdb_table_chain *c)
{
	if (c->level)
		return chain_descend(chain, c);
	if (c->operation == BPFDB_TABLE_GET) {
		chain_get(chain, c);
		return false;
	}
	if (c->operation == BPFDB_TABLE_SCAN) {
		chain_end(chain, c, BPFDB_TABLE_FOUND);
		return false;
	}
	return chain_add(chain, c);
}

/* Goes through the blocks that the pool has, from `block` on; true: the next one is to be read. */
__noinline int chain_follow_pool(u32 chain)
{
	struct bpfdb_table_chain *c = chain_at(chain);
	u32 i = START;

	each(i, BPFDB_TABLE_DEPTH_MAX)
	{
		if (!chain_is_pooled(c) || !pool_take(chain))
			return true;
		c->pooled++;
		if (load_u16(chain, 8) != c->level) {
			chain_end(chain, c, BPFDB_TABLE_DAMAGED);
			return false;
		}
		if (!chain_look(chain, c))
			return false;
	}
	/* So many levels no table has. */
	chain_end(chain, c, BPFDB_TABLE_DAMAGED);
	return false;
}

static __always_inline void chain_go_on(u32 chain)
{
	if (chain_follow_pool(chain))
		chain_submit(chain, chain_at(chain));
}

/* A read has completed. */
static __always_inline void chain_read(u32 chain, s32 result)
{
	struct bpfdb_table_chain *c = chain_at(chain);

	if (LOAD(c->state) != BPFDB_TABLE_RUNNING) {
		chain_end(chain, c, BPFDB_TABLE_FAILED);
		return;
	}
	if (result != (s32)(c->reading * memory.shape.block_size)) {
		c->error = result;
		chain_end(chain, c, BPFDB_TABLE_FAILED);
		return;
	}
	if (!chain_check(chain)) {
		chain_end(chain, c, BPFDB_TABLE_DAMAGED);
		return;
	}
	if (chain_is_pooled(c))
		pool_put(chain);
	if (chain_look(chain, c))
		chain_go_on(chain);
}

/* Those that the process has made READY, or a program. */
static __always_inline void chains_start(void)
{
	u32 chain = START;

	each(chain, BPFDB_TABLE_CHAINS)
	{
		struct bpfdb_table_chain *c = chain_at(chain);

		if (LOAD(c->state) == BPFDB_TABLE_READY &&
		    CAS(&c->state, BPFDB_TABLE_READY, BPFDB_TABLE_RUNNING) == BPFDB_TABLE_READY)
			chain_go_on(chain);
	}
}

#endif
