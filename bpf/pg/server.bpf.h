/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* A database on this machine sends: in its own send(). */
#ifndef BPFDB_PG_SERVER_BPF_H
#define BPFDB_PG_SERVER_BPF_H

#include "client.bpf.h"

/* Does the word say that the server works for this client, within the kernel? */
static __always_inline bool word_serves(u64 w, u32 s)
{
	u32 state = word_state(w);

	return (state == BPFDB_PROXY_LINKED || state == BPFDB_PROXY_LINKING) &&
	       word_server(w) == s && !(w & BPFDB_PROXY_SLOW);
}

/* The client's word after what its server sends. */
static __always_inline u64 server_step(u64 w, const struct bpfdb_proxy_client *client,
				       const struct bpfdb_proxy_server *server, u32 s)
{
	u64 next = word_with(w, BPFDB_PROXY_LINKED, s), due = word_due(w);

	/* The last batch that was sent has the Parse: it is its answer if no other one is due. */
	if (server->parsed && server->parsed == due && w & BPFDB_PROXY_PARSES &&
	    client->parses == 1) {
		next &= ~BPFDB_PROXY_PARSES;
		next |= BPFDB_PROXY_PARSED | BPFDB_PROXY_HAS;
	}
	if (server->readies) {
		due = due > server->readies ? due - server->readies : 0;
		next &= ~(BPFDB_PROXY_DUE | BPFDB_PROXY_OPEN);
		next |= due << BPFDB_PROXY_DUE_SHIFT;
		if (server->status != 'I')
			next |= BPFDB_PROXY_OPEN;
	}
	if (server->leaves_state)
		next |= BPFDB_PROXY_PINNED;
	if (server->slow)
		return next | BPFDB_PROXY_SLOW;
	if (server->ended && !(next & (BPFDB_PROXY_DUE | BPFDB_PROXY_OPEN | BPFDB_PROXY_PINNED)))
		next = word_with(next, BPFDB_PROXY_RESTING, s);
	return next;
}

/* Is a client to be served that waits in the kernel? Those of the process first: they are counted. */
static __always_inline bool is_awaited(u32 number)
{
	const struct bpfdb_proxy_pool *pool = pool_at(number);

	return !LOAD(pool->wanted) && someone_waits(pool);
}

/*
 * Changes the client's word; the new one, or 0: the process has the client. `may_hand`: if a server
 * rests and a client waits, this one stays LINKED until its reply is in its queue.
 */
__noinline u64 server_settle(u32 slot, u32 s, u32 may_hand)
{
	struct bpfdb_proxy_client *client = client_at(slot);
	struct bpfdb_proxy_server *server = server_at(s);
	u32 i = 0;

	while (i++ < TRIES && can_loop) {
		u64 w = LOAD(client->word), next;

		server->stage = 0;
		if (!word_serves(w, s))
			return 0;
		next = server_step(w, client, server, s);
		if (!word_due(next))
			STORE(client->answered, server->answered);
		if (word_state(next) == BPFDB_PROXY_RESTING && may_hand &&
		    is_awaited(server->pool)) {
			server->stage = slot + 1;
			next = word_with(next, BPFDB_PROXY_LINKED, s);
		}
		if (CAS(&client->word, w, next) == w)
			return next;
	}
	server->stage = 0;
	/* Its client changes the word without end: the process sorts it out. */
	FETCH_OR(&client->word, BPFDB_PROXY_SLOW);
	return 0;
}

/*
 * Appends a byte to a reply of n bytes, which are all of the message: so the program runs again when
 * the reply is in its client's queue. The helper inserts before an existing byte, so the last one is
 * doubled.
 */
static __always_inline bool reply_append(struct sk_msg_md *m, u32 n)
{
	u32 last_at = n - 1;
	u8 last, *p;

	if (!message_read(m, last_at, &last, 1) || bpf_msg_push_data(m, last_at, 1, 0) ||
	    bpf_msg_pull_data(m, last_at, n, 0))
		return false;
	p = m->data;
	if (p + 1 > (u8 *)m->data_end)
		return false;
	*p = last;
	return true;
}

