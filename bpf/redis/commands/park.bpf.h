/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The ways to the programs that park a request, and send its reply (redis/park.bpf.h). */
#ifndef BPFDB_COMMANDS_PARK_BPF_H
#define BPFDB_COMMANDS_PARK_BPF_H

#include <bpfdb/types.bpf.h>

/* Each has one program as its only entry: a server with cold values puts it there. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} parker SEC(".maps"), park_sender SEC(".maps");

/* 1: the request that the segment is waits for its value. */
__noinline int segment_park(struct __sk_buff *skb)
{
	int parked = 0;

	bpf_tail_call(skb, &parker, 0);
	OPAQUE(parked);
	return parked;
}

/* The verdict on a message that io_uring sends. */
__noinline int message_commit(struct sk_msg_md *m)
{
	int verdict = SK_DROP;

	bpf_tail_call(m, &park_sender, 0);
	OPAQUE(verdict);
	return verdict;
}

#endif
