/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * LPUSH, RPUSH, LPOP, RPOP, LINDEX, LRANGE of large lists, and ZRANGE by rank and ZREVRANGE of large sorted
 * sets: elements at the ends, and by their numbers.
 *
 * Who pushes where the leaf is full begins another one beside it, and who pops the last element of a leaf
 * takes the leaf out: else a queue would come to the daemon once for each leaf, and clients with it that
 * meet the daemon's lock. The page above must have room, or another child; it is the daemon's if not.
 */
#ifndef BPFDB_COMMANDS_LARGE_LIST_BPF_H
#define BPFDB_COMMANDS_LARGE_LIST_BPF_H

#include "large_tree.bpf.h"

/* Elements of a collection whose elements are numbered here. */
#define LARGE_ELEMENTS_MAX (1U << 31)

/* ---- Ends ---------------------------------------------------------------- */

/* The argument behind the key becomes the first or last element of the leaf c->child: a step. NOT_FOUND: the
 * leaf has no room. */
__noinline enum bpfdb_status large_push_leaf(struct context *c NONNULL,
					     struct bpfdb_session *s NONNULL, u32 end)
{
	enum bpfdb_status status = child_lock(c, s);
	struct packed_entry *e = &c->entry;
	const struct packed *run;

	if (status != BPFDB_OK)
		return status;
	if (arg_next(c) != DONE)
		return BPFDB_BAD_REQUEST;
	status = entry_first(arg_as_key(c), arg_as_entry(c));
	if (status != BPFDB_NOT_FOUND)
		return status;
	run = packed_header(s);
	if (!run || !head_gains(&c->head, BPFDB_TYPE_LIST, e->key_len, 0, false))
		return FOR_THE_DAEMON;
	if (form_bytes(s->value_len) + packed_size(e->key_len, 0) > BIG_PAGE_MAX)
		return BPFDB_NOT_FOUND;
	if (end == LIST_RIGHT)
		e->at = PACKED_HEADER + run->used;
	e->value_len = 0;
	return packed_put(s, e, BPFDB_TYPE_STRING, true, false);
}

/* The page c->parent gets another child at this end, with one element, which then is c->child: a step. */
__noinline enum bpfdb_status large_add_child(struct context *c NONNULL,
					     struct bpfdb_session *s NONNULL, u32 end)
{
	struct packed_entry *e = &c->entry;
	const struct packed *run;
	enum bpfdb_status status;

	c->child[0] = c->parent;
	status = child_lock(c, s);
	run = status == BPFDB_OK ? packed_header(s) : NULL;
	if (status != BPFDB_OK)
		return status;
	if (!run || form_bytes(s->value_len) + packed_size(0, sizeof(c->child)) > BIG_PAGE_MAX)
		return FOR_THE_DAEMON;
	e->at = end == LIST_LEFT ? PACKED_HEADER : PACKED_HEADER + run->used;
	e->cut = 0;
	/* Separators of a list are empty. */
	e->key = (u64)c->child;
	e->key_len = 0;
	e->fingerprint = packed_fingerprint(0, 0, 0);
	c->child[0] = BIG_PLACE(BIG_LEAF, c->head.next_page++);
	c->child[1] = 1;
	e->value = (u64)c->child;
	e->value_len = sizeof(c->child);
	return packed_put(s, e, BPFDB_TYPE_STRING, true, false);
}

/* The argument parsed last becomes the only element of the leaf c->child, which there is not yet: a step. */
__noinline enum bpfdb_status large_first_of_leaf(struct context *c NONNULL,
						 struct bpfdb_session *s NONNULL)
{
	enum bpfdb_status status;

	page_key(s, &c->head, c->child[0]);
	status = bpfdb_get_for_update(s);
	if (status != BPFDB_NOT_FOUND)
		return status >= BPFDB_FIRST_ERROR ? status : FOR_THE_DAEMON;
	status = entry_first(arg_as_key(c), arg_as_entry(c));
	if (status != BPFDB_NOT_FOUND)
		return status;
	c->entry.value_len = 0;
	return packed_put(s, &c->entry, BPFDB_TYPE_STRING, false, false);
}

