/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Answers: an sk_msg program on the connection's own socket. It runs for every
 * sendmsg() there, in process context, under the socket's lock:
 *
 *   by the kernel's worker   the bytes are requests (verdict.bpf.h sent them
 *                            here): answer them
 *   by the daemon            the bytes are replies: let them pass
 *
 * A message is part of the stream: it may hold many requests and end within
 * one. What remains of it after the program's verdict (bpf_msg_apply_bytes) is
 * given to the program again; then the first request is what it stopped at:
 *
 *   SLOW        to the own socket's ingress, and the connection is USER
 *   INCOMPLETE  kept back until the rest has arrived (bpf_msg_cork_bytes)
 */
#ifndef BPFDB_ANSWER_BPF_H
#define BPFDB_ANSWER_BPF_H

#include "commands/dispatch.bpf.h"
#include "socket.bpf.h"

/* Requests in one run; the rest of the message is another run. */
#define REQUESTS_PER_RUN 4096

__noinline int hand_over(struct sk_msg_md *m, struct bpfdb_connection *c NONNULL, u32 index)
{
	c->corked = 0;
	c->handed += m->size;
	COUNT_N(bytes_passed, m->size);
	connection_raise(c, index, BPFDB_CONNECTION_USER);
	return bpf_msg_redirect_map(m, &sockets, index, BPF_F_INGRESS);
}

/* A broken connection sends nothing more: the error makes the worker give up. */
static __always_inline int give_up(struct bpfdb_connection *c, u32 index)
{
	connection_raise(c, index, BPFDB_CONNECTION_BROKEN);
	return SK_DROP;
}

/* Waits for the rest of a request, unless it is too long, or the kernel cannot
 * keep more parts (then it runs the program before all is there). */
static __always_inline int keep_back(struct sk_msg_md *m, struct bpfdb_connection *c, u32 index)
{
	u32 need = c->need > m->size ? c->need : m->size + 1;

	if (need > BPFDB_REQUEST_MAX || m->size < c->corked)
		return hand_over(m, c, index);
	c->corked = need;
	bpf_msg_cork_bytes(m, need);
	return SK_PASS;
}

/* Did everything that was sent before reach TCP? */
static __always_inline bool in_step(struct bpfdb_connection *c, const struct tcp_sock *tcp)
{
	u32 replied = c->replied;

	if (c->rebase) {
		c->sequence = tcp->write_seq - replied;
		c->rebase = 0;
	}
	return tcp->write_seq == c->sequence + replied;
}

/* Makes the whole message readable at c->source. */
static __always_inline bool message_open(struct sk_msg_md *m, struct bpfdb_connection *c)
{
	u32 size = m->size;

	if (bpf_msg_pull_data(m, 0, size, 0))
		return false;
	c->source = (u64)m->data;
	c->size = size;
	c->request = 0;
	c->answers = 0;
	c->out = 0;
	c->room = 0;
	c->gaps = 0;
	window_load(c, 0);
	return true;
}

/* The request at c->request. */
static __always_inline int request_answer(struct sk_msg_md *m, struct bpfdb_connection *c,
					  struct bpfdb_session *s)
{
	int result;

	c->at = c->request;
	c->need = 0;
	result = command_name(c);
	return result == DONE ? command_run(m, c, s) : result;
}

/* Cuts out what lies between the replies and the requests that remain. */
static __always_inline bool message_cut(struct sk_msg_md *m, const struct bpfdb_connection *c)
{
	u32 remain = c->size - c->request;
	u32 unused = m->size - c->out - remain;

	return !unused || bpf_msg_pop_data(m, c->out, unused, 0) == 0;
}

/* Sends the replies; what remains of the message comes again. */
static __always_inline int message_send(struct sk_msg_md *m, struct bpfdb_connection *c)
{
	COUNT_N(requests_fast, c->answers);
	if (c->request < c->size)
		bpf_msg_apply_bytes(m, c->out);
	c->corked = 0;
	c->answered += c->request;
	c->replied += c->out;
	return SK_PASS;
}

static __always_inline int answer(struct sk_msg_md *m, struct bpfdb_connection *c,
				  struct bpfdb_session *s)
{
	int result = SLOW;

	if (!message_open(m, c))
		return hand_over(m, c, s->index);
	repeat(i, REQUESTS_PER_RUN)
	{
		result = request_answer(m, c, s);
		if (result != DONE)
			break;
		c->answers++;
		c->request = c->at;
		if (c->at >= c->size || c->out > BPFDB_REPLY_BATCH)
			break;
	}
	/* Executed, but its reply is lost. */
	if (result == NO_ROOM || !message_cut(m, c))
		return give_up(c, s->index);
	if (c->answers)
		return message_send(m, c);
	return result == INCOMPLETE ? keep_back(m, c, s->index) : hand_over(m, c, s->index);
}

SEC("sk_msg")
int redis_answer(struct sk_msg_md *m)
{
	struct socket_data *data;
	struct bpfdb_connection *c;
	struct bpfdb_session *s;
	struct tcp_sock *tcp;
	struct bpf_sock *sk = m->sk;
	u64 arrived;

	if (!in_kernel_thread())
		return SK_PASS;
	/* They keep what an earlier run for the same message said. */
	bpf_msg_apply_bytes(m, 0);
	bpf_msg_cork_bytes(m, 0);
	data = sk ? bpf_sk_storage_get(&socket_storage, sk, NULL, 0) : NULL;
	tcp = sk ? bpf_skc_to_tcp_sock(sk) : NULL;
	c = data ? connection_at(data->index) : NULL;
	s = data ? bpfdb_session(data->index) : NULL;
	if (!c || !s || !tcp || c->cookie != data->cookie)
		return SK_DROP;
	arrived = LOAD(c->arrived);
	if (arrived & (BPFDB_CONNECTION_CLOSED | BPFDB_CONNECTION_BROKEN))
		return SK_DROP;
	if (arrived & BPFDB_CONNECTION_USER)
		return hand_over(m, c, s->index);
	if (!in_step(c, tcp))
		return give_up(c, s->index);
	if (send_queue_is_long(tcp))
		return hand_over(m, c, s->index);
	return answer(m, c, s);
}

#endif
