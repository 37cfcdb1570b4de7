// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * What `make bench` measures inside the kernel: the same keys, values, draws
 * and loop for the engine and for a plain preallocated hash map. Each program
 * repeats one operation.
 */
#include <bpfdb/bpfdb.bpf.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct bench_key {
	u64 a, b;
};

struct bench_line {
	u64 words[8];
};

/* User space sets the sizes of these maps. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct bench_key);
	__type(value, struct bench_key);
} plain SEC(".maps");

/* One cache line per record: what a single random access costs. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct bench_line);
} lines SEC(".maps");

/* Record numbers in the order of access, drawn by user space: one sequence
 * behind the other, each of a power of two. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} sequence SEC(".maps");

/* Values that are longer than a cell has room for, and what they are copied from. */
#define LONG_LEN 1024

struct bench_long {
	u64 words[LONG_LEN / 8];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct bench_long);
} long_value SEC(".maps");

/* What a load took: operations done, longest one in nanoseconds. */
#define PAUSES_DONE 0
#define PAUSES_LONGEST 1

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, u64);
} pauses SEC(".maps");

struct work {
	u32 session;
	u32 start; /* of the sequence */
	u32 first; /* place in the sequence, or first record */
	u32 mask;  /* length of the sequence - 1 */
	u32 good;
	u64 longest;
};

/* The key of record `n`: 16 bytes that look random. */
static __always_inline struct bench_key key_of(u64 n)
{
	u64 a = (n + 1) * 0x9e3779b97f4a7c15ULL;

	a ^= a >> 31;
	return (struct bench_key){a, a * 0xbf58476d1ce4e5b9ULL};
}

static __always_inline u32 drawn(struct work *w, u64 i)
{
	u32 place = w->start + ((w->first + i) & w->mask);
	u32 *n = bpf_map_lookup_elem(&sequence, &place);

	return n ? *n : 0;
}

/* ---- Floors --------------------------------------------------------------- */

static long nothing_step(u64 i, struct work *w)
{
	struct bench_key key = key_of(drawn(w, i));

	w->good += key.b != 0;
	return 0;
}

static long line_step(u64 i, struct work *w)
{
	u32 n = drawn(w, i);
	struct bench_key key = key_of(n);
	struct bench_line *line = bpf_map_lookup_elem(&lines, &n);

	w->good += line && LOAD(line->words[0]) != key.b;
	return 0;
}

/* ---- The plain hash map ----------------------------------------------------- */

static long plain_fill_step(u64 i, struct work *w)
{
	struct bench_key key = key_of(w->first + i);

	w->good += bpf_map_update_elem(&plain, &key, &key, BPF_ANY) == 0;
	return 0;
}

static long plain_get_step(u64 i, struct work *w)
{
	struct bench_key key = key_of(drawn(w, i)), *value = bpf_map_lookup_elem(&plain, &key);

	w->good += value && value->a == key.a && value->b == key.b;
	return 0;
}

static long plain_set_step(u64 i, struct work *w)
{
	struct bench_key key = key_of(drawn(w, i));

	w->good += bpf_map_update_elem(&plain, &key, &key, BPF_ANY) == 0;
	return 0;
}

/* ---- The engine ------------------------------------------------------------- */

static __always_inline void operand_key(struct bpfdb_session *s, u64 n)
{
	struct bench_key key = key_of(n);

	s->key[0] = key.a;
	s->key[1] = key.b;
	s->key_len = sizeof(key);
}

static __always_inline int engine_set(struct bpfdb_session *s, u64 n)
{
	operand_key(s, n);
	s->value_len = sizeof(struct bench_key);
	s->value[0] = s->key[0];
	s->value[1] = s->key[1];
	return bpfdb_set(s);
}

static __always_inline bool engine_get(struct bpfdb_session *s, u64 n)
{
	operand_key(s, n);
	return bpfdb_get(s) == BPFDB_FOUND && s->value_len == sizeof(struct bench_key) &&
	       s->value[0] == s->key[0] && s->value[1] == s->key[1];
}