/* The element goes into a leaf of its own, beside c->child, which had no room for it: a step. */
static __always_inline enum bpfdb_status large_push_beside(struct context *c,
							   struct bpfdb_session *s, u32 end)
{
	enum bpfdb_status status;

	/* It was counted where it is not. */
	c->child[0] = c->parent;
	status = value_set(s, large_descend(c, s, end, -1), 0);
	if (status == BPFDB_OK)
		status = value_set(s, large_add_child(c, s, end), 0);
	return status == BPFDB_OK ? large_first_of_leaf(c, s) : status;
}

static __always_inline enum bpfdb_status large_push_once(struct context *c, struct bpfdb_session *s,
							 bool own, u32 end)
{
	enum bpfdb_status status = short_begin(s, own, SHORT_WRITE);

	if (status == BPFDB_OK)
		status = UNLESS_WAITED_FOR(s, large_head_lock(c, s, BPFDB_TYPE_LIST));
	if (status == BPFDB_OK)
		status = large_way(c, s, end, 1);
	if (status == BPFDB_OK) {
		status = large_push_leaf(c, s, end);
		if (status == BPFDB_NOT_FOUND)
			status = large_push_beside(c, s, end);
		status = large_set(c, s, status, BPFDB_TYPE_LIST);
	}
	return short_end(s, own, status);
}

/* LPUSH and RPUSH of one element. */
__noinline enum result large_push(struct sk_msg_md *m, struct context *c NONNULL,
				  struct bpfdb_session *s NONNULL, u32 end)
{
	bool own = short_needed(s);
	enum result result = large_write_begin(c, own, 2);
	enum bpfdb_status status;

	if (result != DONE)
		return result;
	status = WITHOUT_CONFLICT(own, large_push_once(c, s, own, end));
	return REPLY_WRITTEN(m, c, s, status, elements_reply(m, c, c->head.elements));
}

/* Finds the element at one end of the leaf c->child: OK or an Error. */
__noinline enum bpfdb_status large_pop_leaf(struct context *c NONNULL,
					    struct bpfdb_session *s NONNULL, u32 end)
{
	enum bpfdb_status status = child_lock(c, s);
	const struct packed *run = status == BPFDB_OK ? packed_header(s) : NULL;

	if (status != BPFDB_OK)
		return status;
	if (!run || !run->count || !end_entry(c, s, end))
		return FOR_THE_DAEMON;
	head_loses(&c->head, c->entry.key_len);
	return BPFDB_OK;
}

/* The page c->parent loses the child at this end, which is not its only one: a step. */
__noinline enum bpfdb_status large_lose_child(struct context *c NONNULL,
					      struct bpfdb_session *s NONNULL, u32 end)
{
	enum bpfdb_status status;

	c->child[0] = c->parent;
	status = child_lock(c, s);
	if (status != BPFDB_OK)
		return status;
	if (!end_entry(c, s, end))
		return FOR_THE_DAEMON;
	status = packed_take(s, &c->entry, BPFDB_TYPE_STRING);
	return status == BPFDB_NOT_FOUND ? FOR_THE_DAEMON : status;
}

/* Replies with the element that was found, and takes it out of its leaf: a step. NOT_FOUND: it is its only
 * one. */
static __always_inline enum bpfdb_status large_pop_element(struct sk_msg_md *m, struct context *c,
							   struct bpfdb_session *s)
{
	struct packed_entry *e = &c->entry;

	room_until(c, c->request);
	if (reply_slot_bytes(m, c, s, e->at + PACKED_ENTRY, e->key_len) != DONE)
		return FOR_THE_DAEMON;
	return packed_take(s, e, BPFDB_TYPE_STRING);
}

static __always_inline enum bpfdb_status large_pop_once(struct sk_msg_md *m, struct context *c,
							struct bpfdb_session *s, bool own, u32 end)
{
	enum bpfdb_status status = short_begin(s, own, SHORT_WRITE);
	u32 out = c->out;

