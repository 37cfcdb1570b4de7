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

/* Older headers of libbpf do not have these. */
#ifndef likely
#define likely(x) __builtin_expect(!!(x), 1)
#endif
#ifndef unlikely
#define unlikely(x) __builtin_expect(!!(x), 0)
#endif

#ifndef NULL
#define NULL ((void *)0)
#endif

/*
 * One access, neither torn nor merged by the compiler. What else of it others see
 * before or after is said by the kind of access; docs/decisions/0014-memory-order.md
 * has the rules, bpf/ordering.txt every place and its reason.
 *
 *   LOAD, STORE    nothing
 *   LOAD_ACQUIRE   what follows in the program happens after it
 *   LOAD_AFTER     all loads before happened before it: a header is read again
 *   STORE_RELEASE  what precedes in the program happened before it
 *   CAS (if it succeeds), SWAP, FETCH_ADD, FETCH_OR
 *                  what precedes before it, what follows after it
 *   ADD            nothing that other code relies on: it counts
 *
 * x86-64 keeps loads in order with loads, and stores with all that precedes, so
 * there these only restrain the compiler. BPFDB_WEAK_ORDER is for processors that
 * do not (and for a compiler of LLVM 22, and Linux 6.15): the instructions of BPF
 * that order.
 */
#define LOAD(x) (*(volatile typeof(x) *)&(x))
#define STORE(x, v) (*(volatile typeof(x) *)&(x) = (v))
#ifdef BPFDB_WEAK_ORDER
#define LOAD_ACQUIRE(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define STORE_RELEASE(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELEASE)
/* BPF has no fence: an atomic instruction with a result is one, here on a word that
 * is not shared. */
#define LOAD_BARRIER()                                                                             \
	({                                                                                         \
		volatile u64 own_ = 0;                                                             \
		(void)__sync_fetch_and_add(&own_, 1);                                              \
	})
#else
#define LOAD_BARRIER() asm volatile("" ::: "memory")
#define LOAD_ACQUIRE(x)                                                                            \
	({                                                                                         \
		typeof(x) loaded_ = LOAD(x);                                                       \
		LOAD_BARRIER();                                                                    \
		loaded_;                                                                           \
	})
#define STORE_RELEASE(x, v)                                                                        \
	({                                                                                         \
		asm volatile("" ::: "memory");                                                     \
		STORE(x, v);                                                                       \
	})
#endif
#define LOAD_AFTER(x)                                                                              \
	({                                                                                         \
		LOAD_BARRIER();                                                                    \
		LOAD(x);                                                                           \
	})
#define CAS(p, old, new) __sync_val_compare_and_swap(p, old, new)
#define FETCH_ADD(p, v) __sync_fetch_and_add(p, v)
#define FETCH_OR(p, v) __sync_fetch_and_or(p, v)
#define ADD(p, v) ((void)__sync_fetch_and_add(p, v))
#define SWAP(p, v) __sync_lock_test_and_set(p, v)

/*
 * A latched section: the program cannot be descheduled between these two. A
 * program in process context (sk_msg, LSM, tracing) runs with migration off, not
 * preemption; on a kernel with full or lazy preemption a holder that loses the
 * processor would make all others fail at its latch until it runs again.
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
