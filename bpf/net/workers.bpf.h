/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Which of the kernel's workers send for us.
 *
 * What verdict.bpf.h redirects is sent by a worker of the kernel that is bound to
 * the processor where the bytes arrived, and has the priority of any process. The
 * daemon may raise it (crates/bpfdb-server/src/kernel/workers.rs). Workers come and go,
 * and there are others; so the program says which one it runs in.
 */
#ifndef BPFDB_WORKERS_BPF_H
#define BPFDB_WORKERS_BPF_H

#include "socket.bpf.h"

/* Processor -> the thread that sent there last, by its number in the first
 * namespace of processes; 0: none has. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} workers SEC(".maps");

/* Stores only what is new: the line is read at every message. */
static __always_inline void worker_note(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	u32 processor = bpf_get_smp_processor_id();
	u32 *worker = bpf_map_lookup_elem(&workers, &processor);

	if (worker && LOAD(*worker) != (u32)task->pid)
		STORE(*worker, task->pid);
}

#endif
