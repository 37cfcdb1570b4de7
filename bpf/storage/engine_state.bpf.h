/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The engine's maps. Every object that includes this file shares them: the
 * loader reuses the engine's file descriptors by map name.
 */
#ifndef BPFDB_ENGINE_STATE_BPF_H
#define BPFDB_ENGINE_STATE_BPF_H

#include <bpfdb/types.bpf.h>
#include <bpfdb/layout.h>

/* Set by the loader before verification: the verifier sees constants and
 * drops what they switch off. */
const volatile struct bpfdb_config config SEC(".rodata.bpfdb") = {
	.abi_version = BPFDB_ABI_VERSION,
	.layout = BPFDB_LAYOUT,
	.versions = 4,
	.directory_bits = 4,
	.sessions = 64,
	.segments_max = 2,
	.pages_max = 512,
	.locks_max = BPFDB_LOCKS_MAX,
};

struct bpfdb_engine engine SEC(".data.bpfdb");

struct segment_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(u32));
	__uint(value_size, BPFDB_SEGMENT_SIZE + BPFDB_SEGMENT_PAD);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__type(key, u32);
	__array(values, struct segment_map);
} segments SEC(".maps");

/* Bits of a key's hash -> BPFDB_ENTRY_. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16);
	__type(key, u32);
	__type(value, u32);
} directory SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 512);
	__type(key, u32);
	__type(value, struct bpfdb_slab);
} slabs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 64);
	__type(key, u32);
	__type(value, struct bpfdb_session);
} sessions SEC(".maps");

/* Per session: 0, its snapshot timestamp + 1, or SNAPSHOT_REVOKED. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 64);
	__type(key, u32);
	__type(value, u64);
} snapshots SEC(".maps");

/* Running snapshots per group of BPFDB_SNAPSHOT_GROUP sessions. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} snapshot_groups SEC(".maps");

/* Timestamps of removed records: bpf/txn/removal.bpf.h. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BPFDB_REMOVALS);
	__type(key, u32);
	__type(value, u64);
} removals SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct bpfdb_counters);
} counters SEC(".maps");

/*
 * A loop of up to `n` rounds that the verifier checks once: it starts from a
 * value that it does not know, so that every round looks alike, and may_goto
 * proves that it ends. (A constant start makes it walk all rounds.)
 */
#define repeat(i, n) for (u32 i = LOAD(engine.zero); i < (n) && can_loop; i++)

/*
 * One of the free things with numbers, and its number; NULL if all that are looked at are
 * taken. `at` gives the thing of a number, NULL behind the last one; `try` takes it, if it is free.
 * First that of this processor: where there is one for each, and programs run with preemption off
 * and do not interrupt each other, that one is free. It is tried before the loop, not in it: a
 * number with a bound in one round and without in another keeps the verifier of Linux 6.12 from
 * seeing that two rounds are alike.
 */
#define CLAIM(number, tries, at, try)                                                                \
	({                                                                                           \
		*(number) = bpf_get_smp_processor_id();                                              \
		typeof(at(0)) claimed_ = try(*(number));                                             \
		if (unlikely(!claimed_)) {                                                           \
			repeat(i_, tries)                                                            \
			{                                                                            \
				u32 next_ = *(number) + 1;                                           \
				/* User space says how many there are. Each round is like the one  \
				 * before. */ \
				OPAQUE(next_);                                                       \
				if (!at(next_))                                                      \
					next_ = 0;                                                   \
				*(number) = next_;                                                   \
				claimed_ = try(next_);                                               \
				if (claimed_)                                                        \
					break;                                                       \
			}                                                                            \
		}                                                                                    \
		claimed_;                                                                            \
	})

/* Counters of this processor. */
static __always_inline struct bpfdb_counters *counters_here(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&counters, &zero);
}

/* Adds to a counter of this processor. Atomic, because a program may
 * interrupt another one between load and store. */
#define COUNT_N(name, n)                                                                           \
	({                                                                                         \
		struct bpfdb_counters *c_ = counters_here();                                       \
		if (c_)                                                                            \
			ADD(&c_->name, n);                                                         \
	})
#define COUNT(name) COUNT_N(name, 1)

#endif
