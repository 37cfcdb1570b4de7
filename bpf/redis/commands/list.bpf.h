/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* LPUSH, RPUSH, LPOP, RPOP, LINDEX, LRANGE: small lists. ZRANGE, ZREVRANGE: small sorted sets. */
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

/* Replies with the element at one end, and takes it out: an outcome or an Error. */
static __always_inline enum bpfdb_status pop_element(struct sk_msg_md *m, struct context *c,
						     struct bpfdb_session *s, u32 end)
{
	const struct packed *run = packed_header(s);
	struct packed_entry *e = &c->entry;

	if (!run)
		return BPFDB_CORRUPT;
	packed_entry_at(s, e, end == LIST_LEFT ? 0 : run->count - 1);
	room_until(c, c->request);
	if (reply_slot_bytes(m, c, s, e->at + PACKED_ENTRY, e->key_len) != DONE)
		return FOR_THE_DAEMON;
	return collection_set(c, s, packed_take(s, e, BPFDB_TYPE_LIST));
}

static __always_inline enum bpfdb_status pop_once(struct sk_msg_md *m, struct context *c,
						  struct bpfdb_session *s, bool own, u32 end)
{
	enum bpfdb_status status = short_begin(s, own, SHORT_WRITE);
	u32 out = c->out;

	if (status == BPFDB_OK)
		status = collection_get_for_update(c, s, BPFDB_TYPE_LIST);
	if (status == BPFDB_FOUND)
		status = pop_element(m, c, s, end);
	else if (status == BPFDB_NOT_FOUND && reply_nil(m, c) != DONE)
		status = FOR_THE_DAEMON;
	status = short_end(s, own, status);
	/* The reply is taken back: what comes next writes its own. */
	if (status >= BPFDB_FIRST_ERROR)
		c->out = out;
	return status;
}

/* LPOP and RPOP of one element. */
__noinline enum result command_pop(struct sk_msg_md *m, struct context *c NONNULL,
				   struct bpfdb_session *s NONNULL, u32 end)
{
	bool own = short_needed(s);
	enum result result = c->argc == 1 ? key_next(c, s) : PASS_TO_DAEMON;
	enum bpfdb_status status;

	if (result != DONE)
		return result;
	room_until(c, c->request);
	status = WITHOUT_CONFLICT(own, pop_once(m, c, s, own, end));
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
