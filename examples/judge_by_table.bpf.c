// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * An XDP program that judges packets by a table: sources whose value there begins with "deny" are dropped. The table may be
 * much larger than memory. The first packet of a source asks; if the block is not in memory it passes, as those behind it
 * do until the answer has come. No process is involved. See docs/tables.md.
 *
 * Each question has a chain, and these are few. A source that asks and sends nothing more would keep its own for ten seconds, and
 * a handful of them all of them, so that no other is judged: whoever finds none free takes the answers that have come, for whomever.
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

/* Who has asked by the chain of this number. */
struct question {
	u64 token; /* 0: nobody, or the answer was taken */
	u32 source;
	struct bpf_spin_lock lock; /* both belong together */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BPFDB_TABLE_CHAINS);
	__type(key, u32);
	__type(value, struct question);
} questions SEC(".maps");

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

static __always_inline bool is_denied(const struct bpfdb_table_answer *answer)
{
	return answer->value_len >= 4 && !__builtin_memcmp(answer->value, "deny", 4);
}

/* Takes the answer, if it has come. Without one the source's next packet asks again. */
static __always_inline bool judge(struct judgement *judgement, u64 token, struct exchange *exchange)
{
	int outcome = bpfdb_table_take(token, &exchange->answer);

	if (outcome == BPFDB_TABLE_PENDING)
		return false;
	if (!judgement || judgement->token != token)
		return true;
	if (outcome == BPFDB_TABLE_FOUND && is_denied(&exchange->answer))
		judgement->verdict = XDP_DROP;
	else if (outcome == BPFDB_TABLE_FOUND || outcome == BPFDB_TABLE_ABSENT)
		judgement->verdict = XDP_PASS;
	judgement->token = 0;
	return true;
}

/* Takes the answer to the question of a chain for its source, which may send nothing more. */
static __always_inline void collect_one(struct question *question, struct exchange *exchange)
{
	u32 source;
	u64 token;

	bpf_spin_lock(&question->lock);
	token = question->token;
	source = question->source;
	bpf_spin_unlock(&question->lock);
	if (!token || !judge(bpf_map_lookup_elem(&judgements, &source), token, exchange))
		return;
	bpf_spin_lock(&question->lock);
	if (question->token == token)
		question->token = 0;
	bpf_spin_unlock(&question->lock);
}

static __always_inline void collect(struct exchange *exchange)
{
	u32 i = START;

	each(i, BPFDB_TABLE_CHAINS)
	{
		u32 chain = i;
		struct question *question = bpf_map_lookup_elem(&questions, &chain);

		if (question)
			collect_one(question, exchange);
	}
}

static __always_inline u64 ask_about(struct exchange *exchange, u32 source)
{
	struct bpfdb_table_request *request = &exchange->request;
	struct question *question;
	u32 chain;
	u64 token;

	request->operation = BPFDB_TABLE_GET;
	request->from[0] = source;
	request->from_len = sizeof(source);
	request->to_len = BPFDB_TABLE_NO_END;
	token = bpfdb_table_ask(request);
	if (!token) {
		collect(exchange);
		token = bpfdb_table_ask(request);
	}
	/* The first bits of a token are the number of its chain. */
	chain = token & (BPFDB_TABLE_CHAINS - 1);
	question = bpf_map_lookup_elem(&questions, &chain);
	if (!token || !question)
		return token;
	bpf_spin_lock(&question->lock);
	question->token = token;
	question->source = source;
	bpf_spin_unlock(&question->lock);
	return token;
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
		judge(judgement, judgement->token, exchange);
	return judgement->verdict == XDP_DROP ? XDP_DROP : XDP_PASS;
}
