/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Errors of the engine as replies. The daemon makes the same texts from the
 * same list (crates/bpfdb-server/src/reply.rs). */
#ifndef BPFDB_RESP_ERROR_BPF_H
#define BPFDB_RESP_ERROR_BPF_H

#include "resp_reply.bpf.h"

#define ERROR_TEXT_MAX 160

/* Not an outcome of the engine: nothing was changed, and the daemon is to execute the
 * command from its beginning. An Error to those who compare: it rolls back. */
#define FOR_THE_DAEMON (BPFDB_STATUS_COUNT + 1)

struct error_text {
	u32 kind; /* enum bpfdb_error_reply */
	u32 len;
	char bytes[ERROR_TEXT_MAX];
};

#define ERROR_TEXT(kind, text)                                                                     \
	{BPFDB_ERROR_REPLY_##kind, sizeof("-" text "\r\n") - 1, "-" text "\r\n"}
#define ERROR_ROW(name, value, text, action) [value] = ERROR_TEXT(ERR, "ERR " text "; " action),

static const struct error_text error_texts[64] = {BPFDB_STATUS_LIST(ERROR_ROW)};

static const struct error_text error_conflict = ERROR_TEXT(CONFLICT, BPFDB_REPLY_CONFLICT);
static const struct error_text error_oom = ERROR_TEXT(OOM, BPFDB_REPLY_OOM);
static const struct error_text error_failed = ERROR_TEXT(ERR, BPFDB_REPLY_FAILED);
static const struct error_text error_nested = ERROR_TEXT(ERR, BPFDB_REPLY_NESTED);
static const struct error_text error_no_transaction = ERROR_TEXT(ERR, BPFDB_REPLY_NO_TRANSACTION);

_Static_assert(BPFDB_STATUS_COUNT <= 64, "a mask bounds the table of texts");

static __always_inline void count_error_reply(const struct bpfdb_connection *c, u32 kind)
{
	u32 command = c->command;

	if (kind < BPFDB_ERROR_REPLY_COUNT)
		COUNT_REQUESTS(error_replies[kind]);
	if (command < BPFDB_COMMAND_COUNT)
		COUNT_REQUESTS(commands_failed[command]);
}

static __always_inline int reply_error_text(struct sk_msg_md *m, struct bpfdb_connection *c,
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

/* The reply to an Error of a statement; SLOW if that is the daemon's. */
__noinline int reply_error(struct sk_msg_md *m, struct bpfdb_connection *c NONNULL,
			   struct bpfdb_session *s NONNULL, u32 status)
{
	const struct error_text *text = &error_texts[status & 63];
	bool failed = s->state == BPFDB_TXN_FAILED;

	/* Those of MULTI … EXEC have words of their own. */
	if (status == FOR_THE_DAEMON || c->block)
		return SLOW;
	/* Unless it failed a transaction, the daemon tries again: it can wait for
	 * memory, for another processor that was interrupted in an operator or in the
	 * reaper, or for the end of snapshots. */
	if (!failed && (status == BPFDB_MEMORY_PENDING || status == BPFDB_CONFLICT ||
			status == BPFDB_VERSIONS_FULL || status == BPFDB_SESSION_BUSY))
		return SLOW;
	if (status == BPFDB_CONFLICT)
		text = &error_conflict;
	else if (status == BPFDB_OUT_OF_MEMORY)
		text = &error_oom;
	else if (status == BPFDB_WRONG_STATE && failed)
		text = &error_failed;
	return reply_error_text(m, c, text);
}

#endif
