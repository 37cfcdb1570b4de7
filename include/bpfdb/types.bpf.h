/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* What every BPF source of the engine needs before anything else. */
#ifndef BPFDB_TYPES_BPF_H
#define BPFDB_TYPES_BPF_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpfdb/abi.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s64 s64;

#ifndef NULL
#define NULL ((void *)0)
#endif

/* One access, neither torn nor merged by the compiler. x86-64 keeps loads in
 * order with loads and stores in order with stores (TSO), which is the
 * ordering that the protocols here need between plain accesses; a store that
 * must precede a load goes through an atomic instruction. Other processors
 * would need acquire and release here: `bpfdb doctor` refuses them. */
#define LOAD(x) (*(volatile typeof(x) *)&(x))
#define STORE(x, v) (*(volatile typeof(x) *)&(x) = (v))
#define CAS(p, old, new) __sync_val_compare_and_swap(p, old, new)
#define FETCH_ADD(p, v) __sync_fetch_and_add(p, v)
#define ADD(p, v) ((void)__sync_fetch_and_add(p, v))
#define SWAP(p, v) __sync_lock_test_and_set(p, v)

/*
 * A latched section: the program cannot be descheduled between these two. A
 * program in process context (sk_msg, LSM, tracing) runs with migration off, not
 * preemption; on a kernel with full or lazy preemption a holder that loses the
 * processor would make everybody else fail at its latch until it runs again.
 *
 * Sections do not nest in one frame, and are short. The verifier of Linux 6.12
 * refuses global subprograms inside one (static ones and bpf_loop pass), so a
 * section allocates before it begins and frees after it has ended.
 */
extern void bpf_preempt_disable(void) __ksym;
extern void bpf_preempt_enable(void) __ksym;

static __always_inline void preempt_off(void)
{
	bpf_preempt_disable();
}

static __always_inline void preempt_on(void)
{
	bpf_preempt_enable();
}

/* Keeps clang from replacing a masked offset by an unmasked copy that the
 * verifier cannot bound. */
#define OPAQUE(x) asm volatile("" : "+r"(x))

/* Not an outcome: an attempt was overtaken by another program; try again. */
#define RETRY 100
/* Not an outcome: the index page has no room near the key's home. */
#define NEED_SPLIT 101

/* For loops whose bound is too large for the verifier to walk: it checks the
 * body until nothing new is learnt, and the kernel bounds the run. */
#ifndef can_loop
#define can_loop                                                                                   \
	({                                                                                         \
		__label__ brk_, out_;                                                              \
		bool go_ = true;                                                                   \
		asm volatile goto("may_goto %l[brk_]" :: ::brk_);                                  \
		goto out_;                                                                         \
brk_:                                                                                              \
		go_ = false;                                                                       \
out_:;                                                                                             \
		go_;                                                                               \
	})
#endif

/* Arguments of global subprograms that are never NULL (kernel 6.8+). The tag is
 * for the verifier, which all the same lets a literal NULL pass (6.18); the
 * other attribute has clang refuse that. */
#define NONNULL __attribute__((btf_decl_tag("arg:nonnull"), nonnull))

#endif
