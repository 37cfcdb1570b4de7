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
 *
 * On the client's end, if it is on this machine, the bytes are requests, and
 * local.bpf.h tells when they are answered here and what becomes of the rest.
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
#ifndef BPFDB_ANSWER_BPF_H
#define BPFDB_ANSWER_BPF_H

#include "commands/dispatch.bpf.h"
#include "local.bpf.h"
#include "workers.bpf.h"

/* Requests in one run; the rest of the message is another run. */
#define REQUESTS_PER_RUN 4096
/* Parts of one message that the kernel may keep unseen: each has a byte. */
#define PARTS_KEPT 8
/* How often the parts of a request are looked at before the daemon, which need
 * not begin anew each time, gets them. */
#define PARTS_MAX 64

__noinline int hand_over(struct sk_msg_md *m, struct bpfdb_connection *c NONNULL, u32 index)
{
	c->corked = 0;
	c->parts = 0;
	c->given_up = 0;
	STORE(c->handed, c->handed + m->size);
	/* Perhaps a long argument. The daemon, which hears of it after this, knows. */
	if (!(LOAD(c->arrived) & BPFDB_CONNECTION_DAEMON))
		STORE(c->patient, 1);
	COUNT_REQUESTS_N(bytes_passed, m->size);
	connection_raise(c, index, BPFDB_CONNECTION_DAEMON);
	return bpf_msg_redirect_map(m, &sockets, index, BPF_F_INGRESS);
}

/* A broken connection sends nothing more: the error makes the worker give up. */
static __always_inline int give_up(struct bpfdb_connection *c, u32 index)
{
	connection_raise(c, index, BPFDB_CONNECTION_BROKEN);
	return SK_DROP;
}

/*
 * Waits for the rest of a request, unless it is too long, or comes in too many
 * parts. The kernel keeps 17 parts at most, and loses the connection to the next
 * one (ENOSPC, seen on 6.18; adjacent parts are one, until others take turns
 * with the same page). So the program looks again after a few bytes: then it
 * makes one part of all (bpf_msg_pull_data).
 */
static __always_inline int keep_back(struct sk_msg_md *m, struct bpfdb_connection *c, u32 index)
{
	u32 need = c->complete_size > m->size ? c->complete_size : m->size + 1;

	if (need > BPFDB_REQUEST_MAX || m->size < c->corked || c->parts >= PARTS_MAX)
		return hand_over(m, c, index);
	if (need > m->size + PARTS_KEPT)
		need = m->size + PARTS_KEPT;
	c->parts++;
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

	c->answers = 0;
	c->calls = 0;
	c->gaps = 0;
	c->block = 0;
	if (bpf_msg_pull_data(m, 0, size, 0))
		return false;
	c->source = (u64)m->data;
	c->size = size;
	c->request = 0;
	c->out = 0;
	c->room = 0;
	window_load(c, 0);
	return true;
}

/* The request at c->request; within MULTI … EXEC the next one behind it. */
static __always_inline enum result request_answer(struct sk_msg_md *m, struct bpfdb_connection *c,
						  struct bpfdb_session *s)
{
	enum result result;

	/* What is open was another command's own, and is rolled back at any moment: this one must
	 * not take it for the client's. The daemon waits. */
	if (unlikely(session_undoes(s)))
		return PASS_TO_DAEMON;
	if (likely(!c->block))
		c->at = c->request;
	c->piece = c->at;
	c->complete_size = 0;
	result = command_name(c);
	if (result == DONE)
		result = command_run(m, c, s);
	return unlikely(c->block) ? block_next(c, s, result) : result;
}

/* Cuts out what lies between the replies and the requests that remain. */
static __always_inline bool message_cut(struct sk_msg_md *m, const struct bpfdb_connection *c)
{
	u32 remain = c->size - c->request;
	u32 unused = m->size - c->out - remain;

	return !unused || bpf_msg_pop_data(m, c->out, unused, 0) == 0;
}

