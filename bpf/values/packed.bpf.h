/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Packed runs: small hashes, lists and sets as the bytes of one value. crates/bpfdb-values/src/run.rs
 * has the layout. Here are the search for an entry and the edit that makes a new run of an old one;
 * a run whose entries are WIDE, or are more than PACKED_WALK_MAX, is left to user space.
 *
 * A reader without a lock walks memory that a writer may give up meanwhile. Every position is
 * masked, so the walk ends and stays within memory of the engine; the reader then asks
 * bpfdb_still_valid() whether it can believe what it found.
 */
#ifndef BPFDB_VALUES_PACKED_BPF_H
#define BPFDB_VALUES_PACKED_BPF_H

#include "integer.bpf.h"
#include "packed_entry.bpf.h"
#include "part.bpf.h"

/* Entries that are looked at. */
#define PACKED_WALK_MAX 1024
/* Bytes of the longest key and value in a run that is not WIDE. */
#define PACKED_BYTES_MAX 255

#define PACKED_WIDE 1
#define PACKED_NOT_INTEGERS 2
#define PACKED_NOT_COMPACT 4

/* Redis's limits for its compact encodings (docs/formats/packed-runs.md, crates/bpfdb-values/src/limits.rs):
 * entries by type, and bytes of keys and values, but for a set's. */
#define PACKED_HASH_ENTRIES 512
#define PACKED_SET_INTEGERS 512
#define PACKED_SORTED_SET_ENTRIES 128
#define PACKED_COMPACT_BYTES 64

struct packed {
	u32 count;
	u32 used;
	u32 longest;
	u32 flags;
};

#define PACKED_HEADER sizeof(struct packed)
/* Bytes before the key of an entry. */
#define PACKED_ENTRY 4

/* Memory with a key: as many bytes may be read, however long it is. */
struct packed_key {
	u8 bytes[PACKED_BYTES_MAX + 1];
};

static __always_inline u32 packed_size(u32 key_len, u32 value_len)
{
	return PACKED_ENTRY + key_len + value_len;
}

/* ---- Reading ------------------------------------------------------------- */

/* The header of the run that GET left in the session; NULL: it was given up meanwhile. */
static __always_inline struct packed *packed_header(struct bpfdb_session *s)
{
	return bpfdb_at(s->value[0]);
}

/* What GET of any type came to, for a command on collections of `type`: FOUND, NOT_FOUND,
 * WRONG_TYPE, another Error, or LEFT_TO_USER_SPACE. */
static __always_inline enum bpfdb_status packed_check(struct bpfdb_session *s,
						      enum bpfdb_status status, u32 type)
{
	const struct packed *run;

	if (status != BPFDB_FOUND)
		return status;
	if (form_type(s->value_len) != type)
		return BPFDB_WRONG_TYPE;
	if (form_length(s->value_len) >= BPFDB_LARGE)
		return LEFT_TO_USER_SPACE;
	run = packed_header(s);
	if (!run || LOAD(run->flags) & PACKED_WIDE || LOAD(run->count) > PACKED_WALK_MAX)
		return LEFT_TO_USER_SPACE;
	return BPFDB_FOUND;
}

/* The first and the last eight bytes of a key, and its length, in one byte: see fingerprint() in
 * run.rs. */
static __always_inline u32 packed_fingerprint(u64 first, u64 last, u32 len)
{
	return ((first ^ (last << 29 | last >> 35) ^ len) * 0x9e3779b97f4a7c15ULL) >> 56;
}

static __always_inline u64 first_word(const u8 *bytes, u32 len)
{
	return len >= 8 ? load8(bytes) : low_bytes(load8(bytes), len);
}

static __always_inline u64 last_word(const u8 *bytes, u32 len)
{
	u64 at = len - 8;

	if (len < 8)
		return low_bytes(load8(bytes), len);
	OPAQUE(at);
	return load8(bytes + (at & PACKED_BYTES_MAX));
}

static __always_inline const u8 *packed_bytes(const u8 *run, u64 at)
{
	OPAQUE(at);
	return run + (at & (BPFDB_VALUE_MAX - 1));
}

/*
 * The first entry from e->at on, of e->left, whose header begins with `wanted` and whose key has these
 * words: true, with its place in e->at. The position is kept in memory: in a register the verifier
 * would walk all rounds.
 */
