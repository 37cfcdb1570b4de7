/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Commands of procedures on small collections.
 *
 *   rt_key ─► GET of any type ─► one of these, with its outcome ─► SET, DELETE or nothing
 *
 * The generated program calls the operators itself, as in data.bpf.h. f->type says of which type the
 * collection is. What writes comes to OK with the new run as the session's value, which SET is to
 * write; to FOUND: nothing changes; to NOT_FOUND: nothing is left, and DELETE comes; or to an Error.
 * The bodies are those of bpf/values, as for clients. What they leave to user space gives up the call
 * (call_once() in body.bpf.h).
 */
#ifndef BPFDB_PROCEDURES_COLLECTION_BPF_H
#define BPFDB_PROCEDURES_COLLECTION_BPF_H

#include "../values/score.bpf.h"
#include "../values/waiting.bpf.h"
#include "data.bpf.h"

_Static_assert(sizeof(((struct bpfdb_frame *)0)->entry) == sizeof(struct packed_entry),
	       "a frame has room for an entry");
_Static_assert(__builtin_offsetof(struct packed_entry, value_len) == BPFDB_CALL_ENTRY_VALUE_LEN,
	       "generated programs read it");

static __always_inline struct packed_entry *frame_entry(struct bpfdb_frame *f)
{
	return (struct packed_entry *)f->entry;
}

/* A text as the key of the frame's entry. All that a key may have may be read there. */
static __always_inline const struct packed_key *text_as_key(struct bpfdb_frame *f, u64 text)
{
	u8 *key = heap_at(f, (u32)text);

	frame_entry(f)->key = (u64)key;
	frame_entry(f)->key_len = text_len(text);
	return (const struct packed_key *)key;
}

/* What GET of any type came to, for a command on the frame's type: FOUND, NOT_FOUND, or an Error. It
 * takes fuel for going over all of the run, and for writing it. */
static __always_inline int run_found(struct bpfdb_frame *f, struct bpfdb_session *s, u32 status)
{
	int found = packed_check(s, status, f->type);

	if (found == BPFDB_FOUND && !fuel_take(f, form_bytes(s->value_len) / BPFDB_CALL_FUEL_BYTES))
		return BPFDB_DEOPTIMISATION_FUEL;
	return found;
}

/* The same for a command that fills the collection. */
static __always_inline int run_to_fill(struct bpfdb_frame *f, struct bpfdb_session *s, u32 status)
{
	int found = run_found(f, s, status);

	if (found < BPFDB_FIRST_ERROR && unlikely(is_waited_for(s)))
		return BPFDB_DEOPTIMISATION_WAITED_FOR;
	return found;
}

/* Was what GET found there all the time, while it was read? As in rt_found(). */
static __always_inline bool was_there(struct bpfdb_session *s)
{
	return s->state == BPFDB_TXN_WRITE || bpfdb_still_valid(s);
}

/* ---- Reading ------------------------------------------------------------- */

/* HLEN, LLEN, SCARD, ZCARD. */
__noinline int rt_elements(struct bpfdb_frame *f NONNULL, struct bpfdb_session *s NONNULL,
			   u32 status, u32 to)
{
	int found = packed_check(s, status, f->type);
	const struct packed *run = found == BPFDB_FOUND ? packed_header(s) : NULL;

	if (found >= BPFDB_FIRST_ERROR)
		return found;
	*register_at(f, to) = run ? LOAD(run->count) : 0;
	return found == BPFDB_NOT_FOUND || was_there(s) ? 0 : BPFDB_EXHAUSTED;
}

/* The entry whose key is this text: FOUND, with it in the frame, or NOT_FOUND. */
__noinline int rt_look(struct bpfdb_frame *f NONNULL, struct bpfdb_session *s NONNULL, u32 status,
		       u64 text)
{
	int found = run_found(f, s, status);

	if (found != BPFDB_FOUND)
		return found;
	found = packed_find(s, text_as_key(f, text), frame_entry(f));
	return found >= BPFDB_FIRST_ERROR || was_there(s) ? found : BPFDB_EXHAUSTED;
}

