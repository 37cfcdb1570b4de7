/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * ZCOUNT, ZRANGEBYSCORE and ZREVRANGEBYSCORE of small sorted sets, between whole numbers or infinities; of options LIMIT
 * alone.
 */
#ifndef BPFDB_COMMANDS_BY_SCORE_BPF_H
#define BPFDB_COMMANDS_BY_SCORE_BPF_H

#include "sorted_set.bpf.h"

enum by_score { BY_SCORE_UP, BY_SCORE_DOWN, BY_SCORE_COUNT };

/* The sides of a range, which are places in c->scores: members that are ordered before the first score are before the
 * range, and of the others those before the second one are in it. */
#define RANGE_MIN 0
#define RANGE_MAX 1

/* Sortable, as score_of(). */
#define SCORE_INFINITY (DOUBLE_SIGN | 0x7ffULL << DOUBLE_FRACTION)
#define SCORE_MINUS_INFINITY (~SCORE_INFINITY)

/* The next argument as one side of a range. Scores are ordered as whole numbers: the next one is 1 more. */
__noinline enum result bound_next(struct context *c NONNULL, u32 side)
{
	enum result result = arg_next(c);
	u64 word, score;
	u32 excludes = 0;
	s64 number = 0;

	if (result != DONE)
		return result;
	/* arg_word() makes letters small: a control character would become a sign. */
	if (c->arg_len && *window_at(c, c->arg, 1) <= ' ')
		return PASS_TO_DAEMON;
	word = arg_word(c);
	if (word == WORD("+inf") || word == WORD("inf")) {
		score = SCORE_INFINITY;
	} else if (word == WORD("-inf")) {
		score = SCORE_MINUS_INFINITY;
	} else {
		excludes = c->arg_len && *window_at(c, c->arg, 1) == '(';
		c->arg += excludes;
		c->arg_len -= excludes;
		if (c->arg_len > INTEGER_MAX_LEN ||
		    !integer_of(window_at(c, c->arg, INTEGER_MAX_LEN), c->arg_len, INTEGER_DIGITS,
				true, &number) ||
		    number > SCORE_WHOLE_MAX || number < -SCORE_WHOLE_MAX)
			return PASS_TO_DAEMON;
		score = score_of(number);
	}
	side &= 1;
	c->scores[side] = score + (excludes != side);
	return DONE;
}

/* How many entries of the run in the session are ordered before a score. A subprogram, so that the verifier walks it
 * once. */
__noinline u32 entries_below(struct context *c NONNULL, struct bpfdb_session *s NONNULL, u64 score)
{
	u32 count = c->count, left;

	/* No key is below an empty one. */
	c->entry.key_len = 0;
	packed_score_place(s, (const struct packed_key *)c->order, &c->entry, score);
	left = c->entry.left;
	/* More, if the slot was given up meanwhile. */
	return left < count ? count - left : 0;
}

/* Which entries of the run are replied, as entries_write() takes it, after LIMIT. */
static __always_inline u64 range_by_score(struct context *c, struct bpfdb_session *s, u32 kind)
{
	u32 first = entries_below(c, s, c->scores[RANGE_MIN]);
	u32 end = entries_below(c, s, c->scores[RANGE_MAX]);
	u32 skipped = c->elements, most = c->length, len = end > first ? end - first : 0;

	len = skipped < len ? len - skipped : 0;
	len = most < len ? most : len;
	first = kind == BY_SCORE_DOWN ? end - skipped - len : first + skipped;
	return len ? (u64)first << 32 | len : 0;
}

static __always_inline enum result by_score_once(struct sk_msg_md *m, struct context *c,
						 struct bpfdb_session *s, u32 kind)
{
	enum bpfdb_status status = collection_get(c, s, BPFDB_TYPE_SORTED_SET);
	u64 first_count = 0;

	if (status == BPFDB_FOUND)
		first_count = range_by_score(c, s, kind);
	if (kind == BY_SCORE_COUNT) {
		c->count = first_count;
		return count_reply(m, c, s, status);
	}
	if (status >= BPFDB_FIRST_ERROR)
		return reply_error(m, c, s, status);
	return entries_reply(m, c, s, first_count,
			     MARKER_PART('*', kind == BY_SCORE_DOWN ? ENTRY_DOWN : ENTRY_KEY));
}

/* LIMIT, the number of entries to skip, and the most that are replied; in c->elements and c->length. */
static __always_inline enum result limit_next(struct context *c)
{
	s64 skipped;
	enum result result;

	if (!word_next(c, WORD("limit"), 5))
		return PASS_TO_DAEMON;
	result = numbers_next(c, &skipped);
	if (result != DONE)
		return result;
	if (skipped < 0)
		return PASS_TO_DAEMON;
	c->elements = skipped < PACKED_WALK_MAX ? skipped : PACKED_WALK_MAX;
	if (c->number >= 0 && c->number < PACKED_WALK_MAX)
		c->length = c->number;
	return DONE;
}

__noinline enum result command_by_score(struct sk_msg_md *m, struct context *c NONNULL,
					struct bpfdb_session *s NONNULL, u32 kind)
{
	bool has_limit = kind != BY_SCORE_COUNT && c->argc == 6;
	u32 side = kind == BY_SCORE_DOWN ? RANGE_MAX : RANGE_MIN;
	enum result result = c->argc == 3 || has_limit ? key_next(c, s) : PASS_TO_DAEMON;

	c->elements = 0;
	c->length = PACKED_WALK_MAX;
	if (result == DONE)
		result = bound_next(c, side);
	if (result == DONE)
		result = bound_next(c, !side);
	if (result == DONE && has_limit)
		result = limit_next(c);
	if (result != DONE)
		return result;
	room_until(c, c->request);
	return WHILE_SPOILED(s, by_score_once(m, c, s, kind));
}

#endif
