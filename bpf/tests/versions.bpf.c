// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* txn/history.bpf.h: which versions are kept, for whom, and until when. */
#include "test.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define HEAD NEED_HEAD_BIT

/* Entries 0 and 1 of stamps 5 and 9, the head of stamp 12. */
static __always_inline u32 needed_by(u64 snapshot)
{
	struct need n = {.used = HEAD | 1 << 0 | 1 << 1};

	n.stamps[0] = 5;
	n.stamps[1] = 9;
	n.stamps[NEED_HEAD] = 12;
	return need_bit(&n, snapshot);
}

TEST(a_snapshot_needs_the_newest_version_not_after_it)
{
	EXPECT(needed_by(UNKNOWN(4)) == 0);
	EXPECT(needed_by(UNKNOWN(5)) == 1 << 0);
	EXPECT(needed_by(UNKNOWN(8)) == 1 << 0);
	EXPECT(needed_by(UNKNOWN(9)) == 1 << 1);
	EXPECT(needed_by(UNKNOWN(11)) == 1 << 1);
	EXPECT(needed_by(UNKNOWN(12)) == HEAD);
	EXPECT(needed_by(UNKNOWN(1000)) == HEAD);
	return 0;
}

/* Of two versions of one epoch the head is the newer one. */
TEST(the_head_wins_a_tie)
{
	struct need n = {.used = HEAD | 1 << 3};

	n.stamps[3] = n.stamps[NEED_HEAD] = UNKNOWN(7);
	EXPECT(need_bit(&n, UNKNOWN(7)) == HEAD);
	return 0;
}

static __always_inline u32 history_of(struct bpfdb_session *s, u64 key)
{
	struct bpfdb_cell *cell;
	struct bpfdb_aux *aux;
	u64 address;

	key_number(s, key);
	cell = cell_of_key(s, &address);
	aux = cell ? aux_of(cell, cell->header) : NULL;
	return aux ? aux->used : 0;
}

TEST(a_version_is_kept_while_a_snapshot_sees_it)
{
	struct bpfdb_session *w = test_session(), *r = test_session();

	EXPECT(w && r);
	if (config.versions == 1)
		return 0;
	EXPECT(set_number(w, 1, 10) == BPFDB_OK);
	EXPECT(bpfdb_begin_read_only(r) == BPFDB_OK);
	EXPECT(set_number(w, 1, 11) == BPFDB_OK);
	EXPECT(history_of(w, 1) == 1);
	/* No snapshot is between this one and the one before. */
	EXPECT(set_number(w, 1, 12) == BPFDB_OK);
	EXPECT(history_of(w, 1) == 1);
	EXPECT(has_number(r, 1, 10) && has_number(w, 1, 12));
	EXPECT(bpfdb_commit(r) == BPFDB_OK);
	EXPECT(set_number(w, 1, 13) == BPFDB_OK);
	EXPECT(history_of(w, 1) == 0);
	bpfdb_session_close(w);
	bpfdb_session_close(r);
	return 0;
}

#define READERS BPFDB_VERSIONS_MAX

/* Session of reader `i`, in the room of the writer. */
static __always_inline struct bpfdb_session *reader(struct bpfdb_session *w, u64 i)
{
	OPAQUE(i);
	return bpfdb_session(w->app[i % READERS]);
}

