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
 *    arrives then, which opens a session for the time of its look-ups. Most of such segments ask for no value:
 *    they are the middle of a long argument, or writes. For these no session is opened, and for the former no
 *    context is taken.
 * 3. A wrong guess of what is a key costs a look-up, or a read in vain.
 * 4. Nothing is looked up for a client that has not authenticated, or subscribes (may_prefetch).
 * 5. A read begins if another one can be under way meanwhile: the message asks for a second value that is cold, or
 *    others are being read already. One that is alone gains nothing: the daemon reads it as soon,
 *    and without io_uring's thread, which would take a processor from client and daemon.
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

/* What replaces a value, or is about the key alone, reads none. Of commands that the kernel does not know, most
 * have a key first; these are the frequent ones that have none, or several. BITOP's first argument is looked up as if it
 * were a key, as are the script and the number before those of EVAL. A subprogram, so that the verifier walks these
 * branches once. */
__noinline enum prefetched prefetched_of(u64 name)
{
	switch (name) {
	case NAME_WORD(AUTH, 0):
	case NAME_WORD(CLIENT, 0):
	case NAME_WORD(COMMAND, 0):
	case NAME_WORD(CONFIG, 0):
	case NAME_OF(DEL):
	case NAME_OF(EXISTS):
	case NAME_OF(EXPIRE):
	case NAME_OF(EXPIREAT):
	case NAME_OF(EXPIRETIME):
	case NAME_WORD(FUNCTION, 0):
	case NAME_WORD(HELLO, 0):
	case NAME_WORD(INFO, 0):
	case NAME_OF(MSET):
	case NAME_OF(PERSIST):
	case NAME_OF(PEXPIRE):
	case NAME_OF(PEXPIREAT):
	case NAME_OF(PEXPIRETIME):
	case NAME_OF(PSETEX):
	case NAME_OF(PTTL):
	case NAME_OF(PUBLISH):
	case NAME_WORD(SCRIPT, 0):
	case NAME_WORD(SELECT, 0):
	case NAME_OF(SET):
	case NAME_OF(SETEX):
	case NAME_OF(SETNX):
	case NAME_OF(TOUCH):
	case NAME_OF(TTL):
	case NAME_OF(TYPE):
	case NAME_OF(UNLINK): return PREFETCH_NONE;
	case NAME_WORD(BITOP, 0):
	case NAME_WORD(EVAL, 0):
	case NAME_OF(EVALSHA):
	case NAME_OF(EVALSHA_RO):
	case NAME_OF(FCALL):
	case NAME_OF(FCALL_RO):
	case NAME_WORD(LCS, 0):
	case NAME_OF(MGET):
	case NAME_WORD(SDIFF, 0):
	case NAME_WORD(SINTER, 0):
	case NAME_WORD(SUNION, 0):
	case NAME_WORD(ZDIFF, 0):
	case NAME_WORD(ZINTER, 0):
	case NAME_WORD(ZUNION, 0): return PREFETCH_ALL;
	}
	return name_flags(name) & (BPFDB_READS | BPFDB_WRITES) ? PREFETCH_FIRST : PREFETCH_NONE;
}

/* The name of the command at c->at, whether the kernel knows it or not. */
__noinline enum result request_name(struct context *c NONNULL)
{
	return any_name(c);
}

/* Passes over requests that need no value. False: no other follows; else c->request is there. */
__noinline int requests_pass(struct context *c NONNULL)
{
	repeat(i, BPFDB_PREFETCH_ARGUMENTS)
	{
		c->at = c->request;
		if (c->at >= c->size || request_name(c) != DONE)
			return false;
		if (c->argc && prefetched_of(c->name) != PREFETCH_NONE)
			return true;
		if (args_pass(c) != DONE)
			return false;
		c->request = c->at;
	}
	return false;
}

static __always_inline void read_begin(struct context *c, const struct prefetch_place *place)
{
	/* io_uring's thread takes what comes while it is awake. */
	if (prefetch_start(place) && !c->prefetch_begun++)
		prefetch_wake();
}

