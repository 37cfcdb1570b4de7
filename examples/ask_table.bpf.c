// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Asks a table whatever is in a map: keys, counts and sums of ranges. See docs/tables.md.
 */
#include <bpfdb/table.bpf.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct exchange {
	struct bpfdb_table_request request;
	struct bpfdb_table_answer answer;
	u64 token;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 64);
	__type(key, u32);
	__type(value, struct exchange);
} exchanges SEC(".maps");

/* Asks what is in the place of the map; 1: it is asked. */
SEC("syscall")
int ask_table(u32 *place)
{
	u32 index = *place;
	struct exchange *exchange = bpf_map_lookup_elem(&exchanges, &index);

	if (!exchange)
		return 0;
	exchange->token = bpfdb_table_ask(&exchange->request);
	return exchange->token != 0;
}

/* What has become of it: enum bpfdb_table_outcome. */
SEC("syscall")
int take_answer(u32 *place)
{
	u32 index = *place;
	struct exchange *exchange = bpf_map_lookup_elem(&exchanges, &index);

	if (!exchange)
		return BPFDB_TABLE_LOST;
	return bpfdb_table_take(exchange->token, &exchange->answer);
}
