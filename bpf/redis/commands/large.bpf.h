/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Commands on one element of a large collection: a head at its key, elements in pages (values/big.bpf.h).
 *
 *   reads    GET head, GET page, reply ──► GET head: the same? ── no: again
 *   writes   head under an exclusive lock ──► page ──► SET page, SET head, commit
 *
 * 1. What writes a page writes the head, in one transaction, with a lock of the head from the start. So pages
 *    that were read between two looks at the same head are those of one moment. In a transaction
 *    the lock of the head, or the snapshot, says so.
 * 2. A write that comes to PASS_TO_DAEMON when it has written a page is undone as a whole: it is answered
 *    here in a transaction of its own, or in MULTI … EXEC, and not in another of the client's.
 */
#ifndef BPFDB_COMMANDS_LARGE_BPF_H
#define BPFDB_COMMANDS_LARGE_BPF_H

#include "../../values/big.bpf.h"
#include "sorted_set.bpf.h"

/* The outcome of `call`, of GET, which is no look-up of the client's. */
#define NOT_COUNTED(s, call)                                                                       \
	({                                                                                         \
		u64 gets_found_ = (s)->gets_found, gets_missed_ = (s)->gets_missed;                \
		enum bpfdb_status not_counted_ = (call);                                           \
		(s)->gets_found = gets_found_;                                                     \
		(s)->gets_missed = gets_missed_;                                                   \
		not_counted_;                                                                      \
	})

/* Goes over the arguments, the first of which is the key: DONE if all can be answered here. */
static __always_inline enum result large_begin(struct context *c)
{
	c->first = c->at;
	return elements_check(c);
}

/* The same for a command that writes, with so many arguments: in part it may be executed only if that is
 * undone. */
static __always_inline enum result large_write_begin(struct context *c, bool own, u32 argc)
{
	return c->argc == argc && parts_are_undone(c, own) ? large_begin(c) : PASS_TO_DAEMON;
}

/* The key becomes the session's, and the next argument is the one behind it. */
static __always_inline enum result large_key(struct context *c, struct bpfdb_session *s)
{
	c->at = c->first;
	return key_next(c, s);
}

/* ---- Reading ------------------------------------------------------------- */

/* GET of the head, which is left in the context: DONE, AGAIN, or PASS_TO_DAEMON. If redis_apart was there
 * it has noted the access. The look-up is counted when it is answered. */
__noinline enum result large_open(struct context *c NONNULL, struct bpfdb_session *s NONNULL,
				  u32 type)
{
	u32 untracked = s->untracked;
	enum bpfdb_status status;
	bool is_head;

	s->untracked |= !c->own.meets_large;
	status = NOT_COUNTED(s, OF_ANY_TYPE(s, bpfdb_get(s)));
	is_head = status == BPFDB_FOUND && head_read(s, &c->head, type);

	s->untracked = untracked;
	c->is_large = is_head || status >= BPFDB_FIRST_ERROR;
	if (status != BPFDB_FOUND)
		return PASS_TO_DAEMON;
	c->head_cell = s->view_cell;
	c->head_header = s->view_header;
	c->head_address = s->value[0];
	if (!bpfdb_still_valid(s))
		return AGAIN;
	return is_head ? DONE : PASS_TO_DAEMON;
}

/*
 * Is the collection unwritten since large_open()? The record has the same header, and the same
 * version is visible: a commit may come before its version is in the place of the old one, and then
 * the header stays.
 */
__noinline bool large_is_unchanged(struct context *c NONNULL, struct bpfdb_session *s NONNULL)
{
	if (!short_needed(s))
		return true;
	if (large_key(c, s) != DONE)
		return false;
	return NOT_COUNTED(s, UNTRACKED(s, OF_ANY_TYPE(s, bpfdb_get(s)))) == BPFDB_FOUND &&
	       s->view_cell == c->head_cell && s->value[0] == c->head_address &&
	       header_same_content(s->view_header, c->head_header);
}

/* The element that is the argument parsed last, in its bucket: FOUND or NOT_FOUND with its place in
 * c->entry, or an Error. */
static __always_inline enum bpfdb_status table_find(struct context *c, struct bpfdb_session *s)
{
	enum bpfdb_status status;

	/* What is longer may be in a page that is WIDE. */
	if (c->arg_len > PACKED_BYTES_MAX)
		return FOR_THE_DAEMON;
	bucket_key(s, &c->head, arg_as_key(c), c->arg_len);
	status = page_check(s, NOT_COUNTED(s, bpfdb_get(s)));
	return status == BPFDB_FOUND ? entry_find(c, s) : status;
}

/* A member's score, or nil. */
static __always_inline enum result member_reply(struct sk_msg_md *m, struct context *c,
						struct bpfdb_session *s, bool found)
{
	if (!found)
		return reply_nil(m, c);
	return score_found(c, s) ? reply_score(m, c) : PASS_TO_DAEMON;
}

