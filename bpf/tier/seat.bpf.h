/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The memory of parked requests: park.bpf.h says what becomes of them. */
#ifndef BPFDB_TIER_SEAT_BPF_H
#define BPFDB_TIER_SEAT_BPF_H

#include "../operators/get.bpf.h"
#include "../ring/ring.bpf.h"
#include <bpfdb/park.h>

struct bpfdb_parking parking SEC(".bss.park");

/* The programs that use it are loaded with a larger one, which the daemon makes. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct bpfdb_seat);
} seats SEC(".maps");

_Static_assert((BPFDB_SEATS & (BPFDB_SEATS - 1)) == 0, "numbers are masked");
_Static_assert((BPFDB_SEAT_ENTRY & (BPFDB_SEAT_ENTRY - 1)) == 0, "places are masked");
_Static_assert((BPFDB_PARK_RECENT & (BPFDB_PARK_RECENT - 1)) == 0, "numbers are masked");

/* Does the thread run this that submits? */
static __always_inline bool in_park_thread(void)
{
	u32 thread = LOAD(parking.thread);

	return thread && thread == (u32)bpf_get_current_pid_tgid();
}

static __always_inline struct bpfdb_seat *seat_at(u32 number)
{
	return bpf_map_lookup_elem(&seats, &number);
}

/* A byte of the entry, and at least eight behind it. */
static __always_inline void *seat_byte(struct bpfdb_seat *seat, u32 at)
{
	u64 offset = at;

	OPAQUE(offset);
	return seat->entry + (offset & (BPFDB_SEAT_ENTRY - 1));
}

static __always_inline u32 seat_state(u64 word)
{
	return word & BPFDB_SEAT_STATE_MASK;
}

/* The same generation in another state. */
static __always_inline u64 seat_in(u64 word, u32 state)
{
	return (word & ~BPFDB_SEAT_STATE_MASK) | state;
}

static __always_inline bool seat_move(struct bpfdb_seat *seat, u64 word, u32 state)
{
	return CAS(&seat->word, word, seat_in(word, state)) == word;
}

#endif
