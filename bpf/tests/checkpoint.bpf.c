// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * operators/checkpoint.bpf.h: a page is split, or merged with its buddy, while the pass is
 * within it; what is committed, and what is not, is told apart.
 */
#include "test.bpf.h"

#include "../driver/checkpoint.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Records that stay: few enough for pages that hold them all to be merged. */
#define STAYING 200
/* And those that make a page worth a split. */
#define MORE 400
#define FOUND_MAX 1024

u64 found[FOUND_MAX];

static __always_inline u64 *found_at(u64 n)
{
	OPAQUE(n);
	return &found[n % FOUND_MAX];
}

__noinline u32 first_page(void)
{
	u32 zero = 0, *entry = bpf_map_lookup_elem(&directory, &zero);

	return entry ? entry_page(*entry) : 0;
}

__noinline int more_come(struct bpfdb_session *s NONNULL)
{
	repeat(i, MORE) EXPECT(set_number(s, 1000 + i, i) == BPFDB_OK);
	return 0;
}

__noinline int more_go(struct bpfdb_session *s NONNULL)
{
	repeat(i, MORE)
	{
		key_number(s, 1000 + i);
		EXPECT(bpfdb_delete(s) == BPFDB_FOUND);
	}
	return 0;
}

/* One page becomes two. It has by itself, if a neighbourhood happened to be full. */
__noinline int split_now(struct bpfdb_session *s NONNULL)
{
	PASS(more_come(s));
	if (engine.directory_depth.value == 0)
		EXPECT(bpfdb_split(first_page()) == BPFDB_OK);
	EXPECT(engine.directory_depth.value == 1);
	PASS(more_go(s));
	return 0;
}

/* And one again. */
__noinline int merge_now(void)
{
	u32 one = 1, *entry = bpf_map_lookup_elem(&directory, &one);
	u32 upper = entry ? entry_page(*entry) : 0;

	EXPECT(page_merge(first_page()) == 1);
	EXPECT(engine.directory_depth.value == 0);
	/* No other program runs. */
	EXPECT(page_release(upper) == 1);
	return 0;
}

/* Counts entry `n` of the buffer: of a short key and value. */
__noinline int count_entry(u32 io, u32 n)
{
	u64 *entry = io_at(io, sizeof(struct bpfdb_checkpoint) + n * 48);

	if (entry)
		(*found_at(entry[2]))++;
	return 0;
}

static long visit_home(u64 i, struct checkpoint *c)
{
	c->offset = sizeof(struct bpfdb_checkpoint);
	c->entries = LOAD(engine.zero);
	c->value_max = BPFDB_VALUE_MAX;
	c->status = checkpoint_bucket(c);
	if (c->status != BPFDB_OK)
		return 1;
	repeat(n, BPFDB_NEIGHBOURHOOD)
	{
		if (n >= c->entries)
			break;
		count_entry(c->io, n);
	}
	c->home++;
	return 0;
}

/* The homes of this page up to `end`; if it is the last, the cursor goes on. */
static __noinline int visit_to(struct checkpoint *c NONNULL, u32 end)
{
	if (c->home < end)
		bpf_loop(end - c->home, visit_home, c, 0);
	EXPECT(c->status == BPFDB_OK && c->home == end);
	if (end < BPFDB_CELLS_PER_PAGE)
		return 0;
	EXPECT(checkpoint_next(c->cursor, c->level) > c->cursor);
	c->cursor = checkpoint_next(c->cursor, c->level);
	c->home = c->level = LOAD(engine.zero);
	return 0;
}

/* The pass from where it is to the end of the index. */
static __noinline int visit_rest(struct checkpoint *c NONNULL)
{
	repeat(i, 8)
	{
		if (c->cursor >= CHECKPOINT_END)
			break;
		PASS(visit_to(c, BPFDB_CELLS_PER_PAGE));
	}
	EXPECT(c->cursor == CHECKPOINT_END);
	return 0;
}

/* All that stay were found, each at least once and at most `most` times. */
__noinline int all_were_found(u64 most)
{
	repeat(i, STAYING)
	{
		u64 *times = found_at(i);

		EXPECT(*times && *times <= most);
		*times = 0;
	}
	return 0;
}