/* Replies what is asked of the element that is the argument parsed last. A subprogram: the verifier walks
 * it once. */
__noinline enum result large_element(struct sk_msg_md *m, struct context *c NONNULL,
				     struct bpfdb_session *s NONNULL, u32 what)
{
	enum bpfdb_status status = table_find(c, s);
	enum result result;

	if (status == BIG_SPOILED)
		return AGAIN;
	if (status >= BPFDB_FIRST_ERROR || c->out > BPFDB_REPLY_BATCH)
		return PASS_TO_DAEMON;
	if (what == ASKED_SCORE)
		result = member_reply(m, c, s, status == BPFDB_FOUND);
	else
		result = field_reply(m, c, s, &c->entry, status == BPFDB_FOUND, what);
	return bpfdb_still_valid(s) ? result : AGAIN;
}

/* A look-up came to `result`: takes back what it has replied, but for DONE. If it has failed the client's
 * transaction the client gets the reason. A subprogram: the verifier walks it once. */
__noinline enum result look_up_end(struct sk_msg_md *m, struct context *c NONNULL,
				   struct bpfdb_session *s NONNULL, u32 out, enum result result)
{
	c->at = c->end;
	if (result == DONE) {
		s->gets_found++;
		return DONE;
	}
	c->out = out;
	if (result == PASS_TO_DAEMON && s->state == BPFDB_TXN_FAILED)
		return reply_error(m, c, s, s->failure);
	return harmless(result);
}

static __always_inline enum result large_read_once(struct sk_msg_md *m, struct context *c,
						   struct bpfdb_session *s, u32 type, u32 what,
						   bool is_array)
{
	enum result result = large_key(c, s);
	u32 out = c->out;

	if (result == DONE)
		result = large_open(c, s, type);
	if (result == DONE && is_array)
		result = reply_header(m, c, '*', c->argc - 1);
	repeat(i, c->argc - 1)
	{
		if (result == DONE)
			result = arg_next(c);
		if (result == DONE)
			result = large_element(m, c, s, what);
		if (result != DONE)
			break;
	}
	if (result == DONE && !large_is_unchanged(c, s))
		result = AGAIN;
	return look_up_end(m, c, s, out, result);
}

/* HGET, HSTRLEN, HEXISTS, SISMEMBER, ZSCORE: a key, and a field or an element. */
__noinline enum result large_read(struct sk_msg_md *m, struct context *c NONNULL,
				  struct bpfdb_session *s NONNULL, u32 type, u32 what)
{
	enum result result = c->argc == 2 ? large_begin(c) : PASS_TO_DAEMON;

	if (result != DONE)
		return result;
	/* The arguments must stay readable while the reply is written. */
	room_until(c, c->request);
	return WHILE_SPOILED(s, large_read_once(m, c, s, type, what, false));
}

__noinline enum result large_hmget(struct sk_msg_md *m, struct context *c NONNULL,
				   struct bpfdb_session *s NONNULL)
{
	enum result result =
		c->argc >= 2 && c->argc <= HMGET_MAX + 1 ? large_begin(c) : PASS_TO_DAEMON;

	if (result != DONE)
		return result;
	room_until(c, c->request);
	return WHILE_SPOILED(s, large_read_once(m, c, s, BPFDB_TYPE_HASH, ASKED_VALUE, true));
}

/* A number of elements, which may have more digits than reply_header() writes. */
static __always_inline enum result elements_reply(struct sk_msg_md *m, struct context *c,
						  u64 elements)
{
	u32 start = integer_write(c->text, &c->text_start, elements);

	return reply_text_integer(m, c, start, INTEGER_END - start);
}

static __always_inline enum result large_elements_once(struct sk_msg_md *m, struct context *c,
						       struct bpfdb_session *s, u32 type)
{
	enum result result = large_key(c, s);
	u32 out = c->out;

	if (result == DONE)
		result = large_open(c, s, type);
	if (result == DONE)
		result = elements_reply(m, c, c->head.elements);
	return look_up_end(m, c, s, out, result);
}

/* HLEN, LLEN, SCARD, ZCARD. */
__noinline enum result large_elements(struct sk_msg_md *m, struct context *c NONNULL,
				      struct bpfdb_session *s NONNULL, u32 type)
{
	enum result result = c->argc == 1 ? large_begin(c) : PASS_TO_DAEMON;

	if (result != DONE)
		return result;
	room_until(c, c->request);
	return WHILE_SPOILED(s, large_elements_once(m, c, s, type));
}

/* ---- Writing ------------------------------------------------------------- */

