/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The program that answers commands on one element of a large collection, one in each run, for
 * redis_apart:
 *
 *   redis_answer ──► redis_apart: the collection is no small one ──► redis_large: this list
 *        ◄───────────────────────────── the result ─────────────────────────┘
 *
 * The next command of the connection comes at once, and what then is no large collection goes back:
 *
 *   redis_answer ──► redis_large: the collection is no large one ──► redis_apart
 *
 * It runs as redis_apart does (apart.bpf.h). A server loads it when large collections are in use
 * (crates/bpfdb-server/src/kernel/apart.rs); the daemon answers until then.
 */
#ifndef BPFDB_REDIS_LARGE_BPF_H
#define BPFDB_REDIS_LARGE_BPF_H

#include "apart.bpf.h"
#include "commands/large_rank.bpf.h"

/* X(NAME, call), as in bpfdb/commands.h: a command that has the flag BPFDB_APART there. */
#define LARGE_COMMAND_LIST(X)                                                                      \
	X(HDEL, large_take(m, c, s, BPFDB_TYPE_HASH))                                              \
	X(HEXISTS, large_read(m, c, s, BPFDB_TYPE_HASH, ASKED_PRESENCE))                           \
	X(HGET, large_read(m, c, s, BPFDB_TYPE_HASH, ASKED_VALUE))                                 \
	X(HINCRBY, large_hincrby(m, c, s))                                                         \
	X(HLEN, large_elements(m, c, s, BPFDB_TYPE_HASH))                                          \
	X(HMGET, large_hmget(m, c, s))                                                             \
	X(HMSET, large_hset(m, c, s, HSET_OK))                                                     \
	X(HSET, large_hset(m, c, s, HSET_COUNTS))                                                  \
	X(HSETNX, large_hset(m, c, s, HSET_ONLY_NEW))                                              \
	X(HSTRLEN, large_read(m, c, s, BPFDB_TYPE_HASH, ASKED_LENGTH))                             \
	X(LINDEX, large_lindex(m, c, s))                                                           \
	X(LLEN, large_elements(m, c, s, BPFDB_TYPE_LIST))                                          \
	X(LPOP, large_pop(m, c, s, LIST_LEFT))                                                     \
	X(LPUSH, large_push(m, c, s, LIST_LEFT))                                                   \
	X(LRANGE, large_range(m, c, s, BPFDB_TYPE_LIST, RANGE_UP))                                 \
	X(RPOP, large_pop(m, c, s, LIST_RIGHT))                                                    \
	X(RPUSH, large_push(m, c, s, LIST_RIGHT))                                                  \
	X(SADD, large_sadd(m, c, s))                                                               \
	X(SCARD, large_elements(m, c, s, BPFDB_TYPE_SET))                                          \
	X(SISMEMBER, large_read(m, c, s, BPFDB_TYPE_SET, ASKED_PRESENCE))                          \
	X(SREM, large_take(m, c, s, BPFDB_TYPE_SET))                                               \
	X(ZADD, large_zadd(m, c, s, false))                                                        \
	X(ZCARD, large_elements(m, c, s, BPFDB_TYPE_SORTED_SET))                                   \
	X(ZINCRBY, large_zadd(m, c, s, true))                                                      \
	X(ZRANGE, large_range(m, c, s, BPFDB_TYPE_SORTED_SET, RANGE_UP))                           \
	X(ZRANK, large_rank(m, c, s, false))                                                       \
	X(ZREM, large_zrem(m, c, s))                                                               \
	X(ZREVRANGE, large_range(m, c, s, BPFDB_TYPE_SORTED_SET, RANGE_DOWN))                      \
	X(ZREVRANK, large_rank(m, c, s, true))                                                     \
	X(ZSCORE, large_read(m, c, s, BPFDB_TYPE_SORTED_SET, ASKED_SCORE))

#define DISPATCH_LARGE(name, call)                                                                 \
	case BPFDB_COMMAND_##name: return call;

static __always_inline enum result command_run_large(struct sk_msg_md *m, struct context *c,
						     struct bpfdb_session *s)
{
	switch (c->own.command) {
		LARGE_COMMAND_LIST(DISPATCH_LARGE)
	default: return PASS_TO_DAEMON;
	}
}

SEC("sk_msg")
int redis_large(struct sk_msg_md *m)
{
	struct context *c;
	struct bpfdb_session *s;
	struct apart_start start;
	enum result result;

	if (!apart_open(m, &c, &s))
		return PASS_TO_DAEMON;
	start = apart_begin(c, s);
	result = command_run_large(m, c, s);
	if (likely(result != PASS_TO_DAEMON))
		c->own.meets_large = 1;
	if (likely(result != PASS_TO_DAEMON || c->is_large || !c->own.meets_large))
		return result;
	/* It is a small collection, or none, or this program does not know the command. */
	c->own.meets_large = 0;
	apart_undo(c, s, &start);
	bpf_tail_call(m, &apart, BPFDB_APART_COMMANDS);
	return PASS_TO_DAEMON;
}

#endif
