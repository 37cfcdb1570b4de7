/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* For user space: the sessions that hold a lock on a key. */
#ifndef BPFDB_DRIVER_LOCKS_BPF_H
#define BPFDB_DRIVER_LOCKS_BPF_H

#include "../operators/locks.bpf.h"

/* ctx: a session, and the hash of a key. How the session has locked it: BPFDB_LOCK_. */
static __noinline int run_lock(struct bpf_raw_tracepoint_args *ctx)
{
	struct bpfdb_session *s = bpfdb_session(ctx->args[1]);

	return s ? lock_mode_of(s, ctx->args[2]) : BPFDB_LOCK_NONE;
}

#endif
