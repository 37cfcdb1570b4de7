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
#ifndef BPFDB_NET_ROOM_BPF_H
#define BPFDB_NET_ROOM_BPF_H

#include "message.bpf.h"

/* Room that a program may see at once; see BPFDB_REPLY_VALUE_MAX. */
#define GAP_MAX 32768
/* The end of a gap, which is never used. */
#define GAP_END 8
/* The least size of the first gap, and of another one: with their ends one page of memory, and two. The
 * kernel takes whole pages for a gap, and a reply of several pieces shows the length of its first one
 * only: with a gap of that length its second piece took another gap, of two pages. */
#define GAP_FIRST_MIN (4096 - GAP_END)
#define GAP_NEXT_MIN (8192 - GAP_END)
/* A store of whole words may go so far beyond the reply itself. */
#define REPLY_SLACK 8

/* Every reply behind this is to be written over requests up to `at`. */
static __always_inline void room_until(struct context *c, u32 at)
{
	if (!c->gaps)
		c->room = at;
}

/* Enough for this reply and, if more is to be answered, for replies like it. */
static __always_inline u32 gap_size(const struct context *c, u32 len)
{
	u32 behind = c->size - c->at, each = c->at - c->piece;
	u64 gap = len;

	if (behind && each && c->at <= c->size)
		gap = (u64)len * (1 + behind / each);
	if (gap < GAP_FIRST_MIN)
		gap = GAP_FIRST_MIN;
	if (c->gaps && gap < GAP_NEXT_MIN)
		gap = GAP_NEXT_MIN;
	if (gap < c->gaps)
		gap = c->gaps;
	return gap < GAP_MAX ? gap : GAP_MAX;
}

/* Lets the program write `len` bytes behind the replies: true if it can. A subprogram, because
 * every kind of reply begins with it. */
__noinline bool room_make(struct sk_msg_md *m, struct context *c NONNULL, u32 len)
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

#endif
