/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Sessions of user space: they are opened and closed, and the requests in an io
 * buffer are executed, one or a batch.
 */
#ifndef BPFDB_DRIVER_RUN_BPF_H
#define BPFDB_DRIVER_RUN_BPF_H

#include "../operators/depends.bpf.h"
#include "../operators/evict.bpf.h"
#include "../operators/locks.bpf.h"
#include "../operators/maintenance.bpf.h"
#include "../operators/watch.bpf.h"
#include "cold.bpf.h"
#include "io.bpf.h"
#include "large.bpf.h"

/* Requests of a batch whose records are fetched before the first one is executed: as many
 * cache lines as surely are there still when the last one is. */
#define FETCHED_MAX 128

struct run {
	u32 session, io, offset, done, busy;
};

static __always_inline int key_load(struct bpfdb_session *s, u32 buffer, u32 offset)
{
	u64 *key = io_at(buffer, offset + sizeof(struct bpfdb_request));

	/* The operator says so itself, which fails a transaction. */
	if (!key || s->key_len > BPFDB_KEY_MAX)
		return BPFDB_OK;
	for (u32 i = 0; i < BPFDB_KEY_MAX / 8; i++) {
		if (i * 8 >= s->key_len)
			break;
		s->key[i] = key[i];
	}
	return BPFDB_OK;
}

/* The operator alone: enum bpfdb_operation. */
static __always_inline u32 operation_of(u32 operation)
{
	return operation & ~(BPFDB_OR_STOP | BPFDB_OF_TYPE(BPFDB_FORM_TYPE_MASK));
}

/* What a request says of the type of its value: BPFDB_TYPE_. */
static __always_inline u32 request_type(u32 operation)
{
	return operation >> BPFDB_OF_TYPE_SHIFT & BPFDB_FORM_TYPE_MASK;
}

/* The value of a SET, from the buffer into the session or a new slot; a large one,
 * of any type, is there already. */
__noinline int value_load(struct bpfdb_session *s NONNULL, u32 buffer, u32 offset, u32 len,
			  u32 type)
{
	u64 *value = io_at(buffer, offset);
	void *slot;
	int status;

	if (unlikely(len > BPFDB_VALUE_MAX))
		return bpfdb_large_take(s, len, type);
	if (unlikely(type))
		status = bpfdb_typed_alloc(s, len, type);
	else
		status = bpfdb_value_alloc(s, len);
	if (status != BPFDB_OK || !value)
		return status;
	if (s->value_len <= BPFDB_INLINE_MAX) {
		s->value[0] = value[0];
		s->value[1] = value[1];
		return BPFDB_OK;
	}
	slot = bpfdb_at(s->value[0]);
	OPAQUE(len);
	if (!slot || len > BPFDB_VALUE_MAX)
		return BPFDB_CORRUPT;
	bpf_probe_read_kernel(slot, len, value);
	return BPFDB_OK;
}

/* What GET found, from the session or its slot into the buffer. RETRY if the
 * slot was given up meanwhile. */
__noinline int value_store(struct bpfdb_session *s NONNULL, u32 buffer, u32 offset, u32 room)
{
	u64 *value = io_at(buffer, offset);
	u32 len = form_bytes(s->value_len);
	void *slot;

	if (!value || len > room || len > BPFDB_VALUE_MAX)
		return BPFDB_BAD_REQUEST;
	if (s->value_len <= BPFDB_INLINE_MAX) {
		value[0] = s->value[0];
		value[1] = s->value[1];
		return BPFDB_FOUND;
	}
	slot = bpfdb_at(s->value[0]);
	if (!slot)
		return RETRY;
	bpf_probe_read_kernel(value, len, slot);
	return bpfdb_still_valid(s) ? BPFDB_FOUND : RETRY;
}

/* Copies of a value that writers may spoil. With one version per record no snapshot
 * helps after that, only patience. */
static __always_inline u32 copy_tries(void)
{
	return config.versions == 1 ? BPFDB_READ_TRIES : BPFDB_COPY_TRIES;
}

/* How a GET reads. */
enum reading {
	READ_GET,
	READ_FOR_UPDATE,
	READ_PEEK, /* the newest version, whatever the transaction is, without a lock */
};

