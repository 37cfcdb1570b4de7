// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* txn/history.bpf.h: which versions are kept, for whom, and until when. */
#include "test.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define HEAD (1u << NEED_HEAD)

/* Entries 0 and 1 of stamps 5 and 9, the head of stamp 12. */
static __always_inline u32 needed_by(u64 snapshot)
{
	struct need n = {.used = HEAD | 1 << 0 | 1 << 1};

	n.stamps[0] = 5;
	n.stamps[1] = 9;
	n.stamps[NEED_HEAD] = 12;
	need_mark(&n, snapshot);
	return n.needed;
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
	need_mark(&n, UNKNOWN(7));
	EXPECT(n.needed == HEAD);
	return 0;
}

static __always_inline u32 history_of(struct bpfdb_session *s, u64 key)
{
	struct bpfdb_cell *cell;
	struct bpfdb_aux *aux;
	u64 address;

	key_number(s, key);
	cell = cell_of_key(s, &address);
	aux = cell ? cell_aux(cell) : NULL;
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
	u32 zero = 0;
	struct need n = {.used = HEAD | 1};
	u64 *slot = bpf_map_lookup_elem(&snapshots, &zero);

	EXPECT(slot && *slot == 0);
	STORE(*slot, SNAPSHOT_STARTING);
	need_group(&n, 0);
	STORE(*slot, 0);
	EXPECT(n.needed == ~0u);
	return 0;
}
