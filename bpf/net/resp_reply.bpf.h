/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Replies, written over the requests that they answer. The message then is
 *
 *   | replies (out bytes) | used up, or room | requests not answered yet |
 *                                            ^ c->room
 *
 * When replies need more room than the answered requests left, a gap is pushed
 * in behind them. Requests never move in memory: the parser reads them at
 * c->source. What lies between the replies and the requests is cut out at the
 * end (answer.bpf.h); it may be uninitialized and never leaves the kernel.
 *
 * A message has 17 parts at most. If there is no part left for a gap, the kernel
 * copies the part in which it is to be, and gives up the old one. That must not be the
 * one with the requests: so a gap has an end that is never used, and the next gap
 * is always pushed into the one before. And gaps become larger and larger, so that a
 * few of them are enough.
 */
#ifndef BPFDB_RESP_REPLY_BPF_H
#define BPFDB_RESP_REPLY_BPF_H

#include "../values/integer.bpf.h"
#include "resp_parse.bpf.h"

/* Room that a program may see at once; see BPFDB_REPLY_VALUE_MAX. */
#define GAP_MAX 32768
/* The end of a gap, and the least size of one that is not the first. */
#define GAP_END 8
#define GAP_NEXT_MIN 4096
/* A store of whole words may go so far beyond the reply itself. */
#define REPLY_SLACK 8

/* Every reply behind this is to be written over requests up to `at`. */
static __always_inline void room_until(struct bpfdb_connection *c, u32 at)
{
	if (!c->gaps)
		c->room = at;
}

/* A key is all that follows the command's name; the reply may be written over both. */
static __always_inline enum result key_alone(struct bpfdb_connection *c, struct bpfdb_session *s)
{
	enum result result = c->argc == 1 ? key_next(c, s) : PASS_TO_DAEMON;

	if (result == DONE)
		room_until(c, c->at);
	return result;
}

/* Enough for this reply and, if more is to be answered, for replies like it. */
static __always_inline u32 gap_size(const struct bpfdb_connection *c, u32 len)
{
	u32 behind = c->size - c->at, each = c->at - c->piece;
	u64 gap = len;

	if (behind && each && c->at <= c->size)
		gap = (u64)len * (1 + behind / each);
	if (c->gaps && gap < GAP_NEXT_MIN)
		gap = GAP_NEXT_MIN;
	if (gap < c->gaps)
		gap = c->gaps;
	return gap < GAP_MAX ? gap : GAP_MAX;
}

/* Lets the program write `len` bytes behind the replies: true if it can. A subprogram, because
 * every kind of reply begins with it. */
__noinline bool room_make(struct sk_msg_md *m, struct bpfdb_connection *c NONNULL, u32 len)
{
	if (c->out + len > c->room) {
		u32 gap = gap_size(c, len);

		if (bpf_msg_push_data(m, c->out, gap + GAP_END, 0))
			return false;
		c->gaps += gap + GAP_END;
		c->room = c->out + gap;
	}
	return bpf_msg_pull_data(m, c->out, c->out + len, 0) == 0;
}

/*
 * Pointer to `len` bytes (a constant) that room_make() made writable, or NULL.
 * The verifier wants the comparison in the program that writes.
 */
#define ROOM(m, len)                                                                               \
	({                                                                                         \
		u8 *p_ = (m)->data;                                                                \
		p_ + (len) <= (u8 *)(m)->data_end ? p_ : NULL;                                     \
	})

/* A reply of up to 8 bytes, given as a word. */
__noinline enum result reply_word(struct sk_msg_md *m, struct bpfdb_connection *c NONNULL, u64 word,
				  u32 len)
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

static __always_inline enum result reply_ok(struct sk_msg_md *m, struct bpfdb_connection *c)
{
	return reply_word(m, c, WORD("+OK\r\n"), 5);
}

static __always_inline enum result reply_pong(struct sk_msg_md *m, struct bpfdb_connection *c)
{
	return reply_word(m, c, WORD("+PONG\r\n"), 7);
}

/* What TYPE says of a value, and of none. */
static __always_inline enum result reply_string_type(struct sk_msg_md *m,
						     struct bpfdb_connection *c)
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

static __always_inline enum result reply_no_type(struct sk_msg_md *m, struct bpfdb_connection *c)
{
	return reply_word(m, c, WORD("+none\r\n"), 7);
}

static __always_inline enum result reply_nil(struct sk_msg_md *m, struct bpfdb_connection *c)
{
	if (unlikely(c->resp3))
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
__noinline int header_make(struct bpfdb_connection *c NONNULL, u32 marker, u32 number)
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
static __always_inline enum result reply_header(struct sk_msg_md *m, struct bpfdb_connection *c,
						u8 marker, u32 number)
{
	header_make(c, marker, number);
	return reply_word(m, c, c->header, c->header_len);
}

/* Copies `len` bytes from map memory, of which `most` (a constant, up to 32 KiB) may be
 * read, to p; 8 bytes are there at least. False if the packet ends before. */
static __always_inline bool packet_copy(u8 *p, u8 *end, const u8 *from, u32 len, u32 most)
{
	u64 last = len - 8;

	repeat(i, most / 32)
	{
		u64 at = (u64)i * 32;
		u8 *to;

		if (at + 32 > len)
			break;
		OPAQUE(at);
		if (at > most - 32)
			return false;
		to = p + at;
		if (to + 32 > end)
			return false;
		*(u64 *)to = load8(from + at);
		*(u64 *)(to + 8) = load8(from + at + 8);
		*(u64 *)(to + 16) = load8(from + at + 16);
		*(u64 *)(to + 24) = load8(from + at + 24);
	}
	/* What is left of 32 bytes, by words; the last word may overlap. */
	for (u32 i = 0; i < 4; i++) {
		u64 at = (len & ~31u) + i * 8;
		u8 *to;

		if (at > last)
			at = last;
		OPAQUE(at);
		if (at > most - 8)
			return false;
		to = p + at;
		if (to + 8 > end)
			return false;
		*(u64 *)to = load8(from + at);
	}
	return true;
}

/* A bulk string of up to 16 bytes in two words. */
static __always_inline enum result
reply_bulk_inline(struct sk_msg_md *m, struct bpfdb_connection *c, u64 a, u64 b, u32 len)
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
static __always_inline enum result reply_bulk_long(struct sk_msg_md *m, struct bpfdb_connection *c,
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
__noinline enum result reply_value(struct sk_msg_md *m, struct bpfdb_connection *c NONNULL,
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
static __always_inline enum result reply_arg(struct sk_msg_md *m, struct bpfdb_connection *c)
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

/* `:<number>\r\n` for numbers whose text is in the connection: `len` bytes at
 * text[start]. */
static __always_inline enum result
reply_text_integer(struct sk_msg_md *m, struct bpfdb_connection *c, u32 start, u32 len)
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
