/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Redis as a front end of the transport: net/front_end.bpf.h says what each part is for. */
#ifndef BPFDB_REDIS_ANSWER_BPF_H
#define BPFDB_REDIS_ANSWER_BPF_H

#include "../net/front_end.bpf.h"
#include "commands/dispatch.bpf.h"

static __always_inline u32 front_end_sessions(void)
{
	return BPFDB_SESSION_REDIS;
}

static __always_inline void front_end_opened(struct bpfdb_connection *c)
{
	c->resp3 = 0;
	c->watching = 0;
}

/* ---- Counting ------------------------------------------------------------ */

static __always_inline void run_end(struct bpfdb_connection *c)
{
	u32 command = c->run_command;

	if (c->run && command < BPFDB_COMMAND_COUNT)
		COUNT_REQUESTS_N(commands[command], c->run);
}

/* Commands of a pipeline often are the same: one addition to a counter for a row of them. */
static __always_inline void front_end_answered(struct bpfdb_connection *c)
{
	if (c->command != c->run_command) {
		run_end(c);
		c->run_command = c->command;
		c->run = 0;
	}
	c->run++;
}

/* ---- A message ----------------------------------------------------------- */

static __always_inline void front_end_begin(struct bpfdb_connection *c)
{
	c->calls = 0;
	c->block = 0;
	c->run_command = 0;
	c->run = 0;
}

static __always_inline bool front_end_is_amid(const struct bpfdb_connection *c)
{
	return c->block;
}

/* Within MULTI … EXEC: the next command of it. */
static __always_inline enum result
front_end_request(struct sk_msg_md *m, struct bpfdb_connection *c, struct bpfdb_session *s)
{
	enum result result = command_name(c);

	if (result == DONE)
		result = command_run(m, c, s);
	return unlikely(c->block) ? block_next(c, s, result) : result;
}

static __always_inline bool front_end_run_is_over(const struct bpfdb_connection *c)
{
	return c->calls >= BPFDB_CALLS_PER_RUN;
}

static __always_inline enum result front_end_end(struct bpfdb_connection *c,
						 struct bpfdb_session *s, enum result result)
{
	run_end(c);
	if (likely(!c->block))
		return result;
	block_abort(c, s);
	return PASS_TO_DAEMON;
}

static __always_inline void front_end_passed(struct bpfdb_connection *c)
{
	c->given_up = 0;
}

#endif