/* The same with the element of a list at this index; a negative one counts from the end. */
__noinline int rt_element(struct bpfdb_frame *f NONNULL, struct bpfdb_session *s NONNULL,
			  u32 status, s64 index)
{
	int found = run_found(f, s, status);
	const struct packed *run = found == BPFDB_FOUND ? packed_header(s) : NULL;
	u32 count = run ? LOAD(run->count) : 0;

	if (found != BPFDB_FOUND)
		return found;
	if (index < 0)
		index += count;
	if (index >= 0 && index < count)
		packed_entry_at(s, frame_entry(f), index);
	else
		found = BPFDB_NOT_FOUND;
	return was_there(s) ? found : BPFDB_EXHAUSTED;
}

/* The key of the entry that was found, or its value, becomes a text. */
__noinline int rt_entry(struct bpfdb_frame *f NONNULL, struct bpfdb_session *s NONNULL,
			u32 is_value, u32 to)
{
	const struct packed_entry *e = frame_entry(f);
	u32 len = is_value ? e->value_len : e->key_len;
	u32 place = heap_take(f, len);
	const u8 *from = slot_byte(s, is_value ? packed_value_at(e) : e->at + PACKED_ENTRY);

	if (place == HEAP_FULL)
		return BPFDB_DEOPTIMISATION_HEAP;
	if (!from)
		return BPFDB_EXHAUSTED;
	heap_fill(f, place, from, len);
	*register_at(f, to) = text_of(place, len);
	return was_there(s) ? 0 : BPFDB_EXHAUSTED;
}

/* The score of the member that was found is left in f->score. */
__noinline int rt_score(struct bpfdb_frame *f NONNULL, struct bpfdb_session *s NONNULL)
{
	u64 stored = entry_score(s, frame_entry(f));
	s64 score;

	if (stored == SCORE_MINUS_ZERO || !score_whole(stored, &score))
		return BPFDB_DEOPTIMISATION_FRACTION;
	f->score = score;
	return was_there(s) ? 0 : BPFDB_EXHAUSTED;
}

/* ---- Writing ------------------------------------------------------------- */

/* A collection keeps when it expires. */
static __always_inline int run_written(struct bpfdb_session *s, int status)
{
	if (status == BPFDB_OK)
		s->expires = s->found_expires;
	return status;
}

/* HSET of one field. A new one is counted in f->elements. */
__noinline int rt_field_put(struct bpfdb_frame *f NONNULL, struct bpfdb_session *s NONNULL,
			    u32 status, u64 field, u64 value)
{
	int found = run_found(f, s, status), place;
	struct packed_entry *e = frame_entry(f);

	if (found >= BPFDB_FIRST_ERROR)
		return found;
	place = entry_place(s, text_as_key(f, field), e, found == BPFDB_FOUND);
	if (place >= BPFDB_FIRST_ERROR)
		return place;
	f->elements += place == BPFDB_NOT_FOUND;
	e->value = (u64)heap_at(f, (u32)value);
	e->value_len = text_len(value);
	return run_written(s, packed_put(s, e, BPFDB_TYPE_HASH, found == BPFDB_FOUND, false));
}

/* HINCRBY: the sum is left in f->score. */
__noinline int rt_field_add(struct bpfdb_frame *f NONNULL, struct bpfdb_session *s NONNULL,
			    u32 status, u64 field, s64 by)
{
	int found = run_found(f, s, status);

	if (found >= BPFDB_FIRST_ERROR)
		return found;
	found = field_add(s, frame_entry(f), text_as_key(f, field), found == BPFDB_FOUND, by,
			  (u8 *)f->text, &f->digits, &f->score);
	/* Redis has it, and Lua sees it rounded. */
	if (found == BPFDB_OK && (f->score > NUMBER_MAX || f->score < -NUMBER_MAX))
		return BPFDB_DEOPTIMISATION_NUMBER_TOO_LARGE;
	return run_written(s, found);
}

