// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Not a test by itself: payers for the stress tests that run in interrupts.
 *
 * Each payer is a timer, pinned to a processor. Its callback interrupts whatever
 * runs there, other operators included, and takes one step of a transaction (a
 * period of 20 us or more: below, the kernel moves callbacks to a thread).
 * After each transfer come three audits:
 *
 *   BEGIN, GET from, GET to, SET from, SET to, COMMIT
 *   BEGIN READ ONLY and GET of half of the accounts, GET of the rest and COMMIT
 *
 * or, now and then, all steps at once. Accounts and their values are those of
 * the crate bpfdb-tests (stress/money.rs), where the sum is checked.
 */
#include <bpfdb/bpfdb.bpf.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define PAYERS_MAX 16
#define ACCOUNTS_MAX 64
#define NAME_MAX 128
#define CLOCK_MONOTONIC 1
/* A value is 8 bytes of amount, and in some places a filling. */
#define FILLING 92

struct account {
	u32 len;
	u32 unused;
	u64 name[NAME_MAX / 8];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ACCOUNTS_MAX);
	__type(key, u32);
	__type(value, struct account);
} interrupt_accounts SEC(".maps");

struct payer {
	u32 session;
	u32 accounts;
	u32 period; /* nanoseconds */
	u32 stop, stopped;
	u32 unexpected; /* the last status that a payer must not see */
	u32 committed, refused;
	u32 interrupted; /* ticks that came in the middle of another operator */
	u32 processors;
	u32 step, from, to, turns;
	u32 audits; /* 0: the next transaction is a transfer */
	u32 total;
	u64 sum;
	u64 had_from, had_to, amount;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PAYERS_MAX);
	__type(key, u32);
	__type(value, struct payer);
} interrupt_payers SEC(".maps");

struct clock {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PAYERS_MAX);
	__type(key, u32);
	__type(value, struct clock);
} interrupt_clocks SEC(".maps");

/* Makes account `number` the session's key. */
__noinline int interrupt_key(struct bpfdb_session *s NONNULL, u32 number)
{
	struct account *account = bpf_map_lookup_elem(&interrupt_accounts, &number);

	if (!account)
		return BPFDB_BAD_REQUEST;
	s->key_len = account->len;
	for (u32 i = 0; i < NAME_MAX / 8; i++)
		s->key[i] = account->name[i];
	return BPFDB_OK;
}

/* OK with *amount, or an Error; in a snapshot also RETRY. */
static __always_inline int amount_read(struct bpfdb_session *s, u32 number, bool update,
				       u64 *amount)
{
	int status = interrupt_key(s, number);
	u64 *slot;

	*amount = 0;
	if (status != BPFDB_OK)
		return status;
	status = update ? bpfdb_get_for_update(s) : bpfdb_get(s);
	if (status != BPFDB_FOUND)
		return status == BPFDB_NOT_FOUND ? BPFDB_OK : status;
	if (s->value_len <= BPFDB_INLINE_MAX) {
		*amount = s->value[0];
		return BPFDB_OK;
	}
	slot = bpfdb_at(s->value[0]);
	if (!slot)
		return BPFDB_CORRUPT;
	*amount = *slot;
	/* Under a lock the slot stays what it is. */
	return bpfdb_still_valid(s) ? BPFDB_OK : RETRY;
}

static __always_inline int long_value(struct bpfdb_session *s, u64 amount)
{
	int status = bpfdb_value_alloc(s, sizeof(amount) + FILLING);
	u8 byte = (u8)(amount * 31 ^ FILLING), *slot;

	if (status != BPFDB_OK)
		return status;
	slot = bpfdb_at(s->value[0]);
	if (!slot)
		return BPFDB_CORRUPT;
	*(u64 *)slot = amount;
	for (u32 i = 0; i < FILLING; i++)
		slot[sizeof(amount) + i] = byte;
	return BPFDB_OK;
}

