// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Not a test by itself: writers that no process runs, for crates/bpfdb-cli/tests/crash_loop.rs.
 *
 * Each writer is a timer. Its callback executes one operator of a transaction:
 *
 *   BEGIN, SET mark, SET slot, GET count for update and SET, DELETE slot, SET far, COMMIT
 *
 * So transactions are open when the owner of the engine dies, and go on without it. The n-th
 * transaction is the n-th step of crates/bpfdb-cli/tests/common/clients/step.rs.
 */
#include <bpfdb/bpfdb.bpf.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define WRITERS_MAX 64
#define NAME_MAX 32
#define SLOTS 5
#define PERIOD_NS 500000
#define CLOCK_MONOTONIC 1
/* Later than any test, in milliseconds of UNIX time; the step is added to it. */
#define FAR_MS 4000000000000ULL
/* As many as a value with an expiry has room for in the session. */
#define DIGITS_MAX 8

/* Keys of a writer; from 0 on: its slots. */
enum { COUNT_KEY = SLOTS, MARK_KEY, FAR_KEY, KEYS };

struct name {
	u32 len, unused;
	u64 words[NAME_MAX / 8];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WRITERS_MAX *KEYS);
	__type(key, u32);
	__type(value, struct name);
} steps_names SEC(".maps");

/* While it runs only its callback writes what is below `runs`. */
struct writer {
	u32 waits; /* 1: the next step comes when the last one is on the disk */
	u32 rest;  /* 1: it is to stop */
	u32 runs;
	u32 session; /* index + 1 */
	u32 number;
	u32 at;      /* operators of the step that were executed */
	u64 step;    /* that is tried */
	u64 committed;
	u64 stamp; /* no commit up to that step has a later timestamp */
	u64 durable; /* step that is known to be on the disk; only of one that waits */
	u64 unexpected; /* the last status that a writer must not see */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WRITERS_MAX);
	__type(key, u32);
	__type(value, struct writer);
} steps_writers SEC(".maps");

struct clock {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WRITERS_MAX);
	__type(key, u32);
	__type(value, struct clock);
} steps_clocks SEC(".maps");

/* Makes it the session's key. */
__noinline int steps_key(struct bpfdb_session *s NONNULL, u32 writer, u32 key)
{
	u32 number = writer * KEYS + key;
	struct name *name = bpf_map_lookup_elem(&steps_names, &number);

	if (!name)
		return BPFDB_BAD_REQUEST;
	s->key_len = name->len;
	for (u32 i = 0; i < NAME_MAX / 8; i++)
		s->key[i] = name->words[i];
	return BPFDB_OK;
}

/* Makes it the session's value, as text: the first digit has the lowest address. */
static __always_inline void value_number(struct bpfdb_session *s, u64 number)
{
	u64 text = 0;
	u32 len = 0;

	for (u32 i = 0; i < DIGITS_MAX; i++) {
		text = text << 8 | ('0' + number % 10);
		len++;
		number /= 10;
		if (!number)
			break;
	}
	s->value[0] = text;
	s->value[1] = 0;
	s->value_len = len;
}

static __always_inline u64 number_of_value(const struct bpfdb_session *s)
{
	u64 number = 0;

	for (u32 i = 0; i < DIGITS_MAX; i++)
		if (i < s->value_len)
			number = number * 10 + (u8)(s->value[0] >> 8 * i) - '0';
	return number;
}

static __always_inline int set_number(struct bpfdb_session *s, struct writer *w, u32 key,
				      u64 expires)
{
	int status = steps_key(s, w->number, key);

	if (status != BPFDB_OK)
		return status;
	value_number(s, w->step);
	s->expires = expires;
	return bpfdb_set(s);
}

static __always_inline int count(struct bpfdb_session *s, struct writer *w)
{
	int status = steps_key(s, w->number, COUNT_KEY);

	if (status == BPFDB_OK)
		status = bpfdb_get_for_update(s);
	if (status >= BPFDB_FIRST_ERROR)
		return status;
	value_number(s, status == BPFDB_FOUND ? number_of_value(s) + 1 : 1);
	return bpfdb_set(s);
}

static __always_inline int delete_key(struct bpfdb_session *s, struct writer *w, u32 key)
{
	int status = steps_key(s, w->number, key);

	return status == BPFDB_OK ? bpfdb_delete(s) : status;
}

#define OPERATORS 7