/* Stops at the first record for which there is no memory yet. */
static long engine_fill_step(u64 i, struct work *w)
{
	struct bpfdb_session *s = bpfdb_session(w->session);

	if (!s || engine_set(s, w->first + i) != BPFDB_OK)
		return 1;
	w->good++;
	return 0;
}

static long engine_get_step(u64 i, struct work *w)
{
	struct bpfdb_session *s = bpfdb_session(w->session);

	w->good += s && engine_get(s, drawn(w, i));
	return 0;
}

static long engine_set_step(u64 i, struct work *w)
{
	struct bpfdb_session *s = bpfdb_session(w->session);

	w->good += s && engine_set(s, drawn(w, i)) == BPFDB_OK;
	return 0;
}

/* ---- The same with long values ------------------------------------------------ */

static __always_inline int engine_set_long(struct bpfdb_session *s, u64 n)
{
	u32 first = 0;
	struct bench_long *from = bpf_map_lookup_elem(&long_value, &first);
	int status;
	u64 *slot;

	operand_key(s, n);
	status = bpfdb_value_alloc(s, LONG_LEN);
	if (status != BPFDB_OK)
		return status;
	slot = bpfdb_at(s->value[0]);
	if (!slot || !from)
		return BPFDB_CORRUPT;
	bpf_probe_read_kernel(slot, LONG_LEN, from);
	slot[0] = s->key[0];
	return bpfdb_set(s);
}

/* Finds the value, and looks at its beginning. */
static __always_inline bool engine_get_long(struct bpfdb_session *s, u64 n)
{
	u64 *slot;

	operand_key(s, n);
	if (bpfdb_get(s) != BPFDB_FOUND || s->value_len != LONG_LEN)
		return false;
	slot = bpfdb_at(s->value[0]);
	return slot && slot[0] == s->key[0];
}

/* Stops as engine_fill does. */
static long long_fill_step(u64 i, struct work *w)
{
	struct bpfdb_session *s = bpfdb_session(w->session);

	if (!s || engine_set_long(s, w->first + i) != BPFDB_OK)
		return 1;
	w->good++;
	return 0;
}

static long long_get_step(u64 i, struct work *w)
{
	struct bpfdb_session *s = bpfdb_session(w->session);

	w->good += s && engine_get_long(s, drawn(w, i));
	return 0;
}

static long long_set_step(u64 i, struct work *w)
{
	struct bpfdb_session *s = bpfdb_session(w->session);

	w->good += s && engine_set_long(s, drawn(w, i)) == BPFDB_OK;
	return 0;
}

/* BEGIN, 3 GET, 2 SET, COMMIT; rolled back on a conflict. */
static long engine_transaction_step(u64 i, struct work *w)
{
	struct bpfdb_session *s = bpfdb_session(w->session);
	bool good;

	if (!s)
		return 1;
	good = bpfdb_begin(s) == BPFDB_OK;
	good = good && engine_get(s, drawn(w, i * 5)) && engine_get(s, drawn(w, i * 5 + 1)) &&
	       engine_get(s, drawn(w, i * 5 + 2));
	good = good && engine_set(s, drawn(w, i * 5 + 3)) == BPFDB_OK &&
	       engine_set(s, drawn(w, i * 5 + 4)) == BPFDB_OK;
	if (good && bpfdb_commit(s) == BPFDB_OK)
		w->good++;
	else
		bpfdb_rollback(s);
	return 0;
}

/* ctx: session, start of the sequence, place in it (or first record), its
 * length - 1, count. Returns how many operations did not succeed. */
