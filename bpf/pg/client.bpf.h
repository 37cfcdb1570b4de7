/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* A client on this machine sends: in its own send(). */
#ifndef BPFDB_PG_CLIENT_BPF_H
#define BPFDB_PG_CLIENT_BPF_H

#include "ends.bpf.h"
#include "pool.bpf.h"
#include "requests.bpf.h"

/* The verdict is for n bytes of a message. What an earlier run has said would hold for the next
 * messages, so every run says it. */
static __always_inline void apply(struct sk_msg_md *m, u32 n)
{
	bpf_msg_apply_bytes(m, n < m->size ? n : 0);
}

/* Through TCP. Not SK_PASS: the kernel (6.18) keeps that verdict for the next message if TCP could
 * not take this one whole. */
static __always_inline int pass(struct sk_msg_md *m, struct bpfdb_proxy_end *own)
{
	bpf_msg_apply_bytes(m, 0);
	return bpf_msg_redirect_hash(m, &ends, own, 0);
}

static __always_inline int to_end(struct sk_msg_md *m, struct bpfdb_proxy_end *end)
{
	return bpf_msg_redirect_hash(m, &ends, end, BPF_F_INGRESS);
}

/* Is nothing of the client under way through TCP, either way? */
static __always_inline bool is_quiet(struct sk_msg_md *m, const struct pg_socket *data,
				     const struct bpfdb_proxy_client *client)
{
	struct tcp_sock *tcp = own_tcp(m);

	return tcp && tcp->write_seq - data->first_sent == (u32)LOAD(client->received) &&
	       tcp->rcv_nxt - data->first_received == (u32)LOAD(client->sent) &&
	       tcp->copied_seq == tcp->rcv_nxt;
}

/* What pool_take returns besides a server plus 1, and 0: the one that is free lacks a statement. */
#define LACKS (BPFDB_PROXY_SERVERS + 1)

/* A server for a client that is IDLE, whose word becomes `next` with that: its number plus 1. */
static __always_inline u32 pool_take(struct bpfdb_proxy_client *client, u32 slot, u64 w, u64 next)
{
	bool has_all = true;
	struct bpfdb_proxy_server *server;
	u32 s = server_take(client->pool, slot + 1);

	if (!s || s == BPFDB_PROXY_BUSY)
		return 0;
	server = server_at(--s);
	if (likely(server->digest == client->digest) && (has_all = has_statements(s, slot)) &&
	    CAS(&client->word, w, word_with(next, BPFDB_PROXY_LINKED, s)) == w)
		return s + 1;
	STORE(server->owner, 0);
	server_rests(s);
	return has_all ? 0 : LACKS;
}

/* Keeps a request in the kernel. */
static __always_inline bool client_park(struct sk_msg_md *m, struct bpfdb_proxy_client *client,
					u32 slot)
{
	struct parking *parking = bpf_map_lookup_elem(&parked, &slot);
	const struct sk_msg *message = bpf_cast_to_kern_ctx(m);
	u64 n = m->size;

	if (!parking || !n)
		return false;
	/* clang would make one comparison of both, of n - 1: the verifier of 6.12 would have no bound
	 * of n. */
	OPAQUE(n);
	/* Of a message that was redirected in part nothing may be taken out to the last byte: the
	 * kernel (6.18) would redirect the empty rest, and its reader gets EFAULT. */
	if (n > BPFDB_PROXY_PARKED_MAX - 8 || message->sk_redir)
		return false;
	if (bpf_probe_read_kernel(parking->bytes, n, m->data))
		return false;
	client->parked = n;
	return true;
}

/*
 * A client whose request is parked waits, unless a server is free by now: then it is IDLE again, or has
 * that server. The set first, then the look: a program that frees a server does it the other way
 * round.
 */
static __always_inline bool client_wait(struct bpfdb_proxy_client *client, u32 slot, u64 w,
					u64 next)
{
	struct bpfdb_proxy_pool *pool = pool_at(client->pool);
	u64 waits = word_with(next, BPFDB_PROXY_WAITING, 0);

	if (CAS(&client->word, w, waits) != w)
		return false;
	client_list(pool, slot);
	if (!some_are_free(pool) && LOAD(pool->is_full))
		return true;
	return CAS(&client->word, waits, w) != waits;
}

