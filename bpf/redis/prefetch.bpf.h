/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The programs that go over the requests of a message which the daemon is to answer, and have the cold values
 * read that these ask for (tier/prefetch.bpf.h). redis_answer enters one of them when it has answered what it can:
 *
 *   | answered | GET a | MGET b c d | SET e … | GET f |
 *              ^ c->request
 *
 * 1. It runs in the midst of redis_answer, in whose context and session it works. It executes nothing: of
 *    the session it changes only what every look-up does.
 * 2. While the daemon has the connection it also has the session. So redis_verdict enters the other one for what
 *    arrives then, which opens a session for the time of its look-ups.
 * 3. A wrong guess of what is a key costs a look-up, or a read in vain.
 */
#ifndef BPFDB_REDIS_PREFETCH_BPF_H
#define BPFDB_REDIS_PREFETCH_BPF_H

#include "commands/dispatch.bpf.h"
#include "../tier/prefetch.bpf.h"

/* Which arguments of a command are keys whose values it needs. */
enum prefetched {
	PREFETCH_NONE,
	PREFETCH_FIRST,
	PREFETCH_ALL,
};

/* What replaces a value reads none. */
static __always_inline enum prefetched prefetched_of(u64 name)
{
	switch (name) {
	case NAME_OF(DEL):
	case NAME_OF(MSET):
	case NAME_OF(PSETEX):
	case NAME_OF(SET):
	case NAME_OF(SETEX):
	case NAME_OF(SETNX):
	case NAME_OF(UNLINK): return PREFETCH_NONE;
	case NAME_OF(EVALSHA):
	case NAME_OF(EVALSHA_RO):
	case NAME_OF(EXISTS):
	case NAME_OF(FCALL):
	case NAME_OF(FCALL_RO):
	case NAME_OF(MGET): return PREFETCH_ALL;
	}
	return name_flags(name) & (BPFDB_READS | BPFDB_WRITES) ? PREFETCH_FIRST : PREFETCH_NONE;
}

/* Goes over the arguments of the command whose name was parsed last. False: the message ends, or is none that
 * the kernel can parse. What differs between rounds is in memory: the verifier walks one of them. */
__noinline int args_prefetch(struct context *c NONNULL, struct bpfdb_session *s NONNULL)
{
	enum prefetched which = prefetched_of(c->name);

	c->prefetch_next = which != PREFETCH_NONE;
	c->prefetch_all = which == PREFETCH_ALL;
	repeat(i, c->argc)
	{
		if (c->prefetch_arguments >= BPFDB_PREFETCH_ARGUMENTS || arg_next(c) != DONE)
			return false;
		c->prefetch_arguments++;
		if (!c->prefetch_next)
			continue;
		c->prefetch_next = c->prefetch_all;
		if (c->prefetch_keys >= BPFDB_PREFETCH_KEYS)
			return false;
		c->prefetch_keys++;
		if (arg_to_key(c, s) == DONE)
			prefetch_key(s);
	}
	return true;
}

static __always_inline void requests_prefetch(struct context *c, struct bpfdb_session *s)
{
	c->at = c->request;
	c->prefetch_arguments = 0;
	c->prefetch_keys = 0;
	repeat(i, BPFDB_PREFETCH_ARGUMENTS)
	{
		if (c->at >= c->size || command_name(c) != DONE || !args_prefetch(c, s))
			break;
	}
}

SEC("sk_msg")
int redis_prefetch(struct sk_msg_md *m)
{
	struct bpf_sock *sk = m->sk;
	struct socket_data *data = sk ? bpf_sk_storage_get(&socket_storage, sk, NULL, 0) : NULL;
	struct context *c = data ? context_at(data->context) : NULL;
	struct bpfdb_session *s = data ? bpfdb_session(data->index) : NULL;

	if (c && s && LOAD(prefetching.is_on))
		requests_prefetch(c, s);
	return 0;
}

/* The beginning of a segment, as long as a window is, is the message. */
static __always_inline bool segment_open(struct __sk_buff *skb, struct context *c)
{
	u32 len = skb->len;

	if (len > WINDOW)
		len = WINDOW;
	OPAQUE(len);
	len &= 2 * WINDOW - 1;
	if (!len || len > WINDOW || bpf_skb_load_bytes(skb, 0, c->window, len))
		return false;
	*(u64 *)(c->window + len) = 0;
	c->window_at = 0;
	c->window_end = len;
	c->size = len;
	c->request = 0;
	return true;
}

static __always_inline void segment_walk(struct context *c, const struct bpfdb_connection *of)
{
	int index = bpfdb_session_open(BPFDB_SESSION_USER);
	struct bpfdb_session *s = index >= 0 ? bpfdb_session(index) : NULL;

	if (!s)
		return;
	c->own = *(const struct bpfdb_redis_connection *)of->front_end;
	requests_prefetch(c, s);
	bpfdb_session_close(s);
}

SEC("sk_skb/verdict")
int redis_prefetch_segment(struct __sk_buff *skb)
{
	u64 cookie = bpf_get_socket_cookie(skb);
	u32 *index = bpf_map_lookup_elem(&cookies, &cookie), number;
	struct bpfdb_connection *connection = index ? connection_at(*index) : NULL;
	struct context *c;

	if (!connection || !LOAD(prefetching.is_on))
		return 0;
	c = context_claim(&number);
	if (!c)
		return 0;
	if (segment_open(skb, c))
		segment_walk(c, connection);
	context_release(c);
	return 0;
}

#endif
