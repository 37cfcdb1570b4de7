/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * What a message of a client asks for.
 *
 * It is followed if it consists of whole requests: simple queries, and batches of extended ones that end
 * with Sync. Each of them has one ReadyForQuery, whatever fails.
 *
 * The unnamed statement is the session's, like a named one, and a later batch may bind it when its
 * server is another client's. So the texts of a batch are kept, and the client's word says whether that is
 * answered. For that
 *
 *   - a batch with Parse begins with one: so it is executed for certain, and what was the unnamed
 *     statement before is of no use, whatever becomes of the batch;
 *   - it is the last batch of its message;
 *   - until the process has looked at its answers no batch without a Parse is followed.
 *
 * So its answers are those that come when one ReadyForQuery is due. How many they are says which message has
 * failed, and with that what the unnamed statement is: the last text before that message, or none if
 * it is a Parse.
 */
#ifndef BPFDB_PG_REQUESTS_BPF_H
#define BPFDB_PG_REQUESTS_BPF_H

#include "names.bpf.h"

/* Of a batch that has begun. */
enum batch { BATCH_NONE, BATCH_OPEN, BATCH_PARSES };

static __always_inline bool is_query(struct sk_msg_md *m, struct bpfdb_proxy_client *client, u32 at,
				     u32 end)
{
	u8 text[WORD];
	u32 letters;

	/* The shortest text that is followed has WORD bytes with its zero. */
	if (client->batch != BATCH_NONE || end - at < WORD || !message_read(m, at, text, WORD))
		return false;
	letters = LETTERS(text[0], text[1], text[2]);
	if (query_is_special(letters) || (u32)plain_text_end(m, at, end, letters) != end)
		return false;
	client->unnamed = BPFDB_PROXY_FORGOT;
	client->due++;
	return true;
}

/* Keeps n bytes at `at` of a Parse of the unnamed statement. */
__noinline int text_keep(struct sk_msg_md *m, u32 slot, u32 at, u32 length)
{
	struct bpfdb_proxy_text *text = bpf_map_lookup_elem(&texts, &slot);
	struct bpfdb_proxy_client *client = client_at(slot);
	struct bpfdb_proxy_kept head = {.message = client->messages, .length = length};
	u64 n = length, kept = client->kept, room = BPFDB_PROXY_TEXT_MAX, from = at;
	u8 *to;

	if (!text || !n)
		return 0;
	/* All but the first have to fit into the second half: the verifier bounds place and length
	 * apart from each other. */
	if (kept)
		room = BPFDB_PROXY_TEXT_MAX / 2;
	if (kept > BPFDB_PROXY_TEXT_MAX / 2)
		return 0;
	/* clang would make one comparison of both, of n - 1: the verifier of 6.12 would have no bound
	 * of n. */
	OPAQUE(n);
	OPAQUE(from);
	if (n > room - sizeof(head))
		return 0;
	from &= 0x7fff;
	to = text->bytes + kept;
	__builtin_memcpy(to, &head, sizeof(head));
	if (bpf_probe_read_kernel(to + sizeof(head), n, (u8 *)m->data + from))
		return 0;
	client->kept = kept + sizeof(head) + n;
	text->length = client->kept;
	return 1;
}

/* Parse: name, text, types. */
static __always_inline bool is_parse(struct sk_msg_md *m, struct bpfdb_proxy_client *client,
				     u32 slot, u32 at, u32 end)
{
	u8 head[1 + WORD];
	u32 letters;

	if (client->batch == BATCH_OPEN || client->uses_unnamed || end - at < sizeof(head) ||
	    !message_read(m, at, head, sizeof(head)) || head[0])
		return false;
	letters = LETTERS(head[1], head[2], head[3]);
	if (query_is_special(letters) || !plain_text_end(m, at + 1, end, letters))
		return false;
	if (client->batch == BATCH_NONE) {
		client->kept = 0;
		client->parses = 0;
	}
	client->batch = BATCH_PARSES;
	client->parses++;
	return text_keep(m, slot, at + 1, end - at - 1);
}