/* From ROUTE_SERVER on: the number of the server. */
enum route { ROUTE_SLOW, ROUTE_PARKED, ROUTE_SERVER };

/*
 * What becomes of a message that so many ReadyForQuery messages answer. The server is the one of the word that was changed: read
 * again, the word may be of a client that was closed meanwhile, and name another's server.
 */
__noinline int client_route(struct sk_msg_md *m, u32 slot, u32 due)
{
	struct bpfdb_proxy_client *client = client_at(slot);
	u32 i = 0, n = m->size, s;

	while (i++ < TRIES && can_loop) {
		u64 w = LOAD(client->word), next = word_asked(w, client, due);
		struct bpfdb_proxy_server *server = server_at(word_server(w));

		if (w & BPFDB_PROXY_SLOW)
			return ROUTE_SLOW;
		if (!next) {
			COUNT_PG(slow_statement);
			return ROUTE_SLOW;
		}
		switch (word_state(w)) {
		case BPFDB_PROXY_IDLE:
			s = pool_take(client, slot, w, next);
			if (s == LACKS) {
				COUNT_PG(slow_statement);
				return ROUTE_SLOW;
			}
			if (s)
				return ROUTE_SERVER + s - 1;
			if (!LOAD(pool_at(client->pool)->is_full) ||
			    !client_park(m, client, slot)) {
				COUNT_PG(slow_server);
				return ROUTE_SLOW;
			}
			if (client_wait(client, slot, w, next))
				return ROUTE_PARKED;
			client->parked = 0;
			continue;
		case BPFDB_PROXY_LINKED:
			if (server->unread + n > UNREAD_LOOK ||
			    word_due(w) + due > BPFDB_PROXY_DUE_MAX / 2) {
				COUNT_PG(slow_unread);
				return ROUTE_SLOW;
			}
			break;
		case BPFDB_PROXY_RESTING: break;
		default: return ROUTE_SLOW;
		}
		if (!has_statements(word_server(w), slot)) {
			COUNT_PG(slow_statement);
			return ROUTE_SLOW;
		}
		next = word_with(next, BPFDB_PROXY_LINKED, word_server(w));
		if (CAS(&client->word, w, next) == w)
			return ROUTE_SERVER + word_server(w);
	}
	return ROUTE_SLOW;
}

/* Does the next request of a client begin a transaction? `w`: the client's word before it. */
static __always_inline bool word_begins(u64 w)
{
	return word_state(w) != BPFDB_PROXY_LINKED || !(w & (BPFDB_PROXY_DUE | BPFDB_PROXY_OPEN));
}

/*
 * A copy of a request of n bytes, which the process gets when it is submitted; NULL: there is no room, or the
 * request is too long. `w`: its client's word. It is submitted before the request is brought: so it
 * is there before the reply, and before whatever the client sends next.
 */
static __always_inline struct bpfdb_proxy_copy *request_copy(const void *bytes, u64 n, u32 slot,
							     u64 w, bool begins)
{
	struct bpfdb_proxy_copy *copy;

	OPAQUE(n);
	if (n > BPFDB_PROXY_COPY_MAX)
		return NULL;
	if (likely(n <= BPFDB_PROXY_COPY_SHORT))
		copy = bpf_ringbuf_reserve(&copies, COPY_SIZE(BPFDB_PROXY_COPY_SHORT), 0);
	else
		copy = bpf_ringbuf_reserve(&copies, COPY_SIZE(BPFDB_PROXY_COPY_MAX), 0);
	if (!copy)
		return NULL;
	copy->client = slot;
	copy->generation = word_generation(w);
	copy->length = n;
	copy->begins = begins;
	copy->lost = client_at(slot)->lost;
	if (bpf_probe_read_kernel(copy->bytes, n, bytes)) {
		bpf_ringbuf_discard(copy, 0);
		return NULL;
	}
	return copy;
}

/* Does a record wake the process? */
static __always_inline u64 copy_flags(const struct bpfdb_proxy_client *client)
{
	return LOAD(pool_at(client->pool)->copies_unwoken) ? BPF_RB_NO_WAKEUP : 0;
}

