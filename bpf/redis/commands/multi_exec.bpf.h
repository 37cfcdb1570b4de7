/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * MULTI … EXEC that came in one message: executed here, as one transaction. That is
 * what clients call a pipeline with a transaction.
 *
 *   | replies | MULTI | SET a 1 | GET b | EXEC | next request
 *             ^ c->request
 *
 * Whatever else a transaction may be (its commands come one by one, keys are watched,
 * a command fails) is the daemon's, from MULTI on.
 *
 *            MULTI: the block is all here            EXEC: committed
 *   NONE ───────────────────────────────────► OPEN ──────────────────► NONE
 *                                             │  ▲
 *   NONE, daemon ◄ block_abort: anything else ┘  └── a conflict: rolled back, again
 *
 * While a block is OPEN (c->block):
 *
 * 1. c->request stays at MULTI, and nothing is written over its requests: there is a
 *    gap in the message, which has the replies (resp_reply.bpf.h). So at any time the
 *    daemon can be given the block as it came.
 * 2. The transaction of the session is this block's. Every way out ends it, in this run
 *    of the program; replies are sent when the run is over. So no client sees replies of
 *    what was not committed.
 * 3. No Error is replied (reply_error). The daemon meets it again, and has patience and
 *    Redis's words.
 * 4. Its commands are counted when it is committed.
 */
#ifndef BPFDB_COMMANDS_MULTI_EXEC_BPF_H
#define BPFDB_COMMANDS_MULTI_EXEC_BPF_H

#include "name.bpf.h"
#include "transaction.bpf.h"

/* What the replies to a block are expected to need for each command: `+QUEUED` and a
 * short value. If they need more, there will be more gaps. */
#define QUEUED_LEN 9
#define BLOCK_REPLY_GUESS (QUEUED_LEN + 24)

_Static_assert(!(BPFDB_BLOCK_MAX & (BPFDB_BLOCK_MAX - 1)), "a mask bounds block_commands");
_Static_assert(BPFDB_COMMAND_COUNT <= 256, "a command is one byte there");
_Static_assert(BPFDB_BLOCK_MAX *BLOCK_REPLY_GUESS < GAP_MAX, "a program can see the gap");

/* The argument parsed last is probably a key: fetches what is its record then. */
static __always_inline void arg_prefetch(struct context *c)
{
	u32 len = c->arg_len;
	const u8 *from;

	if (!len || len > BPFDB_INLINE_MAX)
		return;
	from = window_at(c, c->arg, BPFDB_INLINE_MAX);
	inline_prefetch(load8(from), load8(from + 8), len);
}

/* Goes over the arguments of the command whose name was parsed last. */
__noinline enum result args_pass(struct context *c NONNULL)
{
	enum result result = c->argc ? arg_next(c) : DONE;

	if (!c->argc || result != DONE)
		return result;
	arg_prefetch(c);
	repeat(i, c->argc - 1)
	{
		result = arg_next(c);
		if (result != DONE)
			return result;
	}
	return DONE;
}

/* Goes over what follows MULTI: DONE with c->at behind EXEC. PASS_TO_DAEMON if it ends before
 * EXEC, but not within a request: the client may be waiting for a reply. */
__noinline enum result block_scan(struct context *c NONNULL)
{
	c->block_reads = 1;
	repeat(i, BPFDB_BLOCK_MAX)
	{
		enum result result = c->at < c->size ? command_name(c) : PASS_TO_DAEMON;
		u32 flags;

		if (result != DONE)
			return result;
		if (c->name == NAME_OF(EXEC)) {
			c->block_count = i;
			return c->argc ? PASS_TO_DAEMON : DONE;
		}
		flags = name_flags(c->name);
		/* It would end, or nest, the transaction. */
		if (flags & BPFDB_TRANSACTION)
			return PASS_TO_DAEMON;
		if (flags & BPFDB_WRITES)
			c->block_reads = 0;
		result = args_pass(c);
		if (result != DONE)
			return result;
	}
	return PASS_TO_DAEMON;
}

/* +OK, +QUEUED for each command, and the header of EXEC's reply; c->at is behind EXEC.
 * DONE or NO_ROOM. */
