/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The programs of a front end, by its name: NET_PROGRAMS(redis) defines redis_accept and so
 * on. The daemon finds and attaches them by these names.
 */
#ifndef BPFDB_NET_PROGRAMS_BPF_H
#define BPFDB_NET_PROGRAMS_BPF_H

#include "accept.bpf.h"
#include "answer.bpf.h"
#include "verdict.bpf.h"

#define NET_PROGRAM(section, name, context, body)                                                  \
	SEC(section)                                                                               \
	int name(context)                                                                          \
	{                                                                                          \
		return body(ctx);                                                                  \
	}

#define NET_PROGRAMS(front_end)                                                                    \
	NET_PROGRAM("sockops", front_end##_accept, struct bpf_sock_ops *ctx, net_accept)           \
	NET_PROGRAM("sockops", front_end##_local, struct bpf_sock_ops *ctx, net_local)             \
	NET_PROGRAM("sk_skb/verdict", front_end##_verdict, struct __sk_buff *ctx, net_verdict)     \
	NET_PROGRAM("sk_msg", front_end##_answer, struct sk_msg_md *ctx, net_answer)               \
	NET_PROGRAM("tp_btf/sock_recv_length", front_end##_received, u64 *ctx, net_received)       \
	NET_PROGRAM("tp_btf/tcp_rcv_space_adjust", front_end##_adjusted, u64 *ctx, net_adjusted)   \
	NET_PROGRAM("raw_tp", front_end##_release, struct bpf_raw_tracepoint_args *ctx, net_release)

#endif
