// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* txn/expiry.bpf.h and operators/expire.bpf.h: how a version with an expiry is
 * laid out, where it is counted, and when it goes. */
#include "test.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define START 1000
#define UNTIL 1010

static __always_inline void clock_at(u64 time)
{
	STORE(engine.time.fixed, time);
}

/* SET of `len` bytes, inline as an operand, that expire at UNTIL. */
static __always_inline int set_until(struct bpfdb_session *s, u64 key, u32 len)
{
	key_number(s, key);
	s->value_len = len;
	s->value[0] = 0x1111;
	s->value[1] = 0x2222;
	s->expires = UNTIL;
	return bpfdb_set(s);
}

TEST(forms_say_what_a_version_consists_of)
{
	u32 with = UNKNOWN(100) | BPFDB_EXPIRES, longest = UNKNOWN(BPFDB_VALUE_MAX);

	EXPECT(!form_expires(UNKNOWN(0)) && !form_expires(longest) && !form_expires(BPFDB_ABSENT));
	EXPECT(form_expires(with) && form_expires(longest | BPFDB_EXPIRES));
	EXPECT(form_length(with) == 100 && form_length(longest | BPFDB_EXPIRES) == longest);
	return 0;
}

/* Up to 8 bytes are beside the time, up to 16 move to a slot. */
TEST(half_of_the_inline_room_is_for_the_time)
{
	struct bpfdb_session *s = test_session();
	u64 before = engine.expiring.value, address, *slot;
	struct bpfdb_cell *cell;

	EXPECT(s);
	clock_at(START);
	repeat(len, BPFDB_INLINE_MAX + 1)
	{
		EXPECT(set_until(s, 1, len) == BPFDB_OK);
		EXPECT(s->expires == 0 && engine.expiring.value == before + 1);
		cell = cell_of_key(s, &address);
		EXPECT(cell && version_form(&cell->head) == (len | BPFDB_EXPIRES));
		EXPECT(cell->head.data[1] == UNTIL);
		if (len <= BPFDB_INLINE_EXPIRING_MAX) {
			EXPECT(cell->head.data[0] == 0x1111);
		} else {
			slot = bpfdb_at(cell->head.data[0]);
			EXPECT(slot && slot[0] == 0x1111 && slot[1] == 0x2222);
		}
		/* GET gives the operands as SET had them. */
		EXPECT(bpfdb_get(s) == BPFDB_FOUND && s->value_len == len);
		EXPECT(s->value[0] == 0x1111 && s->found_expires == UNTIL);
		EXPECT(len <= BPFDB_INLINE_EXPIRING_MAX || s->value[1] == 0x2222);
	}
	EXPECT(set_number(s, 1, 5) == BPFDB_OK && engine.expiring.value == before);
	EXPECT(has_number(s, 1, 5) && s->found_expires == 0);
	clock_at(0);
	bpfdb_session_close(s);
	return 0;
}

TEST(the_gauge_counts_every_version)
{
	struct bpfdb_session *w = test_session(), *r = test_session();
	u64 before = engine.expiring.value;

	EXPECT(w && r);
	clock_at(START);
	EXPECT(bpfdb_begin(w) == BPFDB_OK && set_until(w, 2, 12) == BPFDB_OK);
	EXPECT(engine.expiring.value == before + 1);
	EXPECT(set_until(w, 2, 3) == BPFDB_OK && engine.expiring.value == before + 1);
	EXPECT(bpfdb_rollback(w) == BPFDB_OK && engine.expiring.value == before);
	EXPECT(set_until(w, 2, 12) == BPFDB_OK && engine.expiring.value == before + 1);
	if (config.versions > 1) {
		/* The head goes to the history, and is one version there. */
		EXPECT(bpfdb_begin_read_only(r) == BPFDB_OK);
		EXPECT(set_until(w, 2, 12) == BPFDB_OK && engine.expiring.value == before + 2);
		EXPECT(bpfdb_commit(r) == BPFDB_OK);
		EXPECT(set_until(w, 2, 12) == BPFDB_OK && engine.expiring.value == before + 1);
	}
	/* A refused SET gives up what it took. */
	EXPECT(bpfdb_begin_read_only(r) == BPFDB_OK && set_until(r, 2, 12) == BPFDB_READ_ONLY);
	EXPECT(engine.expiring.value == before + 1 && bpfdb_commit(r) == BPFDB_OK);
	key_number(w, 2);
	EXPECT(bpfdb_delete(w) == BPFDB_FOUND && engine.expiring.value == before);
	clock_at(0);
	bpfdb_session_close(w);
	bpfdb_session_close(r);
	return 0;
}

