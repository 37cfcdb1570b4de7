// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Chains of reads of tables in the kernel. Start reading at table/state.bpf.h.
 */
#include "table/chain.bpf.h"

#include "ring/completion.bpf.h"

static __always_inline void completed(const struct completion *completion)
{
	u64 kind = completion->user_data >> KIND_SHIFT;
	u32 chain = completion->user_data & (BPFDB_TABLE_CHAINS - 1);

	if (completion->user_data == memory.shape.hello) {
		if (!(completion->flags & IORING_CQE_F_MORE))
			ring_poll(memory.shape.doorbell, POLL_IN, memory.shape.hello);
		chains_start();
	} else if (completion->user_data == (memory.shape.hello ^ HELLO_PROGRAMS)) {
		if (!(completion->flags & IORING_CQE_F_MORE))
			ring_poll(memory.shape.bell, POLL_OUT, completion->user_data);
		chains_start();
	} else if (kind == KIND_READ &&
		   completion->user_data == chain_user_data(chain, chain_at(chain))) {
		chain_read(chain, completion->result);
	}
}

/* What io_uring has done for any process of the machine. */
SEC("tp_btf/io_uring_complete")
int table_completed(u64 *ctx)
{
	struct completion completion;

	completion_read(ctx, &completion);
	if (!memory.context && memory.shape.hello && completion.user_data == memory.shape.hello)
		STORE(memory.context, completion.ring);
	if (!memory.context || completion.ring != memory.context)
		return 0;
	ring_take(&memory.ring);
	if (!ring_latch(&memory.ring))
		return 0;
	completed(&completion);
	ring_unlatch(&memory.ring);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
