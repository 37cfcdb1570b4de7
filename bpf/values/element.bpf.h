/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Commands on one element of a small hash, list or set: what becomes of its run. The front end has had
 * GET look for the collection, and says by `found` whether there is one; `key`, map memory, and e->key,
 * an address, are the element or the field, of e->key_len bytes.
 *
 * Each comes to OK with the new run as the session's value, which SET is to write; to FOUND: nothing
 * changes; to NOT_FOUND: nothing is left, and the collection is to be deleted; or to an Error.
 */
#ifndef BPFDB_VALUES_ELEMENT_BPF_H
#define BPFDB_VALUES_ELEMENT_BPF_H

#include "integer_set.bpf.h"

/* The entry at the end of what there is no run of yet: NOT_FOUND, or LEFT_TO_USER_SPACE. */
static __always_inline enum bpfdb_status entry_first(const struct packed_key *key,
						     struct packed_entry *e)
{
	u32 len = e->key_len;

	if (len > PACKED_BYTES_MAX)
		return LEFT_TO_USER_SPACE;
	e->fingerprint =
		packed_fingerprint(first_word(key->bytes, len), last_word(key->bytes, len), len);
	e->at = PACKED_HEADER;
	e->cut = 0;
	return BPFDB_NOT_FOUND;
}

/* The entry with this key, or where it is to be: FOUND, NOT_FOUND, or LEFT_TO_USER_SPACE. */
static __always_inline enum bpfdb_status entry_place(struct bpfdb_session *s,
						     const struct packed_key *key,
						     struct packed_entry *e, bool found)
{
	return found ? packed_find(s, key, e) : entry_first(key, e);
}

/* Takes the element out, if it is there. */
static __always_inline enum bpfdb_status entry_take(struct bpfdb_session *s, struct packed_entry *e,
						    const struct packed_key *key, u32 type)
{
	enum bpfdb_status status = packed_find(s, key, e);

	if (status != BPFDB_FOUND)
		return status == BPFDB_NOT_FOUND ? BPFDB_FOUND : status;
	return packed_take(s, e, type);
}

/* ---- Hashes -------------------------------------------------------------- */

/* The integer that is the value of the entry at *e. False: it is none. */
static __always_inline bool field_integer(struct bpfdb_session *s, const struct packed_entry *e,
					  s64 *value)
{
	u8 *text = slot_byte(s, packed_value_at(e));

	return text && e->value_len <= INTEGER_MAX_LEN &&
	       integer_of(text, e->value_len, INTEGER_DIGITS, true, value);
}

/* Adds `by` to the field, or to 0: the sum is in *sum, and as text in `text` from *start on. To
 * LEFT_TO_USER_SPACE comes also what is no integer, and a sum that is none of 64 bits. */
static __always_inline enum bpfdb_status field_add(struct bpfdb_session *s, struct packed_entry *e,
						   const struct packed_key *key, bool found, s64 by,
						   u8 *text, u32 *start, s64 *sum)
{
	enum bpfdb_status status = entry_place(s, key, e, found);
	s64 value = 0;
	u32 at;

	if (status >= BPFDB_FIRST_ERROR)
		return status;
	if (status == BPFDB_FOUND && !field_integer(s, e, &value))
		return LEFT_TO_USER_SPACE;
	if (__builtin_add_overflow(value, by, &value))
		return LEFT_TO_USER_SPACE;
	*sum = value;
	at = integer_write(text, start, LOAD(*sum));
	e->value = (u64)integer_text(text, at);
	e->value_len = INTEGER_END - at;
	return packed_put(s, e, BPFDB_TYPE_HASH, found, false);
}

/* ---- Lists --------------------------------------------------------------- */

enum list_end { LIST_LEFT, LIST_RIGHT };

/* The element becomes the first or the last one; *length: how many there are then. */
static __always_inline enum bpfdb_status list_put(struct bpfdb_session *s, struct packed_entry *e,
						  const struct packed_key *key, bool found,
						  enum list_end end, u32 *length)
{
	enum bpfdb_status status = entry_first(key, e);
	const struct packed *run;

	if (status >= BPFDB_FIRST_ERROR)
		return status;
	e->value_len = 0;
	run = found ? packed_header(s) : NULL;
	if (end == LIST_RIGHT && run)
		e->at = PACKED_HEADER + run->used;
	status = packed_put(s, e, BPFDB_TYPE_LIST, found, false);
	run = status == BPFDB_OK ? packed_header(s) : NULL;
	if (run)
		*length = run->count;
	return status;
}

/* ---- Sets ---------------------------------------------------------------- */

/* Is this key of an entry an integer in its shortest form? */
static __always_inline bool key_is_integer(const struct packed_key *key, u32 len)
{
	s64 number;

	return len <= INTEGER_MAX_LEN && integer_of(key->bytes, len, INTEGER_DIGITS, true, &number);
}

/* Adds the element, if it is not there. */
static __always_inline enum bpfdb_status set_add(struct bpfdb_session *s, struct packed_entry *e,
						 const struct packed_key *key, bool found)
{
	enum bpfdb_status status = entry_place(s, key, e, found);
	bool is_integer;

	if (status != BPFDB_NOT_FOUND)
		return status;
	e->value_len = 0;
	is_integer = key_is_integer(key, e->key_len);
	if (found && is_integer && run_is_of_integers(s))
		packed_integer_place(s, key, e);
	return packed_put(s, e, BPFDB_TYPE_SET, found, is_integer);
}

#endif