/* Does so much wait that it cannot all be on its way to be answered? Requests that were
 * short tell nothing of the next one: it may be a long argument, which the worker
 * comes to when its processor is free. They do if they are a part of so much. */
static __always_inline bool backlog_is_long(const struct bpfdb_connection *c)
{
	u64 arrived = LOAD(c->arrived) & BPFDB_CONNECTION_BYTES;

	return bytes_waiting(c, arrived) > BPFDB_UNANSWERED_MAX / 2;
}

/* Sends the replies; what remains of the message comes again. `answered` last: a
 * local client goes by it. */
static __always_inline int message_send(struct sk_msg_md *m, struct bpfdb_connection *c)
{
	c->corked = 0;
	c->parts = 0;
	STORE(c->patient, !backlog_is_long(c));
	STORE(c->replied, c->replied + c->out);
	STORE_RELEASE(c->answered, c->answered + c->request);
	return SK_PASS;
}

/* ---- Counting ------------------------------------------------------------ */

static __always_inline void run_begin(struct bpfdb_connection *c)
{
	c->run_command = 0;
	c->run = 0;
}

static __always_inline void run_end(struct bpfdb_connection *c)
{
	u32 command = c->run_command;

	if (c->run && command < BPFDB_COMMAND_COUNT)
		COUNT_REQUESTS_N(commands[command], c->run);
}

/* A command was answered. Those of a pipeline often are the same: one addition
 * to a counter for a row of them. */
static __always_inline void command_count(struct bpfdb_connection *c)
{
	c->answers++;
	if (c->command != c->run_command) {
		run_end(c);
		c->run_command = c->command;
		c->run = 0;
	}
	c->run++;
}

/* ---- A message ----------------------------------------------------------- */

/* Answers what can be answered: what stopped it. */
static __always_inline enum result message_answer(struct sk_msg_md *m, struct bpfdb_connection *c,
						  struct bpfdb_session *s)
{
	enum result result = PASS_TO_DAEMON;

	if (!message_open(m, c))
		return PASS_TO_DAEMON;
	run_begin(c);
	repeat(i, REQUESTS_PER_RUN)
	{
		/* Looked at before each: when the daemon has said so, it begins
		 * nothing more. */
		result = LOAD(gate.paused) ? PASS_TO_DAEMON : request_answer(m, c, s);
		if (result != DONE)
			break;
		if (unlikely(c->block))
			continue;
		command_count(c);
		c->request = c->at;
		if (c->at >= c->size || c->out > BPFDB_REPLY_BATCH ||
		    c->calls >= BPFDB_CALLS_PER_RUN)
			break;
	}
	run_end(c);
	if (unlikely(c->block)) {
		block_abort(c, s);
		result = PASS_TO_DAEMON;
	}
	/* Executed, but its reply is lost. */
	if (result == NO_ROOM || !message_cut(m, c))
		return NO_ROOM;
	if (c->answers) {
		COUNT_REQUESTS_N(bytes_received, c->request);
		COUNT_REQUESTS_N(bytes_sent, c->out);
		if (c->request < c->size)
			bpf_msg_apply_bytes(m, c->out);
	}
	return result;
}

/* ---- On our end ---------------------------------------------------------- */

/*
 * The daemon's replies. The kernel (6.18) keeps the verdict SK_PASS of a message that TCP
 * could not take whole, because the send buffer was full or memory short, and applies it
 * to whatever is sent next, without calling the program: requests that the worker sends
 * here would go to the client as they are. A redirection is forgotten before it is carried
 * out, and to the own egress it is the same as passing. (That the socket is its own must be
 * looked at: a connection that was reset meanwhile has left its index to another.)
 *
 * The worker's replies are passed: a redirection would lose what was kept back. So there
 * must be room for them (remote_enter).
 */