/* Its request goes to a server. */
static __always_inline void copy_submit(struct bpfdb_proxy_client *client,
					struct bpfdb_proxy_copy *copy)
{
	/* First: behind a record that is not submitted yet the process does not see it. */
	STORE(client->copies, client->copies + 1);
	bpf_ringbuf_submit(copy, copy_flags(client));
}

/* A transaction begins of which a copy finds room, or none: then its mirror gets nothing of it. So
 * no client waits for a process that stands still. */
static __always_inline void copies_begin(struct bpfdb_proxy_client *client, bool has_room)
{
	client->loses = !has_room;
	if (!has_room)
		STORE(client->lost, client->lost + 1);
}

static __always_inline u64 since(u64 begun, u64 now)
{
	return begun && now > begun ? now - begun : 0;
}

/* A server gets a request of n bytes. */
static __always_inline void request_begins(struct bpfdb_proxy_server *server, u32 n, u64 now)
{
	server->traffic.received += n;
	if (!server->asked)
		server->asked = now;
	if (!server->begun)
		server->begun = now;
}

static __always_inline int from_client(struct sk_msg_md *m, struct pg_socket *data)
{
	u32 slot = data->place.index, n = m->size;
	struct bpfdb_proxy_client *client = client_at(slot);
	u64 w = LOAD(client->word);
	struct bpfdb_proxy_copy *copy = NULL;
	struct bpfdb_proxy_server *server;
	bool begins, is_copied;
	int due, route;
	u64 now;

	if (word_generation(w) != data->place.generation || word_state(w) == BPFDB_PROXY_CLOSED)
		return SK_PASS;
	if (w & BPFDB_PROXY_SLOW)
		return pass(m, &client->end);
	/* The names of what is parked are in use. */
	if (word_state(w) == BPFDB_PROXY_WAITING || word_state(w) == BPFDB_PROXY_LINKING)
		goto slow;
	if (n > CHUNK || bpf_msg_pull_data(m, 0, n, 0))
		goto slow;
	due = requests_due(m, slot, n);
	if (!due) {
		COUNT_PG(slow_request);
		goto slow;
	}
	if (unlikely(!is_quiet(m, data, client))) {
		COUNT_PG(slow_order);
		goto slow;
	}
	begins = word_begins(w);
	is_copied = LOAD(pool_at(client->pool)->is_mirrored) && (begins || !client->loses);
	if (unlikely(is_copied)) {
		copy = request_copy(m->data, n, slot, w, begins);
		if (!copy && (!begins || n > BPFDB_PROXY_COPY_MAX)) {
			COUNT_PG(slow_mirror);
			goto slow;
		}
	}
	client->unread = 0;
	now = bpf_ktime_get_ns();
	STORE(client->asked, now);
	STORE(client->socket, (u64)own_tcp(m));
	route = client_route(m, slot, due);
	if (copy && route < ROUTE_SERVER) {
		/* It is made anew when what is parked goes to a server. */
		bpf_ringbuf_discard(copy, copy_flags(client));
	} else if (unlikely(is_copied) && route >= ROUTE_SERVER) {
		if (begins)
			copies_begin(client, copy);
		if (copy)
			copy_submit(client, copy);
	}
	if (route == ROUTE_SLOW)
		goto slow;
	client->requests += due;
	if (route == ROUTE_PARKED) {
		COUNT_PG(waits);
		/* Taken out; a message of no bytes is passed as sent. */
		bpf_msg_apply_bytes(m, 0);
		return bpf_msg_pop_data(m, 0, n, 0) ? SK_DROP : SK_PASS;
	}
	server = server_at(route - ROUTE_SERVER);
	if (unlikely(!names_write(m, slot)))
		return SK_DROP;
	server->unread += n;
	request_begins(server, n, now);
	bpf_msg_apply_bytes(m, 0);
	return to_end(m, &server->end);
slow:
	/* If the process has closed it meanwhile, its place is free. */
	FETCH_OR(&client->word, BPFDB_PROXY_SLOW);
	return pass(m, &client->end);
}

#endif
