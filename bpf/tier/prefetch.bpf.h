/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Cold values are read by the daemon, which is one thread. This has the reads begin before it knows
 * of them: when a message is about to be handed over, in its client's send() or in the kernel's worker. The
 * daemon then finds the bytes in memory; or it reads, and meets pages that are under way.
 *
 *   message for the daemon ──► key ──► cold: run, offset ──► slot ──► submission queue
 *                                                             │           │ thread of io_uring
 *   daemon: command ──► cold: run, offset ──────────► slot ◄──┴── completion queue
 *
 * A slot (struct bpfdb_prefetch) is found by run and offset. Its states:
 *
 *   FREE ── prefetch_start ──► CLAIMED ──► READING ── the daemon takes the completion ──► READ
 *    ▲                           │          │                                              │
 *    ├── no place in the ring ───┘          │               the daemon copies the entry: TAKEN
 *    ├── the same, and it was late ◄────────┘                                              │
 *    └────── no command has asked for it in a while ◄──────────────────────────────────────┘
 *
 * 1. A slot that is READING becomes nothing else before the daemon has taken its completion. So no read
 *    writes into memory that is another one's.
 * 2. Only the daemon makes a slot FREE that was READING.
 * 3. Nothing is believed because it was read here: the daemon compares checksum, key, length, run, offset
 *    and engine with what the version names when it is asked for, as of bytes that it reads itself
 *    (invariant 2 of docs/decisions/0034-cold-values.md). A SET meanwhile, or a file that has gone, costs a
 *    read in vain.
 * 4. The bytes of a place never change, and no run has the number of another. So a slot may be found
 *    however old it is.
 * 5. Without slot, place in the ring, or thread of io_uring the daemon reads. Nothing waits here.
 * 6. The daemon dies, and with it the ring: no read is submitted any more.
 */
#ifndef BPFDB_TIER_PREFETCH_BPF_H
#define BPFDB_TIER_PREFETCH_BPF_H

#include "../operators/get.bpf.h"
#include "../ring/ring.bpf.h"
#include "place.bpf.h"
#include <bpfdb/prefetch.h>

struct bpfdb_prefetching prefetching SEC(".bss.prefetch");

/* The programs that use it are loaded with a larger one, which the daemon makes. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct bpfdb_prefetch);
} prefetches SEC(".maps");

/* Wakes io_uring's thread, which polls it; what is in it means nothing. The daemon empties it when it looks for
 * completions; there is room for a thousand records until then. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16384);
} prefetch_bell SEC(".maps");

_Static_assert((BPFDB_PREFETCHES & (BPFDB_PREFETCHES - 1)) == 0, "numbers are masked");
_Static_assert((BPFDB_RUNS_MAX & (BPFDB_RUNS_MAX - 1)) == 0, "numbers are masked");

/* Attempts to have the latch of the ring, which is held for some instructions. */
#define RING_TRIES 16
/* No slot. */
#define NO_SLOT BPFDB_PREFETCHES
/* IORING_SQ_NEED_WAKEUP, and the record that wakes. */
#define RING_SLEEPS 1
#define BELL_BYTES 8

static __always_inline struct bpfdb_prefetch *prefetch_at(u32 number)
{
	return bpf_map_lookup_elem(&prefetches, &number);
}

/* The first slot that a place may have; the daemon computes the same. */
static __always_inline u32 prefetch_home(u64 run, u32 offset)
{
	return ((run << 32 ^ offset) * 0x9E3779B97F4A7C15ULL) >> 40;
}

static __always_inline bool prefetch_queue(u32 number, const struct bpfdb_prefetch *slot)
{
	u32 file = slot->run & (BPFDB_RUNS_MAX - 1);
	u64 to = prefetching.reads + (u64)number * sizeof(*slot) +
		 __builtin_offsetof(struct bpfdb_prefetch, entry);

	return ring_read(&prefetching.ring, file, (u64)slot->offset * BPFDB_LOG_GRAIN, to,
			 slot->bytes, number);
}

