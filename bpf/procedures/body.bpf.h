/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * A call: the generated function takes the place of body().
 *
 *   begin ──► body ──► commit ──► outcome 0
 *     ▲        │         │
 *     └────────┴─────────┴── conflict: rolled back, again
 *              └── anything else: rolled back, outcome says why
 *
 * Invariants
 *  1. When a call ends the session has no transaction open, but for one that the next
 *     operator finishes, or that the reaper, which is in the session, rolls back before it leaves
 *     that.
 *  2. A call with an outcome has left nothing.
 *  3. A call ends: fuel is taken for all attempts together, and what is no loop of the
 *     generated program is bounded by itself.
 */
#ifndef BPFDB_PROCEDURES_BODY_BPF_H
#define BPFDB_PROCEDURES_BODY_BPF_H

#include "collection.bpf.h"

/*
 * Stands for the generated function. It calls everything that such a one may call, so that
 * clang keeps all of it, with all arguments unknown, so that clang passes each of them, and
 * knows no result.
 *
 * Weak: another definition may take its place, so clang draws no conclusions from this one for
 * its callers. Otherwise it may find that the sum below is never 0, and that no call
 * commits.
 */
__weak __noinline int body(struct bpfdb_frame *f NONNULL, struct bpfdb_session *s NONNULL)
{
	int sum = 0;

/* Read anew for each call: what is kept over calls is on the stack, and the template is verified
 * with that of this function (512 bytes for all that call each other). */
#define TEXT LOAD(f->text[0])
#define NUMBER LOAD(f->text[1])
#define PLACE LOAD(f->place)
	sum += rt_number(f, TEXT, PLACE, PLACE);
	sum += rt_text(f, NUMBER, PLACE);
	sum += rt_add(f, TEXT);
	sum += rt_add_number(f, NUMBER);
	sum += rt_built(f, PLACE);
	sum += rt_equal(f, TEXT, TEXT);
	sum += rt_compare(f, TEXT, TEXT);
	sum += rt_part(f, TEXT, NUMBER, NUMBER, PLACE);
	sum += rt_word(f, PLACE, NUMBER, PLACE);
	sum += rt_line(f, TEXT);
	sum += rt_key(f, s, TEXT);
	sum += rt_value(f, s, TEXT);
	sum += rt_value_number(f, s, NUMBER);
	sum += rt_found(f, s, PLACE);
	sum += rt_increment(f, s, PLACE, NUMBER, PLACE);
	sum += rt_expires(s, NUMBER, PLACE, PLACE);
	sum += rt_time_left(f, s, PLACE, PLACE, PLACE);
	sum += rt_elements(f, s, PLACE, PLACE);
	sum += rt_look(f, s, PLACE, TEXT);
	sum += rt_element(f, s, PLACE, NUMBER);
	sum += rt_entry(f, s, PLACE, PLACE);
	sum += rt_score(f, s);
	sum += rt_field_put(f, s, PLACE, TEXT, TEXT);
	sum += rt_field_add(f, s, PLACE, TEXT, NUMBER);
	sum += rt_take(f, s, PLACE, TEXT);
	sum += rt_pop(f, s);
	sum += rt_push(f, s, PLACE, TEXT, PLACE);
	sum += rt_add_element(f, s, PLACE, TEXT);
	sum += rt_member(f, s, PLACE, TEXT, PLACE);
	sum += rt_again(f, s);
	sum += bpfdb_get(s);
	sum += bpfdb_get_for_update(s);
	sum += bpfdb_get_exclusive(s);
	sum += rt_set(s);
	sum += rt_delete(s);
#undef TEXT
#undef NUMBER
#undef PLACE
	return sum;
}

/* Has the reply more bytes than one of the front end may? The send buffer has room for so much
 * beside what other replies of the message have. */
__noinline int reply_is_long(struct bpfdb_frame *f NONNULL)
{
	f->digits = 0;
	f->place = 0;
	repeat(i, BPFDB_CALL_REPLIES)
	{
		u64 at = f->place;

		if (at >= f->replies || at >= BPFDB_CALL_REPLIES)
			break;
		f->place = at + 1;
		at &= BPFDB_CALL_REPLIES - 1;
		if (f->reply_tags[at] >= BPFDB_TAG_TEXT)
			f->digits += text_len(f->reply_values[at]);
	}
	return f->digits > BPFDB_CALL_TEXT_MAX;
}

/* One attempt: 0, or why not. */
static __always_inline int call_once(struct bpfdb_frame *f, struct bpfdb_session *s)
{
	int status = f->reads ? bpfdb_begin_read_only(s) : bpfdb_begin(s);

	/* Nothing is open. */
	if (status != BPFDB_OK)
		return status;
	f->heap_used = f->heap_begin;
	f->replies = 0;
	f->is_array = 0;
	f->gets_found = s->gets_found;
	f->gets_missed = s->gets_missed;
	status = body(f, s);
	if (!status && f->is_array && reply_is_long(f))
		status = BPFDB_DEOPTIMISATION_VALUE;
	/* The interpreter has the error's words, and knows the commands that take any type. */
	if (status == BPFDB_WRONG_TYPE)
		status = BPFDB_DEOPTIMISATION_VALUE_TYPE;
	if (status == LEFT_TO_USER_SPACE)
		status = BPFDB_DEOPTIMISATION_COLLECTION;
	if (status) {
		TXN_END_OWN(s, bpfdb_rollback);
	} else {
		status = TXN_END_OWN(s, bpfdb_commit);
		/* It would stay open. */
		if (unlikely(BPFDB_REFUSED_BY_LOG(status)))
			TXN_END_OWN(s, bpfdb_rollback);
	}
	/* What it has read counts when it is read again. */
	if (status) {
		s->gets_found = f->gets_found;
		s->gets_missed = f->gets_missed;
	}
	return status;
}

static __always_inline void call_run(struct bpfdb_frame *f, struct bpfdb_session *s)
{
	u64 now;

	f->fuel = BPFDB_CALL_FUEL;
	f->until = 0;
	/* If there is no attempt at all: nothing of the call before is told for this one. */
	f->outcome = BPFDB_DEOPTIMISATION_MISSED;
	/* Counted in memory: the stack is short. */
	for (f->conflicts = 0; f->conflicts < BPFDB_COMMAND_TRIES && can_loop; f->conflicts++) {
		f->outcome = call_once(f, s);
		/* It would have had enough if there had been no conflict before. */
		if (f->outcome == BPFDB_DEOPTIMISATION_FUEL && f->conflicts) {
			f->outcome = BPFDB_CONFLICT;
			f->fuel = 0;
		}
		if (f->outcome != BPFDB_CONFLICT || !f->fuel)
			break;
		/* A body without a loop takes fuel for its commands only, and may be long. */
		now = bpf_ktime_get_ns();
		if (!f->until) {
			f->until = now + BPFDB_CALL_RETRY;
		} else if (now > f->until) {
			f->fuel = 0;
			break;
		}
	}
}

#endif