__noinline enum result block_head(struct sk_msg_md *m, struct context *c NONNULL)
{
	u32 count = c->block_count, len = 5 + count * QUEUED_LEN;
	u8 *p;

	/* What earlier replies have left free, is followed by the block itself. */
	if (!c->gaps)
		c->room = c->out;
	if (!room_make(m, c, 16 + count * BLOCK_REPLY_GUESS))
		return NO_ROOM;
	p = ROOM(m, 8);
	if (!p)
		return NO_ROOM;
	*(u64 *)p = WORD("+OK\r\n");
	/* The place is kept in memory: in a register the verifier (6.12) takes it for the
	 * number of the round, and walks all of them. */
	c->block_queued = 5;
	repeat(i, count)
	{
		u64 at = c->block_queued;
		u8 *to;

		at &= 16 * BPFDB_BLOCK_MAX - 1;
		to = p + at;
		if (to + QUEUED_LEN > (u8 *)m->data_end)
			return NO_ROOM;
		*(u64 *)to = WORD("+QUEUED\r");
		to[8] = '\n';
		c->block_queued += QUEUED_LEN;
	}
	c->out += len;
	return reply_header(m, c, '*', count);
}

/* Begins the transaction, and the first command is next. */
static __always_inline enum bpfdb_status block_begin(struct context *c, struct bpfdb_session *s)
{
	c->block_found = s->gets_found;
	c->block_missed = s->gets_missed;
	c->at = c->block_first;
	c->out = c->block_body;
	return c->block_reads ? bpfdb_begin_read_only(s) : bpfdb_begin(s);
}

__noinline enum result command_multi(struct sk_msg_md *m, struct context *c NONNULL,
				     struct bpfdb_session *s NONNULL)
{
	enum result result;

	if (c->argc || c->own.watching || !short_needed(s))
		return PASS_TO_DAEMON;
	c->block_first = c->at;
	result = block_scan(c);
	if (result != DONE)
		return result;
	c->block_out = c->out;
	result = block_head(m, c);
	c->block_body = c->out;
	if (result != DONE || block_begin(c, s) != BPFDB_OK) {
		c->out = c->block_out;
		return PASS_TO_DAEMON;
	}
	c->block_done = 0;
	c->block_tries = 0;
	c->block = 1;
	return DONE;
}

/* As if the block had not been begun. */
__noinline int block_undo(struct context *c NONNULL, struct bpfdb_session *s NONNULL)
{
	s->gets_found = c->block_found;
	s->gets_missed = c->block_missed;
	if (!short_needed(s))
		TXN_END_OWN(s, bpfdb_rollback);
	return 0;
}

/* A request of a block came to `result`: what that means for the block. DONE: it goes
 * on, perhaps from its beginning. */
__noinline enum result block_next(struct context *c NONNULL, struct bpfdb_session *s NONNULL,
				  u32 result)
{
	u64 done = c->block_done;

	if (result == DONE) {
		if (c->out > BPFDB_REPLY_BATCH)
			return PASS_TO_DAEMON;
		OPAQUE(done);
		c->block_commands[done & (BPFDB_BLOCK_MAX - 1)] = c->own.command;
		c->block_done++;
		return DONE;
	}
	if (s->state != BPFDB_TXN_FAILED || s->failure != BPFDB_CONFLICT)
		return PASS_TO_DAEMON;
	if (++c->block_tries >= BPFDB_BLOCK_TRIES)
		return PASS_TO_DAEMON;
	block_undo(c, s);
	c->block_done = 1;
	return block_begin(c, s) == BPFDB_OK ? DONE : PASS_TO_DAEMON;
}

/* The daemon is to have it. */
static __always_inline void block_abort(struct context *c, struct bpfdb_session *s)
{
	block_undo(c, s);
	c->block = 0;
	c->out = c->block_out;
}

__noinline enum result command_exec(struct context *c NONNULL, struct bpfdb_session *s NONNULL)
{
	if (!c->block || bpfdb_commit(s) != BPFDB_OK)
		return PASS_TO_DAEMON;
	c->block = 0;
	c->answers += c->block_done;
	repeat(i, BPFDB_BLOCK_MAX)
	{
		u64 left = c->block_done;
		u32 command = c->block_commands[(left - 1) & (BPFDB_BLOCK_MAX - 1)];

		if (!left)
			break;
		if (command < BPFDB_COMMAND_COUNT)
			COUNT_REQUESTS(commands[command]);
		c->block_done = left - 1;
	}
	return DONE;
}

#endif
