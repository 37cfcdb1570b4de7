/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Reading tables in the kernel: what the program shares with the process (crates/bpfdb-table).
 *
 * A chain is a number of reads of which each depends on the one before: root, blocks below it, leaves. The
 * process has an io_uring whose rings and buffers lie in memory of this program, and whose thread in the
 * kernel submits what stands in them (SQPOLL). When a read completes, the tracepoint of io_uring runs
 * the program: it checks the block, searches it, and writes the next read into the submission queue. The
 * process hears of a chain when it starts it, and when it has ended.
 *
 *   process: request, READY ── eventfd ──► poll completes ── doorbell ──► RUNNING, first read
 *                                                                           │
 *                     ┌── chain_read ◄── read completes ◄── thread of io_uring
 *                     ├── the next read ──► thread of io_uring
 *                     └── chain_end: DONE, and the futex is woken if the process waits
 *
 * A chain's state:
 *
 *   FREE ── process ──► READY ── chain_start ──► RUNNING ── chain_end ──► DONE ── process ──► FREE
 *             ▲           │                         │
 *             └─ process ─┘ (it gives up)            └── process gives up ──► ABANDONED ── chain_end ──► FREE
 *
 * 1. Only this program writes to the submission queue, after the process has put the doorbell's poll into
 *    it. So the queue's tail has one writer. Completions of one ring are posted one at a time, under its
 *    lock; should another program be there all the same (`busy`), this one does nothing, and the process gives up
 *    the chain after a while. They are posted by the thread that submits, which looks at the queue before it sleeps.
 * 2. A buffer belongs to the chain of its number. While that is RUNNING or ABANDONED, a read may write to it;
 *    the process reads it when the chain is DONE.
 * 3. Nothing is believed of a block before its checksum is right, which is seeded with the table and with the
 *    block's number. Lengths and places are looked at all the same: every access is within the buffer.
 * 4. The tracepoint is that of all rings of the machine. A completion is ours if its ring is the one in
 *    which the doorbell completed, whose user data is random.
 * 5. A chain that ends with anything but FOUND or ABSENT has answered nothing: the process reads the table itself.
 * 6. Blocks that the pool has are not read (pool.bpf.h). The process makes its maps, which chains of others may use, too.
 * 7. A completion of a chain that was given up before does not touch the next one: user data has the generation.
 * 8. The last `programs` chains are those of programs of others, which share this memory (ask.bpf.h); the process starts
 *    none of them.
 */
#ifndef BPFDB_TABLE_STATE_BPF_H
#define BPFDB_TABLE_STATE_BPF_H

#include <bpfdb/types.bpf.h>
#include <bpfdb/table.h>

typedef __s32 s32;

struct bpfdb_table_memory memory SEC(".bss.table");

/* The pool. The process makes these maps, and says how large they are. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct bpfdb_table_frame);
} pool_frames SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct bpfdb_table_segment);
} pool_segments SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct bpfdb_table_hints);
} pool_hints SEC(".maps");

/*
 * The bell by which programs of others ring: io_uring polls it. Nothing is ever in it: a program that looks
 * whether there is has all woken that poll it, so it is never full.
 */
struct {
	__uint(type, BPF_MAP_TYPE_USER_RINGBUF);
	__uint(max_entries, 4096);
} table_bell SEC(".maps");

/* 0, which the verifier does not know. */
u32 zero SEC(".bss.zero");

/*
 * A loop of up to `n` rounds that the verifier checks once: `i` begins as START, which it does not know, and
 * may_goto proves that it ends. If `i` is less than `n` behind the loop, the loop did not come to its end. No
 * other variable counts rounds: the verifier (6.18) would walk all of them. OPAQUE keeps clang 22 from
 * making one.
 *
 * EACH_MOST is for the verifier of 6.12. It forgets the bounds of `n` behind the first round, but not those
 * of `i` where an address is computed of it. A bound of `i` that came from `n` would grow by one in each
 * round, and no round would be like one before. No loop has as many rounds.
 */
#define START LOAD(zero)
#define EACH_MOST (1U << 16)
#define each(i, n)                                                                                 \
	for (; (i) < (n) && can_loop && (i) < EACH_MOST; ({                                        \
		     (i)++;                                                                        \
		     OPAQUE(i);                                                                    \
	     }))

_Static_assert((BPFDB_TABLE_BUFFERS & (BPFDB_TABLE_BUFFERS - 1)) == 0, "offsets are masked");
_Static_assert(BPFDB_TABLE_BUFFER >= BPFDB_TABLE_BLOCK_MAX, "a block has room in a buffer");
_Static_assert(sizeof(struct bpfdb_table_block) == BPFDB_TABLE_HEAD, "as the format says");
_Static_assert(2 * BPFDB_TABLE_CHAINS + 2 <= BPFDB_RING_ENTRIES,
	       "each chain has a read or a wake-up under way");

static __always_inline struct bpfdb_table_chain *chain_at(u32 chain)
{
	OPAQUE(chain);
	return &memory.chains[chain & (BPFDB_TABLE_CHAINS - 1)];
}

/* A byte of a chain's buffer, and at least eight behind it. */
static __always_inline u8 *buffer_at(u32 chain, u32 at)
{
	u32 offset = (chain & (BPFDB_TABLE_CHAINS - 1)) * BPFDB_TABLE_BUFFER +
		     (at & (BPFDB_TABLE_BUFFER - 1));

	OPAQUE(offset);
	return &memory.buffers[offset & (BPFDB_TABLE_BUFFERS - 1)];
}

static __always_inline u32 load_u16(u32 chain, u32 at)
{
	return *(u16 *)buffer_at(chain, at);
}

static __always_inline u64 load_u64(u32 chain, u32 at)
{
	return *(u64 *)buffer_at(chain, at);
}

#endif
