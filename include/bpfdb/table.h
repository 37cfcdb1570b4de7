/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Tables: what the program that reads them in the kernel (bpf/table) and the crate bpfdb-table share.
 * docs/formats/tables.md has the file byte by byte, bpf/table/state.bpf.h the protocol between the two.
 */
#ifndef BPFDB_TABLE_H
#define BPFDB_TABLE_H

#include <linux/types.h>
#include <bpfdb/ring.h>

/* The file. */
#define BPFDB_TABLE_VERSION 1
/* Sizes of a block, bytes; powers of two. */
#define BPFDB_TABLE_BLOCK_MIN 512
#define BPFDB_TABLE_BLOCK_MAX 65536
/* Blocks from the root to a leaf, both included. */
#define BPFDB_TABLE_DEPTH_MAX 16
/* Longest key, bytes. */
#define BPFDB_TABLE_KEY_MAX 512

/* What a block of the tree begins with. Numbers are little-endian. */
struct bpfdb_table_block {
	__u64 checksum; /* XXH64 of all bytes of the block behind this one */
	__u16 level; /* 0: a leaf */
	__u16 count; /* entries */
	__u32 zero;
	__u64 first; /* number of the block of the first child; 0 in a leaf */
};

/* Places of entries, __u16 each, follow; then the entries. An entry of a leaf is the lengths of key and value,
 * __u16 each, the key, and the value; any other is the length of the key, __u16, and the key. */
#define BPFDB_TABLE_HEAD 24
#define BPFDB_TABLE_LEAF_ENTRY 4
#define BPFDB_TABLE_INNER_ENTRY 2

/* Types of a field. */
enum bpfdb_table_type {
	BPFDB_TABLE_U8 = 0,
	BPFDB_TABLE_U16,
	BPFDB_TABLE_U32,
	BPFDB_TABLE_U64,
	BPFDB_TABLE_I8,
	BPFDB_TABLE_I16,
	BPFDB_TABLE_I32,
	BPFDB_TABLE_I64,
	BPFDB_TABLE_TEXT, /* a decimal number, to the end of the value; as an I64 */
};

/* Longest text of a number: that of the least one. */
#define BPFDB_TABLE_TEXT_MAX 20

/* Chains of reads at the same time; a power of two. */
#define BPFDB_TABLE_CHAINS 64
/* Bytes that a chain can read at once. */
#define BPFDB_TABLE_BUFFER 65536
#define BPFDB_TABLE_BUFFERS (BPFDB_TABLE_CHAINS * BPFDB_TABLE_BUFFER)
/* Behind the buffers: words are loaded that begin in one. */
#define BPFDB_TABLE_PAD 4096

/*
 * The pool, which programs and the process share: docs/decisions/0051-buffer-pool.md. Frames' blocks lie one
 * behind the other in segments.
 */
#define BPFDB_TABLE_SEGMENT 65536
struct bpfdb_table_frame {
	__u64 version; /* odd: it is being filled */
	__u64 block; /* its number; 0: none yet */
	__u32 is_used; /* since CLOCK's hand came by */
	__u32 pad[3];
};

struct bpfdb_table_segment {
	__u64 words[BPFDB_TABLE_SEGMENT / 8];
};

/* For each block of the table the frame that it was put into last, plus 1; 0: none. */
#define BPFDB_TABLE_HINTS 16
struct bpfdb_table_hints {
	__u32 frames[BPFDB_TABLE_HINTS];
};

/* Frames that are looked at for one that may be taken. */
#define BPFDB_TABLE_CLAIMS 64

enum bpfdb_table_operation {
	BPFDB_TABLE_GET = 0, /* the value of the key `from` */
	BPFDB_TABLE_SCAN, /* the leaves from that which may have `from`, as many as are read at once */
	BPFDB_TABLE_COUNT, /* entries from `from` on, before `to` */
	BPFDB_TABLE_FIELDS, /* the same, and sum, least and greatest of a field */
};

/* `state` of a chain: bpf/table/state.bpf.h draws them. */
enum bpfdb_table_state {
	BPFDB_TABLE_FREE = 0,
	BPFDB_TABLE_READY,
	BPFDB_TABLE_RUNNING,
	BPFDB_TABLE_DONE,
	BPFDB_TABLE_ABANDONED,
	BPFDB_TABLE_CLAIMED, /* a program of others has it */
};

/* How a chain has ended. */
enum bpfdb_table_outcome {
	BPFDB_TABLE_FOUND = 0, /* and what is no GET */
	BPFDB_TABLE_ABSENT,
	BPFDB_TABLE_DAMAGED, /* the block `block` is not as it was written */
	BPFDB_TABLE_FAILED, /* a read of the block `block` has failed: `error` */
	BPFDB_TABLE_CROWDED, /* the submission queue was full */
	/* What programs of others are told besides (bpf/table/ask.bpf.h). */
	BPFDB_TABLE_PENDING, /* it has not ended: ask again */
	BPFDB_TABLE_LOST, /* the token is of no question, or of one that was forgotten */
};