static __always_inline int daemon_pass(struct sk_msg_md *m, const struct socket_data *data)
{
	const struct sk_msg *message = bpf_cast_to_kern_ctx(m);

	if (bpf_msg_redirect_map(m, &sockets, data->index, 0) != SK_PASS)
		return SK_PASS;
	return message->sk_redir == message->sk ? SK_PASS : SK_DROP;
}

/* May the worker's message be answered? Else what is to become of it. */
static __always_inline bool remote_enter(struct sk_msg_md *m, const struct socket_data *data,
					 struct bpfdb_connection *c, int *verdict)
{
	struct bpf_sock *sk = m->sk;
	struct tcp_sock *tcp = sk ? bpf_skc_to_tcp_sock(sk) : NULL;
	u64 arrived = LOAD(c->arrived);

	*verdict = SK_DROP;
	if (!tcp || c->cookie != data->cookie ||
	    arrived & (BPFDB_CONNECTION_CLOSED | BPFDB_CONNECTION_BROKEN))
		return false;
	if (arrived & BPFDB_CONNECTION_DAEMON)
		*verdict = hand_over(m, c, data->index);
	else if (!in_step(c, tcp))
		*verdict = give_up(c, data->index);
	else if (send_queue_is_long(tcp) || memory_is_short(tcp))
		*verdict = hand_over(m, c, data->index);
	else
		return true;
	return false;
}

static __always_inline int remote_finish(struct sk_msg_md *m, struct bpfdb_connection *c, u32 index,
					 enum result result)
{
	if (result == NO_ROOM)
		return give_up(c, index);
	if (c->answers)
		return message_send(m, c);
	return result == INCOMPLETE ? keep_back(m, c, index) : hand_over(m, c, index);
}

/* ---- On the client's end ------------------------------------------------- */

static __always_inline bool local_begin(struct sk_msg_md *m, struct socket_data *data,
					struct bpfdb_connection *c)
{
	int found = LOAD(gate.paused) ? LOCAL_PASS : local_enter(m, data, c);

	if (found == LOCAL_LEAVE)
		local_leave(c, data);
	return found == LOCAL_RUN;
}

/*
 * The replies in one piece: the kernel may find memory for some pieces and not
 * for others, and would then show us replies as if they were requests.
 */
static __always_inline bool message_join(struct sk_msg_md *m, const struct bpfdb_connection *c)
{
	return !c->gaps || bpf_msg_pull_data(m, 0, c->out, 0) == 0;
}

static __always_inline int local_finish(struct sk_msg_md *m, struct bpfdb_connection *c,
					struct socket_data *data, enum result result)
{
	u32 answers = c->answers, out = c->out;

	if (result == NO_ROOM || (answers && !message_join(m, c))) {
		give_up(c, data->index);
		local_leave(c, data);
		return SK_DROP;
	}
	STORE(c->local, c->local + answers);
	local_leave(c, data);
	if (!answers)
		return local_pass(m, data);
	COUNT_REQUESTS_N(requests_local, answers);
	return local_reply(m, data, out);
}

/*
 * The session is not this connection's any more: the engine's next owner has closed what a
 * daemon left that died, and these programs live as long as one of its sockets does. TCP
 * tells the client that nobody is there.
 */
static __always_inline int orphan_pass(struct sk_msg_md *m, struct socket_data *data)
{
	return data->is_client ? local_pass(m, data) : SK_DROP;
}

SEC("sk_msg")
int redis_answer(struct sk_msg_md *m)
{
	struct bpf_sock *sk = m->sk;
	struct socket_data *data = sk ? bpf_sk_storage_get(&socket_storage, sk, NULL, 0) : NULL;
	struct bpfdb_connection *c;
	struct bpfdb_session *s;
	enum result result;
	int verdict;

	if (!data)
		return SK_PASS;
	if (!data->is_client && !in_kernel_thread())
		return daemon_pass(m, data);
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
	result = message_answer(m, c, s);
	if (data->is_client)
		return local_finish(m, c, data, result);
	return remote_finish(m, c, data->index, result);
}

#endif
