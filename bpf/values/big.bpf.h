/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Large collections, whose elements are in pages (docs/formats/large-collections.md; user space has the
 * same in crates/bpfdb-values/src/big). Here are the names of pages, the bucket of an element, and what a
 * head says of a change. Pages are packed runs: packed.bpf.h reads and edits them.
 *
 * What would split or join pages is left to user space, and so is a page whose entries are WIDE. Leaves at the
 * ends of lists come and go here (redis/commands/large_list.bpf.h).
 */
#ifndef BPFDB_VALUES_BIG_BPF_H
#define BPFDB_VALUES_BIG_BPF_H

#include "big_head.bpf.h"
#include "siphash.bpf.h"

/* Not an outcome of the engine: head and page that were read are not those of one moment. It compares as
 * an Error. */
#define BIG_SPOILED (LEFT_TO_USER_SPACE + 1)

/* In the flags of a head, beside PACKED_WIDE. */
#define PACKED_BIG 8

/* What a page is: the highest byte of its place. The others are its number. */
#define BIG_PLACE_BITS 56
#define BIG_PLACE(what, number) ((u64)(what) << BIG_PLACE_BITS | (number))
#define BIG_BUCKET 1
#define BIG_ROOT 2
#define BIG_LEAF 3

/* Bytes of a page beyond which it is split, and on average: those of page.rs. */
#define BIG_PAGE_MAX 4096
#define BIG_PAGE_TARGET (BIG_PAGE_MAX / 2)

/* ---- Heads --------------------------------------------------------------- */

/* Takes over the head that GET of any type left in the session. False: it is none of this type. The
 * caller believes it only if the value is still valid, or locked. */
static __always_inline bool head_read(struct bpfdb_session *s, struct big_head *head, u32 type)
{
	const struct big_head *from;

	if (s->value_len != (sizeof(*head) | type << BPFDB_FORM_LENGTH_BITS))
		return false;
	from = bpfdb_at(s->value[0]);
	if (!from)
		return false;
	*head = *from;
	return !head->count && head->used == sizeof(*head) - PACKED_HEADER &&
	       (head->flags & ~(u32)(PACKED_NOT_INTEGERS | PACKED_NOT_COMPACT)) ==
		       (PACKED_WIDE | PACKED_BIG);
}

/* The head becomes the session's value, for SET: OK or an Error. */
static __always_inline enum bpfdb_status head_write(struct bpfdb_session *s,
						    const struct big_head *head, u32 type)
{
	enum bpfdb_status status = bpfdb_typed_alloc(s, sizeof(*head), type);
	struct big_head *to = status == BPFDB_OK ? bpfdb_at(s->value[0]) : NULL;

	if (!to)
		return status == BPFDB_OK ? BPFDB_CORRUPT : status;
	*to = *head;
	return BPFDB_OK;
}

/* An element goes that has so many bytes. */
static __always_inline void head_loses(struct big_head *head, u64 bytes)
{
	head->elements -= head->elements > 0;
	head->bytes -= bytes < head->bytes ? bytes : head->bytes;
}

/* Bytes of an entry before its key, in a run that is WIDE. */
#define PACKED_WIDE_ENTRY 12

/* An element comes. What it is marks the collection for ever, as it does a run. False: as one run the
 * collection would be longer than a value. */
static __always_inline bool head_gains(struct big_head *head, u32 type, u32 key_len, u32 value_len,
				       bool is_integer)
{
	struct packed as = {.longest = head->longest, .flags = head->flags};
	u64 entry;

	head->elements++;
	head->bytes += key_len + value_len;
	if (key_len > as.longest)
		as.longest = key_len;
	if (value_len > as.longest)
		as.longest = value_len;
	as.count = head->elements < ~0u ? head->elements : ~0u;
	head->longest = as.longest;
	head->flags = packed_flags(&as, type, is_integer);
	entry = as.longest > PACKED_BYTES_MAX ? PACKED_WIDE_ENTRY : PACKED_ENTRY;
	return PACKED_HEADER + head->bytes + head->elements * entry <= BPFDB_LARGE_MAX;
}

/* ---- Pages --------------------------------------------------------------- */

/* The page in this place becomes the session's key. */
static __always_inline void page_key(struct bpfdb_session *s, const struct big_head *head,
				     u64 place)
{
	s->key[0] = BPFDB_RESERVED_KEYS | (u64)BPFDB_KEYSPACE_PAGES << BPFDB_KEYSPACE_SHIFT;
	s->key[1] = __builtin_bswap64(head->identity);
	s->key[2] = __builtin_bswap64(place);
	s->key_len = 3 * sizeof(u64);
}

/* What GET of a page came to: FOUND; NOT_FOUND, the page has no entries; BIG_SPOILED, there is none;
 * another Error, or LEFT_TO_USER_SPACE. */
static __always_inline enum bpfdb_status page_check(struct bpfdb_session *s,
						    enum bpfdb_status status)
{
	if (status == BPFDB_NOT_FOUND)
		return BIG_SPOILED;
	if (status != BPFDB_FOUND)
		return status;
	/* A run of entries is longer. */
	if (s->value_len <= BPFDB_INLINE_MAX)
		return BPFDB_NOT_FOUND;
	return packed_check(s, BPFDB_FOUND, BPFDB_TYPE_STRING);
}

/* ---- Tables -------------------------------------------------------------- */

/* The bucket of an element with this hash, among so many. */
static __always_inline u64 bucket_of(u64 hash, u64 buckets)
{
	u64 mask = buckets - 1, bucket;

	for (u32 step = 1; step < 64; step *= 2)
		mask |= mask >> step;
	bucket = hash & mask;
	return bucket < buckets ? bucket : bucket & mask >> 1;
}

/* The page with the bucket of an element, whose key has `len` bytes, becomes the session's key. */
static __always_inline void bucket_key(struct bpfdb_session *s, const struct big_head *head,
				       const struct packed_key *key, u32 len)
{
	u64 hash = siphash(key, len, head->secret[0], head->secret[1]);

	page_key(s, head, BIG_PLACE(BIG_BUCKET, bucket_of(hash, head->buckets)));
}

/* Has the table as many buckets as its elements want? Else user space splits or joins some. */
static __always_inline bool table_is_settled(const struct big_head *head)
{
	u64 load = head->bytes + head->elements * PACKED_ENTRY, buckets = head->buckets;
	u64 fits = buckets * BIG_PAGE_TARGET;

	if (load > fits && head->elements > buckets)
		return false;
	return buckets <= 1 || (load >= fits / 4 && head->elements >= buckets / 4);
}

#endif
