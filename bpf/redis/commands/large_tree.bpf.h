/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The tree of a large list or sorted set: elements in their order in leaves, below pages that count them.
 *
 *   root ──► … ──► leaf
 *   each by its child at one end, or by the one to which the order of a member leads
 *
 * A change of a leaf goes down from the root, and sets each page on its way with another count, then the
 * leaf. What would divide or join pages is the daemon's. At the ends of a list leaves come and go (large_list.bpf.h).
 */
#ifndef BPFDB_COMMANDS_LARGE_TREE_BPF_H
#define BPFDB_COMMANDS_LARGE_TREE_BPF_H

#include "large.bpf.h"

/* Pages above a leaf: a list of 100 MB has two. */
#define LARGE_HEIGHT_MAX 3

/* Which child leads on, beside those at the ends (enum list_end): that to which an order leads. */
#define BY_ORDER 2

static __always_inline bool place_is_leaf(u64 place)
{
	return place >> BIG_PLACE_BITS == BIG_LEAF;
}

/* ---- Pages --------------------------------------------------------------- */

/* Locks the key's head: OK or an Error. */
__noinline enum bpfdb_status large_head_lock(struct context *c NONNULL,
					     struct bpfdb_session *s NONNULL, u32 type)
{
	return large_key(c, s) == DONE ? head_lock(c, s, type) : BPFDB_BAD_REQUEST;
}

/* Locks the page that is c->child, which has entries: OK or an Error. */
static __always_inline enum bpfdb_status child_lock(struct context *c, struct bpfdb_session *s)
{
	enum bpfdb_status status;

	page_key(s, &c->head, c->child[0]);
	status = page_check(s, bpfdb_get_for_update(s));
	if (status == BPFDB_FOUND)
		return BPFDB_OK;
	return status == BPFDB_NOT_FOUND || status == BIG_SPOILED ? FOR_THE_DAEMON : status;
}

/* The entry at one end of the page in the session, which is locked: in c->entry. */
static __always_inline bool end_entry(struct context *c, struct bpfdb_session *s, u32 end)
{
	const struct packed *run = packed_header(s);

	if (!run)
		return false;
	packed_entry_at(s, &c->entry, end == LIST_LEFT ? 0 : run->count - 1);
	return true;
}

/* ---- Order --------------------------------------------------------------- */

/* Bytes of an order's score. */
#define ORDER_SCORE 8
/* Bytes of the longest member: its order, and a zero behind it, are compared as a key of an entry. */
#define ORDERED_MEMBER_MAX (PACKED_BYTES_MAX - ORDER_SCORE - 1)

_Static_assert(sizeof(((struct context *)0)->order) == sizeof(struct packed_key),
	       "an order is compared as a key is");

/* The order of the member, the argument parsed last, with a stored score: its bytes, the highest first,
 * and the member. A zero is behind it: what is below that is not behind the order. */
__noinline bool order_make(struct context *c NONNULL, u64 score)
{
	u32 len = c->arg_len;
	u64 end = len;

	OPAQUE(len);
	if (len > ORDERED_MEMBER_MAX)
		return false;
	*(u64 *)c->order = __builtin_bswap64(score_order(score));
	bpf_probe_read_kernel(c->order + ORDER_SCORE, len, (void *)(c->source + c->arg));
	OPAQUE(end);
	c->order[(ORDER_SCORE + end) & PACKED_BYTES_MAX] = 0;
	c->order_len = ORDER_SCORE + end + 1;
	return true;
}

/* Is the separator at c->entry, of so many bytes, not behind the order? */
static __always_inline bool separator_leads(struct context *c, struct bpfdb_session *s,
					    const struct packed *run, u32 len)
{
	u64 word, wanted = *(u64 *)c->order;

	if (len >= ORDER_SCORE) {
		word = load8(packed_bytes((void *)run, c->entry.at + PACKED_ENTRY));
		if (word != wanted)
			return __builtin_bswap64(word) < __builtin_bswap64(wanted);
	}
	return packed_key_below(s, (const struct packed_key *)c->order, c->entry.at, c->order_len);
}

/* The child of the page in the session to which the order leads: in c->entry. A subprogram: the verifier
 * walks the loop once. */
__noinline bool order_child(struct context *c NONNULL, struct bpfdb_session *s NONNULL)
{
	const struct packed *run = packed_header(s);
	struct packed_entry *e = &c->entry;
	u32 header;

	if (!run)
		return false;
	e->at = PACKED_HEADER;
	e->left = LOAD(run->count);
	c->chosen = 0;
	repeat(i, PACKED_WALK_MAX)
	{
		if (!e->left)
			break;
		header = load4(packed_bytes((void *)run, e->at));
		/* That of the first child says nothing. */
		if (c->chosen && !separator_leads(c, s, run, header & PACKED_BYTES_MAX))
			break;
		c->chosen = e->at;
		e->at += packed_size(header & PACKED_BYTES_MAX, header >> 16);
		e->left--;
	}
	e->at = c->chosen;
	header = load4(packed_bytes((void *)run, e->at));
	e->key_len = header & PACKED_BYTES_MAX;
	e->value_len = header >> 16;
	e->cut = packed_size(e->key_len, e->value_len);
	return e->at;
}

/* ---- Ways ---------------------------------------------------------------- */

/* Goes from a page of the tree, c->child, to the child that leads on, which then is c->child; the page is
 * c->parent then. It is left as the session's value, with `change` more elements below that child: OK or an
 * Error. */
__noinline enum bpfdb_status large_descend(struct context *c NONNULL,
					   struct bpfdb_session *s NONNULL, u32 way, s64 change)
{
	enum bpfdb_status status = child_lock(c, s);
	const struct packed *run = status == BPFDB_OK ? packed_header(s) : NULL;
	struct packed_entry *e = &c->entry;
	const u8 *value;

	if (status != BPFDB_OK)
		return status;
	if (!run || !(way == BY_ORDER ? order_child(c, s) : end_entry(c, s, way)))
		return FOR_THE_DAEMON;
	value = slot_byte(s, packed_value_at(e));
	if (!value || e->value_len != sizeof(c->child))
		return FOR_THE_DAEMON;
	c->parent = c->child[0];
	c->child[0] = load8(value);
	c->child[1] = load8(value + 8) + change;
	/* The separator stays. */
	e->fingerprint = load4(packed_bytes((void *)run, e->at)) >> 8 & 0xff;
	e->key = (u64)packed_bytes((void *)run, e->at + PACKED_ENTRY);
	e->value = (u64)c->child;
	return packed_put(s, e, BPFDB_TYPE_STRING, true, false);
}

/* Goes from the root to a leaf, which then is c->child, and counts `change` in all pages on the
 * way: OK or an Error. */
static __always_inline enum bpfdb_status large_way(struct context *c, struct bpfdb_session *s,
						   u32 way, s64 change)
{
	enum bpfdb_status status = BPFDB_OK;

	c->child[0] = BIG_PLACE(BIG_ROOT, 0);
	repeat(i, LARGE_HEIGHT_MAX)
	{
		status = value_set(s, large_descend(c, s, way, change), 0);
		if (status != BPFDB_OK || place_is_leaf(c->child[0]))
			break;
	}
	return status != BPFDB_OK || place_is_leaf(c->child[0]) ? status : FOR_THE_DAEMON;
}

#endif
