/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * ZSCORE, ZADD without options, ZINCRBY: small sorted sets with whole numbers as scores. ZRANK, ZREVRANK. ZREM is
 * of hash.bpf.h, ZCARD of collection.bpf.h, ZRANGE and ZREVRANGE of list.bpf.h.
 */
#ifndef BPFDB_COMMANDS_SORTED_SET_BPF_H
#define BPFDB_COMMANDS_SORTED_SET_BPF_H

#include "../../values/score.bpf.h"
#include "list.bpf.h"

/* Scores up to this one have more than 16 bytes as text. */
#define SCORE_LONG (-1000000000000000LL)

/* ---- Replies ------------------------------------------------------------- */

/* A score as a client reads it: a bulk string in RESP2, a double in RESP3. It is in c->number. */
__noinline enum result reply_score(struct sk_msg_md *m, struct context *c NONNULL)
{
	u32 start = integer_write(c->text, &c->text_start, c->number), len = INTEGER_END - start;
	const u8 *from = integer_text(c->text, start);
	enum result result;
	u32 out = c->out;
	u8 *p;

	if (!c->own.resp3) {
		/* A whole number of 53 bits and its sign have 17 bytes at most. */
		if (len <= BPFDB_INLINE_MAX)
			return reply_bulk_inline(m, c, load8(from), load8(from + 8), len);
		return PASS_TO_DAEMON;
	}
	result = reply_text_integer(m, c, start, len);
	if (result != DONE)
		return result;
	/* The same line with another marker. */
	p = bpf_msg_pull_data(m, out, out + 1, 0) ? NULL : ROOM(m, 1);
	if (!p) {
		c->out = out;
		return NO_ROOM;
	}
	*p = ',';
	return DONE;
}

/* Leaves the score of the entry that was found in c->number. False: it is not printed as a whole number. A
 * subprogram: the verifier walks it once. */
__noinline bool score_found(struct context *c NONNULL, struct bpfdb_session *s NONNULL)
{
	u64 stored = entry_score(s, &c->entry);
	s64 score;

	if (stored == SCORE_MINUS_ZERO || !score_whole(stored, &score))
		return false;
	c->number = score;
	return true;
}

static __always_inline enum result zscore_once(struct sk_msg_md *m, struct context *c,
					       struct bpfdb_session *s)
{
	enum bpfdb_status status = collection_get(c, s, BPFDB_TYPE_SORTED_SET);
	bool is_whole;

	if (status == BPFDB_FOUND)
		status = entry_find(c, s);
	if (status >= BPFDB_FIRST_ERROR)
		return reply_error(m, c, s, status);
	is_whole = status != BPFDB_FOUND || score_found(c, s);
	if (!bpfdb_still_valid(s))
		return AGAIN;
	if (!is_whole)
		return PASS_TO_DAEMON;
	return harmless(status == BPFDB_FOUND ? reply_score(m, c) : reply_nil(m, c));
}

__noinline enum result command_zscore(struct sk_msg_md *m, struct context *c NONNULL,
				      struct bpfdb_session *s NONNULL)
{
	enum result result = c->argc == 2 ? key_and_arg(c, s) : PASS_TO_DAEMON;

	if (result != DONE)
		return result;
	room_until(c, c->request);
	return WHILE_SPOILED(s, zscore_once(m, c, s));
}

/* How many entries of the run are before the one that was found, or with `down` behind it. */
static __always_inline u64 entry_rank(const struct context *c, u32 count, bool down)
{
	return down ? c->entry.left - 1 : count - c->entry.left;
}

static __always_inline enum result rank_once(struct sk_msg_md *m, struct context *c,
					     struct bpfdb_session *s, bool down)
{
	enum bpfdb_status status = collection_get(c, s, BPFDB_TYPE_SORTED_SET);

	if (status == BPFDB_FOUND)
		status = entry_find(c, s);
	if (status >= BPFDB_FIRST_ERROR)
		return reply_error(m, c, s, status);
	if (!bpfdb_still_valid(s))
		return AGAIN;
	if (status != BPFDB_FOUND)
		return harmless(reply_nil(m, c));
	return harmless(reply_header(m, c, ':', entry_rank(c, c->count, down)));
}

/* ZRANK, and ZREVRANK, which counts down from the last member. */
__noinline enum result command_rank(struct sk_msg_md *m, struct context *c NONNULL,
				    struct bpfdb_session *s NONNULL, bool down)
{
	enum result result = c->argc == 2 ? key_and_arg(c, s) : PASS_TO_DAEMON;

