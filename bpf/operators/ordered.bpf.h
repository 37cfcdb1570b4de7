/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Scans of ordered tables, for programs. crates/bpfdb/src/ordered has the index and its invariants: tree.rs
 * says how a leaf is found and what its lock protects, node.rs has the bytes of a node.
 *
 *   height ──► highest level ──► … ──► level 1 ──► leaf
 *          without locks; in a snapshot, of that   locked shared, or of the snapshot
 *
 * bpfdb_ordered_scan() finds the leaf that has the beginning of a range, and copies it. One step of the way is
 * one look-up: ordered_name() says of which record, ordered_advance() what follows from it. Neither calls an
 * operator, so the operators' frames lie below one frame only.
 *
 * bpfdb_ordered_next() shows the keys of the leaf one by one, as the session's key: a GET brings the value. When
 * there are no more, and `more` says so, another bpfdb_ordered_scan() goes on where this one has ended.
 */
#ifndef BPFDB_ORDERED_BPF_H
#define BPFDB_ORDERED_BPF_H

#include "get.bpf.h"

/* Of nodes, and of the record that has the height. */
#define ORDERED_FORMAT 1
#define ORDERED_NODE_HEADER 8
#define ORDERED_NO_NEXT 0xffff
/* Bytes before the key of an entry. */
#define ORDERED_ENTRY 2
/* What ordered_compare() returns of keys that are too long. */
#define ORDERED_UNKNOWN 2
/* Look-ups of one scan: the way down, as often as nodes have gone meanwhile. */
#define ORDERED_STEPS 256
/* Rounds over the entries of a node: those of the shortest keys, and one that finds the end. */
#define ORDERED_ENTRIES (BPFDB_NODE_MAX / ORDERED_ENTRY + 1)

/* A key of a table, without the prefix of its keyspace. */
struct bpfdb_ordered_key {
	u32 len; /* up to BPFDB_ORDERED_KEY_MAX */
	u32 zero;
	u8 bytes[BPFDB_KEY_MAX];
	u64 beyond; /* a word may be read at any of these bytes */
};

/* A scan, in memory of the program's own, as the value of an array map: it has no room on the stack. */
struct bpfdb_ordered_scan {
	u32 table;
	u32 has_end; /* 1: the range ends before `to`; 0: with the table */
	struct bpfdb_ordered_key from; /* in; out: where to go on */
	struct bpfdb_ordered_key to;
	u32 more; /* out: 1: there may be more in the range, from `from` on */
	u32 left; /* keys that bpfdb_ordered_next() has not shown yet */

	/* The rest is of use to the functions here only. */
	u32 at; /* the next of them */
	u32 level; /* of the node that is to be read; BPFDB_NODE_HEIGHT: the height */
	u32 word; /* of two keys that are compared, the byte at which the next eight begin */
	u32 zero;
	struct bpfdb_ordered_key fence;
	u8 node[BPFDB_NODE_MAX];
	u64 beyond;
};

/* ---- Bytes ---------------------------------------------------------------------- */

static __always_inline u8 *ordered_byte(struct bpfdb_ordered_scan *scan, u64 at)
{
	OPAQUE(at);
	return scan->node + (at & (BPFDB_NODE_MAX - 1));
}

static __always_inline u32 ordered_number(struct bpfdb_ordered_scan *scan, u64 at)
{
	return *(u16 *)ordered_byte(scan, at);
}

/* The eight bytes of a text of `len` bytes that begin at its byte `from`, as a number that is ordered as they
 * are; what is behind them counts as zeros. */
static __always_inline u64 ordered_word(u64 word, u32 from, u32 len)
{
	return __builtin_bswap64(from < len ? low_bytes(word, len - from) : 0);
}

/* ordered_compare() of the eight bytes from scan->word on. */
__noinline int ordered_compare_word(struct bpfdb_ordered_scan *scan NONNULL,
				    struct bpfdb_ordered_key *key NONNULL, u32 at, u32 len)
{
	u32 from = scan->word;
	u64 place = from, a, b;