/* No money is no account. */
static __always_inline int amount_write(struct bpfdb_session *s, u32 number, u64 amount)
{
	int status = interrupt_key(s, number);

	if (status != BPFDB_OK)
		return status;
	if (!amount) {
		status = bpfdb_delete(s);
		return status < BPFDB_FIRST_ERROR ? BPFDB_OK : status;
	}
	if (amount % 4 == 0) {
		status = long_value(s, amount);
	} else {
		s->value_len = sizeof(amount);
		s->value[0] = amount;
		s->value[1] = 0;
	}
	return status == BPFDB_OK ? bpfdb_set(s) : status;
}

static __always_inline void choose(struct payer *p)
{
	u32 n = p->accounts ?: 1;

	p->from = bpf_get_prandom_u32() % n;
	p->to = (p->from + 1 + bpf_get_prandom_u32() % (n > 1 ? n - 1 : 1)) % n;
}

__noinline int interrupt_step(struct bpfdb_session *s NONNULL, struct payer *p NONNULL)
{
	bool update = bpf_get_prandom_u32() % 2;
	int status;

	switch (p->step) {
	case 0: choose(p); return bpfdb_begin(s);
	case 1: return amount_read(s, p->from, update, &p->had_from);
	case 2:
		status = amount_read(s, p->to, update, &p->had_to);
		p->amount = bpf_get_prandom_u32() % ((u32)p->had_from + 1);
		return status;
	case 3: return amount_write(s, p->from, p->had_from - p->amount);
	case 4: return amount_write(s, p->to, p->had_to + p->amount);
	default: return bpfdb_commit(s);
	}
}

/* Not a status: an audit found another sum. */
#define WRONG_SUM 1000

/* Adds the amount of an account in a snapshot to the payer's sum. */
__noinline int interrupt_add(struct bpfdb_session *s NONNULL, struct payer *p NONNULL, u32 number)
{
	u64 amount = 0;
	int status = RETRY;

	repeat(i, 100)
	{
		status = amount_read(s, number, false, &amount);
		if (status != RETRY)
			break;
	}
	p->sum += amount;
	return status;
}

static __always_inline int audit_some(struct bpfdb_session *s, struct payer *p, u32 first, u32 end)
{
	int status = BPFDB_OK;

	repeat(i, ACCOUNTS_MAX)
	{
		if (first + i >= end || status != BPFDB_OK)
			break;
		status = interrupt_add(s, p, first + i);
	}
	return status;
}

__noinline int interrupt_audit(struct bpfdb_session *s NONNULL, struct payer *p NONNULL)
{
	u32 half = p->accounts / 2;
	int status;

	if (p->step == 0) {
		p->sum = 0;
		status = bpfdb_begin_read_only(s);
		return status == BPFDB_OK ? audit_some(s, p, 0, half) : status;
	}
	status = audit_some(s, p, half, p->accounts);
	if (status != BPFDB_OK)
		return status;
	return p->sum == p->total ? bpfdb_commit(s) : WRONG_SUM;
}

static __always_inline bool is_expected(int status)
{
	return status == BPFDB_CONFLICT || status == BPFDB_VERSIONS_FULL ||
	       status == BPFDB_OUT_OF_MEMORY || status == BPFDB_MEMORY_PENDING ||
	       BPFDB_REFUSED_BY_LOG(status);
}

/*
 * An audit is refused nothing but its BEGIN, while what the session did before cannot be
 * finished: the operator that this callback interrupts holds a latch.
 */
static __always_inline bool may_be_told(const struct payer *p, bool audits, int status)
{
	if (audits)
		return p->step == 0 && status == BPFDB_MEMORY_PENDING;
	return is_expected(status);
}