/* No `to`: until the end of the table. */
#define BPFDB_TABLE_NO_END 0xffffffffU

struct bpfdb_table_chain {
	__u32 state; /* enum bpfdb_table_state; a futex */
	__u32 generation; /* of the call that has the place */
	__u32 is_waited; /* the futex must be woken */
	__u32 operation; /* enum bpfdb_table_operation */
	__u64 block; /* number of the first block that is read; of the one that is wrong */
	__u32 level; /* of these */
	__u32 reading; /* how many */
	__u32 span; /* leaves that are read at once, at most; 1 or more */
	__u32 is_inside; /* the first leaf of the range was looked at */
	__u32 outcome; /* enum bpfdb_table_outcome */
	__s32 error; /* result of a read that has failed: an errno, negative, or bytes */
	__u32 value_at; /* of a GET: bytes from the beginning of the buffer */
	__u32 value_len;
	__u32 from_len;
	__u32 to_len; /* or BPFDB_TABLE_NO_END */
	__u32 field_at; /* bytes from the beginning of the value */
	__u32 field_type; /* enum bpfdb_table_type */
	__u64 left; /* leaves that a COUNT or a FIELDS may still look at: then it ends, though the range goes on */
	__u64 is_over; /* of these: nothing of the range is behind the leaves that were looked at */
	__u64 heard; /* when a read was submitted last, or a program has asked; by the kernel's clock, ns */
	__u64 reads; /* that were submitted */
	__u64 pooled; /* blocks that were in the pool */
	__u64 entries; /* in the range */
	__u64 fields; /* of these, how many have the field */
	__u64 sum; /* of the fields, 128 bits */
	__u64 sum_high;
	__u64 least; /* of a type with a sign: plus 2^63, so that the order is that of numbers without one */
	__u64 greatest;
	__u64 number; /* of the program: the field of one entry */
	__u64 from[BPFDB_TABLE_KEY_MAX / 8];
	__u64 to[BPFDB_TABLE_KEY_MAX / 8];
} __attribute__((aligned(64)));

/* What the programs get before the ring is used. */
struct bpfdb_table_shape {
	__u64 id; /* of the table: seeds the checksums */
	__u64 root; /* number of its block */
	__u64 leaves; /* their blocks are numbered from 1 */
	__u32 depth;
	__u32 block_size;
	__u64 buffers; /* address of the buffers in the process */
	__u64 states; /* address of the chains there */
	__u64 hello; /* user data of the doorbell's poll: random */
	__u32 doorbell; /* its file */
	__u32 frames; /* of the pool; 0: there is none */
	__u32 bell; /* file of the map by which programs of others ring */
	__u32 programs; /* chains that these have: the last ones; 0: none */
};

struct bpfdb_table_memory {
	struct bpfdb_ring ring;
	__u8 buffers[BPFDB_TABLE_BUFFERS];
	__u8 pad[BPFDB_TABLE_PAD];
	struct bpfdb_table_chain chains[BPFDB_TABLE_CHAINS];
	struct bpfdb_table_shape shape;
	__u64 context; /* address of the ring's context in the kernel; 0: not known yet */
	__u32 hand; /* of CLOCK: the frame of the pool that is looked at next */
	__u32 pad_hand;
} __attribute__((aligned(4096)));

/* What a program asks (bpf/table/ask.bpf.h). It lies in a map: it is larger than a stack. */
struct bpfdb_table_request {
	__u32 operation; /* enum bpfdb_table_operation, but no SCAN */
	__u32 field_at; /* of FIELDS: bytes from the beginning of the value */
	__u32 field_type; /* enum bpfdb_table_type */
	__u32 from_len; /* of the key, or of the first one of the range */
	__u32 to_len; /* or BPFDB_TABLE_NO_END */
	__u32 pad;
	__u64 from[BPFDB_TABLE_KEY_MAX / 8];
	__u64 to[BPFDB_TABLE_KEY_MAX / 8];
};

/* Bytes of a value that an answer has. */
#define BPFDB_TABLE_ANSWER 1024

struct bpfdb_table_answer {
	__u32 value_len; /* of a GET; of a longer value than there is room for the beginning is there */
	__u32 pad;
	__u64 entries; /* in the range */
	__u64 fields; /* of these, how many have the field */
	__u64 sum; /* 128 bits */
	__u64 sum_high;
	__u64 least; /* with their sign, if the type has one */
	__u64 greatest;
	__u64 value[BPFDB_TABLE_ANSWER / 8];
};

#endif