#define BENCH_PROGRAM(name)                                                                        \
	SEC("raw_tp")                                                                              \
	int bench_##name(struct bpf_raw_tracepoint_args *ctx)                                      \
	{                                                                                          \
		struct work w = {                                                                  \
			.session = ctx->args[0],                                                   \
			.start = ctx->args[1],                                                     \
			.first = ctx->args[2],                                                     \
			.mask = ctx->args[3],                                                      \
		};                                                                                 \
		u32 count = ctx->args[4];                                                          \
                                                                                                   \
		bpf_loop(count, name##_step, &w, 0);                                               \
		return count - w.good;                                                             \
	}

BENCH_PROGRAM(nothing)
BENCH_PROGRAM(line)
BENCH_PROGRAM(plain_fill)
BENCH_PROGRAM(plain_get)
BENCH_PROGRAM(plain_set)
BENCH_PROGRAM(engine_fill)
BENCH_PROGRAM(engine_get)
BENCH_PROGRAM(engine_set)
BENCH_PROGRAM(long_fill)
BENCH_PROGRAM(long_get)
BENCH_PROGRAM(long_set)
BENCH_PROGRAM(engine_transaction)

/* ---- Pauses ------------------------------------------------------------------ */

static __always_inline void pause_seen(struct work *w, u64 start)
{
	u64 took = bpf_ktime_get_ns() - start;

	if (took > w->longest)
		w->longest = took;
	w->good++;
}

/* Every SET timed by itself; stops as engine_fill does. */
static long timed_fill_step(u64 i, struct work *w)
{
	struct bpfdb_session *s = bpfdb_session(w->session);
	u64 start = bpf_ktime_get_ns();

	if (!s || engine_set(s, w->first + i) != BPFDB_OK)
		return 1;
	pause_seen(w, start);
	return 0;
}

/* The same clock around nothing: what interrupts and the machine add. */
static long timed_nothing_step(u64 i, struct work *w)
{
	pause_seen(w, bpf_ktime_get_ns());
	return 0;
}

static __always_inline void pauses_report(u32 index, u64 value)
{
	u64 *slot = bpf_map_lookup_elem(&pauses, &index);

	if (slot)
		*slot = value;
}

/* ctx: session, first record, count. The result is in `pauses`. */
#define PAUSES_PROGRAM(name)                                                                       \
	SEC("raw_tp")                                                                              \
	int bench_##name(struct bpf_raw_tracepoint_args *ctx)                                      \
	{                                                                                          \
		struct work w = {.session = ctx->args[0], .first = ctx->args[1]};                  \
                                                                                                   \
		bpf_loop(ctx->args[2], name##_step, &w, 0);                                        \
		pauses_report(PAUSES_DONE, w.good);                                                \
		pauses_report(PAUSES_LONGEST, w.longest);                                          \
		return 0;                                                                          \
	}

PAUSES_PROGRAM(timed_fill)
PAUSES_PROGRAM(timed_nothing)

/* ---- Ordered tables ------------------------------------------------------------ */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct bpfdb_ordered_scan);
} ordered_scans SEC(".maps");

/* Counts the keys of table 0; with `values` only those whose value is found. */
static __always_inline u32 ordered_rows(struct bpfdb_session *s, struct bpfdb_ordered_scan *scan,
					bool values)
{
	u32 rows = 0;

	scan->table = 0;
	scan->has_end = 0;
	scan->from.len = 0;
	do {
		if (bpfdb_ordered_scan(s, scan) != BPFDB_OK)
			break;
		while (bpfdb_ordered_next(s, scan) == BPFDB_FOUND && can_loop)
			rows += !values || bpfdb_get(s) == BPFDB_FOUND;
	} while (scan->more && can_loop);
	return rows;
}

/* ctx: session. Returns the rows of a snapshot that were found. */
#define ORDERED_PROGRAM(name, values)                                                              \
	SEC("raw_tp")                                                                              \
	int bench_##name(struct bpf_raw_tracepoint_args *ctx)                                      \
	{                                                                                          \
		struct bpfdb_session *s = bpfdb_session(ctx->args[0]);                             \
		u32 zero = 0, rows;                                                                \
		struct bpfdb_ordered_scan *scan = bpf_map_lookup_elem(&ordered_scans, &zero);      \
                                                                                                   \
		if (!s || !scan || bpfdb_begin_read_only(s) != BPFDB_OK)                           \
			return 0;                                                                  \
		rows = ordered_rows(s, scan, values);                                              \
		return bpfdb_commit(s) == BPFDB_OK ? rows : 0;                                     \
	}

ORDERED_PROGRAM(ordered_keys, false)
ORDERED_PROGRAM(ordered_values, true)
