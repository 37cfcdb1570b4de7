/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The programs by which a GET of a cold value is answered without the daemon (tier/park.bpf.h, net/park.bpf.h):
 *
 *   redis_verdict ──► redis_park       a segment is one GET: its value is cold, and the read begins
 *   redis_completed                    the tracepoint of io_uring: the read has ended, the reply is to be sent
 *   redis_answer ──► redis_sent        io_uring sends it
 *
 * 1. A client is answered so only if values may be read for it (may_prefetch), and if its request is the plain form of GET.
 * 2. What was read lately is the daemon's to read: it brings the value back to memory.
 * 3. A connection whose requests find no cold value is not looked at for long: `eager` of its seat.
 */
#ifndef BPFDB_REDIS_PARK_BPF_H
#define BPFDB_REDIS_PARK_BPF_H

#include "answer.bpf.h"
#include "prefetch.bpf.h"
#include "../net/park.bpf.h"
#include "../tier/park.bpf.h"

_Static_assert(BPFDB_SEAT_REQUEST <= WINDOW, "a window has all of a request");

/* ---- A segment ----------------------------------------------------------- */

/* The segment is one GET, whose key is in the session then. */
static __always_inline bool segment_is_get(struct context *c, struct bpfdb_session *s)
{
	c->at = 0;
	return request_name(c) == DONE && c->name == NAME_OF(GET) && c->argc == 1 &&
	       arg_next(c) == DONE && c->at == c->size && arg_to_key(c, s) == DONE;
}

/* Its value is cold, and not one that comes back to memory: the seat has its place and its key. */
static __always_inline bool segment_find(struct context *c, struct bpfdb_session *s,
					 struct bpfdb_seat *seat)
{
	u32 len;

	if (!segment_is_get(c, s))
		return false;
	if (!seat_find(s, seat)) {
		STORE(seat->eager, LOAD(seat->eager) - 1);
		return false;
	}
	STORE(seat->eager, BPFDB_SEAT_EAGER);
	len = seat->key_len;
	OPAQUE(len);
	if (!len || len > BPFDB_KEY_MAX)
		return false;
	bpf_probe_read_kernel(seat->key, len, s->key);
	return !place_was_read(seat->run, seat->offset);
}

static __always_inline bool segment_look_up(struct context *c, struct bpfdb_seat *seat)
{
	int index = bpfdb_session_open(BPFDB_SESSION_USER);
	struct bpfdb_session *s = index >= 0 ? bpfdb_session(index) : NULL;
	bool found;

	if (!s)
		return false;
	found = segment_find(c, s, seat);
	bpfdb_session_close(s);
	return found;
}

static __always_inline void request_keep(const struct context *c, struct bpfdb_seat *seat)
{
	u32 len = c->size;

	OPAQUE(len);
	if (!len || len > BPFDB_SEAT_REQUEST)
		return;
	bpf_probe_read_kernel(seat->request, len, c->window);
	seat->request_len = len;
}

static __always_inline bool segment_begin_read(struct context *c, struct bpfdb_connection *of,
					       u32 number, struct bpfdb_seat *seat)
{
	request_keep(c, seat);
	park_begin(of, c->size);
	if (seat_park(number, seat))
		return true;
	park_undo(of, c->size);
	return false;
}

static __always_inline bool seat_is_ready(const struct bpfdb_seat *seat, u64 cookie)
{
	return LOAD(parking.is_on) && LOAD(parking.is_full) && LOAD(seat->eager) &&
	       seat_state(LOAD(seat->word)) == BPFDB_SEAT_IDLE && LOAD(seat->cookie) == cookie;
}

SEC("sk_skb/verdict")
int redis_park(struct __sk_buff *skb)
{
	u64 cookie = bpf_get_socket_cookie(skb);
	u32 *index = bpf_map_lookup_elem(&cookies, &cookie);
	struct bpfdb_connection *of = index ? connection_at(*index) : NULL;
	u32 number = of ? LOAD(of->seat) - 1 : BPFDB_SEATS;
	struct bpfdb_seat *seat = seat_at(number);
	struct context *c;
	int parked = 0;

	if (!of || !seat || skb->len > BPFDB_SEAT_REQUEST || !seat_is_ready(seat, cookie) ||
	    !segment_may_ask(skb, of) || !park_is_allowed(skb, *index))
		return 0;
	c = context_try(bpf_get_smp_processor_id());
	if (!c)
		return 0;
	if (segment_open(skb, c)) {
		c->own = *(const struct bpfdb_redis_connection *)of->front_end;
		parked = segment_look_up(c, seat) && segment_begin_read(c, of, number, seat);
	}
	context_release(c);
	return parked;
}

/* ---- A reply ------------------------------------------------------------- */

static __always_inline void get_counted(struct bpfdb_seat *seat, struct bpfdb_connection *c)
{
	COUNT_REQUESTS_N(commands[BPFDB_COMMAND_GET], 1);
	STORE(redis_of(c)->command, BPFDB_COMMAND_GET);
	ADD(&parking.answered, 1);
	ADD(&parking.answered_bytes, seat->len);
}

/* What io_uring sends on our own socket: the reply of the seat that this has, or nothing. */
SEC("sk_msg")
int redis_sent(struct sk_msg_md *m)
{
	struct bpf_sock *sk = m->sk;
	struct socket_data *data = sk ? bpf_sk_storage_get(&socket_storage, sk, NULL, 0) : NULL;
	struct bpfdb_connection *c = data && !data->is_client ? connection_at(data->index) : NULL;
	struct bpfdb_seat *seat = c ? seat_at(LOAD(c->seat) - 1) : NULL;
	u64 word;

	if (!c || !seat || LOAD(seat->cookie) != data->cookie)
		return SK_DROP;
	word = LOAD_ACQUIRE(seat->word);
	if (seat_state(word) != BPFDB_SEAT_SENDING)
		return SK_DROP;
	/* They keep what an earlier run said. */
	bpf_msg_apply_bytes(m, 0);
	bpf_msg_cork_bytes(m, 0);
	/* Its completion finds that it was not committed. */
	if (!park_can_commit(m, c, data->cookie, seat->reply_len))
		return SK_DROP;
	get_counted(seat, c);
	park_commit(c, m->size);
	/* Only who closes the connection may have been faster. */
	return seat_move(seat, word, BPFDB_SEAT_IDLE) ? SK_PASS : SK_DROP;
}

/* ---- A completion -------------------------------------------------------- */

static __always_inline void park_completed(const struct completion *completion)
{
	u32 number = completion->user_data & (BPFDB_SEATS - 1);
	struct bpfdb_seat *seat = seat_at(number);
	u32 connection;
	u64 cookie;

	if (!seat)
		return;
	/* Before: afterwards the seat may be another connection's. */
	connection = LOAD(seat->connection);
	cookie = LOAD_ACQUIRE(seat->cookie);
	switch (seat_completed(number, seat, completion)) {
	case PARK_FAILED: park_raise(connection, cookie, BPFDB_CONNECTION_DAEMON); break;
	case PARK_BROKEN: park_raise(connection, cookie, BPFDB_CONNECTION_BROKEN); break;
	case PARK_GOES_ON: break;
	}
}

/* What io_uring has done for any process of the machine. */
SEC("tp_btf/io_uring_complete")
int redis_completed(u64 *ctx)
{
	struct completion completion;

	completion_read(ctx, &completion);
	if (!completion_is_ours(&completion))
		return 0;
	if (completion.user_data == parking.hello)
		bell_completed(&completion);
	else
		park_completed(&completion);
	return 0;
}

#endif