__noinline bool packed_candidate(struct bpfdb_session *s NONNULL, struct packed_entry *e NONNULL,
				 u32 wanted, u64 first, u64 last)
{
	const u8 *run = bpfdb_at(s->value[0]);
	u32 len = wanted & PACKED_BYTES_MAX;

	if (!run)
		return false;
	repeat(i, PACKED_WALK_MAX)
	{
		const u8 *entry;
		u32 header;

		if (!e->left)
			break;
		entry = packed_bytes(run, e->at);
		header = load4(entry);
		if ((header & 0xffff) == wanted && first_word(entry + PACKED_ENTRY, len) == first &&
		    last_word(entry + PACKED_ENTRY, len) == last)
			return true;
		e->at += packed_size(header & PACKED_BYTES_MAX, header >> 16);
		e->left--;
	}
	return false;
}

/* Has the entry at `at` of a run this key, whose length and words agree? A subprogram, as above. */
__noinline bool packed_key_equal(struct bpfdb_session *s NONNULL,
				 const struct packed_key *key NONNULL, u32 at, u32 len)
{
	const u8 *run = bpfdb_at(s->value[0]), *entry;

	if (!run)
		return false;
	entry = packed_bytes(run, at) + PACKED_ENTRY;
	repeat(i, PACKED_BYTES_MAX / 8)
	{
		u64 offset = i;

		/* Not an induction variable of its own: the verifier would walk all rounds. */
		OPAQUE(offset);
		offset *= 8;
		/* The last word was compared. */
		if (offset + 8 >= len)
			break;
		offset &= PACKED_BYTES_MAX & ~7u;
		if (load8(entry + offset) != load8(key->bytes + offset))
			return false;
	}
	return true;
}

/* Is the key of the entry at `at` below this one, byte by byte? A subprogram: the verifier walks the
 * loop once. */
__noinline bool packed_key_below(struct bpfdb_session *s NONNULL,
				 const struct packed_key *key NONNULL, u32 at, u32 len)
{
	const u8 *run = bpfdb_at(s->value[0]), *entry;
	u32 entry_len;

	if (!run)
		return false;
	entry = packed_bytes(run, at);
	entry_len = load4(entry) & PACKED_BYTES_MAX;
	entry += PACKED_ENTRY;
	repeat(i, PACKED_BYTES_MAX)
	{
		u64 offset = i;
		u8 a, b;

		OPAQUE(offset);
		if (offset >= len || offset >= entry_len)
			break;
		offset &= PACKED_BYTES_MAX;
		a = entry[offset];
		b = key->bytes[offset];
		if (a != b)
			return a < b;
	}
	return entry_len < len;
}

/* Keys that have the same first and last words and length, and are passed. */
#define PACKED_TRIES 8

/*
 * The entry with a key, of e->key_len bytes, in the run that GET left in the session: FOUND with the
 * place of the entry in *e; NOT_FOUND with the place behind all entries; or LEFT_TO_USER_SPACE.
 */
__noinline enum bpfdb_status packed_find(struct bpfdb_session *s NONNULL,
					 const struct packed_key *key NONNULL,
					 struct packed_entry *e NONNULL)
{
	const struct packed *run = packed_header(s);
	u32 len = e->key_len;
	u64 first, last;

	if (!run || len > PACKED_BYTES_MAX)
		return LEFT_TO_USER_SPACE;
	first = first_word(key->bytes, len);
	last = last_word(key->bytes, len);
	e->fingerprint = packed_fingerprint(first, last, len);
	e->at = PACKED_HEADER;
	e->left = LOAD(run->count);
	repeat(i, PACKED_TRIES)
	{
		u32 header;

		if (!packed_candidate(s, e, len | e->fingerprint << 8, first, last)) {
			e->at = PACKED_HEADER + LOAD(run->used);
			e->cut = 0;
			return BPFDB_NOT_FOUND;
		}
		header = load4(packed_bytes((void *)run, e->at));
		e->value_len = header >> 16;
		e->cut = packed_size(len, header >> 16);
		if (len <= 16 || packed_key_equal(s, key, e->at, len))
			return BPFDB_FOUND;
		e->at += e->cut;
		e->left--;
	}
	return LEFT_TO_USER_SPACE;
}

