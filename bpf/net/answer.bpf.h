/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Answers: an sk_msg program. It runs for every sendmsg() on a socket, in process
 * context, under the socket's lock.
 *
 * On our own end of a connection:
 *
 *   by the kernel's worker   the bytes are requests (verdict.bpf.h sent them
 *                            here): answer them
 *   by the daemon            the bytes are replies: let them pass
 *   by io_uring              the reply to a request that was parked (park.bpf.h)
 *
 * On the client's end, if it is on this machine, the bytes are requests, and
 * local.bpf.h says when they are answered here and what becomes of the rest.
 *
 * A message is part of the stream: it may hold many requests and end within
 * one. What remains of it after the program's verdict (bpf_msg_apply_bytes) is
 * given to the program again; then the first request is what it stopped at:
 *
 * (on our own end:)
 *
 *   PASS_TO_DAEMON  to the own socket's ingress, and the connection is DAEMON
 *   INCOMPLETE      kept back until the rest has arrived (bpf_msg_cork_bytes)
 */
#ifndef BPFDB_NET_ANSWER_BPF_H
#define BPFDB_NET_ANSWER_BPF_H

#include "local.bpf.h"
#include "message.bpf.h"
#include "worker.bpf.h"

/* Requests in one run; the rest of the message is another run. */
#define REQUESTS_PER_RUN 4096

/* Answers the request at c->request, or the next part of it. */
static __always_inline enum result request_answer(struct sk_msg_md *m, struct context *c,
						  struct bpfdb_session *s)
{
	/* What is open was another command's own, and is rolled back at any moment: this one must
	 * not take it for the client's. The daemon waits. */
	if (unlikely(session_undoes(s)))
		return PASS_TO_DAEMON;
	if (likely(!front_end_is_amid(c)))
		c->at = c->request;
	c->piece = c->at;
	c->complete_size = 0;
	return front_end_request(m, c, s);
}

/* Answers what can be answered: what stopped it. */
static __always_inline enum result message_answer(struct sk_msg_md *m, struct context *c,
						  struct bpfdb_connection *connection,
						  struct bpfdb_session *s)
{
	enum result result = PASS_TO_DAEMON;

	if (!message_open(m, c))
		return PASS_TO_DAEMON;
	front_end_begin(c, connection);
	/* The rounds are counted in memory: the stack has no room. */
	for (c->rounds = 0; c->rounds < REQUESTS_PER_RUN && can_loop; c->rounds++) {
		/* Looked at before each: when the daemon has said so, it begins
		 * nothing more. */
		result = LOAD(gate.paused) ? PASS_TO_DAEMON : request_answer(m, c, s);
		if (result != DONE)
			break;
		if (unlikely(front_end_is_amid(c)))
			continue;
		c->answers++;
		front_end_answered(c);
		c->request = c->at;
		if (c->at >= c->size || c->out > BPFDB_REPLY_BATCH || front_end_run_is_over(c))
			break;
	}
	result = front_end_end(c, connection, s, result);
	/* If something was answered, the rest comes again. */
	if (result == PASS_TO_DAEMON && !c->answers && !LOAD(gate.paused) &&
	    likely(!session_undoes(s)))
		front_end_passes(m, c);
	/* Executed, but its reply is lost. */
	if (result == NO_ROOM || !message_cut(m, c))
		return NO_ROOM;
	if (c->answers) {
		COUNT_NET_N(bytes_received, c->request);
		COUNT_NET_N(bytes_sent, c->out);
		if (c->request < c->size)
			bpf_msg_apply_bytes(m, c->out);
	}
	return result;
}

/*
 * The session is not this connection's any more: the engine's next owner has closed what a
 * daemon left that died, and these programs live as long as one of its sockets does. TCP
 * shows the client that the connection has ended.
 */
static __always_inline int orphan_pass(struct sk_msg_md *m, struct socket_data *data)
{
	return data->is_client ? local_pass(m, data) : SK_DROP;
}

/* So many messages are being answered that this one must go another way. */
static __always_inline int without_context(struct sk_msg_md *m, struct socket_data *data,
					   struct bpfdb_connection *c)
{
	if (!data->is_client)
		return hand_over(m, c, data->index);
	local_leave(c, data);
	return local_pass(m, data);
}

/* For each sendmsg() on a socket of ours, or of a client. */
static __always_inline int net_answer(struct sk_msg_md *m)
{
	struct bpf_sock *sk = m->sk;
	struct socket_data *data = sk ? bpf_sk_storage_get(&socket_storage, sk, NULL, 0) : NULL;
	struct bpfdb_connection *c;
	struct bpfdb_session *s;
	struct context *context;
	enum result result;
	int verdict;

	if (!data)
		return SK_PASS;
	if (!data->is_client && !in_kernel_thread())
		return in_io_thread() || front_end_is_sender() ? front_end_sends(m)
							       : daemon_pass(m, data);
	if (!data->is_client)
		worker_note();
	/* They keep what an earlier run for the same message said. */
	bpf_msg_apply_bytes(m, 0);
	bpf_msg_cork_bytes(m, 0);
	if (!data->peer && !local_bind(m, data))
		return SK_PASS;
	c = connection_at(data->index);
	s = bpfdb_session(data->index);
	if (!c || !s)
		return SK_DROP;
	if (unlikely(LOAD(s->holder) != config.holder))
		return orphan_pass(m, data);
	if (data->is_client) {
		if (!local_begin(m, data, c))
			return local_pass(m, data);
	} else if (!remote_enter(m, data, c, &verdict)) {
		return verdict;
	}
	context = context_claim(&data->context);
	if (unlikely(!context))
		return without_context(m, data, c);
	result = message_answer(m, context, c, s);
	verdict = data->is_client ? local_finish(m, c, data, context, result)
				  : remote_finish(m, c, data->index, context, result);
	context_release(context);
	return verdict;
}

#endif
