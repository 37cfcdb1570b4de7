/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * On our end of a connection: messages of the kernel's worker, and of the daemon.
 *
 * What verdict.bpf.h redirects is sent by a worker of the kernel that is bound to
 * the processor where the bytes arrived, and has the priority of any process. The
 * daemon may raise it (crates/bpfdb-server/src/kernel/workers.rs). Workers come and go,
 * and there are others; so the program says which one it runs in.
 */
#ifndef BPFDB_NET_WORKER_BPF_H
#define BPFDB_NET_WORKER_BPF_H

#include "handover.bpf.h"
#include "socket.bpf.h"

/* Processor -> the thread that sent there last, by its number in the first
 * namespace of processes; 0: none has. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} workers SEC(".maps");

/* Stores only what is new: the line is read at every message. */
static __always_inline void worker_note(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	u32 processor = bpf_get_smp_processor_id();
	u32 *worker = bpf_map_lookup_elem(&workers, &processor);

	if (worker && LOAD(*worker) != (u32)task->pid)
		STORE(*worker, task->pid);
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

/*
 * The daemon's replies. The kernel (6.18) keeps the verdict SK_PASS of a message that TCP
 * could not take whole, because the send buffer was full or memory short, and applies it
 * to whatever is sent next, without calling the program: requests that the worker sends
 * here would go to the client as they are. A redirection is forgotten before it is carried
 * out, and to the own egress it is the same as passing.
 *
 * The worker's replies are passed: a redirection would lose what was kept back. So there
 * must be room for them (remote_enter).
 */
static __always_inline int daemon_pass(struct sk_msg_md *m, const struct socket_data *data)
{
	u64 cookie = data->cookie;

	/* A socket that is no more in the map: its connection has ended. */
	bpf_msg_redirect_hash(m, &sockets, &cookie, 0);
	return SK_PASS;
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

/* Does so much wait that it cannot all be on its way to be answered? Requests that were
 * short say nothing about the next one: it may be a long argument, which the worker
 * comes to when its processor is free. They do if they are a part of so much. */
static __always_inline bool backlog_is_long(const struct bpfdb_connection *c)
{
	u64 arrived = LOAD(c->arrived) & BPFDB_CONNECTION_BYTES;

	return bytes_waiting(c, arrived) > BPFDB_UNANSWERED_MAX / 2;
}

/* Sends the replies; what remains of the message comes again. `answered` last: a
 * local client goes by it. */
static __always_inline int message_send(struct bpfdb_connection *c, const struct context *context)
{
	c->corked = 0;
	c->parts = 0;
	STORE(c->patient, !backlog_is_long(c));
	STORE(c->replied, c->replied + context->out);
	STORE_RELEASE(c->answered, c->answered + context->request);
	return SK_PASS;
}

static __always_inline int remote_finish(struct sk_msg_md *m, struct bpfdb_connection *c, u32 index,
					 const struct context *context, enum result result)
{
	if (result == NO_ROOM)
		return give_up(c, index);
	if (context->answers)
		return message_send(c, context);
	return result == INCOMPLETE ? keep_back(m, c, index, context->complete_size)
				    : hand_over(m, c, index);
}

#endif
