/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* What the tracepoint io_uring_complete tells, which has other arguments on Linux 6.12 than on 6.18. */
#ifndef BPFDB_IO_COMPLETION_BPF_H
#define BPFDB_IO_COMPLETION_BPF_H

#include "ring.bpf.h"

#include <bpf/bpf_core_read.h>

struct io_ring_ctx;

/* The tracepoint's arguments on Linux 6.18; on 6.12 the fields of the completion are arguments. */
typedef void (*btf_trace_io_uring_complete___cqe)(void *, struct io_ring_ctx *, void *,
						  struct io_uring_cqe *);

struct completion {
	u64 ring, user_data;
	int result;
	u32 flags;
};

static __always_inline void completion_read(u64 *arguments, struct completion *completion)
{
	completion->ring = arguments[0];
	if (bpf_core_type_matches(btf_trace_io_uring_complete___cqe)) {
		const struct io_uring_cqe *cqe = (void *)arguments[2];

		completion->user_data = cqe->user_data;
		completion->result = cqe->res;
		completion->flags = cqe->flags;
	} else {
		completion->user_data = arguments[2];
		completion->result = arguments[3];
		completion->flags = arguments[4];
	}
}

#endif
