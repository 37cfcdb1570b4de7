/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* HGET, HMGET, HEXISTS, HSTRLEN; HSET, HMSET, HSETNX, HDEL, HINCRBY: fields of a small hash. */
#ifndef BPFDB_COMMANDS_HASH_BPF_H
#define BPFDB_COMMANDS_HASH_BPF_H

#include "collection.bpf.h"

/* ---- Reading ------------------------------------------------------------- */

/* Fields of one HMGET. */
#define HMGET_MAX 64

/* What is replied of a field, of the element of a set, or of a member of a large sorted set. */
enum asked { ASKED_VALUE, ASKED_LENGTH, ASKED_PRESENCE, ASKED_SCORE };

static __always_inline enum result field_reply(struct sk_msg_md *m, struct context *c,
					       struct bpfdb_session *s,
					       const struct packed_entry *e, bool found,
					       enum asked what)
{
	if (what == ASKED_PRESENCE)
		return reply_header(m, c, ':', found);
	if (what == ASKED_LENGTH)
		return reply_header(m, c, ':', found ? e->value_len : 0);
	return found ? reply_slot_bytes(m, c, s, packed_value_at(e), e->value_len)
		     : reply_nil(m, c);
}

static __always_inline enum result field_once(struct sk_msg_md *m, struct context *c,
					      struct bpfdb_session *s, u32 type, enum asked what)
{
	enum bpfdb_status status = collection_get(c, s, type);
	struct packed_entry *e = &c->entry;
	u32 out = c->out;
	enum result result;

	if (status == BPFDB_FOUND)
		status = entry_find(c, s);
	if (status >= BPFDB_FIRST_ERROR)
		return reply_error(m, c, s, status);
	result = field_reply(m, c, s, e, status == BPFDB_FOUND, what);
	if (result == DONE && !bpfdb_still_valid(s)) {
		c->out = out;
		return AGAIN;
	}
	return harmless(result);
}

/* HGET, HSTRLEN, HEXISTS, SISMEMBER: a key, and a field or an element. */
__noinline enum result command_field(struct sk_msg_md *m, struct context *c NONNULL,
				     struct bpfdb_session *s NONNULL, u32 type, u32 what)
{
	enum result result = c->argc == 2 ? key_and_arg(c, s) : PASS_TO_DAEMON;

	if (result != DONE)
		return result;
	/* The argument must stay readable while the reply is written. */
	room_until(c, c->request);
	return WHILE_SPOILED(s, field_once(m, c, s, type, what));
}

/* The value of the field parsed last, or nil. A subprogram: the verifier walks it once. */
__noinline enum result hmget_one(struct sk_msg_md *m, struct context *c NONNULL,
				 struct bpfdb_session *s NONNULL, bool found)
{
	enum bpfdb_status status = found ? entry_find(c, s) : BPFDB_NOT_FOUND;

	if (status >= BPFDB_FIRST_ERROR || c->out > BPFDB_REPLY_BATCH)
		return PASS_TO_DAEMON;
	return field_reply(m, c, s, &c->entry, status == BPFDB_FOUND, ASKED_VALUE);
}

static __always_inline enum result hmget_once(struct sk_msg_md *m, struct context *c,
					      struct bpfdb_session *s, u32 first)
{
	enum bpfdb_status status = collection_get(c, s, BPFDB_TYPE_HASH);
	u32 out = c->out;
	enum result result;

	c->at = c->end;
	if (status >= BPFDB_FIRST_ERROR)
		return reply_error(m, c, s, status);
	c->at = first;
	result = reply_header(m, c, '*', c->argc - 1);
	repeat(i, c->argc - 1)
	{
		if (result == DONE)
			result = arg_next(c);
		if (result == DONE)
			result = hmget_one(m, c, s, status == BPFDB_FOUND);
		if (result != DONE)
			break;
	}
	c->at = c->end;
	if (!bpfdb_still_valid(s))
		result = AGAIN;
	if (result != DONE)
		c->out = out;
	return harmless(result);
}

__noinline enum result command_hmget(struct sk_msg_md *m, struct context *c NONNULL,
				     struct bpfdb_session *s NONNULL)
{
	u32 first;
	enum result result =
		c->argc >= 2 && c->argc <= HMGET_MAX + 1 ? elements_check(c) : PASS_TO_DAEMON;

	if (result == DONE)
		result = key_next(c, s);
	if (result != DONE)
		return result;
	first = c->at;
	room_until(c, c->request);
	return WHILE_SPOILED(s, hmget_once(m, c, s, first));
}

/* ---- Writing ------------------------------------------------------------- */

/* The next argument, and a step of collection_set() with it. */
#define ARG_STEP(c, s, step) (arg_next(c) == DONE ? collection_set(c, s, step) : BPFDB_BAD_REQUEST)

/* The same for each argument behind the key. */
#define EACH_ARG(c, s, own, first, step)                                                           \
	EACH_ELEMENT(c, s, own, first, (c)->argc - 1, ARG_STEP(c, s, step))

/* A field, the argument parsed last, becomes the argument behind it: a step for collection_set(). A new
 * field is counted in c->elements. A subprogram, to keep the stack below the operators short. */