TEST(more_versions_than_the_limit_are_refused)
{
	struct bpfdb_session *w = test_session(), *r;

	EXPECT(w);
	repeat(i, READERS)
	{
		u64 place = i;

		OPAQUE(place);
		w->app[place % READERS] = bpfdb_session_open(BPFDB_SESSION_EMBEDDED);
	}
	EXPECT(set_number(w, 2, 0) == BPFDB_OK);
	/* Each snapshot keeps what is the head when it begins. */
	repeat(i, config.versions)
	{
		r = reader(w, i);
		EXPECT(r && bpfdb_begin_read_only(r) == BPFDB_OK);
		EXPECT(has_number(r, 2, i));
		if (i == config.versions - 1)
			break;
		EXPECT(set_number(w, 2, i + 1) == BPFDB_OK);
		EXPECT(history_of(w, 2) == i + 1);
	}
	EXPECT(set_number(w, 2, 99) == BPFDB_VERSIONS_FULL);
	key_number(w, 2);
	EXPECT(bpfdb_delete(w) == BPFDB_VERSIONS_FULL);
	EXPECT(bpfdb_begin(w) == BPFDB_OK);
	EXPECT(set_number(w, 2, 99) == BPFDB_VERSIONS_FULL);
	EXPECT(bpfdb_commit(w) == BPFDB_ROLLED_BACK);
	repeat(i, config.versions)
	{
		r = reader(w, i);
		EXPECT(r && has_number(r, 2, i));
	}
	/* One snapshot less, one version more. */
	r = reader(w, 0);
	EXPECT(r && bpfdb_commit(r) == BPFDB_OK);
	EXPECT(set_number(w, 2, 100) == BPFDB_OK);
	repeat(i, READERS)
	{
		r = reader(w, i);
		EXPECT(r && bpfdb_session_close(r) == BPFDB_OK);
	}
	EXPECT(set_number(w, 2, 101) == BPFDB_OK);
	EXPECT(history_of(w, 2) == 0);
	bpfdb_session_close(w);
	return 0;
}

/* Opens as many readers as there may be versions; each begins when the key has a
 * version of its own. The next SET finds no place for what the last one needs. */
__noinline int readers_fill(struct bpfdb_session *w NONNULL, u64 key)
{
	struct bpfdb_session *r;

	EXPECT(set_number(w, key, 0) == BPFDB_OK);
	repeat(i, config.versions)
	{
		int index = bpfdb_session_open(BPFDB_SESSION_EMBEDDED);
		u64 place = i;

		OPAQUE(place);
		w->app[place % READERS] = index;
		r = bpfdb_session(index);
		EXPECT(r && bpfdb_begin_read_only(r) == BPFDB_OK);
		if (i < config.versions - 1)
			EXPECT(set_number(w, key, i + 1) == BPFDB_OK);
	}
	EXPECT(set_number(w, key, 99) == BPFDB_VERSIONS_FULL);
	return 0;
}

__noinline int readers_close(struct bpfdb_session *w NONNULL)
{
	repeat(i, config.versions)
	{
		struct bpfdb_session *r = reader(w, i);

		EXPECT(r && bpfdb_session_close(r) == BPFDB_OK);
	}
	return 0;
}

/* When a snapshot has begun that is young for as long as a test may take: the timer goes on
 * meanwhile, and on an emulated machine a test takes many of its ticks. */
#define YOUNG (1ULL << 62)

/* All of them, but for the first `old`, are young. */
static __always_inline void readers_age(struct bpfdb_session *w, u32 old)
{
	repeat(i, config.versions)
	{
		struct bpfdb_session *r = reader(w, i);

		if (r)
			r->begun = i < old ? 1000 : YOUNG;
	}
}

/* The first reader's snapshot is old, and stands in the way: it ends, and no other. */
TEST(an_old_snapshot_ends_for_a_writer)
{
	struct bpfdb_session *w = test_session(), *first;

	EXPECT(w && engine.now.value > 2000);
	if (config.versions == 1)
		return 0;
	PASS(readers_fill(w, 20));
	readers_age(w, 1);
	STORE(engine.snapshots.age_max, 1000);
	EXPECT(set_number(w, 20, 99) == BPFDB_OK);
	first = reader(w, 0);
	EXPECT(first && get_number(first, 20) == BPFDB_SNAPSHOT_TOO_OLD);
	/* It says so again, whatever it reads, until it is ended. */
	EXPECT(get_number(first, 21) == BPFDB_SNAPSHOT_TOO_OLD);
	EXPECT(!bpfdb_still_valid(first) || !first->view_cell);
	repeat(i, config.versions)
	{
		struct bpfdb_session *r = reader(w, i);

		EXPECT(r && (!i || has_number(r, 20, i)));
	}
	/* The others are too young. */
	EXPECT(set_number(w, 20, 100) == BPFDB_OK);
	EXPECT(bpfdb_commit(first) == BPFDB_OK && bpfdb_begin_read_only(first) == BPFDB_OK);
	first->begun = YOUNG;
	EXPECT(has_number(first, 20, 100));
	EXPECT(set_number(w, 20, 101) == BPFDB_VERSIONS_FULL);
	STORE(engine.snapshots.age_max, 0);
	PASS(readers_close(w));
	bpfdb_session_close(w);
	return 0;
}

