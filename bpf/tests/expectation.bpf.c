// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* A test of the tests: what a failing expectation returns. The harness expects
 * these lines, and that it notices (crates/bpfdb/tests/it/units.rs). */
#include "test.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

static __always_inline int helper(u64 n)
{
	EXPECT(n == 2);
	return 0;
}

SEC("raw_tp")
int fails_in_line_18(void *ctx)
{
	EXPECT(UNKNOWN(1) == 1);
	EXPECT(UNKNOWN(1) == 2);
	return 0;
}

SEC("raw_tp")
int fails_in_line_10(void *ctx)
{
	PASS(helper(UNKNOWN(2)));
	PASS(helper(UNKNOWN(3)));
	return 0;
}
