/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Messages of the PostgreSQL protocol, version 3: where they end, and what they mean to the pool. */
#ifndef BPFDB_PG_MESSAGES_BPF_H
#define BPFDB_PG_MESSAGES_BPF_H

#include "state.bpf.h"

/* Type and length. */
#define HEADER 5
/* PostgreSQL takes no longer message. */
#define LENGTH_MAX 0x3fffffffU
/* Of the text of a query, or of a tag: so many bytes are looked at. */
#define WORD 3

#define BE32(p) ((u32)(p)[0] << 24 | (u32)(p)[1] << 16 | (u32)(p)[2] << 8 | (p)[3])
#define LETTERS(a, b, c) ((a) << 16 | (b) << 8 | (c))

/* Copies n bytes of a message, which is in one piece; n is constant. */
static __always_inline bool message_read(struct sk_msg_md *m, u32 at, u8 *to, const u32 n)
{
	u64 where = at;
	u8 *p;

	if (where > CHUNK)
		return false;
	OPAQUE(where); /* clang 22 would compute the pointer from what it knows, of fewer bits */
	where &= 0x7fff;
	p = (u8 *)m->data + where;
	if (p + n > (u8 *)m->data_end)
		return false;
	__builtin_memcpy(to, p, n);
	return true;
}

/*
 * Does a query begin with a command that may leave something in its session, or needs more of the
 * client than this query? The process looks at all of its text. A subprogram, as the next one: the
 * verifier (6.18) follows every branch of every letter otherwise.
 */
__noinline int query_is_special(u32 letters)
{
	u32 first;

	/* Capital letters become small ones; what is no letter becomes no letter that is asked for. */
	switch (letters | LETTERS(0x20, 0x20, 0x20)) {
	case LETTERS('s', 'e', 't'):
	case LETTERS('l', 'i', 's'): /* LISTEN */
	case LETTERS('p', 'r', 'e'): /* PREPARE */
	case LETTERS('d', 'e', 'c'): /* DECLARE */
	case LETTERS('d', 'e', 'a'): /* DEALLOCATE */
	case LETTERS('d', 'i', 's'): /* DISCARD */
	case LETTERS('c', 'r', 'e'): /* CREATE */
	case LETTERS('c', 'o', 'p'): /* COPY */
	case LETTERS('l', 'o', 'a'): /* LOAD */
	case LETTERS('e', 'x', 'p'): /* EXPLAIN, which may do what it explains */
	case LETTERS('r', 'e', 's'): /* RESET */ return 1;
	}
	/* DO: the command has two letters. */
	if ((letters >> 8 | 0x2020) == ('d' << 8 | 'o'))
		return 1;
	/* A blank, a comment, a bracket or a semicolon hides the command. */
	first = letters >> 16 | 0x20;
	return first < 'a' || first > 'z';
}

#define LETTERS4(a, b, c, d) ((u32)LETTERS(a, b, c) << 8 | (d))

/*
 * Where a text that begins at `at` ends, behind its zero, if it is one statement that leaves nothing
 * in its session, as far as its words show; else 0. Behind a semicolon there may be blanks only: another
 * may be within a string, and is taken for the end of a statement all the same. INTO may make a table,
 * except where a statement cannot do without the word; the others are parts of `pg_advisory_lock`,
 * `set_config` and `pg_settings`, and the beginning of a name with escapes, which may be any.
 * `letters`: the first three. `end`: of the message.
 */
__noinline int plain_text_end(struct sk_msg_md *m, u32 at, u32 end, u32 letters)
{
	u32 last = 0, has_into, has_ended = 0;

	letters |= LETTERS(0x20, 0x20, 0x20);
	has_into = letters == LETTERS('i', 'n', 's') || letters == LETTERS('m', 'e', 'r');
	while (at < end && can_loop) {
		u8 letter;

		if (!message_read(m, at++, &letter, 1))
			return 0;
		if (!letter)
			return at;
		if (letter == ';') {
			has_ended = 1;
			continue;
		}
		if (letter == ' ' || (letter >= '\t' && letter <= '\r')) {
			last = 0;
			continue;
		}
		if (has_ended)
			return 0;
		last = last << 8 | letter | 0x20;
		if (last == LETTERS4('a', 'd', 'v', 'i') || last == LETTERS4('o', 'n', 'f', 'i') ||
		    last == LETTERS4('g', '_' | 0x20, 's', 'e') ||
		    (last & 0xffffff) == LETTERS('u', '&', '"') ||
		    (last == LETTERS4('i', 'n', 't', 'o') && !has_into))
			return 0;
	}
	return 0;
}

