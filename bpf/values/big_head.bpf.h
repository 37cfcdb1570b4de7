/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The head of a large collection (docs/formats/large-collections.md). */
#ifndef BPFDB_VALUES_BIG_HEAD_BPF_H
#define BPFDB_VALUES_BIG_HEAD_BPF_H

#include <bpfdb/types.bpf.h>

/* The value at the collection's key. */
struct big_head {
	u32 count; /* as in the header of a packed run: 0 */
	u32 used; /* bytes behind these four words */
	u32 longest;
	u32 flags;
	u64 identity; /* names the pages */
	u64 elements;
	u64 bytes; /* of keys and values */
	u64 secret[2]; /* of the hash */
	u64 buckets;
	u64 next_page; /* number of the next page of the tree */
};

_Static_assert(sizeof(struct big_head) == 72, "a head has no gaps");

#endif
