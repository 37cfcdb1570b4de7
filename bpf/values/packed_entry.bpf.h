/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* An entry of a packed run. */
#ifndef BPFDB_VALUES_PACKED_ENTRY_BPF_H
#define BPFDB_VALUES_PACKED_ENTRY_BPF_H

#include <bpfdb/types.bpf.h>

/* One that was found, or one that is to be written. */
struct packed_entry {
	u64 key; /* kernel addresses of the bytes of an entry to be written */
	u64 value;
	u32 key_len;
	u32 value_len;
	u32 fingerprint; /* of the key */
	u32 at; /* offset in the run */
	u32 left; /* of a search: entries from `at` on */
	u32 cut; /* bytes of the run, from `at` on, in whose place the entry is written */
};

#endif
