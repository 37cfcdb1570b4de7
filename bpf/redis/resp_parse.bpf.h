/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * RESP2 requests, as far as the kernel answers them: arrays of bulk strings,
 *
 *   *<count>\r\n  then count times  $<length>\r\n<bytes>\r\n
 *
 * with lengths of up to five digits. Whatever else a request may be (an inline
 * command, a malformed one, a longer one) is passed to the daemon, which answers it with
 * Redis's own words. So this parser never has to explain anything.
 *
 * The parser reads the window (net/message.bpf.h). Behind the last byte of the
 * message that is zero, which is not valid anywhere in a header; so what does not
 * match there is not malformed, but INCOMPLETE.
 */
#ifndef BPFDB_RESP_PARSE_BPF_H
#define BPFDB_RESP_PARSE_BPF_H

#include "context.bpf.h"

#include "../net/message.bpf.h"
#include "../values/key.bpf.h"
#include "../values/string.bpf.h"
#include "counters.bpf.h"

/* Up to eight bytes of a string literal as a word in memory, from byte `i` on; 0 behind
 * the last one. The compiler reads the string: this is a constant, also for `case`. */
#define BYTE_AT(text, i)                                                                           \
	((i) < sizeof(text) - 1                                                                    \
		 ? (u64)(u8)(text "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0")[i] << (i) % 8 * 8              \
		 : 0)
#define WORD_AT(text, i)                                                                           \
	(BYTE_AT(text, i) | BYTE_AT(text, (i) + 1) | BYTE_AT(text, (i) + 2) |                      \
	 BYTE_AT(text, (i) + 3) | BYTE_AT(text, (i) + 4) | BYTE_AT(text, (i) + 5) |                \
	 BYTE_AT(text, (i) + 6) | BYTE_AT(text, (i) + 7))
#define WORD(text) WORD_AT(text, 0)

#define CRLF 0x0a0d
/* Longest header: marker, five digits, CR LF. */
#define HEADER_MAX 8
#define HEADER_DIGITS 5

/*
 * Parses `<marker><digits>\r\n` at c->at: its length (> 0), with the number in
 * *value; or -PASS_TO_DAEMON or -INCOMPLETE.
 */
static __always_inline int header_parse(struct context *c, u8 marker, u32 *value)
{
	u64 word = load8(window_at(c, c->at, HEADER_MAX));
	u32 number = 0, digits = 0, mismatch = 0;
	bool begins_with_zero = (u8)(word >> 8) == '0';

	if ((u8)word == marker) {
		for (; digits < HEADER_DIGITS; digits++) {
			u32 digit = (u8)(word >> (8 + 8 * digits)) - '0';

			if (digit > 9)
				break;
			number = number * 10 + digit;
		}
		word >>= 8 + 8 * digits;
		*value = number;
		if (likely(digits && (u16)word == CRLF))
			return digits > 1 && begins_with_zero ? -PASS_TO_DAEMON : digits + 3;
		mismatch = 1 + digits + (digits && (u8)word == '\r');
	}
	return c->at + mismatch < c->size ? -PASS_TO_DAEMON : -INCOMPLETE;
}

/*
 * Parses the next argument: DONE with its bytes at c->arg, c->arg_len, and c->at
 * behind it; PASS_TO_DAEMON or INCOMPLETE. A subprogram, so that the verifier does not
 * walk its branches again for every argument of every command.
 */
__noinline enum result arg_next(struct context *c NONNULL)
{
	u32 len;
	int header = header_parse(c, '$', &len);

	if (header < 0)
		return -header;
	if (len > BPFDB_VALUE_MAX)
		return PASS_TO_DAEMON;
	c->arg = c->at + header;
	c->arg_len = len;
	c->at = c->arg + len + 2;
	if (c->at > c->size) {
		c->complete_size = c->at;
		return INCOMPLETE;
	}
	return DONE;
}

/* Letters differ from their small form in this bit; a byte that is not a
 * letter does not become one by it. */
#define SMALL_LETTERS 0x2020202020202020ULL

/* The argument parsed last as a word of up to eight small letters; 0: it is
 * empty or longer. */
static __always_inline u64 arg_word(struct context *c)
{
	u32 len = c->arg_len;

	if (!len || len > 8)
		return 0;
	return low_bytes(load8(window_at(c, c->arg, 8)) | SMALL_LETTERS, len);
}