/* The place of entry `index` of the run in the session, as packed_find() leaves it. The caller has
 * compared the index with the number of entries. */
__noinline int packed_entry_at(struct bpfdb_session *s NONNULL, struct packed_entry *e NONNULL,
			       u32 index)
{
	const u8 *run = bpfdb_at(s->value[0]);
	u32 header;

	if (!run)
		return 0;
	e->at = PACKED_HEADER;
	e->left = index;
	repeat(i, PACKED_WALK_MAX)
	{
		if (!e->left)
			break;
		header = load4(packed_bytes(run, e->at));
		e->at += packed_size(header & PACKED_BYTES_MAX, header >> 16);
		e->left--;
	}
	header = load4(packed_bytes(run, e->at));
	e->key_len = header & PACKED_BYTES_MAX;
	e->value_len = header >> 16;
	e->cut = packed_size(e->key_len, e->value_len);
	return 0;
}

/* Where the value of an entry begins in its run. */
static __always_inline u32 packed_value_at(const struct packed_entry *e)
{
	return e->at + PACKED_ENTRY + e->key_len;
}

/* ---- Writing ------------------------------------------------------------- */

/* Map memory at a byte of the session's value, of which all that follows may be written. */
static __always_inline u8 *packed_room(struct bpfdb_session *s, u64 at)
{
	u8 *grain;

	OPAQUE(at);
	grain = bpfdb_at(s->value[0] + (at & ~(u64)(BPFDB_GRAIN - 1)));
	return grain ? grain + (at & (BPFDB_GRAIN - 1)) : NULL;
}

/* Memory for a run of this type; of a string for a page of a large collection. */
static __always_inline enum bpfdb_status packed_alloc(struct bpfdb_session *s, u32 len, u32 type)
{
	return type == BPFDB_TYPE_STRING ? bpfdb_value_alloc(s, len)
					 : bpfdb_typed_alloc(s, len, type);
}

/*
 * The session's value becomes a run of this type that is the one which GET left in it, `old` bytes
 * of which the lock is held, but for e->cut bytes at e->at; `add` bytes are free there. `old` 0: an
 * empty run. OK, or an Error. Inlined: eight frames is all there is.
 */
static __always_inline enum bpfdb_status
packed_splice(struct bpfdb_session *s, const struct packed_entry *e, u32 type, u32 old, u32 add)
{
	u64 at = e->at, cut = e->cut, tail, from_address = s->value[0];
	enum bpfdb_status status;
	struct packed *to;
	u8 *from, *behind;

	if (!old) {
		status = packed_alloc(s, PACKED_HEADER + add, type);
		to = status == BPFDB_OK ? bpfdb_at(s->value[0]) : NULL;
		if (!to)
			return status == BPFDB_OK ? BPFDB_CORRUPT : status;
		__builtin_memset(to, 0, sizeof(*to));
		to->used = add;
		return BPFDB_OK;
	}
	if (old > BPFDB_VALUE_MAX || at + cut > old || at < PACKED_HEADER ||
	    old - cut + add > BPFDB_VALUE_MAX)
		return LEFT_TO_USER_SPACE;
	status = packed_alloc(s, old - cut + add, type);
	if (status != BPFDB_OK)
		return status;
	to = bpfdb_at(s->value[0]);
	behind = packed_room(s, at + add);
	from = bpfdb_at(from_address);
	tail = old - at - cut;
	OPAQUE(at);
	OPAQUE(tail);
	if (!to || !behind || !from || at > BPFDB_VALUE_MAX || tail > BPFDB_VALUE_MAX - BPFDB_GRAIN)
		return BPFDB_CORRUPT;
	bpf_probe_read_kernel(to, at, from);
	bpf_probe_read_kernel(behind, tail, from + e->at + cut);
	to->used += add - cut;
	return BPFDB_OK;
}

/* An element of a set that is no integer, or what goes beyond Redis's limits for compact encodings,
 * marks the run for ever. */
