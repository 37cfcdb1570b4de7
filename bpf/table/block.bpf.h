/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * One block: its checksum, and the search in it. `base` is where it begins in the chain's buffer.
 */
#ifndef BPFDB_TABLE_BLOCK_BPF_H
#define BPFDB_TABLE_BLOCK_BPF_H

#include "state.bpf.h"

/* XXH64, as its specification has it. */
#define PRIME_1 0x9E3779B185EBCA87ULL
#define PRIME_2 0xC2B2AE3D27D4EB4FULL
#define PRIME_3 0x165667B19E3779F9ULL
#define PRIME_4 0x85EBCA77C2B2AE63ULL
#define STRIPE 32
#define CHECKSUM 8

static __always_inline u64 rotated(u64 x, u32 bits)
{
	return x << bits | x >> (64 - bits);
}

static __always_inline u64 lane_add(u64 lane, u64 word)
{
	return rotated(lane + word * PRIME_2, 31) * PRIME_1;
}

static __always_inline u64 lane_merge(u64 hash, u64 lane)
{
	return (hash ^ lane_add(0, lane)) * PRIME_1 + PRIME_4;
}

static __always_inline u64 word_merge(u64 hash, u64 word)
{
	return rotated(hash ^ lane_add(0, word), 27) * PRIME_1 + PRIME_4;
}

/*
 * Whether the checksum of a block of `size` bytes is right. What it is of, all but the first eight bytes,
 * are whole stripes and three words.
 */
__noinline int block_is_whole(u32 chain, u32 base, u32 size, u64 seed)
{
	u64 a = seed + PRIME_1 + PRIME_2, b = seed + PRIME_2, c = seed, d = seed - PRIME_1;
	u32 stripes = size / STRIPE - 1, at = base + CHECKSUM, i = START;
	u64 hash;

	each(i, stripes)
	{
		u64 *words = (u64 *)buffer_at(chain, at);

		a = lane_add(a, words[0]);
		b = lane_add(b, words[1]);
		c = lane_add(c, words[2]);
		d = lane_add(d, words[3]);
		at += STRIPE;
	}
	if (i < stripes)
		return false;
	hash = rotated(a, 1) + rotated(b, 7) + rotated(c, 12) + rotated(d, 18);
	hash = lane_merge(lane_merge(lane_merge(lane_merge(hash, a), b), c), d);
	hash += size - CHECKSUM;
	hash = word_merge(hash, load_u64(chain, at));
	hash = word_merge(hash, load_u64(chain, at + 8));
	hash = word_merge(hash, load_u64(chain, at + 16));
	hash = (hash ^ hash >> 33) * PRIME_2;
	hash = (hash ^ hash >> 29) * PRIME_3;
	return (hash ^ hash >> 32) == load_u64(chain, base);
}

/* Which of a chain's keys. */
enum bound {
	FROM,
	TO,
};

/* What a comparison, or a search, gives if it cannot be made. */
#define WRONG (-1)

enum order {
	LESS,
	EQUAL,
	GREATER,
};

/* How a key of a block compares with one of the chain's; or WRONG. */
__noinline int key_compare(u32 chain, u32 at, u32 len, u32 bound)
{
	struct bpfdb_table_chain *c = chain_at(chain);
	const u64 *key = bound == TO ? c->to : c->from;
	u32 key_len = bound == TO ? c->to_len : c->from_len;
	u32 common = len < key_len ? len : key_len;
	u32 words = (common + 7) / 8, i = START;

	each(i, words)
	{
		u32 index = i & (BPFDB_TABLE_KEY_MAX / 8 - 1);
		u64 ours = __builtin_bswap64(LOAD(key[index]));
		u64 other = __builtin_bswap64(load_u64(chain, at + i * 8));
		u32 left = common - i * 8;

		if (left < 8) {
			ours >>= 64 - 8 * (left & 7);
			other >>= 64 - 8 * (left & 7);
		}
		if (other != ours)
			return other < ours ? LESS : GREATER;
	}
	if (i < words)
		return WRONG;
	return len == key_len ? EQUAL : len < key_len ? LESS : GREATER;
}

/* An entry, within its block. */
struct entry {
	u32 key_at, key_len;
	u32 value_at, value_len; /* of a leaf */
};

static __always_inline bool entry_find(u32 chain, u32 base, u32 index, bool is_leaf,
				       struct entry *entry)
{
	u32 size = memory.shape.block_size;
	u32 place = load_u16(chain, base + BPFDB_TABLE_HEAD + index * 2);
	u32 head = is_leaf ? BPFDB_TABLE_LEAF_ENTRY : BPFDB_TABLE_INNER_ENTRY;

	if (place + head > size)
		return false;
	entry->key_at = base + place + head;
	entry->key_len = load_u16(chain, base + place);
	entry->value_at = entry->key_at + entry->key_len;
	entry->value_len = is_leaf ? load_u16(chain, base + place + 2) : 0;
	return place + head + entry->key_len + entry->value_len <= size;
}

/*
 * How many entries from `first` on are before the bound, or with `or_equal` not behind it, plus `first`; or
 * WRONG. A block has fewer than 2^16 entries, so each search ends within seventeen rounds.
 */
__noinline int block_search(u32 chain, u32 base, u32 first, u32 bound)
{
	bool is_leaf = !load_u16(chain, base + 8);
	u32 low = first, high = load_u16(chain, base + 10), i = START;

	each(i, 18)
	{
		u32 middle = (low + high) / 2;
		struct entry entry;
		int order;

		if (low >= high)
			return low;
		if (!entry_find(chain, base, middle, is_leaf, &entry))
			return WRONG;
		order = key_compare(chain, entry.key_at, entry.key_len, bound);
		if (order == WRONG)
			return WRONG;
		/* A child begins with its key; an entry of a leaf is its key. */
		if (order == LESS || (order == EQUAL && !is_leaf))
			low = middle + 1;
		else
			high = middle;
	}
	return WRONG;
}

#endif