/* Is the argument parsed last a key that the daemon refuses? What stands behind a shorter one
 * is no zero. */
static __always_inline bool arg_is_reserved(struct context *c)
{
	return key_is_reserved(load8(window_at(c, c->arg, 8)));
}

/* Can the argument parsed last be a key in the connection's database? */
static __always_inline bool arg_fits_key(struct context *c)
{
	return key_fits_database(c->arg_len, c->own.database) && !arg_is_reserved(c);
}

/* A key of more than 16 bytes that is the argument parsed last. A subprogram: few keys are. */
__noinline int long_key_copy(struct context *c NONNULL, struct bpfdb_session *s NONNULL)
{
	u32 len = s->key_len;

	key_words_copy(s, window_at(c, c->arg, len), len);
	return 0;
}

/* The same in a database that is not the first. */
__noinline enum result database_key_copy(struct context *c NONNULL, struct bpfdb_session *s NONNULL)
{
	u32 len = c->arg_len, database = c->own.database;

	if (!key_fits_database(len, database) ||
	    !key_begin_in(s, window_at(c, c->arg, len), len, database))
		return PASS_TO_DAEMON;
	return DONE;
}

/* The argument parsed last becomes the session's key, unless that is reserved. */
static __always_inline enum result arg_to_key(struct context *c, struct bpfdb_session *s)
{
	u32 len = c->arg_len;

	if (unlikely(c->own.database))
		return database_key_copy(c, s);
	if (!key_fits(len) || !key_begin(s, window_at(c, c->arg, len), len))
		return PASS_TO_DAEMON;
	if (len > BPFDB_INLINE_MAX)
		long_key_copy(c, s);
	return DONE;
}

/*
 * In a pipeline the next request often looks like this one, and its record is a cache
 * miss. Fetches what would be its record while this one is answered: c->at is where
 * it begins, and its key would be as far behind as this one's, at c->arg. A wrong
 * guess fetches something that is not needed.
 */
static __always_inline void next_prefetch(struct context *c)
{
	u32 len = c->arg_len, at = c->at + c->arg - c->request;
	u64 offset = at - c->window_at;
	const u8 *from;

	if (!len || len > BPFDB_INLINE_MAX || at + BPFDB_INLINE_MAX > c->window_end ||
	    c->own.database)
		return;
	OPAQUE(offset);
	offset &= WINDOW - 1;
	from = c->window + offset;
	inline_prefetch(load8(from), load8(from + 8), len);
}

static __always_inline enum result key_next(struct context *c, struct bpfdb_session *s)
{
	enum result result = arg_next(c);

	return result == DONE ? arg_to_key(c, s) : result;
}

/* A key and the argument behind it, which then is the one parsed last. */
static __always_inline enum result key_and_arg(struct context *c, struct bpfdb_session *s)
{
	enum result result = key_next(c, s);

	return result == DONE ? arg_next(c) : result;
}

static __always_inline const void *arg_bytes(void *operand)
{
	struct context *c = operand;

	return (void *)(c->source + c->arg);
}

/* Copies the argument parsed last to map memory; len <= BPFDB_VALUE_MAX. */
static __always_inline void arg_copy(struct context *c, void *to, u32 len)
{
	bpf_probe_read_kernel(to, len, arg_bytes(c));
}

static __always_inline const u8 *arg_words(void *c, u32 len)
{
	return window_at(c, ((struct context *)c)->arg, len);
}

/* The argument parsed last becomes the session's value: OK or an Error. */
__noinline enum bpfdb_status arg_to_value(struct context *c NONNULL,
					  struct bpfdb_session *s NONNULL)
{
	return value_fill(s, c->arg_len, BPFDB_VALUE_MAX, arg_words, arg_bytes, c);
}

/*
 * Goes over `count` arguments and back to the first of them: DONE if all are
 * there and can be answered here; they end at c->end then. `step` 2: keys and
 * values in turn, 1: keys.
 */
static __always_inline enum result args_check(struct context *c, u32 count, u32 step)
{
	u32 start = c->at;

	repeat(i, count)
	{
		enum result result = arg_next(c);

		if (result != DONE)
			return result;
		if (i % step)
			continue;
		if (!arg_fits_key(c))
			return PASS_TO_DAEMON;
	}
	c->end = c->at;
	c->at = start;
	return DONE;
}

#endif