__noinline enum bpfdb_status field_put(struct context *c NONNULL, struct bpfdb_session *s NONNULL,
				       bool only_new)
{
	enum bpfdb_status status = collection_get_for_update(c, s, BPFDB_TYPE_HASH);
	struct packed_entry *e = &c->entry;
	bool found = status == BPFDB_FOUND;

	if (status >= BPFDB_FIRST_ERROR)
		return status;
	status = entry_place(s, arg_as_key(c), arg_as_entry(c), found);
	if (status >= BPFDB_FIRST_ERROR)
		return status;
	if (arg_next(c) != DONE)
		return BPFDB_BAD_REQUEST;
	if (only_new && status == BPFDB_FOUND)
		return BPFDB_FOUND;
	c->elements += status == BPFDB_NOT_FOUND;
	e->value = c->source + c->arg;
	e->value_len = c->arg_len;
	return packed_put(s, e, BPFDB_TYPE_HASH, found, false);
}

/* Fields of one request. */
#define HSET_PAIRS_MAX 64

enum hset { HSET_COUNTS, HSET_OK, HSET_ONLY_NEW };

/* HSET, HMSET, HSETNX. */
__noinline enum result command_hset(struct sk_msg_md *m, struct context *c NONNULL,
				    struct bpfdb_session *s NONNULL, u32 how)
{
	bool own = short_needed(s), only_new = how == HSET_ONLY_NEW;
	u32 first = c->at;
	enum result result;
	enum bpfdb_status status;

	if (c->argc < 3 || c->argc % 2 == 0 || c->argc > 2 * HSET_PAIRS_MAX + 1 ||
	    (c->argc > 3 && (only_new || !parts_are_undone(c, own))))
		return PASS_TO_DAEMON;
	result = elements_check(c);
	if (result != DONE)
		return result;
	status = WITHOUT_CONFLICT(own, EACH_ELEMENT(c, s, own, first, c->argc / 2,
						    ARG_STEP(c, s, field_put(c, s, only_new))));
	return REPLY_WRITTEN(m, c, s, status,
			     how == HSET_OK ? reply_ok(m, c)
					    : reply_header(m, c, ':', c->elements));
}

/* ---- Removing: also elements of sets ------------------------------------- */

/* The argument parsed last is taken out of the collection, and counted in c->elements: a step, and a
 * subprogram, as above. */
__noinline enum bpfdb_status element_take(struct context *c NONNULL,
					  struct bpfdb_session *s NONNULL, u32 type)
{
	enum bpfdb_status status = collection_get_for_update(c, s, type);

	if (status != BPFDB_FOUND)
		return status == BPFDB_NOT_FOUND ? BPFDB_FOUND : status;
	status = entry_take(s, arg_as_entry(c), arg_as_key(c), type);
	c->elements += status == BPFDB_OK || status == BPFDB_NOT_FOUND;
	return status;
}

/* Elements of one request. */
#define ELEMENTS_MAX 64

/* HDEL, SREM. */
__noinline enum result command_take(struct sk_msg_md *m, struct context *c NONNULL,
				    struct bpfdb_session *s NONNULL, u32 type)
{
	bool own = short_needed(s);
	u32 first = c->at;
	enum result result;
	enum bpfdb_status status;

	if (c->argc < 2 || c->argc > ELEMENTS_MAX + 1 || (c->argc > 2 && !parts_are_undone(c, own)))
		return PASS_TO_DAEMON;
	result = elements_check(c);
	if (result != DONE)
		return result;
	status = WITHOUT_CONFLICT(own, EACH_ARG(c, s, own, first, element_take(c, s, type)));
	return REPLY_WRITTEN(m, c, s, status, reply_header(m, c, ':', c->elements));
}

/* ---- HINCRBY ------------------------------------------------------------- */

/* The field is the argument parsed last; the sum is left as text in the context. A step, as above. */
__noinline enum bpfdb_status field_increment(struct context *c NONNULL,
					     struct bpfdb_session *s NONNULL, s64 by)
{
	enum bpfdb_status status = collection_get_for_update(c, s, BPFDB_TYPE_HASH);

	if (status >= BPFDB_FIRST_ERROR)
		return status;
	return field_add(s, arg_as_entry(c), arg_as_key(c), status == BPFDB_FOUND, by, c->text,
			 &c->text_start, &c->number);
}

static __always_inline enum bpfdb_status hincrby_once(struct context *c, struct bpfdb_session *s,
						      bool own, s64 by)
{
	enum bpfdb_status status = short_begin(s, own, SHORT_WRITE);

	if (status == BPFDB_OK)
		status = collection_set(c, s, field_increment(c, s, by));
	return short_end(s, own, status);
}

__noinline enum result command_hincrby(struct sk_msg_md *m, struct context *c NONNULL,
				       struct bpfdb_session *s NONNULL)
{
	bool own = short_needed(s);
	u32 field, field_len;
	enum result result = c->argc == 3 ? key_and_arg(c, s) : PASS_TO_DAEMON;
	enum bpfdb_status status;
	s64 by;

	if (result != DONE)
		return result;
	field = c->arg;
	field_len = c->arg_len;
	result = number_next(c);
	if (result != DONE)
		return result;
	by = c->number;
	c->arg = field;
	c->arg_len = field_len;
	room_until(c, c->request);
	status = WITHOUT_CONFLICT(own, hincrby_once(c, s, own, by));
	if (status >= BPFDB_FIRST_ERROR)
		return reply_error(m, c, s, status);
	room_until(c, c->at);
	return reply_text_integer(m, c, c->text_start, INTEGER_END - c->text_start);
}

#endif