/* The value at c->prefetch_found is cold. The first one of a message waits for a second one, or for the end of
 * the message (first_settle). */
static __always_inline void cold_found(struct context *c)
{
	const struct prefetch_place *first = &c->prefetch_first, *found = &c->prefetch_found;

	if (!first->run) {
		c->prefetch_first = *found;
		return;
	}
	if (first->run == found->run && first->offset == found->offset)
		return;
	if (!c->prefetch_many) {
		c->prefetch_many = 1;
		read_begin(c, first);
	}
	read_begin(c, found);
}

/* The message asks for no other value. */
static __always_inline void first_settle(struct context *c)
{
	if (c->prefetch_first.run && !c->prefetch_many && prefetch_is_busy())
		read_begin(c, &c->prefetch_first);
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
		if (arg_to_key(c, s) == DONE && prefetch_find(s, &c->prefetch_found))
			cold_found(c);
	}
	return true;
}

static __always_inline void requests_prefetch(struct context *c, struct bpfdb_session *s)
{
	c->at = c->request;
	c->prefetch_arguments = 0;
	c->prefetch_keys = 0;
	c->prefetch_begun = 0;
	c->prefetch_many = 0;
	c->prefetch_first.run = 0;
	repeat(i, BPFDB_PREFETCH_ARGUMENTS)
	{
		if (c->at >= c->size || request_name(c) != DONE || !args_prefetch(c, s))
			break;
	}
	first_settle(c);
	/* It may have gone to sleep again, or have been waking up. */
	if (c->prefetch_begun > 1)
		prefetch_wake();
}

SEC("sk_msg")
int redis_prefetch(struct sk_msg_md *m)
{
	struct bpf_sock *sk = m->sk;
	struct socket_data *data = sk ? bpf_sk_storage_get(&socket_storage, sk, NULL, 0) : NULL;
	struct context *c = data ? context_at(data->context) : NULL;
	struct bpfdb_session *s = data ? bpfdb_session(data->index) : NULL;

	if (c && s && LOAD(prefetching.is_on) && c->own.may_prefetch)
		requests_prefetch(c, s);
	return 0;
}

/* Does it begin a request, of a client for which values may be read? */
static __always_inline bool segment_may_ask(struct __sk_buff *skb,
					    const struct bpfdb_connection *of)
{
	const struct bpfdb_redis_connection *own = (const void *)of->front_end;
	u8 first;

	return LOAD(own->may_prefetch) && !LOAD(gate.paused) &&
	       !bpf_skb_load_bytes(skb, 0, &first, sizeof(first)) && first == '*';
}

static __always_inline bool segment_asks(struct __sk_buff *skb, const struct bpfdb_connection *of)
{
	return LOAD(prefetching.is_on) && segment_may_ask(skb, of);
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
	struct bpfdb_session *s;
	int index;

	c->own = *(const struct bpfdb_redis_connection *)of->front_end;
	if (!requests_pass(c))
		return;
	index = bpfdb_session_open(BPFDB_SESSION_USER);
	s = index >= 0 ? bpfdb_session(index) : NULL;
	if (!s)
		return;
	requests_prefetch(c, s);
	bpfdb_session_close(s);
}

SEC("sk_skb/verdict")
int redis_prefetch_segment(struct __sk_buff *skb)
{
	u64 cookie = bpf_get_socket_cookie(skb);
	u32 *index = bpf_map_lookup_elem(&cookies, &cookie);
	struct bpfdb_connection *connection = index ? connection_at(*index) : NULL;
	struct context *c;

	if (!connection || !segment_asks(skb, connection))
		return 0;
	/* That of this processor, or none: messages that find no context go to the daemon. */
	c = context_try(bpf_get_smp_processor_id());
	if (!c)
		return 0;
	if (segment_open(skb, c))
		segment_walk(c, connection);
	context_release(c);
	return 0;
}

#endif