static __always_inline int to_nobody(struct sk_msg_md *m)
{
	struct bpfdb_proxy_end sink = {.role = BPFDB_PROXY_SINK};

	COUNT_PG(ungiven);
	return to_end(m, &sink);
}

/*
 * Makes what a client has parked of a message of one byte; how long that is, or 0. How far it has come is
 * in memory: a number that the verifier (6.18) knows is another state in each turn of the loop.
 */
__noinline int parked_into(struct sk_msg_md *m, u32 slot)
{
	struct parking *parking = bpf_map_lookup_elem(&parked, &slot);
	struct bpfdb_proxy_client *client = client_at(slot);
	u64 n = client->parked;
	u8 *p;

	if (!parking || n < 2)
		return 0;
	/* clang would make one comparison of both, of n - 2: the verifier of 6.12 would have no bound
	 * of n. */
	OPAQUE(n);
	if (n > BPFDB_PROXY_PARKED_MAX - 8 || bpf_msg_pull_data(m, 0, 1, 0))
		return 0;
	p = m->data;
	if (p + 1 > (u8 *)m->data_end)
		return 0;
	*p = parking->bytes[(n - 1) & (BPFDB_PROXY_PARKED_MAX - 1)];
	if (bpf_msg_push_data(m, 0, n - 1, 0) || bpf_msg_pull_data(m, 0, n, 0))
		return 0;
	STORE(client->copied, 0);
	while (client->copied < n - 1 && can_loop) {
		u64 at = LOAD(client->copied);

		OPAQUE(at);
		if (at > BPFDB_PROXY_PARKED_MAX - 8)
			return 0;
		p = (u8 *)m->data + at;
		if (at + 8 < n && p + 8 <= (u8 *)m->data_end) {
			*(u64 *)p = *(u64 *)(parking->bytes + at);
			STORE(client->copied, at + 8);
			continue;
		}
		if (p + 1 > (u8 *)m->data_end)
			return 0;
		*p = parking->bytes[at];
		STORE(client->copied, at + 1);
	}
	if (!names_write(m, slot))
		return 0;
	return n;
}

/* What a client has parked begins a transaction, and goes to a server: a copy for the mirror, if there is one. */
__noinline int parked_copy(u32 slot)
{
	struct parking *parking = bpf_map_lookup_elem(&parked, &slot);
	struct bpfdb_proxy_client *client = client_at(slot);
	struct bpfdb_proxy_copy *copy;

	if (likely(!LOAD(pool_at(client->pool)->is_mirrored)) || !parking)
		return 0;
	copy = request_copy(parking->bytes, client->parked, slot, LOAD(client->word), true);
	copies_begin(client, copy);
	if (copy)
		copy_submit(client, copy);
	return 0;
}

/* The second run over a reply, which is in the queue of its client. If that has nothing more to do,
 * the server is the next one's, and the rest of the message becomes the request that is parked. */
static __always_inline int server_next(struct sk_msg_md *m, struct bpfdb_proxy_server *server,
				       u32 s)
{
	struct bpfdb_proxy_client *client = client_at(server->stage - 1), *next;
	u64 w = LOAD(client->word), now;
	u32 found, n;

	server->stage = 0;
	bpf_msg_apply_bytes(m, 0);
	if (!word_serves(w, s) || w & (BPFDB_PROXY_DUE | BPFDB_PROXY_OPEN | BPFDB_PROXY_PINNED) ||
	    CAS(&client->word, w, word_with(w, BPFDB_PROXY_IDLE, 0)) != w)
		return to_nobody(m);
	found = pool_give(s);
	if (!found) {
		STORE(server->owner, 0);
		server_rests(s);
		return to_nobody(m);
	}
	next = client_at(found - 1);
	n = parked_into(m, found - 1);
	if (!n) {
		FETCH_OR(&next->word, BPFDB_PROXY_SLOW | BPFDB_PROXY_BRINGS);
		tell(BPFDB_PROXY_TAKE, found - 1);
		return to_nobody(m);
	}
	parked_copy(found - 1);
	STORE(next->parked, 0);
	now = bpf_ktime_get_ns();
	server->traffic.wait_time += since(LOAD(next->asked), now);
	request_begins(server, n, now);
	server->unread = n;
	COUNT_PG(handed);
	return to_end(m, &server->end);
}