static __always_inline int run_get(struct bpfdb_session *s, struct run *run, u32 offset, u32 room,
				   u32 type, enum reading how)
{
	bool by_snapshot = false;
	int status = RETRY;

	s->value_type = type;
	repeat(i, copy_tries() + 1)
	{
		if (unlikely(i == copy_tries()))
			by_snapshot = read_takes_snapshot(s);
		if (how == READ_PEEK)
			status = bpfdb_peek(s);
		else
			status = how == READ_FOR_UPDATE ? bpfdb_get_for_update(s) : bpfdb_get(s);
		if (status == BPFDB_FOUND)
			status = form_is_large(s->value_len)
					 ? large_tell(s, run->io, run->offset)
					 : value_store(s, run->io, offset, room);
		if (status != RETRY)
			break;
	}
	s->value_type = BPFDB_TYPE_STRING;
	if (unlikely(by_snapshot))
		TXN_END_OWN(s, bpfdb_commit);
	return status == RETRY ? BPFDB_EXHAUSTED : status;
}

/* The large value of the key, which gets an exclusive lock, for a SET to come. Any
 * other is not told. */
static __always_inline int run_share(struct bpfdb_session *s, struct run *run)
{
	struct bpfdb_request *request = io_at(run->io, run->offset);
	int status = bpfdb_large_share(s);
	struct bpfdb_large *large = bpfdb_at(s->building);

	if (status != BPFDB_FOUND || !form_is_large(s->value_len) || !s->building)
		return status;
	/* The session holds it: it is what it was. */
	if (!request || !large)
		return BPFDB_CORRUPT;
	request->offset = large->len;
	request->large = large->id;
	return BPFDB_FOUND_LARGE;
}

/* The token goes where the value of a SET would be. */
static __always_inline int run_watch(struct bpfdb_session *s, u32 buffer, u32 offset, u32 room)
{
	struct bpfdb_watch *out = io_at(buffer, offset), token = {};
	int status = bpfdb_watch(s, &token);

	if (!out || room < sizeof(token))
		return BPFDB_BAD_REQUEST;
	*out = token;
	return status;
}

static __always_inline int run_access(struct bpfdb_session *s, struct bpfdb_request *request)
{
	u64 meta = 0;
	int status = bpfdb_access(s, request->large, &meta);

	request->offset = meta;
	return status;
}

static __always_inline int run_set(struct bpfdb_session *s, struct run *run, u32 offset,
				   struct bpfdb_request *request)
{
	u32 type = request_type(request->operation);
	int status = value_load(s, run->io, offset, request->value_len, type);

	if (status != BPFDB_OK)
		return status;
	/* Only now: it would count for the next SET of the session. */
	s->expires = request->expires;
	return bpfdb_set(s);
}

/* A value takes the place of a cold one. */
static __always_inline int run_promote(struct bpfdb_session *s, struct run *run, u32 offset,
				       struct bpfdb_request *request)
{
	u32 len = request->value_len;
	u64 id = request->large;
	int status = value_load(s, run->io, offset, len, request_type(request->operation));

	return status == BPFDB_OK ? bpfdb_promote(s, id, len) : status;
}

#define RUN_OPERATION(name, call)                                                                  \
	case BPFDB_OP_##name: return call;

static __always_inline int run_operation(struct bpfdb_session *s, struct run *run,
					 struct bpfdb_request *request)
{
	u32 offset = value_offset(run->offset, s->key_len), room = request->value_room;

	switch (operation_of(request->operation)) {
		BPFDB_COUNTED_OPERATOR_LIST(RUN_OPERATION)
		BPFDB_UNCOUNTED_OPERATOR_LIST(RUN_OPERATION)
	default: return BPFDB_BAD_REQUEST;
	}
}

static __always_inline int run_eviction_operation(struct bpfdb_session *s, struct run *run,
						  struct bpfdb_request *request)
{
	u32 offset = value_offset(run->offset, s->key_len);

	switch (operation_of(request->operation)) {
		BPFDB_EVICTION_OPERATOR_LIST(RUN_OPERATION)
	default: return BPFDB_BAD_REQUEST;
	}
}

/*
 * In a batch the record of every request is a cache miss: fetches that of one, and goes
 * on to the next. The processor waits for several of them at a time then.
 */
static long fetch_request(u64 i, struct run *run)
{
	struct bpfdb_request *request = io_at(run->io, run->offset);
	u64 *key = io_at(run->io, run->offset + sizeof(*request));

	if (!request || !key)
		return 1;
	if (request->key_len && request->key_len <= BPFDB_INLINE_MAX)
		inline_prefetch(key[0], key[1], request->key_len);
	run->offset = request->next;
	return !run->offset;
}

