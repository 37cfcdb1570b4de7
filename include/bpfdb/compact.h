/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Rewriting of runs, the files of cold values: what the program that finds live entries (bpf/tier) and the crate
 * bpfdb-tier share. bpf/tier/compact.bpf.h has the protocol, docs/formats/runs.md the file.
 */
#ifndef BPFDB_COMPACT_H
#define BPFDB_COMPACT_H

#include <linux/types.h>
#include <bpfdb/run.h>

/* Bytes of a run that are in memory at the same time, a part; a power of two. */
#define BPFDB_COMPACT_PART (1 << 21)
/* Parts begin at multiples of this, bytes. */
#define BPFDB_COMPACT_BLOCK 4096
/* Longest entry that is rewritten, bytes: whatever its place, a part that begins with its block has all of it. */
#define BPFDB_COMPACT_ENTRY (BPFDB_COMPACT_PART - BPFDB_COMPACT_BLOCK)
/* Behind the buffer: words are loaded that begin in it. */
#define BPFDB_COMPACT_PAD 4096
/* Live entries of a part that can be listed; a power of two. */
#define BPFDB_COMPACT_LIVE (1 << 14)
/* Places that one execution of the program looks at: other programs wait for it on kernels that do not preempt it. */
#define BPFDB_COMPACT_LOOKS 512

/* An entry that a version names. */
struct bpfdb_compact_live {
	__u64 id; /* of the version's value: no other ever has it */
	__u32 at; /* where the entry begins, bytes from the beginning of the buffer */
	__u32 pad;
};

struct bpfdb_compact_memory {
	__u8 buffer[BPFDB_COMPACT_PART];
	__u8 pad[BPFDB_COMPACT_PAD];
	struct bpfdb_compact_live lives[BPFDB_COMPACT_LIVE];
	__u64 engine; /* its identity */
	__u64 run; /* number */
	__u64 start; /* place in the run of the buffer's first byte: a multiple of a block */
	__u32 bytes; /* of the buffer that are the run's */
	__u32 is_last; /* the run ends with them */
	/* In: the first place to look at. Out: the first one that was not looked at; it may be behind `bytes`.
	 * Bytes from the beginning of the buffer, multiples of 16. */
	__u32 at;
	__u32 live; /* entries that a version names */
	__u32 session; /* the program's own */
	__u32 pad2;
} __attribute__((aligned(4096)));

#endif
