/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* What these examples share: where the packet came from, and this processor's
 * session. */
#ifndef EXAMPLES_PACKETS_BPF_H
#define EXAMPLES_PACKETS_BPF_H

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <bpf/bpf_endian.h>
#include <bpfdb/bpfdb.bpf.h>

/* Attempts of a packet whose transaction meets another one's locks. */
#define PACKET_TRIES 8
/* Key of the number of all packets; those of one source have its address. */
#define TOTAL_KEY "packets"
#define TOTAL_KEY_LEN (sizeof(TOTAL_KEY) - 1)

/* Index of the session + 1. XDP programs of one processor do not interrupt
 * each other, so each processor needs one. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} packet_sessions SEC(".maps");

static __always_inline struct bpfdb_session *packet_session(void)
{
	u32 zero = 0, *mine = bpf_map_lookup_elem(&packet_sessions, &zero);

	if (!mine)
		return NULL;
	if (!*mine) {
		int index = bpfdb_session_open(BPFDB_SESSION_EMBEDDED);

		if (index < 0)
			return NULL;
		*mine = index + 1;
	}
	return bpfdb_session(*mine - 1);
}

/* Source address of an IPv4 packet; 0 for any other. */
static __always_inline u32 packet_source(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = data + sizeof(*eth);

	if ((void *)(ip + 1) > end || eth->h_proto != bpf_htons(ETH_P_IP))
		return 0;
	return ip->saddr;
}

static __always_inline void key_source(struct bpfdb_session *s, u32 source)
{
	s->key[0] = source;
	s->key_len = sizeof(source);
}

static __always_inline void key_total(struct bpfdb_session *s)
{
	s->key[0] = 0;
	__builtin_memcpy(s->key, TOTAL_KEY, TOTAL_KEY_LEN);
	s->key_len = TOTAL_KEY_LEN;
}

/* The value to write after a GET: one more than was found. */
static __always_inline void value_counted(struct bpfdb_session *s, bool found)
{
	s->value[0] = found ? s->value[0] + 1 : 1;
	s->value[1] = 0;
	s->value_len = sizeof(u64);
}

#endif