/* Executes one request of a batch: 0, or 1 if it was the last one. */
static __always_inline int request_execute(struct run *run, bool evicts)
{
	struct bpfdb_session *s = bpfdb_session(run->session);
	struct bpfdb_request *request = io_at(run->io, run->offset);
	u32 next, operation, before;
	int status;

	if (!s || !request)
		return 1;
	/* Not when values of clients have been written behind it. */
	next = request->next;
	operation = request->operation;
	if (unlikely(s->state == BPFDB_TXN_FINISHING))
		bpfdb_settle(s);
	before = s->state;
	s->key_len = request->key_len;
	status = key_load(s, run->io, run->offset);
	if (status == BPFDB_OK)
		status = evicts ? run_eviction_operation(s, run, request)
				: run_operation(s, run, request);
	/* It was not executed: it stays as it is, and user space tries it again. */
	if (unlikely(status == BPFDB_SESSION_BUSY)) {
		request->status = status;
		run->busy = BPFDB_RUN_BUSY;
		return 1;
	}
	depend_on_outcome(s, operation_of(operation), before);
	request->status = status;
	/* The operands of a SET stay what they are: its batch may run again. */
	if (operation_of(operation) != BPFDB_OP_SET) {
		request->value_len = s->value_len;
		request->expires = s->found_expires;
	}
	run->done++;
	if ((operation & BPFDB_OR_STOP) && status >= BPFDB_FIRST_ERROR)
		return 1;
	run->offset = next;
	return next == 0 || next >= BPFDB_IO_SIZE;
}

/*
 * The verifier checks this function by itself. As the body of a loop it would have the loops
 * of the operators inside that loop, and Linux 6.16 to 6.18 free states of an inner loop
 * while states of the outer one still name them as parents. They read what has that memory
 * then: the kernel faults in __mark_chain_precision(), or refuses the program with EFAULT.
 */
__noinline int request_run(struct run *run NONNULL)
{
	return request_execute(run, false);
}

__noinline int eviction_request_run(struct run *run NONNULL)
{
	return request_execute(run, true);
}

static __always_inline bool is_batch(const struct run *run)
{
	struct bpfdb_request *request = io_at(run->io, run->offset);

	return request && request->next;
}

/* ctx: session, io buffer, offset of the first request. All requests are with operators of eviction,
 * or none is. Returns how many were executed, and BPFDB_RUN_BUSY if the next one could not be. */
static __always_inline int requests_run(struct bpf_raw_tracepoint_args *ctx, bool evicts)
{
	struct run run = {.session = ctx->args[1], .io = ctx->args[2], .offset = ctx->args[3]};
	u32 first = run.offset;

	if (is_batch(&run)) {
		bpf_loop(FETCHED_MAX, fetch_request, &run, 0);
		/* Not a second struct: all callers together have 512 bytes of stack. */
		run.offset = first;
	}
	/* bpf_loop() would need a frame for its callback, and the operators have all eight. */
	for (u32 i = 0; i < BPFDB_BATCH_MAX; i++) {
		if (evicts ? eviction_request_run(&run) : request_run(&run))
			break;
	}
	return run.done | run.busy;
}

static __always_inline int run_requests(struct bpf_raw_tracepoint_args *ctx)
{
	return requests_run(ctx, false);
}

static __always_inline int run_eviction_requests(struct bpf_raw_tracepoint_args *ctx)
{
	return requests_run(ctx, true);
}

/* ctx: holder. Opens a session; its index, or -BPFDB_NO_SESSION. */
static __always_inline int run_open(struct bpf_raw_tracepoint_args *ctx)
{
	return session_take(BPFDB_SESSION_USER, ctx->args[1]);
}

/* Tells user space the clock that programs read: in a time namespace it has another. */
static __always_inline int run_clock(void)
{
	STORE(engine.time.boot, bpf_ktime_get_boot_ns());
	return BPFDB_OK;
}

/* ctx: session, holder. Closes the session if it is this holder's. */
static __noinline int run_close(struct bpf_raw_tracepoint_args *ctx)
{
	struct bpfdb_session *s = bpfdb_session(ctx->args[1]);

	return s ? session_close(s, ctx->args[2]) : BPFDB_BAD_REQUEST;
}

#endif
