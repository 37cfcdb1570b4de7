// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * An XDP program that judges packets by a table: sources whose value there begins with "deny" are dropped. The table may be
 * much larger than memory. The first packet of a source asks; if the block is not in memory it passes, as those behind it
 * do until the answer has come. No process is involved. See docs/tables.md.
 */
#include <bpfdb/table.bpf.h>

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <bpf/bpf_endian.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* What is known of a source. */
struct judgement {
	u64 token; /* of the question; 0: none is asked */
	u32 verdict;
	u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, u32);
	__type(value, struct judgement);
} judgements SEC(".maps");

struct exchange {
	struct bpfdb_table_request request;
	struct bpfdb_table_answer answer;
};

/* XDP programs of one processor do not interrupt each other. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct exchange);
} exchanges SEC(".maps");

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

static __always_inline u64 ask_about(struct exchange *exchange, u32 source)
{
	struct bpfdb_table_request *request = &exchange->request;

	request->operation = BPFDB_TABLE_GET;
	request->from[0] = source;
	request->from_len = sizeof(source);
	request->to_len = BPFDB_TABLE_NO_END;
	return bpfdb_table_ask(request);
}

static __always_inline bool is_denied(const struct bpfdb_table_answer *answer)
{
	return answer->value_len >= 4 && !__builtin_memcmp(answer->value, "deny", 4);
}

/* Asks again with the next packet if there is no answer. */
static __always_inline void judge(struct judgement *judgement, struct exchange *exchange)
{
	int outcome = bpfdb_table_take(judgement->token, &exchange->answer);

	if (outcome == BPFDB_TABLE_PENDING)
		return;
	judgement->token = 0;
	if (outcome == BPFDB_TABLE_FOUND && is_denied(&exchange->answer))
		judgement->verdict = XDP_DROP;
	else if (outcome == BPFDB_TABLE_FOUND || outcome == BPFDB_TABLE_ABSENT)
		judgement->verdict = XDP_PASS;
}

/* A verdict that no packet has. */
#define UNKNOWN XDP_ABORTED

SEC("xdp")
int judge_by_table(struct xdp_md *ctx)
{
	u32 source = packet_source(ctx), first = 0;
	struct exchange *exchange = bpf_map_lookup_elem(&exchanges, &first);
	struct judgement *judgement, new = {};

	if (!source || !exchange)
		return XDP_PASS;
	judgement = bpf_map_lookup_elem(&judgements, &source);
	if (!judgement) {
		bpf_map_update_elem(&judgements, &source, &new, BPF_NOEXIST);
		judgement = bpf_map_lookup_elem(&judgements, &source);
	}
	if (!judgement)
		return XDP_PASS;
	if (judgement->verdict == UNKNOWN && !judgement->token)
		judgement->token = ask_about(exchange, source);
	if (judgement->token)
		judge(judgement, exchange);
	return judgement->verdict == XDP_DROP ? XDP_DROP : XDP_PASS;
}
