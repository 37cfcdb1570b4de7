/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Programs of others ask a table that a process has open: they share its memory, its pool, and its bell.
 *
 *   FREE ── ask_claim ──► CLAIMED ── ask_write ──► RUNNING: through the pool ── chain_end ──► DONE
 *    ▲                       ▲                        │ a block is missing                     │
 *    │                       │                        ▼                                        │
 *    │                       └── not started for 2 s ── READY ── bell ──► RUNNING ── … ──► DONE
 *    │                                                                                         │
 *    └── bpfdb_table_take: copied ── CLAIMED ◄─────────────────────────────────────────────────┘
 *                                       ▲                                                      │
 *                                       └── ask_claim, if nobody has taken it for 10 s ◄───────┘
 *
 * 1. Nothing here waits, and nothing here writes to the submission queue: state.bpf.h, 1. A program that finds no
 *    chain free, or whose answer is not there yet, is told so.
 * 2. Whoever makes a chain CLAIMED has it alone, by the CAS; also one that runs on the same processor in between.
 * 3. A token names place and generation of a question. One that was forgotten, or taken, is of no question any more.
 * 4. A chain that a read may still write for is not given to another: it is ABANDONED, and FREE when that has completed.
 * 5. Without the process nothing is read. What the pool has is answered, and the rest is FAILED after two seconds.
 */
#ifndef BPFDB_TABLE_ASK_BPF_H
#define BPFDB_TABLE_ASK_BPF_H

#include "chain.bpf.h"

/* For so long a chain that is not heard of is waited for, ns. */
#define ASK_PATIENCE 2000000000LL
/* For so long an answer is kept for who asked, ns. */
#define ASK_KEPT 10000000000LL

/* No chain has this number. */
#define NO_CHAIN 0xffffffffU

static __always_inline bool ask_is_silent(const struct bpfdb_table_chain *c, s64 time)
{
	return (s64)(bpf_ktime_get_ns() - LOAD(c->heard)) > time;
}

/* Takes this chain, if nobody needs it. */
static __always_inline bool ask_claim_one(struct bpfdb_table_chain *c)
{
	u32 state = LOAD(c->state);

	if (state == BPFDB_TABLE_RUNNING && ask_is_silent(c, ASK_PATIENCE))
		CAS(&c->state, BPFDB_TABLE_RUNNING, BPFDB_TABLE_ABANDONED);
	if (state == BPFDB_TABLE_FREE ||
	    (state == BPFDB_TABLE_READY && ask_is_silent(c, ASK_PATIENCE)) ||
	    (state == BPFDB_TABLE_DONE && ask_is_silent(c, ASK_KEPT)))
		return CAS(&c->state, state, BPFDB_TABLE_CLAIMED) == state;
	return false;
}

/* Takes a chain of those that programs have: its number, or NO_CHAIN. */
__noinline u32 ask_claim(void)
{
	u32 programs = memory.shape.programs, i = START;

	each(i, programs)
	{
		u32 chain = BPFDB_TABLE_CHAINS - 1 - i;

		if (chain < BPFDB_TABLE_CHAINS && ask_claim_one(chain_at(chain)))
			return chain;
	}
	return NO_CHAIN;
}

/* Whether there is such a question. */
static __always_inline bool ask_is_right(const struct bpfdb_table_request *r)
{
	return (r->operation == BPFDB_TABLE_GET || r->operation == BPFDB_TABLE_COUNT ||
		r->operation == BPFDB_TABLE_FIELDS) &&
	       r->field_type <= BPFDB_TABLE_TEXT && r->from_len <= BPFDB_TABLE_KEY_MAX &&
	       (r->to_len <= BPFDB_TABLE_KEY_MAX || r->to_len == BPFDB_TABLE_NO_END);
}

/* Makes the chain that of the question, from the root on. */
__noinline int ask_write(u32 chain, const struct bpfdb_table_request *r NONNULL)
{
	struct bpfdb_table_chain *c = chain_at(chain);
	u32 i = START;

	STORE(c->heard, bpf_ktime_get_ns());
	STORE(c->generation, c->generation + 1);
	STORE(c->is_waited, 0);
	c->operation = r->operation;
	c->block = memory.shape.root;
	c->level = memory.shape.depth - 1;
	c->reading = 1;
	c->span = 1;
	if (r->operation != BPFDB_TABLE_GET)
		c->span = BPFDB_TABLE_BUFFER / memory.shape.block_size;
	c->left = memory.shape.leaves;
	c->is_inside = 0;
	c->is_over = 0;
	c->error = 0;
	c->value_at = 0;
	c->value_len = 0;
	c->from_len = r->from_len;
	c->to_len = r->to_len;
	c->field_at = r->field_at;
	c->field_type = r->field_type;
	c->reads = 0;
	c->pooled = 0;
	c->entries = 0;
	c->fields = 0;
	c->sum = 0;
	c->sum_high = 0;
	c->least = 0;
	c->greatest = 0;
	each(i, BPFDB_TABLE_KEY_MAX / 8)
	{
		u32 word = i & (BPFDB_TABLE_KEY_MAX / 8 - 1);

		c->from[word] = r->from[word];
		c->to[word] = r->to[word];
	}
	return 0;
}

