/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Prepared statements by their names.
 *
 * A client's name means the text of its Parse. Each text has a number, and a name on all servers that
 * follows from the number, and is as long as the client's (bpfdb/proxy.h). The process reads the Parse,
 * says which number a client's name means, and which numbers a server has; the programs only look. So
 * a message that names statements is for the kernel if it knows all of the names, and the server has
 * all of the numbers: then the names of the server take the place of the client's. All else is the
 * process's, which prepares on the server what it lacks.
 */
#ifndef BPFDB_PG_NAMES_BPF_H
#define BPFDB_PG_NAMES_BPF_H

#include "messages.bpf.h"

static const u8 digits[] = BPFDB_PROXY_DIGITS;
/* A power of two, for a mask. */
static const u8 singles[32] = BPFDB_PROXY_SINGLES;

/* Where a name that begins at `at` ends, behind its zero; 0: not before `end`. */
__noinline int name_end(struct sk_msg_md *m, u32 at, u32 end)
{
	while (at < end && can_loop) {
		u8 letter;

		if (!message_read(m, at++, &letter, 1))
			return 0;
		if (!letter)
			return at;
	}
	return 0;
}

/* Copies a name to where names are looked up: its length and 1; 0: there is none of a length that is
 * looked up. */
__noinline int name_copy(struct sk_msg_md *m, u32 slot, u32 at, u32 end)
{
	struct bpfdb_proxy_client *client = client_at(slot);
	u32 length;

	__builtin_memset(client->name.bytes, 0, sizeof(client->name.bytes));
	for (length = 0; length < BPFDB_PROXY_NAME_MAX; length++) {
		u8 letter;

		if (at >= end || !message_read(m, at++, &letter, 1))
			return 0;
		if (!letter)
			return length + 1;
		client->name.bytes[length] = letter;
	}
	return 0;
}

/* A message names a statement at `at`, which is not the unnamed one: is it known? */
static __always_inline bool name_is_known(struct bpfdb_proxy_client *client, u32 slot, u32 at,
					  u32 length)
{
	u32 i = client->names, *number;

	client->name.client = slot;
	client->name.generation = word_generation(LOAD(client->word));
	number = bpf_map_lookup_elem(&names, &client->name);
	if (!number || i >= BPFDB_PROXY_NAMED_MAX)
		return false;
	client->named[i].at = at;
	client->named[i].length = length;
	client->named[i].statement = *number;
	client->names = i + 1;
	return true;
}

/* Has a server all statements that a client's message names? */
__noinline int has_statements(u32 s, u32 slot)
{
	const struct bpfdb_proxy_client *client = client_at(slot);
	struct bpfdb_proxy_server *server = server_at(s);
	u32 i;

	for (i = 0; i < BPFDB_PROXY_NAMED_MAX; i++) {
		u32 number, word;

		if (i >= client->names)
			break;
		number = client->named[i].statement;
		word = number / BPFDB_PROXY_BITS;
		OPAQUE(word);
		word &= BPFDB_PROXY_STATEMENT_WORDS - 1;
		if (!(LOAD(server->statements[word]) & BIT(number)))
			return 0;
		if (!(LOAD(server->used[word]) & BIT(number)))
			FETCH_OR(&server->used[word], BIT(number));
	}
	return 1;
}

/* Writes the server's name of a statement over one of the same length. */
__noinline int name_write(struct sk_msg_md *m, u32 at, u32 length, u32 number)
{
	u32 i;

	for (i = 0; i < BPFDB_PROXY_NAME_MAX; i++) {
		u64 where = at + i, digit = number;
		u8 *p;

		if (i >= length)
			return 1;
		OPAQUE(where);
		where &= 0x7fff;
		p = (u8 *)m->data + where;
		if (p + 1 > (u8 *)m->data_end)
			return 0;
		if (length == 1) {
			digit -= 1 << BPFDB_PROXY_DIGIT_BITS;
			OPAQUE(digit);
			*p = singles[digit & (sizeof(singles) - 1)];
			return 1;
		}
		if (!i) {
			*p = BPFDB_PROXY_MARK;
			continue;
		}
		OPAQUE(digit);
		*p = digits[digit & ((1 << BPFDB_PROXY_DIGIT_BITS) - 1)];
		number >>= BPFDB_PROXY_DIGIT_BITS;
	}
	return 1;
}

/* The names of the server take the place of those that the client has in its message. */
__noinline int names_write(struct sk_msg_md *m, u32 slot)
{
	const struct bpfdb_proxy_client *client = client_at(slot);
	u32 i;

	for (i = 0; i < BPFDB_PROXY_NAMED_MAX; i++) {
		if (i >= client->names)
			break;
		if (!name_write(m, client->named[i].at, client->named[i].length,
				client->named[i].statement))
			return 0;
	}
	return 1;
}

#endif