/*
 * What is found in replies ends what they answer. Before the client's word changes: from then on its next
 * request may be here. `more`: replies are to come.
 */
static __always_inline void replies_end(struct bpfdb_proxy_server *server, u64 now, bool more)
{
	if (!server->readies)
		return;
	server->asked = more ? now : 0;
	if (server->idles)
		server->begun = more ? now : 0;
}

static __always_inline int from_backend(struct sk_msg_md *m, struct pg_socket *data)
{
	u32 s = data->place.index, n = m->size, owner, slot;
	struct bpfdb_proxy_server *server = server_at(s);
	struct bpfdb_proxy_stream before;
	struct bpfdb_proxy_client *client;
	u64 w, now, asked, begun;

	if (server->generation != data->place.generation || !server->active)
		return SK_PASS;
	if (server->stage)
		return server_next(m, server, s);
	STORE(server->socket, (u64)own_tcp(m));
	owner = LOAD(server->owner);
	slot = owner - 1;
	client = client_at(slot);
	server->unread = 0;
	if (!owner || owner == BPFDB_PROXY_PROCESS)
		return pass(m, &server->end);
	w = LOAD(client->word);
	if (!word_serves(w, s))
		return pass(m, &server->end);
	if (unlikely(!word_due(w))) {
		/* Said without being asked. What the process has sent its client may not be read yet, and would be
		 * overtaken. */
		COUNT_PG(slow_order);
		FETCH_OR(&client->word, BPFDB_PROXY_SLOW);
		return pass(m, &server->end);
	}
	if (client->unread > UNREAD_LOOK && unread_of(LOAD(client->socket)) > UNREAD_MAX) {
		/* It does not read: through the process it holds up its server. */
		COUNT_PG(slow_unread);
		FETCH_OR(&client->word, BPFDB_PROXY_SLOW);
		return pass(m, &server->end);
	}
	if (n > CHUNK)
		n = CHUNK;
	if (bpf_msg_pull_data(m, 0, n, 0))
		return SK_DROP;
	before = server->stream;
	asked = server->asked;
	begun = server->begun;
	now = bpf_ktime_get_ns();
	w = 0;
	if (replies_walk(m, s, n)) {
		replies_end(server, now, word_due(LOAD(client->word)) > server->readies);
		w = server_settle(slot, s, n == m->size);
	}
	if (unlikely(!w)) {
		server->stream = before;
		server->asked = asked;
		server->begun = begun;
		FETCH_OR(&client->word, BPFDB_PROXY_SLOW);
		return pass(m, &server->end);
	}
	server->traffic.sent += n;
	if (server->readies) {
		server->traffic.queries += server->readies;
		server->traffic.query_time += since(asked, now);
	}
	if (server->idles) {
		server->traffic.transactions += server->idles;
		server->traffic.transaction_time += since(begun, now);
	}
	client->unread += n;
	if (server->stage && !reply_append(m, n)) {
		/* Free, as if no client waited. */
		server->stage = 0;
		if (CAS(&client->word, w, word_with(w, BPFDB_PROXY_RESTING, s)) == w)
			w = word_with(w, BPFDB_PROXY_RESTING, s);
	}
	if (word_state(w) == BPFDB_PROXY_RESTING)
		server_rests(s);
	apply(m, n);
	return to_end(m, &client->end);
}

#endif
