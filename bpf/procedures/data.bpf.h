/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Between a procedure and the operators. The generated program calls those that read itself: the
 * kernel allows eight frames of functions, and an operator needs six of them.
 */
#ifndef BPFDB_PROCEDURES_DATA_BPF_H
#define BPFDB_PROCEDURES_DATA_BPF_H

#include "../values/expiry.bpf.h"
#include "../values/key.bpf.h"
#include "../values/string.bpf.h"
#include "text.bpf.h"

/* A text becomes the session's key. */
__noinline int rt_key(struct bpfdb_frame *f NONNULL, struct bpfdb_session *s NONNULL, u64 text)
{
	const u8 *from = heap_at(f, (u32)text);
	u32 len = text_len(text);

	if (unlikely(f->database)) {
		bool is_key = key_fits_database(len, f->database) &&
			      key_begin_in(s, from, len, f->database);

		return is_key ? 0 : BPFDB_DEOPTIMISATION_KEY;
	}
	if (!key_fits(len) || !key_begin(s, from, len))
		return BPFDB_DEOPTIMISATION_KEY;
	if (len > BPFDB_INLINE_MAX)
		key_words_copy(s, from, len);
	return 0;
}

/* A text becomes the value of the next SET. */
__noinline int rt_value(struct bpfdb_frame *f NONNULL, struct bpfdb_session *s NONNULL, u64 text)
{
	u32 len = text_len(text);

	if (!fuel_take(f, len / BPFDB_CALL_FUEL_BYTES))
		return BPFDB_DEOPTIMISATION_FUEL;
	return value_from_memory(s, heap_at(f, (u32)text), len, BPFDB_CALL_TEXT_MAX);
}

/* The text of a number does. 2^53 has 16 digits: with a sign it is longer than what lies
 * inline. */
__noinline int rt_value_number(struct bpfdb_frame *f NONNULL, struct bpfdb_session *s NONNULL,
			       s64 value)
{
	u32 place = heap_take(f, 24);

	if (place == HEAP_FULL)
		return BPFDB_DEOPTIMISATION_HEAP;
	return value_from_memory(s, heap_at(f, place), number_to_heap(f, place, value),
				 BPFDB_CALL_TEXT_MAX);
}

/*
 * What GET found becomes a text. In a transaction that writes it is locked, and cannot
 * change; in a snapshot it may have been given up meanwhile, if the snapshot was revoked:
 * EXHAUSTED.
 */
__noinline int rt_found(struct bpfdb_frame *f NONNULL, struct bpfdb_session *s NONNULL, u32 to)
{
	u32 len = s->value_len, place;
	void *slot;

	if (len > BPFDB_CALL_TEXT_MAX)
		return BPFDB_DEOPTIMISATION_VALUE;
	place = heap_take(f, len);
	if (place == HEAP_FULL)
		return BPFDB_DEOPTIMISATION_HEAP;
	*register_at(f, to) = text_of(place, len);
	if (len <= BPFDB_INLINE_MAX) {
		u8 *at = heap_at(f, place);

		*(u64 *)at = s->value[0];
		if (len > 8)
			*(u64 *)(at + 8) = s->value[1];
		return 0;
	}
	slot = bpfdb_at(s->value[0]);
	OPAQUE(len);
	if (!slot || len > BPFDB_CALL_TEXT_MAX)
		return BPFDB_EXHAUSTED;
	bpf_probe_read_kernel(heap_at(f, place), len, slot);
	/* Its own lock keeps it; the header may change all the same, when others read. */
	return s->state == BPFDB_TXN_WRITE || bpfdb_still_valid(s) ? 0 : BPFDB_EXHAUSTED;
}

/* INCRBY, after GET for update with the outcome `status`: the sum becomes the session's value,
 * and is left in `to`. */
__noinline int rt_increment(struct bpfdb_frame *f NONNULL, struct bpfdb_session *s NONNULL,
			    u32 status, s64 by, u32 to)
{
	s64 value;

	if (!integer_add(s, f->text, status == BPFDB_FOUND, by, &value))
		return BPFDB_DEOPTIMISATION_COUNTER;
	/* Redis has it, and Lua sees it rounded. */
	if (value > NUMBER_MAX || value < -NUMBER_MAX)
		return BPFDB_DEOPTIMISATION_NUMBER_TOO_LARGE;
	*register_at(f, to) = value;
	return rt_value_number(f, s, value);
}

/* ---- Writing ---------------------------------------------------------------- */

/*
 * Within a call there is a transaction. So what bpfdb_set() and bpfdb_delete() do without one is
 * left out: the verifier would walk it for each library that is loaded, which took a tenth of
 * its time.
 */
static __always_inline int write_in_call(struct bpfdb_session *s)
{
	/* The lock would never be released. */
	return unlikely(s->state == BPFDB_TXN_NONE) ? BPFDB_WRONG_STATE : write_stateful(s);
}

/* The value is one of value_fill(): neither too long nor a large one. */
__noinline int rt_set(struct bpfdb_session *s NONNULL)
{
	return set_end(s, set_body(s, write_in_call));
}

__noinline int rt_delete(struct bpfdb_session *s NONNULL)
{
	return delete_by(s, write_in_call);
}

/* When the next SET expires: `time` in units of so many milliseconds. */
__noinline int rt_expires(struct bpfdb_session *s NONNULL, s64 time, u32 unit, u32 from_now)
{
	u64 now = session_time(s), expires;

	if (!time_fits(time))
		return BPFDB_DEOPTIMISATION_TIME;
	expires = time_to_expiry(time, unit, from_now ? now : 0);
	if (expires <= now)
		return BPFDB_DEOPTIMISATION_TIME;
	s->expires = expires;
	return 0;
}

/* TTL and its kin, after GET with the outcome `status`. */
__noinline int rt_time_left(struct bpfdb_frame *f NONNULL, struct bpfdb_session *s NONNULL,
			    u32 status, u32 unit, u32 from_now)
{
	u64 now = from_now ? session_time(s) : 0;

	f->text[0] = status == BPFDB_FOUND ? expiry_to_time(s, unit, now) : TIME_OF_NOTHING;
	return 0;
}

#endif