	OPAQUE(place);
	place &= BPFDB_KEY_MAX - 8;
	a = ordered_word(load8(ordered_byte(scan, at + place)), from, len);
	b = ordered_word(load8(key->bytes + place), from, key->len);
	if (a == b)
		return 0;
	return a < b ? -1 : 1;
}

/* Are the `len` bytes of the node at `at` before `key` (-1), the same (0), or behind it (1)? Or
 * ORDERED_UNKNOWN: they have no end within the rounds. The place is kept in memory: in a register the
 * verifier would walk all rounds. */
__noinline int ordered_compare(struct bpfdb_ordered_scan *scan NONNULL,
			       struct bpfdb_ordered_key *key NONNULL, u32 at, u32 len)
{
	scan->word = 0;
	repeat(i, BPFDB_KEY_MAX / 8)
	{
		u32 from = LOAD(scan->word);
		int order;

		if (from >= len && from >= key->len)
			return len == key->len ? 0 : len < key->len ? -1 : 1;
		order = ordered_compare_word(scan, key, at, len);
		if (order)
			return order;
		scan->word = from + 8;
	}
	return ORDERED_UNKNOWN;
}

/* The `len` bytes of the node at `at` become a key. */
static __always_inline int ordered_keep(struct bpfdb_ordered_scan *scan,
					struct bpfdb_ordered_key *key, u32 at, u32 len)
{
	OPAQUE(len);
	if (len > BPFDB_ORDERED_KEY_MAX)
		return BPFDB_CORRUPT;
	bpf_probe_read_kernel(key->bytes, len, ordered_byte(scan, at));
	key->len = len;
	return BPFDB_OK;
}

/* ---- The way to a leaf -------------------------------------------------------------- */

/* The session's key is the prefix of a keyspace and `len` bytes, which the caller puts behind it. */
static __always_inline void ordered_prefix(struct bpfdb_session *s, u64 keyspace, u32 len)
{
	u64 last = len / 8;

	OPAQUE(last);
	s->key[0] = BPFDB_RESERVED_KEYS | keyspace << BPFDB_KEYSPACE_SHIFT;
	s->key[1 + (last & (BPFDB_KEY_MAX / 8 - 1))] = 0;
	s->key_len = BPFDB_KEYSPACE_PREFIX + len;
}

/* The session's key is that of the node that is to be read. */
__noinline int ordered_name(struct bpfdb_session *s NONNULL,
			    struct bpfdb_ordered_scan *scan NONNULL)
{
	u8 *name = (u8 *)&s->key[1];
	u32 len = scan->fence.len;

	OPAQUE(len);
	if (len > BPFDB_ORDERED_KEY_MAX)
		return BPFDB_CORRUPT;
	ordered_prefix(s, BPFDB_KEYSPACE_NODES, BPFDB_NODE_NAME + len);
	name[0] = scan->table;
	name[1] = scan->level;
	bpf_probe_read_kernel(name + BPFDB_NODE_NAME, len, scan->fence.bytes);
	return BPFDB_OK;
}

static __always_inline void ordered_restart(struct bpfdb_ordered_scan *scan)
{
	scan->level = BPFDB_NODE_HEIGHT;
	scan->fence.len = 0;
}

/* The session has read the record of the height, or found none. */
static __always_inline int ordered_height(struct bpfdb_session *s, struct bpfdb_ordered_scan *scan,
					  int status)
{
	u32 height = s->value[0] >> 8 & 0xff;

	scan->level = 0;
	if (status == BPFDB_NOT_FOUND)
		return RETRY;
	if (s->value_len != 2 || (s->value[0] & 0xff) != ORDERED_FORMAT ||
	    height >= BPFDB_NODE_LEVELS_MAX)
		return BPFDB_CORRUPT;
	scan->level = height;
	return RETRY;
}

