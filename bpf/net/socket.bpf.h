/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The few fields of kernel structures that the front end looks at. */
#ifndef BPFDB_SOCKET_BPF_H
#define BPFDB_SOCKET_BPF_H

#include <bpfdb/types.bpf.h>
#include <bpf/bpf_core_read.h>

#define KERNEL_TYPE __attribute__((preserve_access_index))

struct task_struct {
	unsigned int flags;
	int pid;
} KERNEL_TYPE;

struct proto {
	unsigned long *memory_pressure;
} KERNEL_TYPE;

struct sock_common {
	volatile unsigned char skc_state;
	unsigned long skc_flags;
	struct proto *skc_prot;
} KERNEL_TYPE;

struct sock {
	struct sock_common __sk_common;
	int sk_wmem_queued;
	int sk_sndbuf;
	int sk_rcvlowat;
	int sk_err;
	u8 sk_shutdown;
	void *sk_user_data;
} KERNEL_TYPE;

enum sock_flags { SOCK_ZEROCOPY };

struct inet_sock {
	struct sock sk;
} KERNEL_TYPE;

struct inet_connection_sock {
	struct inet_sock icsk_inet;
} KERNEL_TYPE;

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u32 write_seq;
	u32 rcv_nxt;
	u32 copied_seq;
} KERNEL_TYPE;

struct list_head {
	struct list_head *next;
} KERNEL_TYPE;

struct sk_buff_head {
	u32 qlen;
} KERNEL_TYPE;

/* What a socket in a sockmap has besides. */
struct sk_psock {
	struct sk_buff_head ingress_skb;
	struct list_head ingress_msg;
} KERNEL_TYPE;

struct sk_msg_sg {
	u32 size; /* bytes not read yet */
} KERNEL_TYPE;

struct sk_msg {
	struct sk_msg_sg sg;
	struct sock *sk_redir;
	struct sock *sk;
	struct list_head list;
} KERNEL_TYPE;

/* TCP keeps in `cb` what it knows of a segment: first of all its sequence number. */
struct sk_buff {
	struct sock *sk;
	char cb[48];
} KERNEL_TYPE;

/* The kernel's structure behind the context of an sk_msg program. */
extern void *bpf_cast_to_kern_ctx(void *) __ksym;

/* Flags of struct task_struct: a thread of the kernel, and one of io_uring in its process. */
#define PF_KTHREAD 0x00200000
#define PF_IO_WORKER 0x00000010

/* Low bits of sk_user_data are flags. */
#define USER_DATA_FLAGS 7UL

static __always_inline const struct sock *sock_of(const struct tcp_sock *tcp)
{
	return &tcp->inet_conn.icsk_inet.sk;
}

/* Is this the worker that sends redirected data, and not the daemon? */
static __always_inline bool in_kernel_thread(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();

	return task->flags & PF_KTHREAD;
}

/* Does io_uring send, for a thread of its process? */
static __always_inline bool in_io_thread(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();

	return task->flags & PF_IO_WORKER;
}

/* Replies would have to wait for the client to read earlier ones. */
static __always_inline bool send_queue_is_long(const struct tcp_sock *tcp)
{
	const struct sock *sk = sock_of(tcp);

	return (u32)sk->sk_wmem_queued > (u32)sk->sk_sndbuf / 2;
}

/* All sockets together have come near what TCP may use (net.ipv4.tcp_mem), so that it may
 * refuse a message although the send buffer has room. */
static __always_inline bool memory_is_short(const struct tcp_sock *tcp)
{
	unsigned long since = 0;

	bpf_probe_read_kernel(&since, sizeof(since),
			      sock_of(tcp)->__sk_common.skc_prot->memory_pressure);
	return since;
}

/* Address of the head of the list of messages that were redirected to the socket's
 * ingress and not read yet; 0 if there is none. Read as bytes: a loaded pointer is
 * one to the verifier (6.18), and cannot be given to a global function. */
static __always_inline u64 ingress_of(const struct tcp_sock *tcp)
{
	u64 psock = 0;

	bpf_probe_read_kernel(&psock, sizeof(psock), &sock_of(tcp)->sk_user_data);
	psock &= ~USER_DATA_FLAGS;
	return psock ? psock + bpf_core_field_offset(struct sk_psock, ingress_msg) : 0;
}

/* Is nothing queued for the worker of the socket that this segment has arrived at? It takes a
 * segment off the queue when it has done all that it does with it. */
static __always_inline bool worker_queue_is_empty(struct __sk_buff *skb)
{
	struct sk_buff *segment = bpf_cast_to_kern_ctx(skb);
	u64 user_data = (u64)BPF_CORE_READ(segment, sk, sk_user_data);
	struct sk_psock *psock = (void *)(user_data & ~USER_DATA_FLAGS);

	return psock && !BPF_CORE_READ(psock, ingress_skb.qlen);
}

static __always_inline bool ingress_is_empty(const struct tcp_sock *tcp)
{
	u64 head = ingress_of(tcp), next = 0;

	return head && bpf_probe_read_kernel(&next, sizeof(next), (void *)head) == 0 &&
	       next == head;
}

/* False as well for a socket that is in no map: it has no such queue. */
static __always_inline bool ingress_holds_some(const struct tcp_sock *tcp)
{
	return ingress_of(tcp) && !ingress_is_empty(tcp);
}

#endif