/* One step, and what follows from its outcome. False: the transaction ended. */
static __always_inline bool advance(struct bpfdb_session *s, struct payer *p)
{
	bool audits = p->audits;
	int status = audits ? interrupt_audit(s, p) : interrupt_step(s, p);

	if (status == BPFDB_OK && p->step < (audits ? 1 : 5)) {
		p->step++;
		return true;
	}
	if (status == BPFDB_OK) {
		p->committed++;
	} else {
		p->refused++;
		if (!may_be_told(p, audits, status))
			p->unexpected = status;
		bpfdb_rollback(s);
	}
	p->step = 0;
	p->audits = (p->audits + 1) % 4;
	return false;
}

/* Marks the sessions of payers, in the room for applications. */
#define PAYER 1
#define SESSIONS_SEEN 64

static long count_busy(u64 i, u32 *busy)
{
	struct bpfdb_session *s = bpfdb_session(i);

	if (s && LOAD(s->busy) && s->app[0] != PAYER)
		++*busy;
	return 0;
}

/*
 * Did this callback interrupt an operator? Programs are not preempted, so if
 * every processor but this one runs one operator, the next one that is under
 * way is under way on this one.
 */
static __always_inline bool interrupts_operator(struct payer *p)
{
	u32 busy = 0;

	bpf_loop(SESSIONS_SEEN, count_busy, &busy, 0);
	return busy >= p->processors;
}

static int tick(void *map, u32 *number, struct clock *clock)
{
	struct payer *p = bpf_map_lookup_elem(&interrupt_payers, number);
	struct bpfdb_session *s = p ? bpfdb_session(p->session) : NULL;

	if (!p || !s)
		return 0;
	p->turns++;
	s->app[0] = PAYER;
	if (interrupts_operator(p))
		p->interrupted++;
	if (LOAD(p->stop)) {
		if (p->step)
			bpfdb_rollback(s);
		s->app[0] = 0;
		STORE(p->stopped, 1);
		return 0;
	}
	if (p->step || p->turns % 4) {
		advance(s, p);
	} else {
		for (u32 i = 0; i < 6; i++)
			if (!advance(s, p))
				break;
	}
	bpf_timer_start(&clock->timer, p->period, BPF_F_TIMER_CPU_PIN);
	return 0;
}

struct orders {
	u64 number, session, accounts, total, period, processors;
};

/* Starts a payer on the processor that this runs on. BPFDB_MEMORY_PENDING: the kernel, which does
 * not wait for memory here, had none for the timer; it may a moment later. */
SEC("syscall")
int interrupt_start(struct orders *orders)
{
	u32 number = orders->number;
	struct clock *clock = bpf_map_lookup_elem(&interrupt_clocks, &number);
	struct payer *p = bpf_map_lookup_elem(&interrupt_payers, &number);

	if (!clock || !p)
		return BPFDB_BAD_REQUEST;
	p->session = orders->session;
	p->accounts = orders->accounts;
	p->total = orders->total;
	p->period = orders->period;
	p->processors = orders->processors;
	bpf_timer_init(&clock->timer, &interrupt_clocks, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&clock->timer, tick);
	return bpf_timer_start(&clock->timer, 0, BPF_F_TIMER_CPU_PIN) ? BPFDB_MEMORY_PENDING
								      : BPFDB_OK;
}

/* Tells a payer to stop; 1 when it has. */
SEC("syscall")
int interrupt_stop(struct orders *orders)
{
	u32 number = orders->number;
	struct payer *p = bpf_map_lookup_elem(&interrupt_payers, &number);

	if (!p)
		return 0;
	STORE(p->stop, 1);
	return LOAD(p->stopped);
}

/* What a payer has come to: one program for each figure. */
#define FIGURE(name)                                                                               \
	SEC("syscall")                                                                             \
	int interrupt_##name(struct orders *orders)                                                \
	{                                                                                          \
		u32 number = orders->number;                                                       \
		struct payer *p = bpf_map_lookup_elem(&interrupt_payers, &number);                 \
                                                                                                   \
		return p ? p->name : 0;                                                            \
	}

FIGURE(committed)
FIGURE(refused)
FIGURE(unexpected)
FIGURE(interrupted)