/* Locks the head, which is left in the context: OK or an Error. */
static __always_inline enum bpfdb_status head_lock(struct context *c, struct bpfdb_session *s,
						   u32 type)
{
	enum bpfdb_status status = OF_ANY_TYPE(s, bpfdb_get_for_update(s));

	c->elements = 0;
	c->is_large = status >= BPFDB_FIRST_ERROR;
	if (status >= BPFDB_FIRST_ERROR)
		return status;
	if (status != BPFDB_FOUND || !head_read(s, &c->head, type))
		return FOR_THE_DAEMON;
	c->is_large = 1;
	c->expires = s->found_expires;
	return BPFDB_OK;
}

/* Locks head and bucket, and finds the element that is the argument behind the key, or with `scored` behind
 * a number, which is left in c->number: FOUND or NOT_FOUND, or an Error. A subprogram, to keep the stack below the operators short; so are all steps that follow. */
__noinline enum bpfdb_status large_lock(struct context *c NONNULL, struct bpfdb_session *s NONNULL,
					u32 type, bool scored)
{
	enum bpfdb_status status = BPFDB_BAD_REQUEST;

	if (large_key(c, s) == DONE)
		status = head_lock(c, s, type);
	if (status != BPFDB_OK)
		return status;
	if (type == BPFDB_TYPE_SORTED_SET && is_waited_for(s))
		return FOR_THE_DAEMON;
	/* It may be an option, or a score that is not whole. */
	if (scored && number_next(c) != DONE)
		return FOR_THE_DAEMON;
	if (arg_next(c) != DONE)
		return BPFDB_BAD_REQUEST;
	if (c->arg_len > PACKED_BYTES_MAX)
		return FOR_THE_DAEMON;
	bucket_key(s, &c->head, arg_as_key(c), c->arg_len);
	status = page_check(s, bpfdb_get_for_update(s));
	if (status == BIG_SPOILED)
		return FOR_THE_DAEMON;
	if (status >= BPFDB_FIRST_ERROR)
		return status;
	c->has_run = status == BPFDB_FOUND;
	return entry_place(s, arg_as_key(c), arg_as_entry(c), c->has_run);
}

/* The head becomes the session's value. */
__noinline enum bpfdb_status large_head(struct context *c NONNULL, struct bpfdb_session *s NONNULL,
					u32 type)
{
	return head_write(s, &c->head, type);
}

/* Sets the head, when all pages are set. */
static __always_inline enum bpfdb_status head_set(struct context *c, struct bpfdb_session *s,
						  u32 type)
{
	if (large_key(c, s) != DONE)
		return BPFDB_BAD_REQUEST;
	return value_set(s, large_head(c, s, type), c->expires);
}

/* Sets the page that a step has left as the session's value, and the head, if it came to OK; FOUND:
 * nothing changes. OK or an Error. */
static __always_inline enum bpfdb_status large_set(struct context *c, struct bpfdb_session *s,
						   enum bpfdb_status status, u32 type)
{
	if (status == BPFDB_FOUND)
		return BPFDB_OK;
	status = value_set(s, status, 0);
	return status == BPFDB_OK ? head_set(c, s, type) : status;
}

/* Locks, does `step`, which knows by `found` whether there is the element, and sets: an outcome or an
 * Error. */
#define LARGE_ONCE(c, s, own, type, found, step)                                                   \
	({                                                                                         \
		enum bpfdb_status once_ = short_begin(s, own, SHORT_WRITE);                        \
		if (once_ == BPFDB_OK)                                                             \
			once_ = large_lock(c, s, type, false);                                     \
		if (once_ < BPFDB_FIRST_ERROR) {                                                   \
			bool found = once_ == BPFDB_FOUND;                                         \
			once_ = large_set(c, s, step, type);                                       \
		}                                                                                  \
		short_end(s, own, once_);                                                          \
	})

/* The entry of the element gets this value of so many bytes, if no bucket is to be split for that: a step. */
static __always_inline enum bpfdb_status large_put(struct context *c, struct bpfdb_session *s,
						   u32 type, bool found, u64 value, u32 value_len,
						   bool is_integer)
{
	struct packed_entry *e = &c->entry;

	if (value_len > PACKED_BYTES_MAX)
		return FOR_THE_DAEMON;
	if (found)
		head_loses(&c->head, e->key_len + e->value_len);
	if (!head_gains(&c->head, type, e->key_len, value_len, is_integer) ||
	    !table_is_settled(&c->head))
		return FOR_THE_DAEMON;
	e->value = value;
	e->value_len = value_len;
	return packed_put(s, e, BPFDB_TYPE_STRING, c->has_run, false);
}

/* The field becomes the argument behind it. A new one is counted in c->elements. */
__noinline enum bpfdb_status large_field(struct context *c NONNULL, struct bpfdb_session *s NONNULL,
					 bool found, bool only_new)
{
	if (arg_next(c) != DONE)
		return BPFDB_BAD_REQUEST;
	if (found && only_new)
		return BPFDB_FOUND;
	c->elements = !found;
	return large_put(c, s, BPFDB_TYPE_HASH, found, c->source + c->arg, c->arg_len, false);
}

