/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Replies of RESP2 and RESP3, written over the requests that they answer (net/room.bpf.h). */
#ifndef BPFDB_RESP_REPLY_BPF_H
#define BPFDB_RESP_REPLY_BPF_H

#include "resp_parse.bpf.h"

#include "../net/room.bpf.h"
#include "../values/integer.bpf.h"

/* A key is all that follows the command's name; the reply may be written over both. */
static __always_inline enum result key_alone(struct context *c, struct bpfdb_session *s)
{
	enum result result = c->argc == 1 ? key_next(c, s) : PASS_TO_DAEMON;

	if (result == DONE)
		room_until(c, c->at);
	return result;
}

/* A reply of up to 8 bytes, given as a word. */
__noinline enum result reply_word(struct sk_msg_md *m, struct context *c NONNULL, u64 word, u32 len)
{
	u8 *p;

	if (!room_make(m, c, 8))
		return NO_ROOM;
	p = ROOM(m, 8);
	if (!p)
		return NO_ROOM;
	*(u64 *)p = word;
	c->out += len;
	return DONE;
}

static __always_inline enum result reply_ok(struct sk_msg_md *m, struct context *c)
{
	return reply_word(m, c, WORD("+OK\r\n"), 5);
}

static __always_inline enum result reply_pong(struct sk_msg_md *m, struct context *c)
{
	return reply_word(m, c, WORD("+PONG\r\n"), 7);
}

/* What TYPE says of a value, and of none. */
static __always_inline enum result reply_string_type(struct sk_msg_md *m, struct context *c)
{
	u8 *p;

	if (!room_make(m, c, 9))
		return NO_ROOM;
	p = ROOM(m, 9);
	if (!p)
		return NO_ROOM;
	*(u64 *)p = WORD("+string\r");
	p[8] = '\n';
	c->out += 9;
	return DONE;
}

static __always_inline enum result reply_no_type(struct sk_msg_md *m, struct context *c)
{
	return reply_word(m, c, WORD("+none\r\n"), 7);
}

static __always_inline enum result reply_nil(struct sk_msg_md *m, struct context *c)
{
	if (unlikely(c->own.resp3))
		return reply_word(m, c, WORD("_\r\n"), 3);
	return reply_word(m, c, WORD("$-1\r\n"), 5);
}

/* A tenth of a number below 2^18. (Not `/`: clang keeps the 10 in a register, and the kernel
 * guards each division by a register with instructions of its own.) */
static __always_inline u32 tenth(u32 number)
{
	return (u64)number * 104858 >> 20;
}

/*
 * `<marker><number>\r\n` as a word in c->header, for numbers of up to five digits;
 * c->header_len bytes of it count. A subprogram, so that the verifier walks its branches once,
 * and does not know the length behind it.
 */
__noinline int header_make(struct context *c NONNULL, u32 marker, u32 number)
{
	u64 word = CRLF;
	u32 len = 3;

	/* Numbers of five digits are below 2^17. The bound keeps tenth() exact for any other. */
	number %= 1 << 17;
	for (int digits = 0; digits < HEADER_DIGITS; digits++) {
		u32 rest = tenth(number);

		word = word << 8 | ('0' + number - rest * 10);
		len++;
		number = rest;
		if (!number)
			break;
	}
	c->header = word << 8 | (u8)marker;
	c->header_len = len;
	return 0;
}

/* `:<number>\r\n` or `*<number>\r\n` for numbers below 100,000. */
static __always_inline enum result reply_header(struct sk_msg_md *m, struct context *c, u8 marker,
						u32 number)
{
	header_make(c, marker, number);
	return reply_word(m, c, c->header, c->header_len);
}

