/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Names of commands, as the list in bpfdb/commands.h spells them. A name of up to eight
 * letters is one word, which compares as fast as a number. A longer one gets a number
 * that is no such word.
 */
#ifndef BPFDB_COMMANDS_NAME_BPF_H
#define BPFDB_COMMANDS_NAME_BPF_H

#include "../resp_reply.bpf.h"

#define NAME_LEN(name) (sizeof(#name) - 1)
#define SHORT_NAME_MAX 8
#define LONG_NAME_MAX 16

/* Letters of a name from letter `i` (0 or 8) on, in small, as a word: a constant. */
#define NAME_WORD(name, i)                                                                         \
	(WORD_AT(#name, i) |                                                                       \
	 (NAME_LEN(name) >= (i) + 8 ? SMALL_LETTERS                                                \
				    : SMALL_LETTERS & ((1ULL << NAME_LEN(name) % 8 * 8) - 1)))

/* What c->name is for this command. No word ends, and so begins, with a byte of 0. */
#define NAME_OF(name)                                                                              \
	(NAME_LEN(name) <= SHORT_NAME_MAX ? NAME_WORD(name, 0)                                     \
					  : (u64)(BPFDB_COMMAND_##name + 1) << 8)

#define NAME_FITS(name, flags, call)                                                               \
	_Static_assert(NAME_LEN(name) <= LONG_NAME_MAX, #name " is compared as two words");
BPFDB_COMMAND_LIST(NAME_FITS)

#define LONG_NAME(name, flags, call)                                                               \
	if (NAME_LEN(name) > SHORT_NAME_MAX && start == NAME_WORD(name, 0) &&                      \
	    end == NAME_WORD(name, 8))                                                             \
		return NAME_OF(name);

/* The number of the name parsed last, which has more than eight letters; 0: none. */
static __always_inline u64 long_name(struct context *c)
{
	u32 len = c->arg_len;
	const u8 *name;
	u64 start, end;

	if (len <= SHORT_NAME_MAX || len > LONG_NAME_MAX)
		return 0;
	name = window_at(c, c->arg, LONG_NAME_MAX);
	start = load8(name) | SMALL_LETTERS;
	end = low_bytes(load8(name + 8) | SMALL_LETTERS, len - 8);
	BPFDB_COMMAND_LIST(LONG_NAME)
	return 0;
}

/* What the list says of the command with this name; BPFDB_WRITES if it is not in it. */
static __always_inline u32 name_flags(u64 name)
{
#define FLAGS(command, flags, call)                                                                \
	case NAME_OF(command): return flags;
	switch (name) {
		BPFDB_COMMAND_LIST(FLAGS)
	default: return BPFDB_WRITES;
	}
#undef FLAGS
}

/* `*<count>\r\n$<length>\r\n<name>\r\n`: DONE with c->name in small letters, 0 if it is longer than a word
 * and not in the list, c->argc, and c->at at the first argument. */
static __always_inline enum result any_name(struct context *c)
{
	u32 count;
	int header = header_parse(c, '*', &count);
	enum result result;

	if (header < 0)
		return -header;
	if (!count)
		return PASS_TO_DAEMON;
	c->at += header;
	c->argc = count - 1;
	result = arg_next(c);
	if (result != DONE)
		return result;
	c->name = arg_word(c);
	if (unlikely(!c->name))
		c->name = long_name(c);
	return DONE;
}

/* The same of a command that the kernel may know: its name is never 0. */
__noinline enum result command_name(struct context *c NONNULL)
{
	enum result result = any_name(c);

	return result == DONE && !c->name ? PASS_TO_DAEMON : result;
}

#endif
