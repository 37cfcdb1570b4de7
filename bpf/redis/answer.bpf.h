/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Redis as a front end of the transport: net/front_end.bpf.h says what each part is for. */
#ifndef BPFDB_REDIS_ANSWER_BPF_H
#define BPFDB_REDIS_ANSWER_BPF_H

#include "commands/dispatch.bpf.h"
#include "commands/park.bpf.h"
#include "commands/prefetch.bpf.h"
#include "../net/front_end.bpf.h"
#include "../tier/seat.bpf.h"

static __always_inline u32 front_end_sessions(void)
{
	return BPFDB_SESSION_REDIS;
}

static __always_inline struct bpfdb_redis_connection *redis_of(struct bpfdb_connection *c)
{
	return (struct bpfdb_redis_connection *)c->front_end;
}

_Static_assert(sizeof(struct bpfdb_redis_connection) <=
		       sizeof(((struct bpfdb_connection *)0)->front_end),
	       "a connection has room for the front end's words");

static __always_inline void front_end_opened(struct bpfdb_connection *c)
{
	/* The daemon is the first to answer where there is a password, and says who is admitted. */
	*redis_of(c) = (struct bpfdb_redis_connection){.may_prefetch = !LOAD(gate.closed)};
}

/* ---- Counting ------------------------------------------------------------ */

static __always_inline void run_end(struct context *c)
{
	u32 command = c->run_command;

	if (c->run && command < BPFDB_COMMAND_COUNT)
		COUNT_REQUESTS_N(commands[command], c->run);
}

/* Commands of a pipeline often are the same: one addition to a counter for a row of them. */
static __always_inline void front_end_answered(struct context *c)
{
	if (c->own.command != c->run_command) {
		run_end(c);
		c->run_command = c->own.command;
		c->run = 0;
	}
	c->run++;
}

/* ---- A message ----------------------------------------------------------- */

static __always_inline void front_end_begin(struct context *c,
					    const struct bpfdb_connection *connection)
{
	c->own = *(const struct bpfdb_redis_connection *)connection->front_end;
	c->calls = 0;
	c->block = 0;
	c->run_command = 0;
	c->run = 0;
}

static __always_inline bool front_end_is_amid(const struct context *c)
{
	return c->block;
}

/* Within MULTI … EXEC: the next command of it. */
static __always_inline enum result front_end_request(struct sk_msg_md *m, struct context *c,
						     struct bpfdb_session *s)
{
	enum result result = command_name(c);

	if (result == DONE)
		result = command_run(m, c, s);
	return unlikely(c->block) ? block_next(c, s, result) : result;
}

static __always_inline bool front_end_run_is_over(const struct context *c)
{
	return c->calls >= BPFDB_CALLS_PER_RUN;
}

static __always_inline enum result front_end_end(struct context *c,
						 struct bpfdb_connection *connection,
						 struct bpfdb_session *s, enum result result)
{
	redis_of(connection)->given_up = c->own.given_up;
	redis_of(connection)->meets_large = c->own.meets_large;
	STORE(redis_of(connection)->command, c->own.command);
	run_end(c);
	if (likely(!c->block))
		return result;
	block_abort(c, s);
	return PASS_TO_DAEMON;
}

static __always_inline void front_end_passes(struct sk_msg_md *m, struct context *c)
{
	message_prefetch(m, c);
}

static __always_inline void front_end_arrives(struct __sk_buff *skb)
{
	segment_prefetch(skb);
}

static __always_inline int front_end_parks(struct __sk_buff *skb)
{
	return segment_park(skb);
}

static __always_inline bool front_end_is_sender(void)
{
	return in_park_thread();
}

static __always_inline int front_end_sends(struct sk_msg_md *m)
{
	return message_commit(m);
}

static __always_inline void front_end_passed(struct bpfdb_connection *c)
{
	redis_of(c)->given_up = 0;
}

#endif