/* False: the ring has no place now. */
static __always_inline bool prefetch_submit(u32 number, struct bpfdb_prefetch *slot)
{
	bool submitted = false;

	preempt_off();
	for (u32 i = 0; i < RING_TRIES; i++) {
		if (!ring_latch(&prefetching.ring))
			continue;
		submitted = prefetch_queue(number, slot);
		ring_unlatch(&prefetching.ring);
		break;
	}
	preempt_on();
	return submitted;
}

/* io_uring's thread says that it sleeps, then looks at the queue once more; here it is the other way round. */
static __always_inline void prefetch_wake(void)
{
	u64 record = 0;

	if (FETCH_OR(ring_word(&prefetching.ring, prefetching.ring.sq_flags), 0) & RING_SLEEPS)
		bpf_ringbuf_output(&prefetch_bell, &record, BELL_BYTES, BPF_RB_FORCE_WAKEUP);
}

/* Is a value of the tier being read, by the daemon or for it? Reads of which the daemon has not heard that they have
 * ended count, too: commands that want them are still to come. */
static __always_inline bool prefetch_is_busy(void)
{
	return LOAD(prefetching.reading) || LOAD(prefetching.started) != LOAD(prefetching.ended);
}

/* A free slot for the place; NO_SLOT: all are taken, or one is the place's already. */
static __always_inline u32 prefetch_claim(u64 run, u32 offset)
{
	u32 home = prefetch_home(run, offset), number;
	struct bpfdb_prefetch *slot;

	repeat(i, BPFDB_PREFETCH_PROBES)
	{
		number = (home + i) & (BPFDB_PREFETCHES - 1);
		slot = prefetch_at(number);
		if (!slot)
			return NO_SLOT;
		if (LOAD(slot->state) != BPFDB_PREFETCH_FREE) {
			if (LOAD(slot->run) == run && LOAD(slot->offset) == offset)
				return NO_SLOT;
			continue;
		}
		if (CAS(&slot->state, BPFDB_PREFETCH_FREE, BPFDB_PREFETCH_CLAIMED) ==
		    BPFDB_PREFETCH_FREE)
			return number;
	}
	ADD(&prefetching.crowded, 1);
	return NO_SLOT;
}

/* Has an entry read, unless it is under way: 1 if the read has begun. The caller wakes io_uring's
 * thread (prefetch_wake). */
__noinline int prefetch_start(const struct prefetch_place *place NONNULL)
{
	struct bpfdb_prefetch *slot;
	u32 number;

	number = prefetch_claim(place->run, place->offset);
	slot = prefetch_at(number);
	if (!slot)
		return 0;
	STORE(slot->run, place->run);
	STORE(slot->offset, place->offset);
	slot->bytes = place->bytes;
	STORE_RELEASE(slot->state, BPFDB_PREFETCH_READING);
	if (!prefetch_submit(number, slot)) {
		ADD(&prefetching.crowded, 1);
		STORE_RELEASE(slot->state, BPFDB_PREFETCH_FREE);
		return 0;
	}
	ADD(&prefetching.started, 1);
	return 1;
}

/* Is the value of the session's key cold, and short enough? Its place is written then. Of no transaction, and no access. Inlined:
 * a look-up needs the frames. */
static __always_inline bool prefetch_find(struct bpfdb_session *s, struct prefetch_place *place)
{
	struct bpfdb_large *large;
	u64 bytes;

	if (UNTRACKED(s, OF_ANY_TYPE(s, bpfdb_peek(s))) != BPFDB_FOUND ||
	    !form_is_large(s->value_len))
		return false;
	large = bpfdb_at(s->value[0]);
	if (!large)
		return false;
	place->run = LOAD(large->place.run);
	place->offset = LOAD(large->place.offset);
	bytes = BPFDB_RUN_ENTRY_HEAD + s->key_len + (u64)LOAD(large->len);
	place->bytes = bytes;
	return place->run && bytes <= BPFDB_PREFETCH_ENTRY && bpfdb_still_valid(s);
}

#endif
