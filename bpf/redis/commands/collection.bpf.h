/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* What commands on collections share: GET of a run, the entry that an argument names, and replies
 * out of a run. */
#ifndef BPFDB_COMMANDS_COLLECTION_BPF_H
#define BPFDB_COMMANDS_COLLECTION_BPF_H

#include "../../values/element.bpf.h"
#include "counter.bpf.h"
#include "read.bpf.h"

/* GET of a collection: FOUND, NOT_FOUND, or an Error; how many elements it has is in c->count, which
 * the caller believes only if the value is still valid. A subprogram: in the loops of readers the
 * verifier (6.12) would walk what follows once for each way through it. */
__noinline enum bpfdb_status collection_get(struct context *c NONNULL,
					    struct bpfdb_session *s NONNULL, u32 type)
{
	enum bpfdb_status status = packed_check(s, OF_ANY_TYPE(s, bpfdb_get(s)), type);
	const struct packed *run = status == BPFDB_FOUND ? packed_header(s) : NULL;

	c->is_large = status == LEFT_TO_USER_SPACE;
	c->count = run ? LOAD(run->count) : 0;
	/* Nor is there a slot that could be given up while the reply is written. */
	if (status == BPFDB_NOT_FOUND)
		s->view_cell = 0;
	return status;
}

/* The same for a write, under an exclusive lock; when the collection expires, which stays, is in
 * c->expires. */
static __always_inline enum bpfdb_status
collection_get_for_update(struct context *c, struct bpfdb_session *s, u32 type)
{
	enum bpfdb_status status = OF_ANY_TYPE(s, bpfdb_get_for_update(s));

	status = packed_check(s, status, type);
	c->is_large = status == LEFT_TO_USER_SPACE;
	c->expires = status == BPFDB_FOUND ? s->found_expires : 0;
	return status;
}

/* The argument parsed last, as the key of an entry. */
static __always_inline const struct packed_key *arg_as_key(struct context *c)
{
	u32 len = c->arg_len;

	return (const struct packed_key *)window_at(c, c->arg, len <= PACKED_BYTES_MAX ? len : 0);
}

/* The same as the entry that is looked for, or is to be written. */
static __always_inline struct packed_entry *arg_as_entry(struct context *c)
{
	c->entry.key_len = c->arg_len;
	c->entry.key = c->source + c->arg;
	return &c->entry;
}

/* The entry whose key is the argument parsed last, in the run of the session. */
static __always_inline enum bpfdb_status entry_find(struct context *c, struct bpfdb_session *s)
{
	return packed_find(s, arg_as_key(c), arg_as_entry(c));
}

/* May a command that comes to several elements be executed in part, to be left to the daemon after
 * all? In a transaction of the client's that is not MULTI … EXEC, what was done would stay. */
static __always_inline bool parts_are_undone(const struct context *c, bool own)
{
	return own || c->block;
}

/*
 * Goes over a key and the arguments behind it, and back to the key: DONE if all are there and can be
 * answered here; they end at c->end then. A subprogram, because several commands begin with it.
 */
__noinline enum result elements_check(struct context *c NONNULL)
{
	u32 start = c->at, elements = c->argc - 1;
	enum result result = arg_next(c);

	if (result != DONE)
		return result;
	if (!arg_fits_key(c))
		return PASS_TO_DAEMON;
	repeat(i, elements)
	{
		result = arg_next(c);
		if (result != DONE)
			return result;
	}
	c->end = c->at;
	c->at = start;
	return DONE;
}

/* Sets what a step has left as the session's value, if it came to OK; FOUND: nothing changes; NOT_FOUND:
 * nothing is left of the collection. OK or an Error. Not in the step itself: the stack below the
 * operators is short. */
static __always_inline enum bpfdb_status collection_set(struct context *c, struct bpfdb_session *s,
							enum bpfdb_status status)
{
	if (status == BPFDB_NOT_FOUND)
		status = bpfdb_delete(s);
	else
		status = value_set(s, status, c->expires);
	return status < BPFDB_FIRST_ERROR ? BPFDB_OK : status;
}

/* A number of entries as the reply to `status`, of GET of a collection; the reader holds no lock. */
static __always_inline enum result count_reply(struct sk_msg_md *m, struct context *c,
					       struct bpfdb_session *s, enum bpfdb_status status)
{
	if (status >= BPFDB_FIRST_ERROR)
		return reply_error(m, c, s, status);
	if (!bpfdb_still_valid(s))
		return AGAIN;
	return harmless(reply_header(m, c, ':', c->count));
}

/* HLEN, LLEN, SCARD, ZCARD. */
__noinline enum result command_elements(struct sk_msg_md *m, struct context *c NONNULL,
					struct bpfdb_session *s NONNULL, u32 type)
{
	enum result result = c->argc == 1 ? key_next(c, s) : PASS_TO_DAEMON;

	if (result != DONE)
		return result;
	return WHILE_SPOILED(s, count_reply(m, c, s, collection_get(c, s, type)));
}

/* ---- Replies of several entries ------------------------------------------ */

/* What is replied of each entry; ENTRY_DOWN: their keys, from the last one to the first. */
enum entry_part { ENTRY_KEY = 1, ENTRY_VALUE = 2, ENTRY_WHOLE = 3, ENTRY_DOWN = 4 };

/* The same with the marker of the reply: a subprogram has five arguments at most. */
#define MARKER_PART(marker, part) ((marker) | (u32)(part) << 8)

/* The entry at c->entry.at, which then is the next one's place. A subprogram: the verifier walks it once,
 * and not in the loop. */