/* CommandComplete: was something done that outlives its transaction? As far as the tag shows. */
__noinline int tag_leaves_state(u32 letters)
{
	switch (letters) {
	case LETTERS('S', 'E', 'T'):
	case LETTERS('L', 'I', 'S'):
	case LETTERS('P', 'R', 'E'):
	case LETTERS('D', 'E', 'C'):
	case LETTERS('D', 'E', 'A'):
	case LETTERS('D', 'I', 'S'):
	case LETTERS('C', 'R', 'E'):
	case LETTERS('L', 'O', 'A'):
	case LETTERS('R', 'E', 'S'): return 1;
	}
	return 0;
}

/* Is a message the only one of its kind that answers a message of a batch? Describe of a statement has two
 * answers, of which the first is not counted. A subprogram for the same reason as above. */
__noinline int is_answer(u32 type)
{
	switch (type) {
	case '1': /* Parse */
	case '2': /* Bind */
	case '3': /* Close */
	case 'C': /* Execute: all rows, no query, some rows */
	case 'I':
	case 's':
	case 'T': /* Describe: rows, or none */
	case 'n': return 1;
	}
	return 0;
}

/* A message of a server begins, whose body is at `at`. */
static __always_inline void reply_begins(struct sk_msg_md *m, struct bpfdb_proxy_server *server,
					 u8 type, u32 at)
{
	u8 tag[WORD];

	if (is_answer(type))
		server->stream.answers++;
	switch (type) {
	case '1': server->parsed = server->readies + 1; break;
	case 'C':
		/* A tag that is cut may be any. */
		if (!message_read(m, at, tag, sizeof(tag)) ||
		    tag_leaves_state(LETTERS(tag[0], tag[1], tag[2])))
			server->leaves_state = 1;
		break;
	case 'S':
		/* The process has to know the parameter. */
		server->leaves_state = 1;
		break;
	case 'G':
	case 'W':
		/* What the client sends next is data. */
		server->slow = 1;
		break;
	}
}

/*
 * Goes over the next n bytes of a server's stream: ReadyForQuery messages, and what they say. 0: what
 * comes is no message.
 */
__noinline int replies_walk(struct sk_msg_md *m, u32 s, u32 n)
{
	struct bpfdb_proxy_server *server = server_at(s);
	struct bpfdb_proxy_stream *stream = &server->stream;
	u32 at = 0, left = stream->left, have = stream->have;
	u8 type = stream->type, head[HEADER];

	server->readies = 0;
	server->idles = 0;
	server->parsed = 0;
	server->leaves_state = 0;
	server->slow = 0;
	while (at < n && can_loop) {
		u32 rest = n - at;

		if (left) {
			u32 step = left < rest ? left : rest;

			if (type == 'Z') {
				if (!message_read(m, at, head, 1))
					return 0;
				server->status = head[0];
				server->readies++;
				server->answered = stream->answers;
				stream->answers = 0;
				server->idles += head[0] == 'I';
			}
			at += step;
			left -= step;
			continue;
		}
		if (likely(!have && rest >= HEADER)) {
			if (!message_read(m, at, head, HEADER))
				return 0;
			at += HEADER;
		} else {
			if (!message_read(m, at, head, 1))
				return 0;
			stream->head[have & 7] = head[0];
			have++;
			at++;
			if (have < HEADER)
				continue;
			have = 0;
			__builtin_memcpy(head, stream->head, HEADER);
		}
		type = head[0];
		left = BE32(head + 1) - 4;
		if (left > LENGTH_MAX)
			return 0;
		reply_begins(m, server, type, at);
	}
	stream->type = type;
	stream->left = left;
	stream->have = have;
	server->ended = !left && !have && type == 'Z';
	return at == n;
}

#endif