/* Copies the node that the session has read: OK, RETRY if it was given up meanwhile, CORRUPT. */
static __always_inline int ordered_copy(struct bpfdb_session *s, struct bpfdb_ordered_scan *scan)
{
	u32 len = s->value_len;
	void *slot;

	if (len <= BPFDB_INLINE_MAX) {
		*(u64 *)scan->node = s->value[0];
		*(u64 *)(scan->node + 8) = s->value[1];
	} else {
		slot = bpfdb_at(s->value[0]);
		OPAQUE(len);
		if (!slot || len > BPFDB_NODE_MAX)
			return BPFDB_CORRUPT;
		bpf_probe_read_kernel(scan->node, len, slot);
		if (!bpfdb_still_valid(s))
			return RETRY;
	}
	if (len < ORDERED_NODE_HEADER || scan->node[0] != ORDERED_FORMAT ||
	    scan->node[1] != scan->level)
		return BPFDB_CORRUPT;
	return BPFDB_OK;
}

/* Passes over entries of the node while they are before `key`, or that very key if `with`: scan->at is the
 * first that is not, scan->left how many are left with it, scan->fence the last that was passed over. OK, or
 * CORRUPT. */
__noinline int ordered_pass(struct bpfdb_ordered_scan *scan NONNULL,
			    struct bpfdb_ordered_key *key NONNULL, u32 with)
{
	repeat(i, ORDERED_ENTRIES)
	{
		u32 at = scan->at, len = ordered_number(scan, at);
		int order;

		if (!scan->left)
			return BPFDB_OK;
		order = ordered_compare(scan, key, at + ORDERED_ENTRY, len);
		if (order == ORDERED_UNKNOWN)
			return BPFDB_CORRUPT;
		if (order > 0 || (order == 0 && !with))
			return BPFDB_OK;
		if (with && ordered_keep(scan, &scan->fence, at + ORDERED_ENTRY, len) != BPFDB_OK)
			return BPFDB_CORRUPT;
		scan->at = at + ORDERED_ENTRY + len;
		scan->left--;
	}
	/* More entries than a node has. */
	return BPFDB_CORRUPT;
}

/* Of the entries that are left, those that are in the range. */
static __always_inline int ordered_cut(struct bpfdb_ordered_scan *scan)
{
	u32 at = scan->at, left = scan->left;
	int status;

	if (!scan->has_end)
		return BPFDB_OK;
	status = ordered_pass(scan, &scan->to, false);
	scan->at = at;
	scan->left = left - scan->left;
	return status;
}

/* The leaf of scan->from is there. `next_len`: bytes of the next one's fence. */
static __always_inline int ordered_leaf(struct bpfdb_ordered_scan *scan, u32 next_len)
{
	int status = ordered_pass(scan, &scan->from, false);

	if (status == BPFDB_OK)
		status = ordered_cut(scan);
	if (status != BPFDB_OK || next_len == ORDERED_NO_NEXT)
		return status;
	status = ordered_keep(scan, &scan->from, ORDERED_NODE_HEADER, next_len);
	scan->more = !scan->has_end ||
		     ordered_compare(scan, &scan->to, ORDERED_NODE_HEADER, next_len) < 0;
	return status;
}

/* The session has read the node that was to be read, with this status. OK: it was the leaf; RETRY: another one
 * is to be read; or an Error. */
__noinline int ordered_advance(struct bpfdb_session *s NONNULL,
			       struct bpfdb_ordered_scan *scan NONNULL, int status)
{
	u32 next_len;

	if (status >= BPFDB_FIRST_ERROR)
		return status;
	if (scan->level == BPFDB_NODE_HEIGHT)
		return ordered_height(s, scan, status);
	if (status == BPFDB_NOT_FOUND) {
		/* The table is empty; or the node has gone. */
		if (!scan->level && !scan->fence.len)
			return BPFDB_OK;
		ordered_restart(scan);
		return RETRY;
	}
	status = ordered_copy(s, scan);
	if (status != BPFDB_OK)
		return status;
	next_len = ordered_number(scan, 4);
	scan->at = ORDERED_NODE_HEADER;
	if (next_len != ORDERED_NO_NEXT) {
		int order = ordered_compare(scan, &scan->from, ORDERED_NODE_HEADER, next_len);

		if (order == ORDERED_UNKNOWN)
			return BPFDB_CORRUPT;
		if (order <= 0)
			return ordered_keep(scan, &scan->fence, ORDERED_NODE_HEADER, next_len)
				       ?: RETRY;
		scan->at += next_len;
	}
	scan->left = ordered_number(scan, 2);
	if (!scan->level)
		return ordered_leaf(scan, next_len);
	/* The last child that does not begin behind it. */
	scan->level--;
	return ordered_pass(scan, &scan->from, true) ?: RETRY;
}