	if (status == BPFDB_OK)
		status = large_head_lock(c, s, BPFDB_TYPE_LIST);
	if (status == BPFDB_OK)
		status = large_way(c, s, end, -1);
	if (status == BPFDB_OK)
		status = large_pop_leaf(c, s, end);
	if (status == BPFDB_OK) {
		status = large_pop_element(m, c, s);
		if (status == BPFDB_NOT_FOUND) {
			status = bpfdb_delete(s);
			if (status < BPFDB_FIRST_ERROR)
				status = large_lose_child(c, s, end);
		}
		status = large_set(c, s, status, BPFDB_TYPE_LIST);
	}
	status = short_end(s, own, status);
	/* The reply is taken back: what comes next writes its own. */
	if (status >= BPFDB_FIRST_ERROR)
		c->out = out;
	return status;
}

/* LPOP and RPOP of one element. */
__noinline enum result large_pop(struct sk_msg_md *m, struct context *c NONNULL,
				 struct bpfdb_session *s NONNULL, u32 end)
{
	bool own = short_needed(s);
	enum result result = large_write_begin(c, own, 1);
	enum bpfdb_status status;

	if (result != DONE)
		return result;
	room_until(c, c->request);
	status = WITHOUT_CONFLICT(own, large_pop_once(m, c, s, own, end));
	c->at = c->end;
	return status >= BPFDB_FIRST_ERROR ? reply_error(m, c, s, status) : DONE;
}

/* ---- Numbers ------------------------------------------------------------- */

/* GET of the page that is c->child, which has entries: DONE, AGAIN, or PASS_TO_DAEMON. The caller asks
 * whether the page is still valid. */
static __always_inline enum result child_get(struct context *c, struct bpfdb_session *s)
{
	enum bpfdb_status status;

	page_key(s, &c->head, c->child[0]);
	status = page_check(s, NOT_COUNTED(s, bpfdb_get(s)));
	if (status == BIG_SPOILED)
		return AGAIN;
	return status == BPFDB_FOUND ? DONE : PASS_TO_DAEMON;
}

/* The child of a page of the tree that has the element with the number c->number among those below the page: it
 * is at c->entry, and c->number counts from its first. False: there is none. A subprogram: the verifier
 * walks the loop once. */
__noinline bool child_find(struct context *c NONNULL, struct bpfdb_session *s NONNULL)
{
	const struct packed *run = packed_header(s);
	struct packed_entry *e = &c->entry;

	if (!run)
		return false;
	e->at = PACKED_HEADER;
	e->left = LOAD(run->count);
	repeat(i, PACKED_WALK_MAX)
	{
		u32 header, key_len;
		u64 count;

		if (!e->left)
			break;
		header = load4(packed_bytes((void *)run, e->at));
		key_len = header & PACKED_BYTES_MAX;
		count = load8(packed_bytes((void *)run, e->at + PACKED_ENTRY + key_len + 8));
		if (c->number < (s64)count) {
			e->key_len = key_len;
			return header >> 16 == sizeof(c->child);
		}
		c->number -= count;
		e->at += packed_size(key_len, header >> 16);
		e->left--;
	}
	return false;
}

/* Goes from a page of the tree, c->child, to the child that has the element c->number: DONE, AGAIN, or
 * PASS_TO_DAEMON. */
__noinline enum result large_seek(struct context *c NONNULL, struct bpfdb_session *s NONNULL)
{
	enum result result = child_get(c, s);
	const u8 *value;

	if (result != DONE)
		return result;
	result = child_find(c, s) ? DONE : PASS_TO_DAEMON;
	value = slot_byte(s, packed_value_at(&c->entry));
	if (!value)
		return AGAIN;
	c->child[0] = load8(value);
	return bpfdb_still_valid(s) ? result : AGAIN;
}

/* The leaf with the element c->number, which then counts from its first one, is the session's value: as
 * above. */
static __always_inline enum result large_leaf(struct context *c, struct bpfdb_session *s)
{
	enum result result = DONE;

	c->child[0] = BIG_PLACE(BIG_ROOT, 0);
	repeat(i, LARGE_HEIGHT_MAX)
	{
		result = large_seek(c, s);
		if (result != DONE || place_is_leaf(c->child[0]))
			break;
	}
	if (result != DONE)
		return result;
	return place_is_leaf(c->child[0]) ? child_get(c, s) : PASS_TO_DAEMON;
}

