/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The directory of the index: which page answers for which bits of a hash. It is changed by the
 * holder of `directory_latch` only, and read by every operator (bucket_find, index_read.bpf.h).
 */
#ifndef BPFDB_DIRECTORY_BPF_H
#define BPFDB_DIRECTORY_BPF_H

#include "index_read.bpf.h"

struct directory_change {
	u32 first, step, value;
};

static long directory_set(u64 i, struct directory_change *change)
{
	u32 slot = change->first + i * change->step;
	u32 *entry = bpf_map_lookup_elem(&directory, &slot);

	if (entry)
		STORE_RELEASE(*entry, change->value);
	return 0;
}

/* Points all directory entries that end in `prefix` of `level` bits to `page`. */
static __always_inline void directory_point(u32 prefix, u32 level, u32 page)
{
	u32 depth = LOAD(engine.directory_depth.value);
	struct directory_change change = {prefix, 1u << (level & 31), entry_of(page, level)};

	bpf_loop(1u << ((depth - level) & 31), directory_set, &change, 0);
}

static long directory_copy(u64 i, u32 *half)
{
	u32 from = i, to = *half + i;
	u32 *old = bpf_map_lookup_elem(&directory, &from);
	u32 *new = bpf_map_lookup_elem(&directory, &to);

	if (old && new)
		STORE(*new, LOAD(*old));
	return 0;
}

/* Twice as many entries, the second half as the first. By the holder of the
 * directory's latch. */
static __always_inline void directory_double(u32 depth)
{
	u32 half = 1u << (depth & 31);

	bpf_loop(half, directory_copy, &half, 0);
	STORE_RELEASE(engine.directory_depth.value, depth + 1);
}

static __always_inline u64 *level_pages(u32 level)
{
	u64 of = level;

	OPAQUE(of);
	return &engine.level_pages[of % BPFDB_LEVEL_ENTRIES];
}

/* So many pages more of this level. By the holder of the directory's latch. */
static __always_inline void level_count(u32 level, s64 pages)
{
	STORE(*level_pages(level), LOAD(*level_pages(level)) + pages);
}

/*
 * The directory goes by fewer bits again, as few as its deepest page needs. By the
 * holder of its latch.
 *
 * The entries of the upper half, which equal those of the lower, stay as they are, and
 * become old: only an operator that read the larger depth before reads them. What it finds there
 * answered for its hash then, and as long as its bucket has the level that the
 * entry says, it does now: a page that answers for a prefix of so many bits is the
 * only one. Else it follows the links of a split or a merge, or tries again. No
 * page that it finds is released before it ends: the page was in the directory when it
 * began (merge.bpf.h). Before the depth grows again all the upper half is written anew.
 */
static __always_inline void directory_halve(void)
{
	u32 depth = LOAD(engine.directory_depth.value);

	repeat(i, BPFDB_DIRECTORY_BITS_MAX)
	{
		if (!depth || LOAD(*level_pages(depth)))
			break;
		--depth;
		STORE_RELEASE(engine.directory_depth.value, depth);
	}
}

#endif