__noinline int some_come(struct bpfdb_session *s NONNULL)
{
	repeat(i, STAYING) EXPECT(set_number(s, i, i) == BPFDB_OK);
	return 0;
}

static __always_inline struct checkpoint pass_of(struct bpfdb_session *s)
{
	return (struct checkpoint){
		.session = s->index,
		.epoch = LOAD(engine.clock.value),
		.other_offset = BPFDB_CHECKPOINT_OTHERS,
	};
}

/* Where in a page something happens to it. */
static __always_inline u32 place(u32 i)
{
	return i == 0 ? 0 : i == 1 ? 1 : i == 2 ? 500 : i == 3 ? 1000 : BPFDB_CELLS_PER_PAGE - 1;
}
#define PLACES 5

TEST(a_page_is_split_within_the_pass)
{
	struct bpfdb_session *s = test_session(), *w = test_session();

	EXPECT(s && w);
	PASS(some_come(w));
	repeat(i, PLACES)
	{
		struct checkpoint c = pass_of(s);

		PASS(visit_to(&c, place(i)));
		PASS(split_now(w));
		PASS(visit_rest(&c));
		PASS(all_were_found(2));
		PASS(merge_now());
	}
	bpfdb_session_close(s);
	bpfdb_session_close(w);
	return 0;
}

/* In the lower page, whose buddy was not visited yet. */
TEST(a_page_is_merged_within_the_pass)
{
	struct bpfdb_session *s = test_session(), *w = test_session();

	EXPECT(s && w);
	PASS(some_come(w));
	repeat(i, PLACES)
	{
		struct checkpoint c = pass_of(s);

		PASS(split_now(w));
		PASS(visit_to(&c, place(i)));
		PASS(merge_now());
		PASS(visit_rest(&c));
		PASS(all_were_found(2));
	}
	bpfdb_session_close(s);
	bpfdb_session_close(w);
	return 0;
}

/* In the upper one, whose buddy was. */
TEST(a_page_is_merged_into_one_that_was_visited)
{
	struct bpfdb_session *s = test_session(), *w = test_session();

	EXPECT(s && w);
	PASS(some_come(w));
	repeat(i, PLACES)
	{
		struct checkpoint c = pass_of(s);

		PASS(split_now(w));
		PASS(visit_to(&c, BPFDB_CELLS_PER_PAGE));
		EXPECT(c.cursor == CHECKPOINT_END / 2);
		PASS(visit_to(&c, place(i)));
		PASS(merge_now());
		PASS(visit_rest(&c));
		PASS(all_were_found(2));
	}
	bpfdb_session_close(s);
	bpfdb_session_close(w);
	return 0;
}

/* Split and merged again, and the other way round, between two homes. */
TEST(a_page_comes_and_goes_within_the_pass)
{
	struct bpfdb_session *s = test_session(), *w = test_session();

	EXPECT(s && w);
	PASS(some_come(w));
	repeat(i, PLACES)
	{
		struct checkpoint c = pass_of(s);

		PASS(visit_to(&c, place(i)));
		PASS(split_now(w));
		PASS(visit_to(&c, place(i) + 1 < BPFDB_CELLS_PER_PAGE ? place(i) + 1 : place(i)));
		PASS(merge_now());
		PASS(visit_rest(&c));
		PASS(all_were_found(2));
	}
	bpfdb_session_close(s);
	bpfdb_session_close(w);
	return 0;
}

/* ---- What counts ---------------------------------------------------------------- */

/* How often `key` is found with `value` by a pass with this epoch, and how many are left out. */
__noinline int visit_key(struct bpfdb_session *s NONNULL, u64 key, u64 value, u64 epoch,
			 u32 *later NONNULL)
{
	struct checkpoint c = pass_of(s);
	struct bpfdb_cell *cell;
	u64 address, *entry;
	int status;

	key_number(s, key);
	cell = cell_of_key(s, &address);
	if (!cell)
		return -1;
	c.epoch = epoch;
	c.offset = sizeof(struct bpfdb_checkpoint);
	c.entries = c.later = LOAD(engine.zero);
	c.value_max = BPFDB_VALUE_MAX;
	status = checkpoint_record(&c, address);
	*later = c.later;
	entry = io_at(c.io, sizeof(struct bpfdb_checkpoint));
	if (status != BPFDB_OK || !entry || !c.entries)
		return status == BPFDB_OK ? 0 : -2;
	return c.offset == sizeof(struct bpfdb_checkpoint) + 48 && entry[0] == log_meta(8, 8) &&
	       !entry[1] && entry[2] == key && !entry[3] && entry[4] == value && !entry[5];
}

