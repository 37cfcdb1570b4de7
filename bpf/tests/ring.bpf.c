// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Not a test by itself: a reader of the log's ring that comes in the middle of a record's making.
 *
 * It is a timer, pinned to a processor, and interrupts whatever runs there at any instruction. It
 * reads the ring of this processor as the writer of the log does. crates/bpfdb/tests/log_interrupted.rs
 * sets one key there, again and again, to values whose first and last words count them: so a
 * record that is not whole, or has no timestamp yet, is not the one that comes next.
 */
#include <bpfdb/bpfdb.bpf.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define CLOCK_MONOTONIC 1
/* The kernel moves callbacks of a shorter period to a thread. */
#define PERIOD 20000
/* Words of a value, as many as the test says. */
#define WORDS 375
/* Records that one callback looks at. */
#define AT_ONCE 256

struct reader {
	struct bpf_timer timer;
	u64 at; /* all records before this position were there */
	u64 stamp; /* timestamp of the last of them */
	u64 count; /* number in the last of them */
	u32 records;
	u32 middle; /* times that the record which came next was reserved, and not there yet */
	u32 wrong; /* records that were there, and were not as they must be */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct reader);
} ring_reader SEC(".maps");

/* The one write of a record with an inline key. */
struct written {
	struct bpfdb_log_record record;
	struct bpfdb_log_write write;
	u64 key[BPFDB_LOG_GRAIN / 8];
	u64 value[WORDS];
};

static __always_inline bool is_right(const struct reader *r, const struct written *w)
{
	return w->record.stamp > r->stamp && w->record.stamp <= LOAD(engine.clock.value) &&
	       w->value[0] == r->count + 1 && w->value[WORDS - 1] == r->count + 1;
}

/* False: it is not there yet. */
static __always_inline bool read_one(struct reader *r, u32 ring)
{
	struct written *w = log_memory(ring, r->at);
	u64 head;

	if (!w)
		return false;
	head = LOAD_ACQUIRE(w->record.head);
	if ((head ^ log_head(r->at, 0)) >> BPFDB_LOG_TAG_SHIFT)
		return false;
	if (!(head & BPFDB_LOG_VOID)) {
		r->wrong += !is_right(r, w);
		r->stamp = w->record.stamp;
		r->count = w->value[0];
		r->records++;
	}
	r->at += (head & BPFDB_LOG_GRAINS_MASK) * BPFDB_LOG_RECORD_GRAIN;
	return true;
}

static int tick(void *map, u32 *number, struct reader *r)
{
	u32 ring = log_own_ring();
	struct bpfdb_log_ring *state = bpf_map_lookup_elem(&log_state, &ring);

	if (!state)
		return 0;
	repeat(i, AT_ONCE)
	{
		if (r->at >= LOAD(state->reserved))
			break;
		if (!read_one(r, ring)) {
			r->middle++;
			break;
		}
	}
	bpf_timer_start(&r->timer, PERIOD, BPF_F_TIMER_CPU_PIN);
	return 0;
}

/* Begins on the processor that this runs on; it ends with the object. BPFDB_MEMORY_PENDING: the
 * kernel, which does not wait for memory here, had none for the timer; it may a moment later. */
SEC("syscall")
int ring_start(void *ctx)
{
	u32 number = 0;
	struct reader *r = bpf_map_lookup_elem(&ring_reader, &number);

	if (!r)
		return BPFDB_BAD_REQUEST;
	bpf_timer_init(&r->timer, &ring_reader, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&r->timer, tick);
	return bpf_timer_start(&r->timer, 0, BPF_F_TIMER_CPU_PIN) ? BPFDB_MEMORY_PENDING : BPFDB_OK;
}

/* What the reader has come to: one program for each figure. */
#define FIGURE(name)                                                                               \
	SEC("syscall")                                                                             \
	int ring_##name(void *ctx)                                                                 \
	{                                                                                          \
		u32 number = 0;                                                                    \
		struct reader *r = bpf_map_lookup_elem(&ring_reader, &number);                     \
                                                                                                   \
		return r ? r->name : 0;                                                            \
	}

FIGURE(at)
FIGURE(records)
FIGURE(middle)
FIGURE(wrong)