	if (result != DONE)
		return result;
	room_until(c, c->request);
	return WHILE_SPOILED(s, rank_once(m, c, s, down));
}

/* ---- Writing ------------------------------------------------------------- */

/* The member, the argument parsed last, gets the score c->number: as member_step() has it, a step for
 * collection_set(). A new one is counted in c->elements. A subprogram, as in hash.bpf.h. */
__noinline enum bpfdb_status member_put(struct context *c NONNULL, struct bpfdb_session *s NONNULL,
					bool adds)
{
	enum bpfdb_status status =
		UNLESS_WAITED_FOR(s, collection_get_for_update(c, s, BPFDB_TYPE_SORTED_SET));
	bool found = status == BPFDB_FOUND;

	if (status >= BPFDB_FIRST_ERROR)
		return status;
	status = member_step(s, arg_as_entry(c), arg_as_key(c), found, adds,
			     (struct scored *)c->text, &c->number, &c->elements, &c->moved);
	return member_write(s, &c->entry, found, status);
}

/* The member, the argument parsed last, with its score in c->number: OK or an Error. */
static __always_inline enum bpfdb_status member_set(struct context *c, struct bpfdb_session *s,
						    bool adds)
{
	u32 members = c->elements;
	enum bpfdb_status status;

	c->moved = 0;
	status = collection_set(c, s, member_put(c, s, adds));
	if (status != BPFDB_OK || !c->moved)
		return status;
	status = collection_set(c, s, member_put(c, s, false));
	/* It was there before. */
	c->elements = members;
	return status;
}

/* A score and its member, the next two arguments. */
static __always_inline enum bpfdb_status member_next(struct context *c, struct bpfdb_session *s)
{
	/* An option, or a score that is not whole. */
	if (number_next(c) != DONE || c->number > SCORE_WHOLE_MAX || c->number < -SCORE_WHOLE_MAX)
		return FOR_THE_DAEMON;
	return arg_next(c) == DONE ? member_set(c, s, false) : BPFDB_BAD_REQUEST;
}

__noinline enum result command_zadd(struct sk_msg_md *m, struct context *c NONNULL,
				    struct bpfdb_session *s NONNULL)
{
	bool own = short_needed(s);
	u32 first = c->at;
	enum result result;
	enum bpfdb_status status;

	/* A member that moves is written twice: what is done by halves must be undone. */
	if (c->argc < 3 || c->argc % 2 == 0 || c->argc > 2 * ELEMENTS_MAX + 1 ||
	    !parts_are_undone(c, own))
		return PASS_TO_DAEMON;
	result = elements_check(c);
	if (result != DONE)
		return result;
	status = WITHOUT_CONFLICT(own,
				  EACH_ELEMENT(c, s, own, first, c->argc / 2, member_next(c, s)));
	return REPLY_WRITTEN(m, c, s, status, reply_header(m, c, ':', c->elements));
}

static __always_inline enum bpfdb_status zincrby_once(struct context *c, struct bpfdb_session *s,
						      bool own, u32 first)
{
	enum bpfdb_status status = short_begin(s, own, SHORT_WRITE);

	c->at = first;
	if (status == BPFDB_OK && (number_next(c) != DONE || arg_next(c) != DONE))
		status = FOR_THE_DAEMON;
	if (status == BPFDB_OK)
		status = c->number > SCORE_WHOLE_MAX || c->number < -SCORE_WHOLE_MAX
				 ? FOR_THE_DAEMON
				 : member_set(c, s, true);
	/* Its text would have more than 16 bytes: the daemon's, and nothing must be done here. */
	if (status == BPFDB_OK && c->number <= SCORE_LONG)
		status = FOR_THE_DAEMON;
	return short_end(s, own, status);
}

__noinline enum result command_zincrby(struct sk_msg_md *m, struct context *c NONNULL,
				       struct bpfdb_session *s NONNULL)
{
	u32 first;
	bool own = short_needed(s);
	enum result result;
	enum bpfdb_status status;

	if (c->argc != 3 || !parts_are_undone(c, own))
		return PASS_TO_DAEMON;
	result = elements_check(c);
	if (result == DONE)
		result = key_next(c, s);
	if (result != DONE)
		return result;
	first = c->at;
	status = WITHOUT_CONFLICT(own, zincrby_once(c, s, own, first));
	return REPLY_WRITTEN(m, c, s, status, reply_score(m, c));
}

#endif
