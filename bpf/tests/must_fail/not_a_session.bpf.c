// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
// refused: Caller passes invalid args into func#1 ('bpfdb_get')
/* Something smaller than a session is given to an operator. */
#include <bpfdb/bpfdb.bpf.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("raw_tp")
int must_fail(void *ctx)
{
	u32 zero = 0, *entry = bpf_map_lookup_elem(&directory, &zero);

	return entry ? bpfdb_get((struct bpfdb_session *)entry) : 0;
}
