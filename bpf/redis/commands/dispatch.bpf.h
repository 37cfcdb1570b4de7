/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* From the name of a command to its body. */
#ifndef BPFDB_COMMANDS_DISPATCH_BPF_H
#define BPFDB_COMMANDS_DISPATCH_BPF_H

#include "apart.bpf.h"
#include "by_score.bpf.h"
#include "call.bpf.h"
#include "connection.bpf.h"
#include "counter.bpf.h"
#include "multi_exec.bpf.h"
#include "hash.bpf.h"
#include "keys.bpf.h"
#include "list.bpf.h"
#include "list_move.bpf.h"
#include "mget_mset.bpf.h"
#include "publish.bpf.h"
#include "read.bpf.h"
#include "set.bpf.h"
#include "set_type.bpf.h"
#include "sorted_set.bpf.h"
#include "string.bpf.h"
#include "getdel_getex.bpf.h"
#include "write.bpf.h"
#include "transaction.bpf.h"

/* The command's number stays, for the counters. */
#define DISPATCH(name, flags, call)                                                                \
	case NAME_OF(name):                                                                        \
		c->own.command = BPFDB_COMMAND_##name;                                             \
		return (flags) & BPFDB_APART ? command_apart(m, c, s) : (call);

static __always_inline enum result command_run(struct sk_msg_md *m, struct context *c,
					       struct bpfdb_session *s)
{
	switch (c->name) {
		BPFDB_COMMAND_LIST(DISPATCH)
	default: return PASS_TO_DAEMON;
	}
}

#endif
