/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Errors of the engine as replies. The daemon makes the same texts from the
 * same list (crates/bpfdb-server/src/protocol/reply.rs). */
#ifndef BPFDB_RESP_ERROR_BPF_H
#define BPFDB_RESP_ERROR_BPF_H

#include "../values/integer.bpf.h"
#include "../values/string.bpf.h"
#include "resp_reply.bpf.h"

#include "../net/connection.bpf.h"

#define ERROR_TEXT_MAX 160

/* Not an outcome of the engine: nothing was changed, and the daemon is to execute the
 * command from its beginning. */
#define FOR_THE_DAEMON LEFT_TO_USER_SPACE

struct error_text {
	u32 kind; /* enum bpfdb_error_reply */
	u32 len;
	char bytes[ERROR_TEXT_MAX];
};

#define ERROR_TEXT(kind, text)                                                                     \
	{BPFDB_ERROR_REPLY_##kind, sizeof("-" text "\r\n") - 1, "-" text "\r\n"}
#define ERROR_ROW(name, value, text, action) [value] = ERROR_TEXT(ERR, "ERR " text "; " action),

static const struct error_text error_texts[64] = {BPFDB_STATUS_LIST(ERROR_ROW)};

#define CONFLICT_ROW(name, value, text)                                                            \
	[value] = ERROR_TEXT(CONFLICT, "CONFLICT " text BPFDB_REPLY_CONFLICT_ACTION),

static const struct error_text conflict_texts[8] = {BPFDB_CONFLICT_LIST(CONFLICT_ROW)};
static const struct error_text error_oom = ERROR_TEXT(OOM, BPFDB_REPLY_OOM);
static const struct error_text error_wrong_type = ERROR_TEXT(WRONGTYPE, BPFDB_REPLY_WRONG_TYPE);
static const struct error_text error_failed = ERROR_TEXT(ERR, BPFDB_REPLY_FAILED);
static const struct error_text error_nested = ERROR_TEXT(ERR, BPFDB_REPLY_NESTED);
static const struct error_text error_no_transaction = ERROR_TEXT(ERR, BPFDB_REPLY_NO_TRANSACTION);

_Static_assert(BPFDB_STATUS_COUNT <= 64, "a mask bounds the table of texts");
_Static_assert(BPFDB_CONFLICT_COUNT <= 8, "a mask bounds the table of texts");

static __always_inline void count_error_reply(const struct context *c, u32 kind)
{
	u32 command = c->own.command;

	/* A copy: what is compared is what is used, and not read again (clang 22). */
	OPAQUE(kind);
	if (kind < BPFDB_ERROR_REPLY_COUNT)
		COUNT_REQUESTS(error_replies[kind]);
	if (command < BPFDB_COMMAND_COUNT)
		COUNT_REQUESTS(commands_failed[command]);
}

static __always_inline enum result reply_error_text(struct sk_msg_md *m, struct context *c,
						    const struct error_text *text)
{
	u32 len = text->len;
	u8 *p;

	if (len < 8 || len > ERROR_TEXT_MAX || !room_make(m, c, len))
		return NO_ROOM;
	p = (u8 *)m->data;
	if (!packet_copy(p, m->data_end, (const u8 *)text->bytes, len, ERROR_TEXT_MAX))
		return NO_ROOM;
	c->out += len;
	count_error_reply(c, text->kind);
	return DONE;
}

/* The client whose connection has this session; 0: none. */
static __always_inline u64 client_of(u32 session)
{
	struct bpfdb_session *holder = bpfdb_session(session);
	struct bpfdb_connection *connection = bpf_map_lookup_elem(&connections, &session);
	u64 cookie;

	if (!holder || !connection || holder->kind != BPFDB_SESSION_REDIS)
		return 0;
	cookie = LOAD(connection->cookie);
	return cookie & BPFDB_COOKIE_RETIRED ? 0 : cookie;
}

#define HOLDER_TEXT BPFDB_REPLY_CONFLICT_HOLDER
#define HOLDER_TEXT_LEN (sizeof(HOLDER_TEXT) - 1)

/* `; held by client <id>\r\n` at the end of the context's text; where it begins. */
static __always_inline u32 holder_format(struct context *c, u64 client)
{
	u32 start = sizeof(c->text);

	c->text[--start] = '\n';
	c->text[--start] = '\r';
	start = digits_write(c->text, sizeof(c->text), start, client);
	for (u32 i = 0; i < HOLDER_TEXT_LEN; i++)
		c->text[--start & (sizeof(c->text) - 1)] = HOLDER_TEXT[HOLDER_TEXT_LEN - 1 - i];
	return start;
}

_Static_assert(HOLDER_TEXT_LEN + INTEGER_MAX_LEN + 2 <= sizeof(((struct context *)0)->text),
	       "the text of a holder fits the context's");

/* Replaces the end of the line that was replied last by the holder of the key. */
static __always_inline enum result reply_holder(struct sk_msg_md *m, struct context *c, u64 client)
{
	u64 start = holder_format(c, client);
	u32 len;

	OPAQUE(start);
	start &= sizeof(c->text) - 1;
	len = sizeof(c->text) - start;
	c->out -= 2;
	if (!room_make(m, c, len) ||
	    !packet_copy(m->data, m->data_end, c->text + start, len, sizeof(c->text)))
		return NO_ROOM;
	c->out += len;
	return DONE;
}

/* CONFLICT in a transaction, which has failed: why, and which client held the lock. */
static __always_inline enum result reply_conflict(struct sk_msg_md *m, struct context *c,
						  struct bpfdb_session *s)
{
	u32 out = c->out;
	u64 client = s->conflict_with ? client_of(s->conflict_with - 1) : 0;
	u32 why = LOAD(s->conflict) & 7;
	enum result result = reply_error_text(m, c, &conflict_texts[why]);

	if (result != DONE)
		return result;
	if (client && reply_holder(m, c, client) != DONE) {
		/* What the end of the line is by now is not known. */
		c->out = out;
		return NO_ROOM;
	}
	if (why < BPFDB_CONFLICT_COUNT)
		COUNT_REQUESTS(conflicts[why]);
	return DONE;
}

/* Lately there was nothing to evict: the daemon looks again. And while pages of the index come and go,
 * one may be crowded for a moment. */
static __always_inline bool is_to_evict(u32 status)
{
	return (status == BPFDB_OUT_OF_MEMORY || status == BPFDB_INDEX_CROWDED) &&
	       LOAD(engine.eviction);
}

/* The reply to an Error of a statement; PASS_TO_DAEMON if that is the daemon's. */
__noinline enum result reply_error(struct sk_msg_md *m, struct context *c NONNULL,
				   struct bpfdb_session *s NONNULL, u32 status)
{
	const struct error_text *text = &error_texts[status & 63];
	bool failed = s->state == BPFDB_TXN_FAILED;

	/* Those of MULTI … EXEC have words of their own. */
	if (status == FOR_THE_DAEMON || c->block)
		return PASS_TO_DAEMON;
	/* Unless it failed a transaction, the daemon tries again: it can wait for
	 * memory, for another processor that was interrupted in an operator or in the
	 * reaper, or for the end of snapshots. */
	if (!failed && (status == BPFDB_MEMORY_PENDING || is_to_evict(status) ||
			BPFDB_REFUSED_BY_LOG(status) || status == BPFDB_CONFLICT ||
			status == BPFDB_VERSIONS_FULL || status == BPFDB_SESSION_BUSY))
		return PASS_TO_DAEMON;
	if (status == BPFDB_CONFLICT)
		return reply_conflict(m, c, s);
	if (status == BPFDB_OUT_OF_MEMORY)
		text = &error_oom;
	else if (status == BPFDB_WRONG_TYPE)
		text = &error_wrong_type;
	else if (status == BPFDB_WRONG_STATE && failed)
		text = &error_failed;
	return reply_error_text(m, c, text);
}

#endif