TEST(without_a_maximum_age_no_snapshot_is_ended)
{
	struct bpfdb_session *w = test_session();

	EXPECT(w);
	PASS(readers_fill(w, 30));
	readers_age(w, config.versions);
	EXPECT(engine.snapshots.age_max == 0);
	EXPECT(set_number(w, 30, 99) == BPFDB_VERSIONS_FULL);
	repeat(i, config.versions)
	{
		struct bpfdb_session *r = reader(w, i);

		EXPECT(r && has_number(r, 30, i));
	}
	PASS(readers_close(w));
	bpfdb_session_close(w);
	return 0;
}

/* What costs a writer is a snapshot that began since it wrote the record last. */
TEST(a_record_pays_once_for_each_snapshot)
{
	struct bpfdb_session *w = test_session(), *r = test_session(), *other = test_session();
	struct bpfdb_cell *cell;
	u64 address;

	EXPECT(w && r && other);
	if (config.versions == 1)
		return 0;
	EXPECT(set_number(w, 40, 1) == BPFDB_OK);
	EXPECT(bpfdb_begin_read_only(r) == BPFDB_OK);
	key_number(w, 40);
	cell = cell_of_key(w, &address);
	EXPECT(cell && head_need(version_stamp(&cell->head)) == HEAD_NEEDED);
	EXPECT(set_number(w, 40, 2) == BPFDB_OK && history_of(w, 40) == 1);
	EXPECT(head_need(version_stamp(&cell->head)) == HEAD_FREE);
	EXPECT(set_number(w, 40, 3) == BPFDB_OK && history_of(w, 40) == 1);

	/* One that has ended leaves nothing behind, though an older one runs. */
	EXPECT(bpfdb_begin_read_only(other) == BPFDB_OK && bpfdb_commit(other) == BPFDB_OK);
	EXPECT(head_need(version_stamp(&cell->head)) == HEAD_UNSURE);
	EXPECT(set_number(w, 40, 4) == BPFDB_OK && history_of(w, 40) == 1);
	EXPECT(engine.snapshots.newest == r->snapshot);
	EXPECT(has_number(r, 40, 1) && has_number(w, 40, 4));
	EXPECT(bpfdb_commit(r) == BPFDB_OK);
	bpfdb_session_close(w);
	bpfdb_session_close(r);
	bpfdb_session_close(other);
	return 0;
}

/* A snapshot's value stays where it is while writers replace it. */
TEST(a_value_that_a_snapshot_has_found_stays)
{
	struct bpfdb_session *w = test_session(), *r = test_session();
	u64 *slot;

	EXPECT(w && r);
	if (config.versions == 1)
		return 0;
	key_number(w, 50);
	EXPECT(bpfdb_value_alloc(w, 100) == BPFDB_OK);
	slot = bpfdb_at(w->value[0]);
	EXPECT(slot);
	*slot = 4711;
	EXPECT(bpfdb_set(w) == BPFDB_OK);
	EXPECT(bpfdb_begin_read_only(r) == BPFDB_OK && get_number(r, 50) == BPFDB_FOUND);
	repeat(i, 20)
	{
		key_number(w, 50);
		EXPECT(bpfdb_value_alloc(w, 100) == BPFDB_OK);
		slot = bpfdb_at(w->value[0]);
		EXPECT(slot);
		*slot = i;
		EXPECT(bpfdb_set(w) == BPFDB_OK);
		EXPECT(bpfdb_still_valid(r));
		slot = bpfdb_at(r->value[0]);
		EXPECT(slot && *slot == 4711);
	}
	bpfdb_session_close(w);
	bpfdb_session_close(r);
	return 0;
}

