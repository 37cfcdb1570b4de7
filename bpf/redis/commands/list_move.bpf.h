/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* LMOVE, RPOPLPUSH: an element from one small list to another, or to the other end of the same. */
#ifndef BPFDB_COMMANDS_LIST_MOVE_BPF_H
#define BPFDB_COMMANDS_LIST_MOVE_BPF_H

#include "list.bpf.h"

/* Which ends: where it is taken from, and twice where it goes to. LMOVE says it in two arguments. */
enum move { MOVE_RIGHT_LEFT = LIST_RIGHT | LIST_LEFT << 1, MOVE_SAYS = 4 };

_Static_assert(sizeof(((struct context *)0)->order) == sizeof(struct packed_key),
	       "there is room for an element on its way");

/* Takes the element out of the list whose key the session has, to c->order; its length is in c->order_len. As a step for
 * collection_set(), if c->elements is not 0 then; and c->moved: it was the only one. A subprogram, to keep the stack
 * below the operators short. */
__noinline enum bpfdb_status move_take(struct context *c NONNULL, struct bpfdb_session *s NONNULL,
				       u32 end)
{
	enum bpfdb_status status = collection_get_for_update(c, s, BPFDB_TYPE_LIST);
	const struct packed *run = status == BPFDB_FOUND ? packed_header(s) : NULL;
	struct packed_entry *e = &c->entry;
	const u8 *from;
	u32 len;

	c->elements = 0;
	if (status != BPFDB_FOUND)
		return status;
	if (!run)
		return BPFDB_CORRUPT;
	packed_entry_at(s, e, end == LIST_LEFT ? 0 : run->count - 1);
	from = slot_byte(s, e->at + PACKED_ENTRY);
	if (!from)
		return BPFDB_CORRUPT;
	len = e->key_len & PACKED_BYTES_MAX;
	bpf_probe_read_kernel(c->order, len, from);
	c->order_len = len;
	c->moved = run->count == 1;
	c->elements = 1;
	return packed_take(s, e, BPFDB_TYPE_LIST);
}

/* Puts it into the list whose key the session has: a step for collection_set(). */
__noinline enum bpfdb_status move_put(struct context *c NONNULL, struct bpfdb_session *s NONNULL,
				      u32 end)
{
	enum bpfdb_status status =
		UNLESS_WAITED_FOR(s, collection_get_for_update(c, s, BPFDB_TYPE_LIST));
	struct packed_entry *e = &c->entry;

	if (status >= BPFDB_FIRST_ERROR)
		return status;
	/* Perhaps the list that it was alone in, which keeps its time. */
	if (status == BPFDB_NOT_FOUND && c->moved)
		return FOR_THE_DAEMON;
	e->key_len = c->order_len;
	e->key = (u64)c->order;
	return list_put(s, e, (const struct packed_key *)c->order, status == BPFDB_FOUND, end,
			&c->length);
}

/* From the first key of the request, at `first`, to the second: OK, NOT_FOUND if there is nothing to move, or an
 * Error. */
static __always_inline enum bpfdb_status move_steps(struct context *c, struct bpfdb_session *s,
						    u32 first, u32 ends)
{
	enum bpfdb_status status;
	u32 len;

	c->at = first;
	if (key_next(c, s) != DONE)
		return BPFDB_BAD_REQUEST;
	len = c->arg_len;
	status = move_take(c, s, ends & 1);
	if (!c->elements)
		return status;
	status = collection_set(c, s, status);
	if (status != BPFDB_OK)
		return status;
	/* The daemon says what is wrong with that key. */
	if (key_next(c, s) != DONE)
		return FOR_THE_DAEMON;
	c->moved = c->moved && c->arg_len == len;
	return collection_set(c, s, move_put(c, s, ends >> 1 & 1));
}

/* The element on its way as a bulk string, or none. A subprogram, as pop_reply(). */
__noinline enum result reply_moved(struct sk_msg_md *m, struct context *c NONNULL, bool is_there)
{
	u32 len = c->order_len & PACKED_BYTES_MAX;

	room_until(c, c->request);
	if (!is_there)
		return reply_nil(m, c);
	if (len <= BPFDB_INLINE_MAX)
		return reply_bulk_inline(m, c, load8(c->order), load8(c->order + 8), len);
	return reply_bulk_long(m, c, c->order, len);
}

static __always_inline enum bpfdb_status move_once(struct sk_msg_md *m, struct context *c,
						   struct bpfdb_session *s, bool own, u32 first,
						   u32 ends)
{
	enum bpfdb_status status = short_begin(s, own, SHORT_WRITE);
	u32 out = c->out;

	if (status == BPFDB_OK)
		status = move_steps(c, s, first, ends);
	/* Before the commit, as in pop_once(). */
	if (status < BPFDB_FIRST_ERROR && reply_moved(m, c, status == BPFDB_OK) != DONE)
		status = FOR_THE_DAEMON;
	status = short_end(s, own, status);
	if (status >= BPFDB_FIRST_ERROR)
		c->out = out;
	return status;
}

/* The next argument as an end of a list; 2: it is none. */
static __always_inline u32 end_next(struct context *c)
{
	u64 word = arg_next(c) == DONE ? arg_word(c) : 0;

	if (word == WORD("left"))
		return LIST_LEFT;
	return word == WORD("right") ? LIST_RIGHT : 2;
}

/* The ends that LMOVE says behind its keys; MOVE_SAYS: something else. A subprogram, so that the verifier walks it
 * once. */
__noinline u32 move_ends(struct context *c NONNULL)
{
	u32 from, to;

	if (arg_next(c) != DONE || arg_next(c) != DONE)
		return MOVE_SAYS;
	from = end_next(c);
	to = end_next(c);
	return from > 1 || to > 1 ? MOVE_SAYS : from | to << 1;
}

__noinline enum result command_move(struct sk_msg_md *m, struct context *c NONNULL,
				    struct bpfdb_session *s NONNULL, u32 ends)
{
	bool own = short_needed(s);
	u32 first = c->at;
	enum result result;
	enum bpfdb_status status;

	/* Two records are written: what is done by halves must be undone. */
	if (c->argc != (ends == MOVE_SAYS ? 4 : 2) || !parts_are_undone(c, own))
		return PASS_TO_DAEMON;
	result = elements_check(c);
	if (result != DONE)
		return result;
	if (ends == MOVE_SAYS)
		ends = move_ends(c);
	if (ends == MOVE_SAYS)
		return PASS_TO_DAEMON;
	status = WITHOUT_CONFLICT(own, move_once(m, c, s, own, first, ends));
	c->at = c->end;
	return status >= BPFDB_FIRST_ERROR ? reply_error(m, c, s, status) : DONE;
}

#endif
