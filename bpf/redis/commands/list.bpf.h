/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* LPUSH, RPUSH, LPOP, RPOP, BLPOP, BRPOP, LINDEX, LRANGE: small lists. SPOP: small sets. ZRANGE, ZREVRANGE: small
 * sorted sets. */
#ifndef BPFDB_COMMANDS_LIST_BPF_H
#define BPFDB_COMMANDS_LIST_BPF_H

#include "../../values/waiting.bpf.h"
#include "before.bpf.h"
#include "hash.bpf.h"

/* GET for update of a collection that is to be filled: what collection_get_for_update() says, or
 * FOR_THE_DAEMON if a client waits for the key. */
#define UNLESS_WAITED_FOR(s, status)                                                               \
	({                                                                                         \
		enum bpfdb_status status_ = (status);                                              \
		status_ < BPFDB_FIRST_ERROR &&unlikely(is_waited_for(s)) ? FOR_THE_DAEMON          \
									 : status_;                \
	})

/* ---- Push ---------------------------------------------------------------- */

/* The argument parsed last becomes the first or the last element, with their number in c->length: a
 * step for collection_set(). A subprogram, to keep the stack below the operators short. */
__noinline enum bpfdb_status element_push(struct context *c NONNULL,
					  struct bpfdb_session *s NONNULL, u32 end)
{
	enum bpfdb_status status =
		UNLESS_WAITED_FOR(s, collection_get_for_update(c, s, BPFDB_TYPE_LIST));

	if (status >= BPFDB_FIRST_ERROR)
		return status;
	return list_put(s, arg_as_entry(c), arg_as_key(c), status == BPFDB_FOUND, end, &c->length);
}

__noinline enum result command_push(struct sk_msg_md *m, struct context *c NONNULL,
				    struct bpfdb_session *s NONNULL, u32 end)
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
	status = WITHOUT_CONFLICT(own, EACH_ARG(c, s, own, first, element_push(c, s, end)));
	return REPLY_WRITTEN(m, c, s, status, reply_header(m, c, ':', c->length));
}

/* ---- Pop ----------------------------------------------------------------- */

/* What is taken: an element of a list, by an end of it, or that after the reply's head, BLPOP and BRPOP; or
 * any member of a set. */
enum pop { POP_LEFT = LIST_LEFT, POP_RIGHT = LIST_RIGHT, POP_ANY, POP_NAMES_KEY = 4 };

/* Seconds that a client may ask to wait for, to be answered here. */
#define WAIT_MAX (1 << 30)

static __always_inline u32 pop_type(u32 pop)
{
	return pop == POP_ANY ? BPFDB_TYPE_SET : BPFDB_TYPE_LIST;
}

/* Which of so many entries. */
static __always_inline u32 pop_index(u32 pop, u32 count)
{
	if (pop == POP_ANY)
		return (u64)bpf_get_prandom_u32() * count >> 32;
	return pop & POP_RIGHT ? count - 1 : 0;
}

/* The head of BLPOP's reply, and the key, which is the argument parsed last. */
static __always_inline enum result reply_key(struct sk_msg_md *m, struct context *c)
{
	enum result result = reply_header(m, c, '*', 2);

	return result == DONE ? reply_arg(m, c) : result;
}

/* Replies with the element that is to be taken out, which is left in c->entry: OK or an Error. A subprogram: in the
 * loop of tries the verifier would walk it once for each way to take one. */
__noinline enum bpfdb_status pop_reply(struct sk_msg_md *m, struct context *c NONNULL,
				       struct bpfdb_session *s NONNULL, u32 pop)
{
	const struct packed *run = packed_header(s);
	struct packed_entry *e = &c->entry;

	if (!run)
		return BPFDB_CORRUPT;
	packed_entry_at(s, e, pop_index(pop, run->count));
	room_until(c, c->request);
	/* Those that wait are the first. */
	if (pop & POP_NAMES_KEY && (is_waited_for(s) || reply_key(m, c) != DONE))
		return FOR_THE_DAEMON;
	if (reply_slot_bytes(m, c, s, e->at + PACKED_ENTRY, e->key_len) != DONE)
		return FOR_THE_DAEMON;
	return BPFDB_OK;
}

/* The reply if there is no element. A subprogram, as above. */
__noinline enum bpfdb_status pop_nothing(struct sk_msg_md *m, struct context *c NONNULL, u32 pop)
{
	return pop & POP_NAMES_KEY || reply_nil(m, c) != DONE ? FOR_THE_DAEMON : BPFDB_NOT_FOUND;
}

static __always_inline enum bpfdb_status pop_once(struct sk_msg_md *m, struct context *c,
						  struct bpfdb_session *s, bool own, u32 pop)
{
	enum bpfdb_status status = short_begin(s, own, SHORT_WRITE);
	u32 out = c->out, type = pop_type(pop);

