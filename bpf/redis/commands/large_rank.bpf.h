/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * ZRANK and ZREVRANK of large sorted sets. The member's bucket says its score; both are its order, which leads
 * from the root to its leaf. What the pages on the way count below the children before, and the entries
 * of the leaf before the member, are its rank.
 */
#ifndef BPFDB_COMMANDS_LARGE_RANK_BPF_H
#define BPFDB_COMMANDS_LARGE_RANK_BPF_H

#include "large_list.bpf.h"
#include "large_sorted_set.bpf.h"

/* The member, the argument behind the key: FOUND with its order in the context, NOT_FOUND, or an Error. A
 * subprogram: the verifier walks it once. */
__noinline enum bpfdb_status member_order(struct context *c NONNULL,
					  struct bpfdb_session *s NONNULL)
{
	enum bpfdb_status status = arg_next(c) == DONE ? table_find(c, s) : BPFDB_BAD_REQUEST;
	u64 score = status == BPFDB_FOUND ? entry_score(s, &c->entry) : 0;

	if (status >= BPFDB_FIRST_ERROR)
		return status;
	if (!bpfdb_still_valid(s))
		return BIG_SPOILED;
	if (status == BPFDB_NOT_FOUND)
		return status;
	return order_make(c, score) ? BPFDB_FOUND : FOR_THE_DAEMON;
}

/* Adds to c->number how many elements are below the children before the one at c->chosen, to which it goes:
 * c->entry.at is its place then. A subprogram, as above. */
__noinline bool children_pass(struct context *c NONNULL, struct bpfdb_session *s NONNULL)
{
	const struct packed *run = packed_header(s);
	struct packed_entry *e = &c->entry;

	if (!run)
		return false;
	e->at = PACKED_HEADER;
	repeat(i, PACKED_WALK_MAX)
	{
		u32 header, key_len;

		if (e->at >= c->chosen)
			break;
		header = load4(packed_bytes((void *)run, e->at));
		key_len = header & PACKED_BYTES_MAX;
		c->number += load8(packed_bytes((void *)run, e->at + PACKED_ENTRY + key_len + 8));
		e->at += packed_size(key_len, header >> 16);
	}
	return e->at == c->chosen;
}

/* Goes from a page of the tree, c->child, to the child to which the order leads: as large_seek(), which goes by a
 * number. */
__noinline enum result rank_seek(struct context *c NONNULL, struct bpfdb_session *s NONNULL)
{
	enum result result = child_get(c, s);
	const u8 *value;

	if (result != DONE)
		return result;
	if (!order_child(c, s) || !children_pass(c, s))
		result = PASS_TO_DAEMON;
	value = slot_byte(s, packed_value_at(&c->entry));
	if (!value)
		return AGAIN;
	c->child[0] = load8(value);
	return bpfdb_still_valid(s) ? result : AGAIN;
}

/* Adds to c->number how many entries of the leaf c->child are before the member. A subprogram, as above. */
__noinline enum result leaf_rank(struct context *c NONNULL, struct bpfdb_session *s NONNULL)
{
	enum result result = child_get(c, s);
	const struct packed *run = result == DONE ? packed_header(s) : NULL;

	if (result != DONE)
		return result;
	if (!run)
		return AGAIN;
	if (entry_find(c, s) != BPFDB_FOUND)
		result = PASS_TO_DAEMON;
	c->number += entry_rank(c, LOAD(run->count), false);
	return bpfdb_still_valid(s) ? result : AGAIN;
}

/* The rank of the member whose order is in the context: in c->number. */
static __always_inline enum result member_rank(struct context *c, struct bpfdb_session *s)
{
	enum result result = DONE;

	c->number = 0;
	c->child[0] = BIG_PLACE(BIG_ROOT, 0);
	repeat(i, LARGE_HEIGHT_MAX)
	{
		result = rank_seek(c, s);
		if (result != DONE || place_is_leaf(c->child[0]))
			break;
	}
	if (result != DONE)
		return result;
	return place_is_leaf(c->child[0]) ? leaf_rank(c, s) : PASS_TO_DAEMON;
}

static __always_inline enum result large_rank_once(struct sk_msg_md *m, struct context *c,
						   struct bpfdb_session *s, bool down)
{
	enum result result = large_key(c, s);
	enum bpfdb_status status;
	u32 out = c->out;

	if (result == DONE)
		result = large_open(c, s, BPFDB_TYPE_SORTED_SET);
	if (result != DONE)
		return look_up_end(m, c, s, out, result);
	status = member_order(c, s);
	if (status == BIG_SPOILED)
		result = AGAIN;
	else if (status >= BPFDB_FIRST_ERROR)
		result = PASS_TO_DAEMON;
	else if (status == BPFDB_FOUND)
		result = member_rank(c, s);
	if (result == DONE && !large_is_unchanged(c, s))
		result = AGAIN;
	if (result == DONE && status == BPFDB_NOT_FOUND)
		result = reply_nil(m, c);
	else if (result == DONE)
		result = elements_reply(m, c, down ? c->head.elements - 1 - c->number : c->number);
	return look_up_end(m, c, s, out, result);
}

/* ZRANK, and ZREVRANK, which counts down from the last member. */
__noinline enum result large_rank(struct sk_msg_md *m, struct context *c NONNULL,
				  struct bpfdb_session *s NONNULL, bool down)
{
	enum result result = c->argc == 2 ? large_begin(c) : PASS_TO_DAEMON;

	if (result != DONE)
		return result;
	/* The member must stay readable while its order is looked for. */
	room_until(c, c->request);
	return WHILE_SPOILED(s, large_rank_once(m, c, s, down));
}

#endif