/* HSET, HMSET, HSETNX of one field. */
__noinline enum result large_hset(struct sk_msg_md *m, struct context *c NONNULL,
				  struct bpfdb_session *s NONNULL, u32 how)
{
	bool own = short_needed(s);
	enum result result = large_write_begin(c, own, 3);
	enum bpfdb_status status;

	if (result != DONE)
		return result;
	status = WITHOUT_CONFLICT(own, LARGE_ONCE(c, s, own, BPFDB_TYPE_HASH, found,
						  large_field(c, s, found, how == HSET_ONLY_NEW)));
	return REPLY_WRITTEN(m, c, s, status,
			     how == HSET_OK ? reply_ok(m, c)
					    : reply_header(m, c, ':', c->elements));
}

/* The number of the field becomes the sum, which is left as text in the context. */
__noinline enum bpfdb_status large_increment(struct context *c NONNULL,
					     struct bpfdb_session *s NONNULL, bool found, s64 by)
{
	s64 value = 0;
	u32 at;

	if (found && !field_integer(s, &c->entry, &value))
		return FOR_THE_DAEMON;
	if (__builtin_add_overflow(value, by, &value))
		return FOR_THE_DAEMON;
	/* By way of memory, as in integer_add(). */
	c->number = value;
	at = integer_write(c->text, &c->text_start, LOAD(c->number));
	return large_put(c, s, BPFDB_TYPE_HASH, found, (u64)integer_text(c->text, at),
			 INTEGER_END - at, false);
}

__noinline enum result large_hincrby(struct sk_msg_md *m, struct context *c NONNULL,
				     struct bpfdb_session *s NONNULL)
{
	bool own = short_needed(s);
	enum result result = large_write_begin(c, own, 3);
	enum bpfdb_status status;
	s64 by;

	if (result == DONE)
		result = key_and_arg(c, s);
	if (result == DONE)
		result = number_next(c);
	if (result != DONE)
		return result;
	by = c->number;
	status = WITHOUT_CONFLICT(own, LARGE_ONCE(c, s, own, BPFDB_TYPE_HASH, found,
						  large_increment(c, s, found, by)));
	return REPLY_WRITTEN(m, c, s, status,
			     reply_text_integer(m, c, c->text_start, INTEGER_END - c->text_start));
}

/* The element comes, if it is not there, and is counted in c->elements. */
__noinline enum bpfdb_status large_add(struct context *c NONNULL, struct bpfdb_session *s NONNULL,
				       bool found)
{
	if (found)
		return BPFDB_FOUND;
	c->elements = 1;
	return large_put(c, s, BPFDB_TYPE_SET, false, 0, 0,
			 key_is_integer(arg_as_key(c), c->arg_len));
}

__noinline enum result large_sadd(struct sk_msg_md *m, struct context *c NONNULL,
				  struct bpfdb_session *s NONNULL)
{
	bool own = short_needed(s);
	enum result result = large_write_begin(c, own, 2);
	enum bpfdb_status status;

	if (result != DONE)
		return result;
	status = WITHOUT_CONFLICT(
		own, LARGE_ONCE(c, s, own, BPFDB_TYPE_SET, found, large_add(c, s, found)));
	return REPLY_WRITTEN(m, c, s, status, reply_header(m, c, ':', c->elements));
}

/* The element goes, if it is there, and is counted in c->elements. The last one is the daemon's: the
 * collection goes with it. */
__noinline enum bpfdb_status large_leave(struct context *c NONNULL, struct bpfdb_session *s NONNULL,
					 bool found)
{
	enum bpfdb_status status;

	if (!found)
		return BPFDB_FOUND;
	c->elements = 1;
	head_loses(&c->head, c->entry.key_len + c->entry.value_len);
	if (!c->head.elements || !table_is_settled(&c->head))
		return FOR_THE_DAEMON;
	status = packed_take(s, &c->entry, BPFDB_TYPE_STRING);
	/* A run without entries is a header of zeros. */
	return status == BPFDB_NOT_FOUND ? bpfdb_value_alloc(s, PACKED_HEADER) : status;
}

/* HDEL, SREM. */
__noinline enum result large_take(struct sk_msg_md *m, struct context *c NONNULL,
				  struct bpfdb_session *s NONNULL, u32 type)
{
	bool own = short_needed(s);
	enum result result = large_write_begin(c, own, 2);
	enum bpfdb_status status;

	if (result != DONE)
		return result;
	status =
		WITHOUT_CONFLICT(own, LARGE_ONCE(c, s, own, type, found, large_leave(c, s, found)));
	return REPLY_WRITTEN(m, c, s, status, reply_header(m, c, ':', c->elements));
}

#endif
