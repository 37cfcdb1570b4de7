/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * ZADD of one member, ZINCRBY, ZREM of large sorted sets with whole numbers as scores. A member is in a
 * bucket with its score, and in a leaf of the tree. One that gets another score is taken out of its leaf, and
 * put into that to which its new order leads: as in lists, what would make, join or remove a page is the daemon's.
 */
#ifndef BPFDB_COMMANDS_LARGE_SORTED_SET_BPF_H
#define BPFDB_COMMANDS_LARGE_SORTED_SET_BPF_H

#include "large_tree.bpf.h"

/* ---- Steps --------------------------------------------------------------- */

/* Goes from the root to the leaf to which the member's order with this score leads, as large_way() does to
 * an end. */
static __always_inline enum bpfdb_status order_way(struct context *c, struct bpfdb_session *s,
						   u64 score, s64 change)
{
	return order_make(c, score) ? large_way(c, s, BY_ORDER, change) : FOR_THE_DAEMON;
}

/* Takes the member, the argument parsed last, out of the leaf c->child, of which it is not the only one: a
 * step. */
__noinline enum bpfdb_status member_leave(struct context *c NONNULL,
					  struct bpfdb_session *s NONNULL)
{
	enum bpfdb_status status = child_lock(c, s);

	if (status != BPFDB_OK)
		return status;
	status = packed_find(s, arg_as_key(c), arg_as_entry(c));
	if (status >= BPFDB_FIRST_ERROR)
		return status;
	if (status != BPFDB_FOUND || entry_score(s, &c->entry) != c->scores[0])
		return FOR_THE_DAEMON;
	status = packed_take(s, &c->entry, BPFDB_TYPE_STRING);
	return status == BPFDB_NOT_FOUND ? FOR_THE_DAEMON : status;
}

/* Puts it into the leaf c->child with its new score: a step. */
__noinline enum bpfdb_status member_enter(struct context *c NONNULL,
					  struct bpfdb_session *s NONNULL)
{
	enum bpfdb_status status = child_lock(c, s);
	struct packed_entry *e = &c->entry;

	if (status != BPFDB_OK)
		return status;
	if (form_bytes(s->value_len) + packed_size(c->arg_len, ORDER_SCORE) > BIG_PAGE_MAX)
		return FOR_THE_DAEMON;
	status = entry_first(arg_as_key(c), arg_as_entry(c));
	if (status != BPFDB_NOT_FOUND)
		return status;
	packed_score_place(s, arg_as_key(c), e, c->scores[1]);
	e->value = (u64)&c->scores[1];
	e->value_len = ORDER_SCORE;
	return packed_put(s, e, BPFDB_TYPE_STRING, true, false);
}

/* Sets the page of the step `status`, then the leaves: the member leaves that of its old score, or enters
 * that of its new one, or both. OK or an Error. */
static __always_inline enum bpfdb_status member_move(struct context *c, struct bpfdb_session *s,
						     enum bpfdb_status status, bool leaves,
						     bool enters)
{
	if (status == BPFDB_FOUND)
		return BPFDB_OK;
	status = value_set(s, status, 0);
	if (status == BPFDB_OK && leaves) {
		status = order_way(c, s, c->scores[0], -1);
		if (status == BPFDB_OK)
			status = value_set(s, member_leave(c, s), 0);
	}
	if (status == BPFDB_OK && enters) {
		status = order_way(c, s, c->scores[1], 1);
		if (status == BPFDB_OK)
			status = value_set(s, member_enter(c, s), 0);
	}
	return status == BPFDB_OK ? head_set(c, s, BPFDB_TYPE_SORTED_SET) : status;
}

/* ---- ZADD, ZINCRBY ------------------------------------------------------- */

/* The member in its bucket gets the score c->number, or with `adds` that much more, which then is c->number.
 * Old and new one are left in c->scores; a new member is counted in c->elements. A step. */
__noinline enum bpfdb_status member_score(struct context *c NONNULL,
					  struct bpfdb_session *s NONNULL, bool found, bool adds)
{
	s64 old = 0;

	/* So the sum is one of 64 bits. */
	if (c->number > SCORE_WHOLE_MAX || c->number < -SCORE_WHOLE_MAX)
		return FOR_THE_DAEMON;
	c->scores[0] = found ? entry_score(s, &c->entry) : 0;
	if (found && adds && !score_whole(c->scores[0], &old))
		return FOR_THE_DAEMON;
	c->number += old;
	if (c->number > SCORE_WHOLE_MAX || c->number < -SCORE_WHOLE_MAX)
		return FOR_THE_DAEMON;
	c->scores[1] = score_of(LOAD(c->number));
	if (found && score_order(c->scores[0]) == c->scores[1])
		return BPFDB_FOUND;
	c->elements = !found;
	return large_put(c, s, BPFDB_TYPE_SORTED_SET, found, (u64)&c->scores[1], ORDER_SCORE,
			 false);
}

static __always_inline enum bpfdb_status large_zadd_once(struct context *c, struct bpfdb_session *s,
							 bool own, bool adds)
{
	enum bpfdb_status status = short_begin(s, own, SHORT_WRITE);

	if (status == BPFDB_OK)
		status = large_lock(c, s, BPFDB_TYPE_SORTED_SET, true);
	if (status < BPFDB_FIRST_ERROR) {
		bool found = status == BPFDB_FOUND;

		status = member_move(c, s, member_score(c, s, found, adds), found, true);
	}
	/* Its text would have more than 16 bytes. */
	if (status == BPFDB_OK && adds && c->number <= SCORE_LONG)
		status = FOR_THE_DAEMON;
	return short_end(s, own, status);
}

/* ZADD of one member without options (`adds` 0), ZINCRBY. */
__noinline enum result large_zadd(struct sk_msg_md *m, struct context *c NONNULL,
				  struct bpfdb_session *s NONNULL, bool adds)
{
	bool own = short_needed(s);
	enum result result = large_write_begin(c, own, 3);
	enum bpfdb_status status;

	if (result != DONE)
		return result;
	status = WITHOUT_CONFLICT(own, large_zadd_once(c, s, own, adds));
	return REPLY_WRITTEN(m, c, s, status,
			     adds ? reply_score(m, c) : reply_header(m, c, ':', c->elements));
}

/* ---- ZREM ---------------------------------------------------------------- */

static __always_inline enum bpfdb_status large_zrem_once(struct context *c, struct bpfdb_session *s,
							 bool own)
{
	enum bpfdb_status status = short_begin(s, own, SHORT_WRITE);

	if (status == BPFDB_OK)
		status = large_lock(c, s, BPFDB_TYPE_SORTED_SET, false);
	if (status == BPFDB_FOUND)
		c->scores[0] = entry_score(s, &c->entry);
	if (status < BPFDB_FIRST_ERROR)
		status = member_move(c, s, large_leave(c, s, status == BPFDB_FOUND), true, false);
	return short_end(s, own, status);
}

/* ZREM of one member. */
__noinline enum result large_zrem(struct sk_msg_md *m, struct context *c NONNULL,
				  struct bpfdb_session *s NONNULL)
{
	bool own = short_needed(s);
	enum result result = large_write_begin(c, own, 2);
	enum bpfdb_status status;

	if (result != DONE)
		return result;
	status = WITHOUT_CONFLICT(own, large_zrem_once(c, s, own));
	return REPLY_WRITTEN(m, c, s, status, reply_header(m, c, ':', c->elements));
}

#endif
