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
static __always_inline u64 server_step(u64 w, const struct bpfdb_proxy_server *server, u32 s)
{
	u64 next = word_with(w, BPFDB_PROXY_LINKED, s), due = word_due(w);

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

/* Changes the client's word; the new one, or 0: the process has the client. */
__noinline u64 server_settle(u32 slot, u32 s)
{
	struct bpfdb_proxy_client *client = client_at(slot);
	struct bpfdb_proxy_server *server = server_at(s);
	u32 i = 0;

	while (i++ < TRIES && can_loop) {
		u64 w = LOAD(client->word), next;

		if (!word_serves(w, s))
			return 0;
		next = server_step(w, server, s);
		if (CAS(&client->word, w, next) == w)
			return next;
	}
	/* Its client changes the word without end: the process sorts it out. */
	FETCH_OR(&client->word, BPFDB_PROXY_SLOW);
	return 0;
}

static __always_inline int from_backend(struct sk_msg_md *m, struct pg_socket *data)
{
	u32 s = data->place.index, n = m->size, owner, slot;
	struct bpfdb_proxy_server *server = server_at(s);
	struct bpfdb_proxy_stream before;
	struct bpfdb_proxy_client *client;
	u64 w;

	if (server->generation != data->place.generation || !server->active)
		return SK_PASS;
	STORE(server->socket, (u64)own_tcp(m));
	owner = LOAD(server->owner);
	slot = owner - 1;
	client = client_at(slot);
	server->unread = 0;
	if (!owner || owner == BPFDB_PROXY_PROCESS || !word_serves(LOAD(client->word), s))
		return pass(m, &server->end);
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
	w = replies_walk(m, s, n) ? server_settle(slot, s) : 0;
	if (unlikely(!w)) {
		server->stream = before;
		FETCH_OR(&client->word, BPFDB_PROXY_SLOW);
		return pass(m, &server->end);
	}
	server->replies += server->readies;
	client->unread += n;
	if (word_state(w) == BPFDB_PROXY_RESTING)
		server_rests(server, s);
	apply(m, n);
	return to_end(m, &client->end);
}

#endif
