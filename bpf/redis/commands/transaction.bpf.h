/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * BEGIN [READ ONLY], COMMIT, ROLLBACK; and the short transaction that makes a
 * command on several keys atomic when the client has none open.
 */
#ifndef BPFDB_COMMANDS_TRANSACTION_BPF_H
#define BPFDB_COMMANDS_TRANSACTION_BPF_H

#include "../resp_error.bpf.h"

/* BEGIN, COMMIT or ROLLBACK came to `status`; `wrong` says why the session was
 * in no state for it. */
static __always_inline enum result transaction_reply(struct sk_msg_md *m, struct context *c,
						     struct bpfdb_session *s,
						     enum bpfdb_status status,
						     const struct error_text *wrong)
{
	if (status == BPFDB_OK)
		return reply_ok(m, c);
	if (status == BPFDB_WRONG_STATE)
		return reply_error_text(m, c, wrong);
	return reply_error(m, c, s, status);
}

/* Is the next argument this word, given in small letters? */
static __always_inline bool word_next(struct context *c, u64 word, u32 len)
{
	return arg_next(c) == DONE && c->arg_len == len && arg_word(c) == word;
}

static __always_inline enum bpfdb_status begin_kind(struct bpfdb_session *s, bool read_only)
{
	enum bpfdb_status status;

	if (read_only)
		return bpfdb_begin_read_only(s);
	status = bpfdb_begin_interactive(s);
	/* The daemon tries a statement again. */
	if (status == BPFDB_OK)
		s->patient = 1;
	return status;
}

__noinline enum result command_begin(struct sk_msg_md *m, struct context *c NONNULL,
				     struct bpfdb_session *s NONNULL)
{
	const struct error_text *wrong = &error_nested;
	bool read_only = c->argc == 2;
	enum result result = args_check(c, c->argc, 1);
	enum bpfdb_status status;

	if (result != DONE)
		return result;
	if (c->argc &&
	    (!read_only || !word_next(c, WORD("read"), 4) || !word_next(c, WORD("only"), 4)))
		return PASS_TO_DAEMON;
	room_until(c, c->at);
	status = begin_kind(s, read_only);
	/* The client may not know that its transaction is over; this one is another. */
	if (status == BPFDB_TIMED_OUT && bpfdb_rollback(s) == BPFDB_OK)
		status = begin_kind(s, read_only);
	if (s->state == BPFDB_TXN_FAILED)
		wrong = &error_failed;
	return transaction_reply(m, c, s, status, wrong);
}

__noinline enum result command_commit(struct sk_msg_md *m, struct context *c NONNULL,
				      struct bpfdb_session *s NONNULL)
{
	if (c->argc)
		return PASS_TO_DAEMON;
	room_until(c, c->at);
	return transaction_reply(m, c, s, bpfdb_commit(s), &error_no_transaction);
}

__noinline enum result command_rollback(struct sk_msg_md *m, struct context *c NONNULL,
					struct bpfdb_session *s NONNULL)
{
	if (c->argc)
		return PASS_TO_DAEMON;
	room_until(c, c->at);
	return transaction_reply(m, c, s, bpfdb_rollback(s), &error_no_transaction);
}

/* ---- Short transactions -------------------------------------------------- */

enum short_kind { SHORT_WRITE, SHORT_READ };

/* Does a command need a transaction of its own? Not inside one. */
static __always_inline bool short_needed(const struct bpfdb_session *s)
{
	return s->state == BPFDB_TXN_NONE || s->state == BPFDB_TXN_FINISHING;
}

static __always_inline enum bpfdb_status short_begin(struct bpfdb_session *s, bool needed,
						     enum short_kind kind)
{
	if (!needed)
		return BPFDB_OK;
	return kind == SHORT_READ ? bpfdb_begin_read_only(s) : bpfdb_begin(s);
}

/* Commits if the command came to an outcome, else rolls back: the outcome of
 * the whole. */
