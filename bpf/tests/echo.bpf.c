// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Not a test by itself: another front end of the transport, for
 * crates/bpfdb-tests/tests/it/transport.rs, and with it the shortest that there can be.
 *
 *   <length, 4 bytes, the most significant first><length bytes>
 *
 * comes back as it is. The kernel answers up to ECHO_MAX bytes; longer ones are for user space.
 */
#include <bpfdb/bpfdb.bpf.h>
#include <bpf/bpf_endian.h>

#include "../net/context_words.bpf.h"

struct context {
	CONTEXT_WORDS;
};

#include "../net/programs.bpf.h"
#include "../net/room.bpf.h"

#define HEADER 4
#define ECHO_MAX 512

static __always_inline u32 front_end_sessions(void)
{
	return BPFDB_SESSION_USER;
}

static __always_inline void front_end_opened(struct bpfdb_connection *c)
{
}

static __always_inline void front_end_begin(struct context *c,
					    const struct bpfdb_connection *connection)
{
}

static __always_inline bool front_end_is_amid(const struct context *c)
{
	return false;
}

/* The reply is the request: its bytes are in the window, and go to where replies are. */
static __always_inline enum result echo(struct sk_msg_md *m, struct context *c, u32 len)
{
	const u8 *from = window_at(c, c->at, len);

	c->at += len;
	room_until(c, c->at);
	if (!room_make(m, c, len < 8 ? 8 : len))
		return NO_ROOM;
	if (len < 8) {
		u8 *to = ROOM(m, 8);

		if (!to)
			return NO_ROOM;
		*(u64 *)to = load8(from);
	} else if (!packet_copy(m->data, m->data_end, from, len, HEADER + ECHO_MAX)) {
		return NO_ROOM;
	}
	c->out += len;
	return DONE;
}

static __always_inline enum result front_end_request(struct sk_msg_md *m, struct context *c,
						     struct bpfdb_session *s)
{
	u32 len;

	if (c->at + HEADER > c->size) {
		c->complete_size = c->at + HEADER;
		return INCOMPLETE;
	}
	len = bpf_ntohl((u32)load8(window_at(c, c->at, HEADER)));
	if (len > ECHO_MAX)
		return PASS_TO_DAEMON;
	if (c->at + HEADER + len > c->size) {
		c->complete_size = c->at + HEADER + len;
		return INCOMPLETE;
	}
	return echo(m, c, HEADER + len);
}

static __always_inline void front_end_answered(struct context *c)
{
}

static __always_inline bool front_end_run_is_over(const struct context *c)
{
	return false;
}

static __always_inline enum result front_end_end(struct context *c,
						 struct bpfdb_connection *connection,
						 struct bpfdb_session *s, enum result result)
{
	return result;
}

static __always_inline void front_end_passes(struct sk_msg_md *m, struct context *c)
{
}

/* It keeps none. */
static __always_inline int front_end_parks(struct __sk_buff *skb)
{
	return 0;
}

static __always_inline bool front_end_is_sender(void)
{
	return false;
}

static __always_inline int front_end_sends(struct sk_msg_md *m)
{
	return SK_DROP;
}

static __always_inline void front_end_arrives(struct __sk_buff *skb)
{
}

static __always_inline void front_end_passed(struct bpfdb_connection *c)
{
}

NET_PROGRAMS(echo)

char LICENSE[] SEC("license") = "Dual MIT/GPL";
