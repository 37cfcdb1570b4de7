/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Names of commands. Nearly every one that the kernel answers has up to eight letters:
 * one word. The others get a number, which is no such word. */
#ifndef BPFDB_COMMANDS_NAME_BPF_H
#define BPFDB_COMMANDS_NAME_BPF_H

#include "../resp_reply.bpf.h"

enum {
	NAME_PEXPIREAT = 1,
	NAME_EXPIRETIME = 2,
	NAME_PEXPIRETIME = 3,
};

#define LONG_NAME(name, a, b, c, d, e, f, g, h, i, j, k)                                           \
	if (start == WORD(a, b, c, d, e, f, g, h) && end == WORD(i, j, k, 0, 0, 0, 0, 0))          \
	return NAME_##name

/* The number of the name parsed last, which has more than eight letters; 0: none. */
static __always_inline u64 long_name(struct bpfdb_connection *c)
{
	u32 len = c->arg_len;
	const u8 *name;
	u64 start, end;

	if (len <= 8 || len > 16)
		return 0;
	name = window_at(c, c->arg, 16);
	start = load8(name) | SMALL_LETTERS;
	end = low_bytes(load8(name + 8) | SMALL_LETTERS, len - 8);
	LONG_NAME(PEXPIREAT, 'p', 'e', 'x', 'p', 'i', 'r', 'e', 'a', 't', 0, 0);
	LONG_NAME(EXPIRETIME, 'e', 'x', 'p', 'i', 'r', 'e', 't', 'i', 'm', 'e', 0);
	LONG_NAME(PEXPIRETIME, 'p', 'e', 'x', 'p', 'i', 'r', 'e', 't', 'i', 'm', 'e');
	return 0;
}

/* `*<count>\r\n$<length>\r\n<name>\r\n`: DONE with c->name in small letters,
 * c->argc, and c->at at the first argument. */
__noinline int command_name(struct bpfdb_connection *c NONNULL)
{
	u32 count;
	int header = header_parse(c, '*', &count), result;

	if (header < 0)
		return -header;
	if (!count)
		return SLOW;
	c->at += header;
	c->argc = count - 1;
	result = arg_next(c);
	if (result != DONE)
		return result;
	c->name = arg_word(c);
	if (unlikely(!c->name))
		c->name = long_name(c);
	return c->name ? DONE : SLOW;
}

#endif