TEST(the_horizon_is_the_oldest_time_in_use)
{
	struct bpfdb_session *w = test_session(), *r = test_session();

	EXPECT(w && r);
	clock_at(START);
	EXPECT(horizon_now() == START);
	EXPECT(set_until(w, 3, 8) == BPFDB_OK && bpfdb_begin_read_only(r) == BPFDB_OK);
	clock_at(START + 1);
	EXPECT(horizon_now() == START && bpfdb_begin(w) == BPFDB_OK);
	EXPECT(bpfdb_commit(r) == BPFDB_OK);
	/* A read-write transaction takes its time when it has to judge. */
	EXPECT(horizon_now() == START + 1);
	EXPECT(get_number(w, 3) == BPFDB_FOUND);
	clock_at(UNTIL + 5);
	EXPECT(horizon_now() == START + 1);
	EXPECT(get_number(w, 3) == BPFDB_FOUND && get_number(r, 3) == BPFDB_NOT_FOUND);
	EXPECT(bpfdb_commit(w) == BPFDB_OK && horizon_now() == UNTIL + 5);
	EXPECT(get_number(w, 3) == BPFDB_NOT_FOUND && set_number(w, 3, 0) == BPFDB_OK);
	/* One that is reading the clock may get an earlier time. */
	STORE(r->time, TIME_STARTING);
	EXPECT(horizon_now() == TIME_STARTING);
	STORE(r->time, 0);
	clock_at(0);
	bpfdb_session_close(w);
	bpfdb_session_close(r);
	return 0;
}

/* What the timer knew of before the clock was set back would be over for keys that are alive. */
TEST(a_clock_that_is_set_back_takes_the_horizon_along)
{
	clock_at(START);
	engine.horizon.oldest = START + 1000;
	engine.horizon.next = 1;
	STORE(engine.horizon.value, START + 1000);
	horizon_advance();
	EXPECT(LOAD(engine.horizon.value) <= START);
	repeat(i, BPFDB_SESSIONS_MAX / HORIZON_STEP + 1) horizon_advance();
	EXPECT(LOAD(engine.horizon.value) == START);
	clock_at(0);
	return 0;
}

static __always_inline u64 sweep_until(u64 horizon)
{
	struct sweep sweep = {.horizon = horizon, .deadline = EVER, .left = ~0u};

	STORE(engine.sweep_cursor.value, 0);
	sweep_some(&sweep, 2 * BPFDB_PAGES_PER_SEGMENT);
	return sweep.due;
}

static __always_inline bool has_record(struct bpfdb_session *s, u64 key)
{
	u64 address;

	key_number(s, key);
	return cell_of_key(s, &address) != NULL;
}

TEST(the_sweeper_takes_what_nobody_can_see)
{
	struct bpfdb_session *s = test_session(), *other = test_session();

	EXPECT(s && other);
	clock_at(START);
	EXPECT(set_until(s, 4, 8) == BPFDB_OK && set_until(s, 5, 16) == BPFDB_OK);
	EXPECT(bpfdb_begin(other) == BPFDB_OK && get_number(other, 5) == BPFDB_FOUND);
	/* It comes back when the first one expires, and while a lock is in the way. */
	EXPECT(sweep_until(UNTIL - 1) == UNTIL);
	EXPECT(has_record(s, 4) && has_record(s, 5));
	EXPECT(sweep_until(UNTIL) == UNTIL);
	EXPECT(!has_record(s, 4) && has_record(s, 5));
	EXPECT(bpfdb_commit(other) == BPFDB_OK);
	EXPECT(sweep_until(UNTIL) == EVER && !has_record(s, 5));
	clock_at(0);
	bpfdb_session_close(s);
	bpfdb_session_close(other);
	return 0;
}

TEST(the_earliest_time_is_due)
{
	STORE(engine.expiry_due.value, UNKNOWN(50));
	expiry_due_at(60);
	EXPECT(engine.expiry_due.value == 50);
	expiry_due_at(40);
	EXPECT(engine.expiry_due.value == 40);
	return 0;
}