static __always_inline int latch_set(struct bpfdb_session *s, u64 key, bool latched)
{
	struct bpfdb_cell *cell;
	u64 address;

	key_number(s, key);
	cell = cell_of_key(s, &address);
	EXPECT(cell);
	if (latched)
		STORE(cell->header, cell->header | BPFDB_CELL_LATCH);
	else
		STORE(cell->header, cell->header & ~BPFDB_CELL_LATCH);
	return 0;
}

/* A commit that could not be finished yet is decided all the same, and its timestamp is that
 * of the decision. */
TEST(what_is_decided_counts)
{
	struct bpfdb_session *w = test_session(), *s = test_session();
	u64 before = LOAD(engine.clock.value), after;
	u32 later;

	EXPECT(w && s && set_number(w, 4, 10) == BPFDB_OK);
	EXPECT(visit_key(s, 4, 10, before, &later) == 1);
	EXPECT(visit_key(s, 4, 10, before - 1, &later) == 0 && later == 1);
	after = before + 5;
	STORE(engine.clock.value, after);
	EXPECT(bpfdb_begin(w) == BPFDB_OK && set_number(w, 4, 11) == BPFDB_OK);
	EXPECT(visit_key(s, 4, 10, after, &later) == 1);
	PASS(latch_set(s, 4, true));
	EXPECT(bpfdb_commit(w) == BPFDB_OK && w->state == BPFDB_TXN_FINISHING);
	EXPECT(visit_key(s, 4, 11, after, &later) == 1);
	EXPECT(visit_key(s, 4, 10, after - 1, &later) == 0 && later == 1);
	PASS(latch_set(s, 4, false));
	EXPECT(bpfdb_settle(w) == BPFDB_OK);
	EXPECT(visit_key(s, 4, 11, after, &later) == 1);
	/* What is deleted is in no checkpoint, and nothing is left out for it. */
	key_number(w, 4);
	EXPECT(bpfdb_begin(w) == BPFDB_OK && bpfdb_delete(w) == BPFDB_FOUND);
	PASS(latch_set(s, 4, true));
	EXPECT(bpfdb_commit(w) == BPFDB_OK && w->state == BPFDB_TXN_FINISHING);
	EXPECT(visit_key(s, 4, 11, after, &later) == 0 && later == 0);
	PASS(latch_set(s, 4, false));
	EXPECT(bpfdb_settle(w) == BPFDB_OK);
	bpfdb_session_close(w);
	bpfdb_session_close(s);
	return 0;
}

/* An expiry that is over is for recovery to judge. */
TEST(what_has_expired_is_taken)
{
	struct bpfdb_session *w = test_session(), *s = test_session();
	struct checkpoint c;
	struct bpfdb_cell *cell;
	u64 address, *entry;

	EXPECT(w && s);
	STORE(engine.time.fixed, 1000);
	w->expires = 2000;
	EXPECT(set_number(w, 5, 12) == BPFDB_OK);
	STORE(engine.time.fixed, 3000);
	EXPECT(get_number(w, 5) == BPFDB_NOT_FOUND);
	key_number(s, 5);
	cell = cell_of_key(s, &address);
	c = pass_of(s);
	c.offset = sizeof(struct bpfdb_checkpoint);
	c.value_max = BPFDB_VALUE_MAX;
	EXPECT(cell && checkpoint_record(&c, address) == BPFDB_OK && c.entries == 1);
	entry = io_at(c.io, sizeof(struct bpfdb_checkpoint));
	EXPECT(entry && entry[0] == log_meta(8, 8 | BPFDB_EXPIRES) && entry[1] == 2000);
	EXPECT(entry[4] == 12 && !entry[5]);
	STORE(engine.time.fixed, 0);
	bpfdb_session_close(w);
	bpfdb_session_close(s);
	return 0;
}
