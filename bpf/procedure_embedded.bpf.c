// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * The template of compiled procedures that programs of any type enter by a tail call
 * (bpf/api/bpfdb/procedure.bpf.h). It is never attached: body() is replaced, and the result is
 * loaded with the type of the program that calls it. So it knows nothing of its context.
 */
#include <bpfdb/bpfdb.bpf.h>

#include "procedures/body.bpf.h"
#include "procedures/embedded.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/*
 * Always empty. From Linux 6.13 on tracing programs have a private stack, one for each processor
 * and program, unless they make tail calls. The kernel keeps such a program from interrupting
 * itself only where it is attached: one that is entered by tail calls of two others would find
 * its own stack in use, and destroy it.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} no_programs SEC(".maps");

SEC("raw_tp")
int bpfdb_procedure(void *ctx)
{
	struct bpfdb_frame *f = frame_entered();
	struct bpfdb_session *s = f ? bpfdb_session(f->session) : NULL;

	if (f && s)
		call_run(f, s);
	else
		bpf_tail_call(ctx, &no_programs, 0);
	return 0;
}