/* Elements of the collection from one number to another, negative ones from the end: the first one's number is in
 * c->number, and how many there are in c->count. A subprogram: the verifier walks the ways through it once. */
__noinline int large_part(struct context *c NONNULL, s64 start, s64 end)
{
	struct part part = {};

	/* Unlike in GETRANGE, an end before the first element leaves nothing; nor does LINDEX move its number to
	 * the nearest element. */
	if (end >= -(s64)c->head.elements)
		part = part_of(start, end, c->head.elements);
	c->number = part.first;
	c->count = part.len;
	return 0;
}

/* What a range replies: one element, or an array, from the first or from the last element on. */
enum range_reply { RANGE_ELEMENT, RANGE_UP, RANGE_DOWN };

/* Replies with c->count elements of the leaf from c->number on, if it has all of them. A subprogram, as above. */
__noinline enum result leaf_reply(struct sk_msg_md *m, struct context *c NONNULL,
				  struct bpfdb_session *s NONNULL, u32 how)
{
	const struct packed *run = packed_header(s);
	u64 first = c->number, count = c->count;
	enum result result = DONE;

	if (!run)
		return AGAIN;
	if (first + count > LOAD(run->count))
		return bpfdb_still_valid(s) ? PASS_TO_DAEMON : AGAIN;
	if (how != RANGE_ELEMENT)
		result = reply_header(m, c, '*', count);
	if (result == DONE)
		result = how == RANGE_DOWN ? entries_write_down(m, c, s, first << 32 | count)
					   : entries_write(m, c, s, first << 32 | count, ENTRY_KEY);
	return bpfdb_still_valid(s) ? result : AGAIN;
}

/* Replies with these elements: those of an array, or one, or nil. */
static __always_inline enum result large_range_once(struct sk_msg_md *m, struct context *c,
						    struct bpfdb_session *s, u32 type, s64 start,
						    s64 end, u32 how)
{
	enum result result = large_key(c, s);
	u32 out = c->out;

	if (result == DONE)
		result = large_open(c, s, type);
	if (result == DONE && c->head.elements > LARGE_ELEMENTS_MAX)
		result = PASS_TO_DAEMON;
	if (result != DONE)
		return look_up_end(m, c, s, out, result);
	large_part(c, start, end);
	if (!c->count) {
		result = how == RANGE_ELEMENT ? reply_nil(m, c) : reply_header(m, c, '*', 0);
		return look_up_end(m, c, s, out, result);
	}
	if (how == RANGE_DOWN)
		c->number = c->head.elements - c->number - c->count;
	result = large_leaf(c, s);
	if (result == DONE)
		result = leaf_reply(m, c, s, how);
	if (result == DONE && !large_is_unchanged(c, s))
		result = AGAIN;
	return look_up_end(m, c, s, out, result);
}

/* LRANGE, and ZRANGE by rank without an option, or ZREVRANGE: how an array is replied. */
__noinline enum result large_range(struct sk_msg_md *m, struct context *c NONNULL,
				   struct bpfdb_session *s NONNULL, u32 type, u32 how)
{
	enum result result = c->argc == 3 ? large_begin(c) : PASS_TO_DAEMON;
	s64 start, end;

	if (result == DONE)
		result = key_and_numbers(c, s, 2, &start);
	if (result != DONE)
		return result;
	end = c->number;
	room_until(c, c->request);
	return WHILE_SPOILED(s, large_range_once(m, c, s, type, start, end, how));
}

__noinline enum result large_lindex(struct sk_msg_md *m, struct context *c NONNULL,
				    struct bpfdb_session *s NONNULL)
{
	enum result result = c->argc == 2 ? large_begin(c) : PASS_TO_DAEMON;
	s64 index;

	if (result == DONE)
		result = key_and_numbers(c, s, 1, &index);
	if (result != DONE)
		return result;
	room_until(c, c->request);
	return WHILE_SPOILED(
		s, large_range_once(m, c, s, BPFDB_TYPE_LIST, index, index, RANGE_ELEMENT));
}

#endif