/* The next operator of the step. */
__noinline int steps_execute(struct bpfdb_session *s NONNULL, struct writer *w NONNULL)
{
	switch (w->at) {
	case 0: return bpfdb_begin(s);
	case 1: return set_number(s, w, MARK_KEY, 0);
	case 2: return set_number(s, w, w->step % SLOTS, 0);
	case 3: return count(s, w);
	case 4: return delete_key(s, w, (w->step + 2) % SLOTS);
	case 5: return set_number(s, w, FAR_KEY, FAR_MS + w->step);
	default: return bpfdb_commit(s);
	}
}

/* The step is tried again. Others hold a key, or the reaper is in the session: then it could not
 * be rolled back before, and BEGIN says WRONG_STATE. Or memory or the log has no room while the
 * owner is away. */
static __always_inline bool is_expected(int status)
{
	return status == BPFDB_CONFLICT || status == BPFDB_VERSIONS_FULL ||
	       status == BPFDB_MEMORY_PENDING || status == BPFDB_SESSION_BUSY ||
	       status == BPFDB_WRONG_STATE || status == BPFDB_TIMED_OUT ||
	       BPFDB_REFUSED_BY_LOG(status);
}

static __always_inline void advance(struct bpfdb_session *s, struct writer *w)
{
	int status = steps_execute(s, w);

	if (status >= BPFDB_FIRST_ERROR) {
		if (!is_expected(status))
			w->unexpected = status;
		bpfdb_rollback(s);
		w->at = 0;
	} else if (++w->at == OPERATORS) {
		w->at = 0;
		w->stamp = bpfdb_now();
		STORE(w->committed, w->step);
		if (!w->waits)
			STORE(w->step, w->step + 1);
	}
}

/* Must the next step wait for the last one to be on the disk? */
static __always_inline bool is_held(struct writer *w)
{
	if (w->committed != w->step)
		return false;
	if (bpfdb_durable() < w->stamp)
		return true;
	STORE(w->durable, w->step);
	STORE(w->step, w->step + 1);
	return false;
}

/* The writer's own; NULL: none is free. */
static __always_inline struct bpfdb_session *session_of(struct writer *w)
{
	int index;

	if (!w->session) {
		index = bpfdb_session_open(BPFDB_SESSION_EMBEDDED);
		if (index < 0)
			return NULL;
		w->session = index + 1;
	}
	return bpfdb_session(w->session - 1);
}

static int tick(void *map, u32 *number, struct clock *clock)
{
	struct writer *w = bpf_map_lookup_elem(&steps_writers, number);
	struct bpfdb_session *s = w ? session_of(w) : NULL;

	if (!w)
		return 0;
	if (LOAD(w->rest)) {
		if (s && w->at)
			bpfdb_rollback(s);
		w->at = 0;
		STORE_RELEASE(w->runs, 0);
		return 0;
	}
	if (!s)
		w->unexpected = BPFDB_NO_SESSION;
	else if (!is_held(w))
		advance(s, w);
	bpf_timer_start(&clock->timer, PERIOD_NS, 0);
	return 0;
}

struct orders {
	u64 number, first, waits;
};

/* A writer that rests goes on, from that step on. BPFDB_MEMORY_PENDING: the kernel, which does not
 * wait for memory here, had none for the timer; it may a moment later. */
SEC("syscall")
int steps_start(struct orders *orders)
{
	u32 number = orders->number;
	struct clock *clock = bpf_map_lookup_elem(&steps_clocks, &number);
	struct writer *w = bpf_map_lookup_elem(&steps_writers, &number);

	if (!clock || !w || LOAD(w->runs))
		return BPFDB_BAD_REQUEST;
	w->waits = orders->waits;
	w->rest = 0;
	w->number = number;
	w->at = 0;
	w->step = orders->first;
	w->committed = w->durable = orders->first - 1;
	STORE(w->runs, 1);
	bpf_timer_init(&clock->timer, &steps_clocks, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&clock->timer, tick);
	if (bpf_timer_start(&clock->timer, 0, 0) == 0)
		return BPFDB_OK;
	STORE(w->runs, 0);
	return BPFDB_MEMORY_PENDING;
}

/* Tells a writer to stop; 1 when it rests. */
SEC("syscall")
int steps_rest(struct orders *orders)
{
	u32 number = orders->number;
	struct writer *w = bpf_map_lookup_elem(&steps_writers, &number);

	if (!w)
		return 0;
	STORE(w->rest, 1);
	return !LOAD(w->runs);
}