/* A bulk string of up to 16 bytes in two words. */
static __always_inline enum result reply_bulk_inline(struct sk_msg_md *m, struct context *c, u64 a,
						     u64 b, u32 len)
{
	u32 head;
	u8 *p;

	header_make(c, '$', len);
	head = c->header_len;
	/* The shortest is $0\r\n\r\n. */
	head &= 7;
	len &= 31;
	if (!room_make(m, c, head + len + 2 + REPLY_SLACK))
		return NO_ROOM;
	/* $16\r\n, 16 bytes, \r\n: or less, and then less is checked. */
	p = ROOM(m, 6 + REPLY_SLACK);
	if (!p)
		return NO_ROOM;
	*(u64 *)p = c->header;
	p += head;
	if (p + 8 > (u8 *)m->data_end)
		return NO_ROOM;
	*(u64 *)p = a;
	if (len > 8) {
		if (p + 16 > (u8 *)m->data_end)
			return NO_ROOM;
		*(u64 *)(p + 8) = b;
	}
	p += len;
	if (p + 2 > (u8 *)m->data_end)
		return NO_ROOM;
	*(u16 *)p = CRLF;
	c->out += head + len + 2;
	return DONE;
}

/* A bulk string of more than 16 bytes from map memory. */
static __always_inline enum result reply_bulk_long(struct sk_msg_md *m, struct context *c,
						   const u8 *from, u32 len)
{
	u32 head;
	u64 tail;
	u8 *p;

	header_make(c, '$', len);
	head = c->header_len;
	if (!room_make(m, c, head + len + 2))
		return NO_ROOM;
	p = ROOM(m, 8);
	if (!p)
		return NO_ROOM;
	*(u64 *)p = c->header;
	p += head & 15;
	if (!packet_copy(p, m->data_end, from, len, GAP_MAX))
		return NO_ROOM;
	tail = len;
	OPAQUE(tail);
	tail &= GAP_MAX - 1;
	p += tail;
	if (p + 2 > (u8 *)m->data_end)
		return NO_ROOM;
	*(u16 *)p = CRLF;
	c->out += head + len + 2;
	return DONE;
}

/* The value that GET left in the session. AGAIN: it was given up meanwhile. */
__noinline enum result reply_value(struct sk_msg_md *m, struct context *c NONNULL,
				   struct bpfdb_session *s NONNULL)
{
	u32 len = s->value_len, out = c->out;
	const u8 *slot;
	enum result result;

	if (len <= BPFDB_INLINE_MAX)
		return reply_bulk_inline(m, c, s->value[0], s->value[1], len);
	if (len > BPFDB_REPLY_VALUE_MAX)
		return PASS_TO_DAEMON;
	slot = bpfdb_at(s->value[0]);
	if (!slot)
		return AGAIN;
	/* Not over the request itself: it may have to be answered again. */
	room_until(c, c->request);
	result = reply_bulk_long(m, c, slot, len);
	if (result == DONE && !bpfdb_still_valid(s)) {
		c->out = out;
		return AGAIN;
	}
	return result;
}

/* A bulk string out of the request: the argument parsed last. */
static __always_inline enum result reply_arg(struct sk_msg_md *m, struct context *c)
{
	u32 len = c->arg_len;
	const u8 *from;

	if (len > BPFDB_KEY_MAX)
		return PASS_TO_DAEMON;
	from = window_at(c, c->arg, len);
	if (len <= BPFDB_INLINE_MAX)
		return reply_bulk_inline(m, c, load8(from), load8(from + 8), len);
	return reply_bulk_long(m, c, from, len);
}

/* `:<number>\r\n` for numbers whose text is in the context: `len` bytes at
 * text[start]. */
static __always_inline enum result reply_text_integer(struct sk_msg_md *m, struct context *c,
						      u32 start, u32 len)
{
	const u8 *from;
	u8 *p;

	len &= INTEGER_END - 1;
	if (!room_make(m, c, 1 + 24 + 2))
		return NO_ROOM;
	p = ROOM(m, 1 + 24 + 2);
	if (!p)
		return NO_ROOM;
	from = integer_text(c->text, start);
	*p = ':';
	*(u64 *)(p + 1) = load8(from);
	*(u64 *)(p + 9) = load8(from + 8);
	*(u64 *)(p + 17) = load8(from + 16);
	p += 1 + len;
	if (p + 2 > (u8 *)m->data_end)
		return NO_ROOM;
	*(u16 *)p = CRLF;
	c->out += 1 + len + 2;
	return DONE;
}

#endif