static __always_inline enum bpfdb_status short_end(struct bpfdb_session *s, bool needed,
						   enum bpfdb_status status)
{
	if (!needed)
		return status;
	if (status < BPFDB_FIRST_ERROR) {
		status = TXN_END_OWN(s, bpfdb_commit);
		/* It would stay open: the daemon does all of it again. */
		if (likely(!BPFDB_REFUSED_BY_LOG(status)))
			return status;
	}
	TXN_END_OWN(s, bpfdb_rollback);
	return status;
}

/*
 * The outcome of `once`, done again as long as it is a conflict. Not in the client's
 * transaction, which a conflict has failed.
 */
#define WITHOUT_CONFLICT(own, once)                                                                \
	({                                                                                         \
		enum bpfdb_status outcome_ = BPFDB_CONFLICT;                                       \
		repeat(try_, BPFDB_COMMAND_TRIES)                                                  \
		{                                                                                  \
			outcome_ = (once);                                                         \
			if (outcome_ != BPFDB_CONFLICT || !(own))                                  \
				break;                                                             \
		}                                                                                  \
		outcome_;                                                                          \
	})

/*
 * Writes to the collection whose key comes first in the request, at `first`: does `each` so many
 * times, as long as that is OK. It is what WITHOUT_CONFLICT() does again: elements are counted from
 * 0 on. With one short_end() for both ways the verifier walks twice as much.
 */
#define EACH_ELEMENT(c, s, own, first, times, each)                                                \
	({                                                                                         \
		enum bpfdb_status all_ = short_begin(s, own, SHORT_WRITE);                         \
		(c)->at = (first);                                                                 \
		(c)->elements = 0;                                                                 \
		if (all_ == BPFDB_OK && key_next(c, s) != DONE)                                    \
			all_ = BPFDB_BAD_REQUEST;                                                  \
		if (all_ != BPFDB_OK) {                                                            \
			all_ = short_end(s, own, all_);                                            \
		} else {                                                                           \
			repeat(i_, times)                                                          \
			{                                                                          \
				all_ = (each);                                                     \
				if (all_ != BPFDB_OK)                                              \
					break;                                                     \
			}                                                                          \
			all_ = short_end(s, own, all_);                                            \
		}                                                                                  \
		all_;                                                                              \
	})

/* The end of a command that has written: its Error, or `reply`, behind all of the request. */
#define REPLY_WRITTEN(m, c, s, status, reply)                                                      \
	({                                                                                         \
		enum result written_;                                                              \
		(c)->at = (c)->end;                                                                \
		room_until(c, (c)->request);                                                       \
		if ((status) >= BPFDB_FIRST_ERROR) {                                               \
			written_ = reply_error(m, c, s, status);                                   \
		} else {                                                                           \
			room_until(c, (c)->at);                                                    \
			written_ = (reply);                                                        \
		}                                                                                  \
		written_;                                                                          \
	})

/*
 * The result of `once`, which reads, done again as long as it is AGAIN: writers replace the
 * value whenever it is copied. The last time it reads by a snapshot. PASS_TO_DAEMON, should
 * that not be possible: the daemon is more patient.
 */
#define WHILE_SPOILED(s, once)                                                                     \
	({                                                                                         \
		bool by_snapshot_ = false;                                                         \
		enum result result_ = AGAIN;                                                       \
		repeat(try_, BPFDB_COPY_TRIES + 1)                                                 \
		{                                                                                  \
			if (unlikely(try_ == BPFDB_COPY_TRIES))                                    \
				by_snapshot_ = read_takes_snapshot(s);                             \
			result_ = (once);                                                          \
			if (result_ != AGAIN)                                                      \
				break;                                                             \
		}                                                                                  \
		if (unlikely(by_snapshot_))                                                        \
			TXN_END_OWN(s, bpfdb_commit);                                              \
		result_ == AGAIN ? PASS_TO_DAEMON : result_;                                       \
	})

#endif