static __always_inline void sweep_all(void)
{
	struct sweep sweep = {.horizon = horizon_now(), .deadline = EVER, .left = ~0u};

	STORE(engine.sweep_cursor.value, 0);
	sweep_some(&sweep, 2 * BPFDB_PAGES_PER_SEGMENT);
}

TEST(the_sweeper_removes_what_nobody_needs)
{
	struct bpfdb_session *w = test_session(), *r = test_session();

	EXPECT(w && r);
	if (config.versions == 1)
		return 0;
	EXPECT(set_number(w, 3, 1) == BPFDB_OK && set_number(w, 4, 1) == BPFDB_OK);
	EXPECT(bpfdb_begin_read_only(r) == BPFDB_OK);
	EXPECT(set_number(w, 3, 2) == BPFDB_OK);
	key_number(w, 4);
	EXPECT(bpfdb_delete(w) == BPFDB_FOUND);
	EXPECT(has_number(r, 3, 1) && has_number(r, 4, 1) && get_number(w, 4) == BPFDB_NOT_FOUND);
	EXPECT(history_of(w, 3) == 1 && history_of(w, 4) == 1);
	EXPECT(bpfdb_commit(r) == BPFDB_OK);
	sweep_all();
	EXPECT(history_of(w, 3) == 0 && has_number(w, 3, 2));
	{
		u64 address;

		key_number(w, 4);
		EXPECT(!cell_of_key(w, &address));
	}
	bpfdb_session_close(w);
	bpfdb_session_close(r);
	return 0;
}

/* A snapshot that is about to take its timestamp may need everything. */
TEST(nothing_is_pruned_for_a_snapshot_that_is_starting)
{
	struct need n = {.used = HEAD | 1};

	EXPECT(snapshots_none());
	STORE(engine.snapshots.active, SNAPSHOT_RUNNING + SNAPSHOT_STARTING);
	need_compute(&n);
	EXPECT(n.needed == NEED_ALL && head_need(UNKNOWN(1000)) == HEAD_NEEDED);
	STORE(engine.snapshots.active, 0);
	return 0;
}

/* The place for the head was reserved for a snapshot that ends before the next SET. */
TEST(a_transaction_writes_again_after_a_snapshot_has_ended)
{
	struct bpfdb_session *w = test_session(), *r = test_session();

	EXPECT(w && r);
	if (config.versions == 1)
		return 0;
	EXPECT(set_number(w, 60, 1) == BPFDB_OK);
	EXPECT(bpfdb_begin_read_only(r) == BPFDB_OK && bpfdb_begin(w) == BPFDB_OK);
	EXPECT(set_number(w, 60, 2) == BPFDB_OK);
	EXPECT(bpfdb_commit(r) == BPFDB_OK && snapshots_none());
	EXPECT(set_number(w, 60, 3) == BPFDB_OK);
	EXPECT(bpfdb_commit(w) == BPFDB_OK && has_number(w, 60, 3));
	EXPECT(history_of(w, 60) == 0);
	bpfdb_session_close(w);
	bpfdb_session_close(r);
	return 0;
}

/* That there was nothing needs no place: also not the second time. */
TEST(a_transaction_writes_a_new_key_twice_beside_a_snapshot)
{
	struct bpfdb_session *w = test_session(), *r = test_session();

	EXPECT(w && r);
	EXPECT(bpfdb_begin_read_only(r) == BPFDB_OK && bpfdb_begin(w) == BPFDB_OK);
	EXPECT(set_number(w, 61, 1) == BPFDB_OK && set_number(w, 61, 2) == BPFDB_OK);
	EXPECT(bpfdb_commit(w) == BPFDB_OK && has_number(w, 61, 2));
	EXPECT(get_number(r, 61) == BPFDB_NOT_FOUND);
	bpfdb_session_close(w);
	bpfdb_session_close(r);
	return 0;
}

