/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The rings of the log: one for each processor (with more than BPFDB_LOG_RINGS_MAX, two
 * share one). A program reserves room, fills it, and seals it; user space writes what is
 * sealed to the disk, in order, and gives the room up when it is there for certain.
 *
 *   free ──log_reserve──► reserved ──► filled ──log_seal──► sealed, or void ──► free
 *          by a program                                       by the writer of the log
 *
 * Invariants
 *  1. A program that reserves also seals, before it ends, and it cannot be ended before. So
 *     a wait for a reserved record is a wait for a running program.
 *  2. The head of a record is stored last. It depends on the position and on secrets: what
 *     lies there from a time before, or was written by a client, does not fit.
 *  3. `limit` is at most one ring behind what has been given up: nothing is overwritten
 *     that may still be needed.
 *  4. While the `gate` is not open nothing is reserved: the engine is read-only.
 *  5. A program that interrupts another one on this processor reserves behind it.
 */
#ifndef BPFDB_RING_BPF_H
#define BPFDB_RING_BPF_H

#include "../storage/address.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct bpfdb_log_ring);
} log_state SEC(".maps");

/* The loader gives it the size that the configuration says. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(u32));
	__uint(value_size, BPFDB_LOG_PAD);
} log_rings SEC(".maps");

static __always_inline u32 log_own_ring(void)
{
	return bpf_get_smp_processor_id() & (config.log_rings - 1);
}

/* Reserves `bytes`, whole record grains, in a ring: OK with the position, or
 * LOG_FULL, LOG_CLOSED. */
static __always_inline int log_reserve(u32 ring, u32 bytes, u64 *position)
{
	struct bpfdb_log_ring *state = bpf_map_lookup_elem(&log_state, &ring);

	if (!state)
		return BPFDB_CORRUPT;
	repeat(i, BPFDB_TRIES)
	{
		u64 at = LOAD(state->reserved);

		if (unlikely(at + bytes > LOAD(state->limit) || LOAD(state->gate)))
			break;
		*position = at;
		if (CAS(&state->reserved, at, at + bytes) == at)
			return BPFDB_OK;
	}
	return LOAD(state->gate) == BPFDB_LOG_GATE_CLOSED ? BPFDB_LOG_CLOSED : BPFDB_LOG_FULL;
}

/* Memory of a position: BPFDB_LOG_PAD bytes may be accessed. */
static __always_inline void *log_memory(u32 ring, u64 position)
{
	char *memory = bpf_map_lookup_elem(&log_rings, &ring);

	/* Without a log the verifier sees here that the rest is dead. */
	if (!memory || !config.log_ring)
		return NULL;
	OPAQUE(position);
	position &= config.log_ring - BPFDB_LOG_GRAIN;
	return memory + position;
}

static __always_inline u64 log_head(u64 position, u64 grains)
{
	u64 tag = position * engine.log.factor + engine.log.term;

	return (tag >> BPFDB_LOG_TAG_SHIFT << BPFDB_LOG_TAG_SHIFT) | grains;
}

/* The record at `position` is there, with this timestamp; or void, with the flag in `grains`. */
static __always_inline void log_seal(u32 ring, u64 position, u64 grains, u64 stamp)
{
	struct bpfdb_log_record *record = log_memory(ring, position);

	if (!record)
		return;
	STORE(record->stamp, stamp);
	STORE_RELEASE(record->head, log_head(position, grains));
}

#endif