static __always_inline u64 ask_token(u32 chain)
{
	return (u64)LOAD(chain_at(chain)->generation) << GENERATION_SHIFT | chain;
}

static long ask_nothing(struct bpf_dynptr *sample, void *context)
{
	return 0;
}

/* io_uring's thread looks for chains that are READY. If another program rings at this moment, its ring is
 * behind what it found, and does for both. */
static __always_inline void ask_ring(void)
{
	bpf_user_ringbuf_drain(&table_bell, ask_nothing, NULL, BPF_RB_FORCE_WAKEUP);
}

/*
 * Asks: a token for bpfdb_table_take(), which may have the answer at once, if all blocks are in the pool. 0: the
 * question means nothing, all chains for programs are taken, or no process has the table open for programs.
 */
__noinline u64 bpfdb_table_ask(const struct bpfdb_table_request *r NONNULL)
{
	u32 chain = ask_is_right(r) ? ask_claim() : NO_CHAIN;
	struct bpfdb_table_chain *c = chain_at(chain);
	u64 token;

	if (chain == NO_CHAIN)
		return 0;
	ask_write(chain, r);
	token = ask_token(chain);
	STORE_RELEASE(c->state, BPFDB_TABLE_RUNNING);
	if (chain_follow_pool(chain)) {
		STORE_RELEASE(c->state, BPFDB_TABLE_READY);
		ask_ring();
	}
	return token;
}

/* PENDING, or FAILED if it was not heard of for long: nobody takes it then. */
static __always_inline int ask_wait(struct bpfdb_table_chain *c, u32 state)
{
	u32 next = state == BPFDB_TABLE_READY ? BPFDB_TABLE_FREE : BPFDB_TABLE_ABANDONED;

	if (!ask_is_silent(c, ASK_PATIENCE) || CAS(&c->state, state, next) != state)
		return BPFDB_TABLE_PENDING;
	return BPFDB_TABLE_FAILED;
}

/* Copies what a chain has found. */
__noinline int ask_copy(u32 chain, struct bpfdb_table_answer *a NONNULL)
{
	struct bpfdb_table_chain *c = chain_at(chain);
	u64 sign = type_has_sign(c->field_type) ? SIGN : 0;
	u32 words = (c->value_len + 7) / 8, i = START;

	a->value_len = c->value_len;
	a->entries = c->entries;
	a->fields = c->fields;
	a->sum = c->sum;
	a->sum_high = c->sum_high;
	a->least = c->fields ? c->least ^ sign : 0;
	a->greatest = c->fields ? c->greatest ^ sign : 0;
	if (words > BPFDB_TABLE_ANSWER / 8)
		words = BPFDB_TABLE_ANSWER / 8;
	each(i, words)
	{
		a->value[i & (BPFDB_TABLE_ANSWER / 8 - 1)] = load_u64(chain, c->value_at + i * 8);
	}
	return 0;
}

/*
 * Takes the answer of a question: FOUND, or ABSENT of a key that has no value; the token is used up. PENDING: ask
 * again. DAMAGED, FAILED, CROWDED: there is no answer, and the process would find out why. LOST: it was taken, or
 * not for ten seconds. (enum bpfdb_table_outcome)
 */
__noinline int bpfdb_table_take(u64 token, struct bpfdb_table_answer *a NONNULL)
{
	u32 chain = token & (BPFDB_TABLE_CHAINS - 1), state;
	struct bpfdb_table_chain *c = chain_at(chain);
	int outcome;

	state = LOAD_ACQUIRE(c->state);
	if (chain < BPFDB_TABLE_CHAINS - memory.shape.programs || ask_token(chain) != token)
		return BPFDB_TABLE_LOST;
	if (state == BPFDB_TABLE_READY || state == BPFDB_TABLE_RUNNING)
		return ask_wait(c, state);
	if (state != BPFDB_TABLE_DONE ||
	    CAS(&c->state, BPFDB_TABLE_DONE, BPFDB_TABLE_CLAIMED) != BPFDB_TABLE_DONE)
		return BPFDB_TABLE_LOST;
	if (ask_token(chain) != token) {
		/* Another one's, which has begun and ended since. */
		STORE_RELEASE(c->state, BPFDB_TABLE_DONE);
		return BPFDB_TABLE_LOST;
	}
	outcome = c->outcome;
	if (outcome == BPFDB_TABLE_FOUND)
		ask_copy(chain, a);
	STORE_RELEASE(c->state, BPFDB_TABLE_FREE);
	return outcome;
}

#endif