/* HDEL, SREM, ZREM of one element. One that was there is counted in f->elements. */
__noinline int rt_take(struct bpfdb_frame *f NONNULL, struct bpfdb_session *s NONNULL, u32 status,
		       u64 element)
{
	int found = run_found(f, s, status);

	if (found != BPFDB_FOUND)
		return found == BPFDB_NOT_FOUND ? BPFDB_FOUND : found;
	found = entry_take(s, frame_entry(f), text_as_key(f, element), f->type);
	f->elements += found == BPFDB_OK || found == BPFDB_NOT_FOUND;
	return run_written(s, found);
}

/* LPOP, RPOP: the element that rt_element() has found is taken out. */
__noinline int rt_pop(struct bpfdb_frame *f NONNULL, struct bpfdb_session *s NONNULL)
{
	return run_written(s, packed_take(s, frame_entry(f), BPFDB_TYPE_LIST));
}

/* LPUSH, RPUSH of one element: enum list_end. How many there are then is left in f->elements. */
__noinline int rt_push(struct bpfdb_frame *f NONNULL, struct bpfdb_session *s NONNULL, u32 status,
		       u64 element, u32 end)
{
	int found = run_to_fill(f, s, status);

	if (found >= BPFDB_FIRST_ERROR)
		return found;
	found = list_put(s, frame_entry(f), text_as_key(f, element), found == BPFDB_FOUND, end,
			 &f->elements);
	return run_written(s, found);
}

/* SADD of one element. A new one is counted in f->elements. */
__noinline int rt_add_element(struct bpfdb_frame *f NONNULL, struct bpfdb_session *s NONNULL,
			      u32 status, u64 element)
{
	int found = run_found(f, s, status);

	if (found >= BPFDB_FIRST_ERROR)
		return found;
	found = set_add(s, frame_entry(f), text_as_key(f, element), found == BPFDB_FOUND);
	f->elements += found == BPFDB_OK;
	return run_written(s, found);
}

/* What becomes of a member: member_step(). A subprogram, since the stack below the operators is
 * short. */
__noinline int member_look(struct bpfdb_frame *f NONNULL, struct bpfdb_session *s NONNULL,
			   u32 found, u64 member, u32 adds)
{
	u32 again = f->moved, added = f->elements;
	int step;

	f->moved = 0;
	step = member_step(s, frame_entry(f), text_as_key(f, member), found, adds && !again,
			   (struct scored *)f->text, &f->score, &f->elements, &f->moved);
	/* It was there before. */
	if (again)
		f->elements = added;
	return step;
}

/* ZADD of one member with f->score, or ZINCRBY by that, which leaves the sum there. A new one is
 * counted in f->elements. If f->moved is set, SET and the same once more are to follow. */
__noinline int rt_member(struct bpfdb_frame *f NONNULL, struct bpfdb_session *s NONNULL, u32 status,
			 u64 member, u32 adds)
{
	int found = run_to_fill(f, s, status), step;

	if (found >= BPFDB_FIRST_ERROR)
		return found;
	if (f->score > SCORE_WHOLE_MAX || f->score < -SCORE_WHOLE_MAX)
		return BPFDB_DEOPTIMISATION_NUMBER_TOO_LARGE;
	step = member_look(f, s, found == BPFDB_FOUND, member, adds);
	return run_written(s, member_write(s, frame_entry(f), found == BPFDB_FOUND, step));
}

/* ---- Values of any type -------------------------------------------------- */

/* What GET found, and locked, becomes the value of the next SET. */
__noinline int rt_again(struct bpfdb_frame *f NONNULL, struct bpfdb_session *s NONNULL)
{
	if (form_length(s->value_len) >= BPFDB_LARGE)
		return BPFDB_DEOPTIMISATION_VALUE;
	if (!fuel_take(f, form_bytes(s->value_len) / BPFDB_CALL_FUEL_BYTES))
		return BPFDB_DEOPTIMISATION_FUEL;
	return value_or_run_copy(s);
}

#endif
