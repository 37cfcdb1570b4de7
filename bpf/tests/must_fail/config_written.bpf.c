// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
// refused: write into map forbidden
/* Changes a constant that other programs were verified with. */
#include <bpfdb/bpfdb.bpf.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("raw_tp")
int must_fail(void *ctx)
{
	*(volatile u32 *)&config.versions = 9;
	return 0;
}