__noinline enum result entry_reply(struct sk_msg_md *m, struct context *c NONNULL,
				   struct bpfdb_session *s NONNULL, u32 part)
{
	const u8 *run = bpfdb_at(s->value[0]);
	u32 at = c->entry.at, header, key_len, value_len;
	enum result result = DONE;

	if (!run)
		return AGAIN;
	if (c->out > BPFDB_REPLY_BATCH)
		return PASS_TO_DAEMON;
	header = load4(packed_bytes(run, at));
	key_len = header & PACKED_BYTES_MAX;
	value_len = header >> 16;
	at += PACKED_ENTRY;
	if (part & ENTRY_KEY)
		result = reply_slot_bytes(m, c, s, at, key_len);
	if (result == DONE && part & ENTRY_VALUE)
		result = reply_slot_bytes(m, c, s, at + key_len, value_len);
	c->entry.at = at + key_len + value_len;
	return result;
}

/* Entries: as many as the lower half of `first_count` says, from the one on that its upper half says. A
 * subprogram, as above. */
__noinline enum result entries_write(struct sk_msg_md *m, struct context *c NONNULL,
				     struct bpfdb_session *s NONNULL, u64 first_count, u32 part)
{
	enum result result = DONE;

	packed_entry_at(s, &c->entry, first_count >> 32);
	c->entry.left = first_count;
	repeat(i, PACKED_WALK_MAX)
	{
		/* In memory, so that the verifier does not walk all rounds. */
		if (!c->entry.left)
			break;
		c->entry.left--;
		result = entry_reply(m, c, s, part);
		if (result != DONE)
			break;
	}
	return result;
}

/* Entries that are replied in reverse order, at most: their places are noted on the way to the last one. */
#define REVERSED_MAX (sizeof(((struct context *)0)->places) / sizeof(u16))

/* Notes the places of c->entry.left entries from c->entry.at on, the last one in the place 0. A subprogram, as
 * above. */
__noinline int places_note(struct context *c NONNULL, struct bpfdb_session *s NONNULL)
{
	const u8 *run = bpfdb_at(s->value[0]);

	if (!run)
		return 0;
	repeat(i, REVERSED_MAX)
	{
		u64 place;
		u32 header;

		if (!c->entry.left)
			break;
		c->entry.left--;
		place = c->entry.left;
		OPAQUE(place);
		c->places[place & (REVERSED_MAX - 1)] = c->entry.at;
		header = load4(packed_bytes(run, c->entry.at));
		c->entry.at += packed_size(header & PACKED_BYTES_MAX, header >> 16);
	}
	return 0;
}

/* As entries_write(), from the last entry to the first, of REVERSED_MAX at most. */
__noinline enum result entries_write_down(struct sk_msg_md *m, struct context *c NONNULL,
					  struct bpfdb_session *s NONNULL, u64 first_count)
{
	u32 count = first_count;
	enum result result = DONE;

	if (count > REVERSED_MAX)
		return PASS_TO_DAEMON;
	packed_entry_at(s, &c->entry, first_count >> 32);
	c->entry.left = count;
	places_note(c, s);
	c->replied = 0;
	repeat(i, REVERSED_MAX)
	{
		u64 place = c->replied;

		if (place >= count)
			break;
		OPAQUE(place);
		c->entry.at = c->places[place & (REVERSED_MAX - 1)];
		c->replied++;
		result = entry_reply(m, c, s, ENTRY_KEY);
		if (result != DONE)
			break;
	}
	return result;
}

/* The reply with entries of the collection that GET has found: which, as for entries_write(), behind
 * this marker. A subprogram, as above. */
__noinline enum result entries_reply(struct sk_msg_md *m, struct context *c NONNULL,
				     struct bpfdb_session *s NONNULL, u64 first_count,
				     u32 marker_part)
{
	u32 out = c->out, count = first_count, marker = marker_part & 0xff, part = marker_part >> 8;
	/* In RESP2 a map is an array of keys and values. */
	u32 number = part == ENTRY_WHOLE && marker == '*' ? 2 * count : count;
	enum result result = reply_header(m, c, marker, number);

	if (result == DONE && count)
		result = part == ENTRY_DOWN ? entries_write_down(m, c, s, first_count)
					    : entries_write(m, c, s, first_count, part);
	if (!bpfdb_still_valid(s))
		result = AGAIN;
	if (result != DONE)
		c->out = out;
	return harmless(result);
}

static __always_inline enum result all_once(struct sk_msg_md *m, struct context *c,
					    struct bpfdb_session *s, u32 type, u32 marker_part)
{
	enum bpfdb_status status = collection_get(c, s, type);

	if (status >= BPFDB_FIRST_ERROR)
		return reply_error(m, c, s, status);
	return entries_reply(m, c, s, c->count, marker_part);
}

/* HGETALL, HKEYS, HVALS, SMEMBERS. `marker`: of the reply in RESP3. */
__noinline enum result command_all(struct sk_msg_md *m, struct context *c NONNULL,
				   struct bpfdb_session *s NONNULL, u32 marker, u32 part)
{
	u32 type = marker == '~' ? BPFDB_TYPE_SET : BPFDB_TYPE_HASH;
	enum result result = c->argc == 1 ? key_next(c, s) : PASS_TO_DAEMON;

	if (result != DONE)
		return result;
	room_until(c, c->request);
	return WHILE_SPOILED(
		s, all_once(m, c, s, type, MARKER_PART(c->own.resp3 ? marker : '*', part)));
}

#endif