/* A statement is named at `at`. */
static __always_inline bool is_statement(struct sk_msg_md *m, struct bpfdb_proxy_client *client,
					 u32 slot, u32 at, u32 end)
{
	u32 length = name_copy(m, slot, at, end);

	if (!length)
		return false;
	if (length > 1)
		return name_is_known(client, slot, at, length - 1);
	if (client->batch == BATCH_PARSES)
		return true;
	/* That of an earlier message: what is kept of it stays. */
	client->uses_unnamed = 1;
	return !client->unnamed;
}

static __always_inline bool is_sync(struct bpfdb_proxy_client *client, u32 length)
{
	if (length)
		return false;
	if (client->batch == BATCH_PARSES)
		client->unnamed = BPFDB_PROXY_PARSES;
	else if (client->unnamed == BPFDB_PROXY_PARSES)
		return false;
	client->batch = BATCH_NONE;
	client->messages = 0;
	client->due++;
	return true;
}

/* Is a message, whose body is from `at` to `end`, one that is followed? */
__noinline int is_followed(struct sk_msg_md *m, u32 slot, u32 type, u32 at, u32 end)
{
	struct bpfdb_proxy_client *client = client_at(slot);
	bool is_one = true;
	u8 kind = 0;

	switch (type) {
	case 'Q': return is_query(m, client, at, end);
	case 'S': return is_sync(client, end - at);
	case 'P': is_one = is_parse(m, client, slot, at, end); break;
	case 'B': /* portal, statement, values */
		at = name_end(m, at, end);
		is_one = at && is_statement(m, client, slot, at, end);
		break;
	case 'D':
		is_one = at < end && message_read(m, at, &kind, 1) &&
			 (kind == 'P' ||
			  (kind == 'S' && is_statement(m, client, slot, at + 1, end)));
		break;
	case 'C': /* of a portal */
		is_one = at < end && message_read(m, at, &kind, 1) && kind == 'P';
		break;
	case 'E': /* Execute */ break;
	case 'H': /* Flush, which has no answer */ client->messages--; break;
	default: return 0;
	}
	client->messages++;
	if (client->batch == BATCH_NONE)
		client->batch = BATCH_OPEN;
	return is_one;
}

/*
 * How many ReadyForQuery messages n bytes ask for; 0: they are something else, or not whole. Counted in memory:
 * a number that the verifier (6.18) knows is another state in each turn of the loop.
 */
__noinline int requests_due(struct sk_msg_md *m, u32 slot, u32 n)
{
	struct bpfdb_proxy_client *client = client_at(slot);
	u32 at = 0;
	u8 head[HEADER];

	client->due = 0;
	client->unnamed = 0;
	client->batch = BATCH_NONE;
	client->uses_unnamed = 0;
	client->names = 0;
	client->messages = 0;
	while (at < n && can_loop) {
		u32 length;

		if (!message_read(m, at, head, HEADER))
			return 0;
		length = BE32(head + 1);
		if (length < 4 || length > n - at - 1 ||
		    !is_followed(m, slot, head[0], at + HEADER, at + 1 + length))
			return 0;
		at += 1 + length;
	}
	if (at != n || client->batch != BATCH_NONE)
		return 0;
	return client->due <= BPFDB_PROXY_DUE_MAX / 2 ? client->due : 0;
}

/* The word of a client that has sent the message that was gone over; 0: it is not to be followed. */
static __always_inline u64 word_asked(u64 w, const struct bpfdb_proxy_client *client, u32 due)
{
	if (client->uses_unnamed && !(w & BPFDB_PROXY_HAS))
		return 0;
	if (!client->unnamed && w & BPFDB_PROXY_PARSES)
		return 0;
	if (client->unnamed)
		w = (w & ~BPFDB_PROXY_UNNAMED) | client->unnamed;
	return w + ((u64)due << BPFDB_PROXY_DUE_SHIFT);
}

#endif
