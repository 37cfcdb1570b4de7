/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The few fields of kernel structures that the front end looks at. */
#ifndef BPFDB_SOCKET_BPF_H
#define BPFDB_SOCKET_BPF_H

#include <bpfdb/types.bpf.h>

#define KERNEL_TYPE __attribute__((preserve_access_index))

struct task_struct {
	unsigned int flags;
} KERNEL_TYPE;

struct sock {
	int sk_wmem_queued;
	int sk_sndbuf;
} KERNEL_TYPE;

struct inet_sock {
	struct sock sk;
} KERNEL_TYPE;

struct inet_connection_sock {
	struct inet_sock icsk_inet;
} KERNEL_TYPE;

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u32 write_seq;
} KERNEL_TYPE;

/* A flag of struct task_struct: a thread of the kernel. */
#define PF_KTHREAD 0x00200000

/* Is this the worker that sends redirected data, and not the daemon? */
static __always_inline bool in_kernel_thread(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();

	return task->flags & PF_KTHREAD;
}

/* Replies would have to wait for the client to read earlier ones. */
static __always_inline bool send_queue_is_long(const struct tcp_sock *tcp)
{
	const struct sock *sk = &tcp->inet_conn.icsk_inet.sk;

	return (u32)sk->sk_wmem_queued > (u32)sk->sk_sndbuf / 2;
}

#endif