/* A lock's address is a hint: by COMMIT the page may have become one of values, whose
 * bytes look like anything. */
TEST(what_is_not_a_cell_is_not_pruned)
{
	u64 address = bpfdb_slot_alloc(sizeof(struct bpfdb_cell));
	u64 array = bpfdb_slot_alloc(aux_size());
	struct bpfdb_cell *bytes = bpfdb_at(address);
	struct bpfdb_aux *aux = bpfdb_at(array);

	EXPECT(address && array && bytes && aux);
	aux->used = 1;
	aux->history[0].meta = VERSION_IN_USE;
	bytes->header = BPFDB_CELL_USED | BPFDB_CELL_AUX;
	cell_set_meta(bytes, array, 0);
	EXPECT(history_prune(address, 0) == RETRY);
	EXPECT(bytes->header == (BPFDB_CELL_USED | BPFDB_CELL_AUX) && aux->used == 1);
	bpfdb_slot_free(address);
	bpfdb_slot_free(array);
	return 0;
}

/* A session that is closed gives back all that it had, also what it took to roll back. */
TEST(a_closed_session_has_no_spare_version_array)
{
	struct bpfdb_session *w = test_session(), *r = test_session();

	EXPECT(w && r);
	EXPECT(bpfdb_begin(w) == BPFDB_OK && set_number(w, 62, 1) == BPFDB_OK);
	EXPECT(bpfdb_begin_read_only(r) == BPFDB_OK);
	EXPECT(bpfdb_session_close(w) == BPFDB_OK);
	EXPECT(!w->spare_aux);
	bpfdb_session_close(r);
	return 0;
}

/* ---- What it takes to create a snapshot -------------------------------------- */

/* A copy of the state of the engine. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct bpfdb_engine);
} engine_before SEC(".maps");

/* Looked at by lines, each in one step: a tick of the timer seldom comes in between, also on an
 * emulated machine. */
#define LINE_WORDS (BPFDB_LINE_SIZE / sizeof(u64))
#define ENGINE_LINES (sizeof(struct bpfdb_engine) / BPFDB_LINE_SIZE)

/* Line `i` of memory as long as the engine's state, which begins at `from`. clang would compute the place
 * before the comparison that bounds it, or by bits, and the verifier lose the bound. */
static __always_inline u64 *engine_line(void *from, u64 i)
{
	u64 *line;

	OPAQUE(i);
	line = from + i * BPFDB_LINE_SIZE;
	OPAQUE(line);
	return line;
}

static long engine_line_keep(u64 i, void *ctx)
{
	u32 zero = 0;
	void *before = bpf_map_lookup_elem(&engine_before, &zero);
	u64 *to, *from;

	if (!before || i >= ENGINE_LINES)
		return 1;
	to = engine_line(before, i);
	from = engine_line(&engine, i);
#pragma clang loop unroll(full)
	for (u32 word = 0; word < LINE_WORDS; word++)
		to[word] = LOAD(from[word]);
	return 0;
}

static long engine_line_compare(u64 i, u32 *changed)
{
	u32 zero = 0;
	void *before = bpf_map_lookup_elem(&engine_before, &zero);
	u64 *then, *now;

	if (!before || i >= ENGINE_LINES)
		return 1;
	then = engine_line(before, i);
	now = engine_line(&engine, i);
#pragma clang loop unroll(full)
	for (u32 word = 0; word < LINE_WORDS; word++)
		*changed += then[word] != LOAD(now[word]);
	return 0;
}

/* How many words of the engine's state differ after a snapshot was created. The timer changes
 * some now and then: so the least of several counts. */