static __always_inline u32 packed_flags(const struct packed *run, u32 type, bool is_integer)
{
	u32 flags = run->flags, most = PACKED_HASH_ENTRIES;

	/* Of a page the head has the flags. */
	if (type == BPFDB_TYPE_LIST || type == BPFDB_TYPE_STRING)
		return flags;
	if (type == BPFDB_TYPE_SET) {
		most = PACKED_SET_INTEGERS;
		flags |= is_integer ? 0 : PACKED_NOT_INTEGERS;
	} else if (run->longest > PACKED_COMPACT_BYTES) {
		flags |= PACKED_NOT_COMPACT;
	}
	if (type == BPFDB_TYPE_SORTED_SET)
		most = PACKED_SORTED_SET_ENTRIES;
	if (run->count > most)
		flags |= PACKED_NOT_COMPACT;
	return flags;
}

/*
 * Writes the entry *e into the run that GET left in the session and locked (`found`), or into a new
 * one: OK with the whole as the session's value, or an Error. `is_integer`: its key is one.
 */
__noinline enum bpfdb_status packed_put(struct bpfdb_session *s NONNULL,
					const struct packed_entry *e NONNULL, u32 type, bool found,
					bool is_integer)
{
	u64 key_len = e->key_len, value_len = e->value_len;
	enum bpfdb_status status;
	struct packed *run;
	u8 *entry;

	if (key_len > PACKED_BYTES_MAX || value_len > PACKED_BYTES_MAX)
		return LEFT_TO_USER_SPACE;
	status = packed_splice(s, e, type, found ? form_bytes(s->value_len) : 0,
			       packed_size(key_len, value_len));
	if (status != BPFDB_OK)
		return status;
	run = packed_header(s);
	entry = packed_room(s, found ? e->at : PACKED_HEADER);
	OPAQUE(key_len);
	OPAQUE(value_len);
	if (!run || !entry || key_len > PACKED_BYTES_MAX || value_len > PACKED_BYTES_MAX)
		return BPFDB_CORRUPT;
	if (!found || !e->cut)
		run->count++;
	if (key_len > run->longest)
		run->longest = key_len;
	if (value_len > run->longest)
		run->longest = value_len;
	run->flags = packed_flags(run, type, is_integer);
	*(u32 *)entry = key_len | e->fingerprint << 8 | value_len << 16;
	bpf_probe_read_kernel(entry + PACKED_ENTRY, key_len, (void *)e->key);
	bpf_probe_read_kernel(entry + PACKED_ENTRY + key_len, value_len, (void *)e->value);
	return BPFDB_OK;
}

/* Takes the entry at *e out of the run that GET left in the session and locked: OK with what is left
 * as the session's value; NOT_FOUND: nothing is left; or an Error. */
__noinline enum bpfdb_status packed_take(struct bpfdb_session *s NONNULL,
					 const struct packed_entry *e NONNULL, u32 type)
{
	struct packed *run = packed_header(s);
	enum bpfdb_status status;

	if (!run)
		return BPFDB_CORRUPT;
	if (run->count <= 1)
		return BPFDB_NOT_FOUND;
	status = packed_splice(s, e, type, form_bytes(s->value_len), 0);
	if (status != BPFDB_OK)
		return status;
	run = packed_header(s);
	if (!run)
		return BPFDB_CORRUPT;
	run->count--;
	return BPFDB_OK;
}

/*
 * The value that GET of any type left in the session, and locked, becomes its value again, a string or
 * a run: OK, or an Error; LEFT_TO_USER_SPACE if it is something else.
 */
__noinline enum bpfdb_status value_or_run_copy(struct bpfdb_session *s NONNULL)
{
	u32 form = s->value_len, len = form_bytes(form);
	u64 address = s->value[0];
	enum bpfdb_status status;
	void *from, *to;

	if (!form_type(form))
		return value_again(s, form, 0);
	status = packed_check(s, BPFDB_FOUND, form_type(form));
	if (status != BPFDB_FOUND || form_type(form) > BPFDB_TYPE_SORTED_SET)
		return LEFT_TO_USER_SPACE;
	status = bpfdb_typed_alloc(s, len, form_type(form));
	if (status != BPFDB_OK)
		return status;
	to = bpfdb_at(s->value[0]);
	from = bpfdb_at(address);
	OPAQUE(len);
	if (!to || !from || len > BPFDB_VALUE_MAX)
		return BPFDB_CORRUPT;
	bpf_probe_read_kernel(to, len, from);
	return BPFDB_OK;
}

#endif
