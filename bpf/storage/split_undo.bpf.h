/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Undoing a split that cannot be finished: a bucket found no room in the sibling, which
 * others have filled since the split was begun. Bucket by bucket, what is in the sibling
 * comes back, and the sibling is retired as after a merge (merge.bpf.h). If a bucket is
 * latched the split goes on as it stands, and the operator that takes it up finishes or undoes it:
 * invariant 1 of split.bpf.h.
 */
#ifndef BPFDB_SPLIT_UNDO_BPF_H
#define BPFDB_SPLIT_UNDO_BPF_H

#include "bucket_merge.bpf.h"
#include "split_pass.bpf.h"

/* The other way round: the sibling's bucket comes back. */
static long split_bucket_back(u64 index, struct split *split)
{
	split_note(split, bucket_merge(split->page, split->sibling, index, split->level + 1));
	return 0;
}

/* The split has not been: the sibling is found no more. False if it goes on. */
static __always_inline bool split_undo(struct split *split, struct bpfdb_slab *slab)
{
	struct bpfdb_slab *sibling = slab_of_page(split->sibling);

	split->left_behind = split->no_room = LOAD(engine.zero);
	bpf_loop(BPFDB_CELLS_PER_PAGE, split_bucket_back, split, 0);
	if (!sibling || split->left_behind)
		return false;
	STORE_RELEASE(slab->sibling, 0);
	STORE_RELEASE(sibling->class_, BPFDB_PAGE_RETIRED);
	ADD(&engine.index_pages.value, -1);
	return true;
}

#endif