/* May the session scan this now? */
static __always_inline int ordered_begin(struct bpfdb_session *s, struct bpfdb_ordered_scan *scan)
{
	int status;

	scan->more = 0;
	scan->left = 0;
	if (scan->table >= config.ordered_tables || scan->from.len > BPFDB_ORDERED_KEY_MAX ||
	    scan->to.len > BPFDB_ORDERED_KEY_MAX)
		return BPFDB_BAD_REQUEST;
	status = txn_ready(s);
	if (status != BPFDB_OK)
		return status;
	if (s->state != BPFDB_TXN_WRITE && s->state != BPFDB_TXN_READ)
		return BPFDB_WRONG_STATE;
	ordered_restart(scan);
	return RETRY;
}

/* One look-up, of the record that the session's key names. What is above leaves is a hint, in a transaction that
 * locks. */
static __always_inline int ordered_look(struct bpfdb_session *s,
					const struct bpfdb_ordered_scan *scan)
{
	int status;

	if (!scan->level || s->state != BPFDB_TXN_WRITE)
		return bpfdb_get(s);
	status = bpfdb_peek(s);
	/* Its writers were faster all the time. */
	return status == BPFDB_EXHAUSTED ? conflict(s, BPFDB_CONFLICT_BUSY, 0) : status;
}

/* The scan ends with `status`. An Error that is its own fails a read-write transaction; one of GET has done so. */
__noinline int ordered_end(struct bpfdb_session *s NONNULL, int status)
{
	if (status == RETRY)
		status = BPFDB_EXHAUSTED;
	if (status < BPFDB_FIRST_ERROR || s->state != BPFDB_TXN_WRITE)
		return status;
	if (!session_enter(s))
		return BPFDB_SESSION_BUSY;
	return session_leave(s, txn_result(s, status));
}

/*
 * The next keys of a range, in a transaction: those of one leaf, which may be none. OK, or an Error, which fails a
 * read-write transaction as that of GET does. In one of these no other one makes a row come or go between
 * `from` as it was and as it is then, until it ends; in a read-only one it is the snapshot that is scanned.
 */
__noinline enum bpfdb_status bpfdb_ordered_scan(struct bpfdb_session *s NONNULL,
						struct bpfdb_ordered_scan *scan NONNULL)
{
	int status = ordered_begin(s, scan);

	repeat(i, ORDERED_STEPS)
	{
		if (status != RETRY)
			break;
		status = ordered_name(s, scan);
		if (status != BPFDB_OK)
			break;
		status = ordered_advance(s, scan, ordered_look(s, scan));
	}
	return ordered_end(s, status);
}

/* The next of these keys becomes the session's: FOUND, or NOT_FOUND if there is none left. */
__noinline enum bpfdb_status bpfdb_ordered_next(struct bpfdb_session *s NONNULL,
						struct bpfdb_ordered_scan *scan NONNULL)
{
	u32 at = scan->at, len = ordered_number(scan, at);

	if (!scan->left)
		return BPFDB_NOT_FOUND;
	OPAQUE(len);
	if (len > BPFDB_ORDERED_KEY_MAX)
		return BPFDB_CORRUPT;
	ordered_prefix(s, BPFDB_KEYSPACE_ORDERED + scan->table, len);
	bpf_probe_read_kernel(&s->key[1], len, ordered_byte(scan, at + ORDERED_ENTRY));
	scan->at = at + ORDERED_ENTRY + len;
	scan->left--;
	return BPFDB_FOUND;
}

#endif
