// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * txn/record.bpf.h: a write is later than what it replaces, wherever the record lies by then.
 * The engine of these tests has a log.
 */
#include "test.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* When the key was written last; 0: it has no record. */
static __always_inline u64 stamp_of_number(struct bpfdb_session *s, u64 key)
{
	struct bpfdb_cell *cell;
	u64 address;

	key_number(s, key);
	cell = cell_of_key(s, &address);
	return cell ? version_stamp(&cell->head) : 0;
}

/* A split has taken the record away, and the transaction that locked it commits: it cannot know
 * what it replaces. */
TEST(the_clock_passes_a_record_on_its_way)
{
	struct bpfdb_session *w = test_session();
	struct bpfdb_cell *cell;
	u64 address, before;

	EXPECT(w && set_number(w, 1, 1) == BPFDB_OK);
	before = stamp_of_number(w, 1);
	cell = cell_of_key(w, &address);
	EXPECT(cell && before && before == engine.clock.value);
	EXPECT(bpfdb_begin(w) == BPFDB_OK && set_number(w, 1, 2) == BPFDB_OK);
	EXPECT(engine.clock.value == before);
	STORE(cell->header, cell->header & ~BPFDB_CELL_USED);
	EXPECT(bpfdb_commit(w) == BPFDB_OK);
	STORE(cell->header, cell->header | BPFDB_CELL_USED);
	EXPECT(bpfdb_settle(w) == BPFDB_OK && has_number(w, 1, 2));
	EXPECT(stamp_of_number(w, 1) > before);
	bpfdb_session_close(w);
	return 0;
}

/* Another record is in its place, which was written earlier. */
TEST(the_clock_passes_a_record_whose_place_was_taken)
{
	struct bpfdb_session *w = test_session(), *r = test_session();
	u64 address, before;

	EXPECT(w && r && set_number(w, 11, 1) == BPFDB_OK);
	/* Moves the clock. */
	EXPECT(bpfdb_begin_read_only(r) == BPFDB_OK && bpfdb_commit(r) == BPFDB_OK);
	EXPECT(set_number(w, 12, 1) == BPFDB_OK);
	before = stamp_of_number(w, 12);
	EXPECT(before == engine.clock.value && stamp_of_number(r, 11) < before);
	EXPECT(bpfdb_begin(w) == BPFDB_OK && set_number(w, 12, 2) == BPFDB_OK);
	key_number(r, 11);
	EXPECT(cell_of_key(r, &address));
	w->locks[0].cell = address;
	EXPECT(bpfdb_commit(w) == BPFDB_OK && bpfdb_settle(w) == BPFDB_OK);
	EXPECT(has_number(w, 12, 2) && has_number(w, 11, 1));
	EXPECT(stamp_of_number(w, 12) > before);
	bpfdb_session_close(w);
	bpfdb_session_close(r);
	return 0;
}

/* Without either, it passes what is found there, and no more: two writes of a key in one epoch. */
TEST(the_clock_passes_what_is_replaced)
{
	struct bpfdb_session *w = test_session();
	u64 before;

	EXPECT(w && set_number(w, 21, 1) == BPFDB_OK);
	before = stamp_of_number(w, 21);
	EXPECT(bpfdb_begin(w) == BPFDB_OK && set_number(w, 21, 2) == BPFDB_OK);
	EXPECT(bpfdb_commit(w) == BPFDB_OK);
	EXPECT(stamp_of_number(w, 21) == before + 1 && engine.clock.value == before + 1);
	/* A new key replaces nothing. */
	EXPECT(bpfdb_begin(w) == BPFDB_OK && set_number(w, 22, 2) == BPFDB_OK);
	EXPECT(bpfdb_commit(w) == BPFDB_OK && engine.clock.value == before + 1);
	bpfdb_session_close(w);
	return 0;
}