	if (status == BPFDB_OK)
		status = collection_get_for_update(c, s, type);
	if (status == BPFDB_FOUND) {
		status = pop_reply(m, c, s, pop);
		if (status == BPFDB_OK)
			status = collection_set(c, s, packed_take(s, &c->entry, type));
	} else if (status == BPFDB_NOT_FOUND) {
		status = pop_nothing(m, c, pop);
	}
	status = short_end(s, own, status);
	/* The reply is taken back: what comes next writes its own. */
	if (status >= BPFDB_FIRST_ERROR)
		c->out = out;
	return status;
}

/* A key, and the seconds that BLPOP would wait: DONE with the key as the argument parsed last, and c->end behind both.
 * Times with a point are the daemon's, as is what is wrong. */
__noinline enum result key_and_wait(struct context *c NONNULL, struct bpfdb_session *s NONNULL)
{
	u32 start = c->at;
	enum result result = arg_next(c);

	if (result == DONE)
		result = number_next(c);
	if (result == DONE && (c->number < 0 || c->number > WAIT_MAX))
		return PASS_TO_DAEMON;
	c->end = c->at;
	c->at = start;
	return result == DONE ? key_next(c, s) : result;
}

/* LPOP, RPOP and SPOP of one element; BLPOP and BRPOP of one key that has one: else the daemon has the client
 * wait. */
__noinline enum result command_pop(struct sk_msg_md *m, struct context *c NONNULL,
				   struct bpfdb_session *s NONNULL, u32 pop)
{
	bool own = short_needed(s), waits = pop & POP_NAMES_KEY;
	enum result result = PASS_TO_DAEMON;
	enum bpfdb_status status;

	if (c->argc == 1 + waits)
		result = waits ? key_and_wait(c, s) : key_next(c, s);
	if (result != DONE)
		return result;
	room_until(c, c->request);
	status = WITHOUT_CONFLICT(own, pop_once(m, c, s, own, pop));
	if (waits)
		c->at = c->end;
	return status >= BPFDB_FIRST_ERROR ? reply_error(m, c, s, status) : DONE;
}

/* ---- Reading ------------------------------------------------------------- */

/* A key, and `count` numbers behind it: the first in *start, the last in c->number. */
static __always_inline enum result key_and_numbers(struct context *c, struct bpfdb_session *s,
						   u32 count, s64 *start)
{
	enum result result = c->argc == 1 + count ? key_next(c, s) : PASS_TO_DAEMON;

	if (result == DONE)
		result = number_next(c);
	*start = c->number;
	return result == DONE && count == 2 ? number_next(c) : result;
}

static __always_inline enum result range_once(struct sk_msg_md *m, struct context *c,
					      struct bpfdb_session *s, u32 type, s64 start, s64 end,
					      bool down)
{
	enum bpfdb_status status = collection_get(c, s, type);
	struct part part = {};

	if (status >= BPFDB_FIRST_ERROR)
		return reply_error(m, c, s, status);
	/* Unlike in GETRANGE, an end before the first element leaves nothing. */
	if (c->count && end >= -(s64)c->count)
		part = part_of(start, end, c->count);
	if (down)
		part.first = c->count - part.first - part.len;
	return entries_reply(m, c, s, (u64)part.first << 32 | part.len,
			     MARKER_PART('*', down ? ENTRY_DOWN : ENTRY_KEY));
}

/* LRANGE, and ZRANGE by rank without an option; with `down` ZREVRANGE, which counts from the last element. */
__noinline enum result command_range(struct sk_msg_md *m, struct context *c NONNULL,
				     struct bpfdb_session *s NONNULL, u32 type, bool down)
{
	s64 start;
	enum result result = key_and_numbers(c, s, 2, &start);

	if (result != DONE)
		return result;
	room_until(c, c->request);
	return WHILE_SPOILED(s, range_once(m, c, s, type, start, c->number, down));
}

static __always_inline enum result lindex_once(struct sk_msg_md *m, struct context *c,
					       struct bpfdb_session *s, s64 index)
{
	enum bpfdb_status status = collection_get(c, s, BPFDB_TYPE_LIST);
	u32 count = c->count, out = c->out;
	enum result result;

	if (status >= BPFDB_FIRST_ERROR)
		return reply_error(m, c, s, status);
	if (index < 0)
		index += count;
	if (index >= 0 && index < count) {
		packed_entry_at(s, &c->entry, index);
		result = reply_slot_bytes(m, c, s, c->entry.at + PACKED_ENTRY, c->entry.key_len);
	} else {
		result = reply_nil(m, c);
	}
	if (result == DONE && !bpfdb_still_valid(s)) {
		c->out = out;
		return AGAIN;
	}
	return harmless(result);
}

__noinline enum result command_lindex(struct sk_msg_md *m, struct context *c NONNULL,
				      struct bpfdb_session *s NONNULL)
{
	s64 index;
	enum result result = key_and_numbers(c, s, 1, &index);

	if (result != DONE)
		return result;
	room_until(c, c->request);
	return WHILE_SPOILED(s, lindex_once(m, c, s, index));
}

#endif