__noinline u32 words_of_snapshot(struct bpfdb_session *r NONNULL)
{
	u32 least = ~0u;

	repeat(i, 20)
	{
		u32 changed = 0;

		bpf_loop(ENGINE_LINES, engine_line_keep, NULL, 0);
		if (bpfdb_begin_read_only(r) != BPFDB_OK)
			return ~0u;
		bpf_loop(ENGINE_LINES, engine_line_compare, &changed, 0);
		if (bpfdb_commit(r) != BPFDB_OK)
			return ~0u;
		if (changed < least)
			least = changed;
	}
	return least;
}

struct page_sum {
	u64 sum;
	u32 page;
};

#define PAGE_WORDS (BPFDB_PAGE_SIZE / sizeof(u64))

static long page_word_add(u64 i, struct page_sum *s)
{
	u64 *words = page_memory(s->page);

	if (!words || i >= PAGE_WORDS)
		return 1;
	s->sum = s->sum * 31 + LOAD(words[i]);
	return 0;
}

static long page_add(u64 i, struct page_sum *s)
{
	s->page = i;
	bpf_loop(PAGE_WORDS, page_word_add, s, 0);
	return 0;
}

/* Of all pages: of what records and index are made of. */
__noinline u64 pages_sum(void)
{
	struct page_sum s = {};

	bpf_loop(engine.pages_taken.value, page_add, &s, 0);
	return s.sum;
}

__noinline int records_add(struct bpfdb_session *w NONNULL, u64 first, u32 count)
{
	repeat(i, count) EXPECT(set_number(w, first + i, i) == BPFDB_OK);
	return 0;
}

/* However many records there are, the same few words change, and no byte of any page. */
TEST(a_snapshot_is_created_in_constant_work)
{
	struct bpfdb_session *w = test_session(), *r = test_session();
	u32 few, many;
	u64 sum;

	EXPECT(w && r);
	PASS(records_add(w, 1000, 10));
	few = words_of_snapshot(r);
	PASS(records_add(w, 2000, 5000));
	many = words_of_snapshot(r);
	/* The clock, and of the snapshots: how many, the newest, and whose it is. */
	EXPECT(few && few <= 5);
	EXPECT(many == few);

	sum = pages_sum();
	EXPECT(sum);
	EXPECT(bpfdb_begin_read_only(r) == BPFDB_OK);
	EXPECT(pages_sum() == sum);
	EXPECT(bpfdb_commit(r) == BPFDB_OK);
	EXPECT(pages_sum() == sum);
	/* It is a sum of what a SET changes. */
	EXPECT(set_number(w, 1000, 99) == BPFDB_OK && pages_sum() != sum);
	bpfdb_session_close(w);
	bpfdb_session_close(r);
	return 0;
}

/* One whose processor was taken away before it had its timestamp: writers keep more than
 * they need, and wait for nothing. */
TEST(no_writer_waits_for_a_snapshot_that_is_starting)
{
	struct bpfdb_session *w = test_session();

	EXPECT(w && snapshots_none());
	if (config.versions == 1)
		return 0;
	EXPECT(set_number(w, 80, 1) == BPFDB_OK);
	(void)FETCH_ADD(&engine.clock.value, 1);
	STORE(engine.snapshots.active, SNAPSHOT_RUNNING + SNAPSHOT_STARTING);
	EXPECT(set_number(w, 80, 2) == BPFDB_OK && history_of(w, 80) == 1);
	EXPECT(bpfdb_begin(w) == BPFDB_OK);
	EXPECT(set_number(w, 80, 3) == BPFDB_OK && set_number(w, 81, 3) == BPFDB_OK);
	EXPECT(bpfdb_commit(w) == BPFDB_OK);
	STORE(engine.snapshots.active, 0);
	EXPECT(has_number(w, 80, 3) && has_number(w, 81, 3));
	EXPECT(set_number(w, 80, 4) == BPFDB_OK && history_of(w, 80) == 0);
	bpfdb_session_close(w);
	return 0;
}
