/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The PostgreSQL proxy in the kernel: what its programs share with its process.
 *
 * A client of this machine and a database of this machine both run a program in their own send()
 * (sk_msg), before TCP sees the bytes. A request is redirected into the receive queue of the
 * database's process, a reply into that of the client: neither TCP nor the proxy's process has a
 * part in it.
 *
 *   client: send() ──► pg_send ── request ──► queue of the database's end
 *                        │ cannot be followed
 *                        └──► TCP ──► the process ──► TCP ──► the database's end
 *
 *   database: send() ──► pg_send ── reply ──► queue of the client's end
 *                          │ no client's, or the client is SLOW
 *                          └──► TCP ──► the process ──► TCP ──► the client's end
 *
 * One word for each client decides everything. Every change is one compare-and-swap:
 *
 *   IDLE ── client_route: pool_take ────────────────► LINKED ◄── client_route ──┐
 *    ▲ │                                              ▲ │                       │
 *    │ │ no server is free:      the database's reply │ │ server_settle: nothing│
 *    │ │ client_wait                                  │ │ more is to come       │
 *    │ ▼                                              │ ▼                       │
 *    │ WAITING ── client_give, in the send() of ──► LINKING     RESTING ────────┘
 *    │            another client's reply                           │
 *    └── server_claim: another client takes the server ────────────┘
 *    └── server_next: the server goes to a client that waits, instead of RESTING
 *
 *   any ── pg_send, or the process ──► the same | SLOW ── the process ──► IDLE, LINKED, RESTING
 *
 * 1. A server's replies go to the client whose word names it and is not SLOW, or to the process.
 * 2. A server that rests is given on only when its database is not within a send() (is_sending):
 *    then its last reply is in its client's queue.
 * 3. Replies are gone over byte by byte, also across messages. Of what clients send only messages of
 *    whole requests are followed (requests.bpf.h): simple queries of one statement, and batches of
 *    extended queries with their Sync; all else makes the client SLOW, and from then
 *    on the stream stands still here: the process goes on at exactly the byte at which the kernel
 *    has stopped (`stream`), since a program that loses the word to SLOW puts the stream
 *    back.
 * 4. Bytes keep their order. A client's queue is read before what came by TCP. So a client is
 *    served here only if nothing of it is under way through TCP (is_quiet): all that it has given to TCP
 *    has been received by the process, and all that the process has sent it was read. Both are
 *    comparisons of counters, so it comes back by itself, whichever side took SLOW away. For the same reason a
 *    server's bytes are brought to its client only while replies are due to requests of that kind.
 * 5. What a session keeps beyond its transaction pins its server: the tags of replies say so
 *    (server_tag). What a tag does not show the process judges by the text: such queries are SLOW.
 * 6. A word that is SLOW is the process's; programs only set SLOW. If the client is gone, the
 *    process closes its server, or puts it right.
 * 7. Bytes that are not read are bounded (UNREAD_MAX): beyond, they go through TCP, and the
 *    process stops reading.
 *
 * 8. A place of a client or of a server is another's only when every run of a program has ended that may
 *    have seen the one before (kernel/places.rs awaits a grace period of RCU). So within one run
 *    the fields of a place belong to one client or server, whatever becomes of its word.
 *
 * 9. A name of a prepared statement is followed only if the process has said what it means, and the server
 *    that gets the message has that statement (has_statements): this is looked at while the server is the
 *    client's, or before the compare-and-swap that fails if it is not any more. Only the process changes what a
 *    server has, while the server is its own, and what a client's names mean, while the client is SLOW.
 * 10. What the unnamed statement of a client is the process knows, or the word says it: the text that is
 *    kept (PARSED), none (FORGOT), or what the answers to the batch say whose texts are kept (PARSES). What
 *    was the unnamed statement before that batch is of no use: its first Parse is executed for certain
 *    (requests.bpf.h).
 *
 * Which servers may be free, and which clients may be WAITING, are sets of bits. A program that
 * makes a server free changes the word first and looks at the bit then; a program that takes one takes the bit
 * away and looks at the word then. So a server is in the set, or taken, or both are seen. It is the
 * same for clients.
 */
#ifndef BPFDB_PG_STATE_BPF_H
#define BPFDB_PG_STATE_BPF_H

#include <bpfdb/types.bpf.h>
#include <bpfdb/proxy.h>

/* Bytes of a message that one run looks at; a longer reply has several runs. The packet window
 * of a program ends at 32 KiB. */
#define CHUNK 32000
/* From so many bytes on the queue of an end is looked at, and so many may be in it. */
#define UNREAD_LOOK (64 * 1024)
#define UNREAD_MAX (1 << 20)

/* Set before the programs are loaded. */
const volatile struct bpfdb_proxy_constants constants SEC(".rodata.proxy") = {};

struct bpfdb_proxy_all proxy SEC(".bss.proxy");

#define BIT(i) (1ULL << ((i) % BPFDB_PROXY_BITS))

#define COUNT_PG(name) ADD(&proxy.counters.name, 1)

/* Which socket an end is, by its address. */
struct {
	__uint(type, BPF_MAP_TYPE_SOCKHASH);
	__uint(max_entries, BPFDB_PROXY_CLIENTS + BPFDB_PROXY_SERVERS + 1);
	__type(key, struct bpfdb_proxy_end);
	__type(value, u64);
} ends SEC(".maps");

/* What the process has said of an end. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, BPFDB_PROXY_CLIENTS + BPFDB_PROXY_SERVERS);
	__type(key, struct bpfdb_proxy_end);
	__type(value, struct bpfdb_proxy_place);
} places SEC(".maps");

/* Requests of clients that wait. */
struct parking {
	u8 bytes[BPFDB_PROXY_PARKED_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, BPFDB_PROXY_CLIENTS);
	__type(key, u32);
	__type(value, struct parking);
} parked SEC(".maps");

/* Unnamed statements of clients. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BPFDB_PROXY_CLIENTS);
	__type(key, u32);
	__type(value, struct bpfdb_proxy_text);
} texts SEC(".maps");

/* What clients' names of statements mean: their numbers. Names that find no room are the process's. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 17);
	__type(key, struct bpfdb_proxy_name);
	__type(value, u32);
} names SEC(".maps");

/* Ports of databases. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, BPFDB_PROXY_POOLS);
	__type(key, u32);
	__type(value, u32);
} database_ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
} events SEC(".maps");

/* Requests for mirrors: struct bpfdb_proxy_copy, as far as it has bytes. */
#define COPY_SIZE(length) (__builtin_offsetof(struct bpfdb_proxy_copy, bytes) + (length))

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} copies SEC(".maps");

/* What a socket's own storage says of it. */
struct pg_socket {
	struct bpfdb_proxy_end end;
	struct bpfdb_proxy_place place;
	u32 is_placed;
	u32 first_sent, first_received; /* sequence numbers at its beginning */
	u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct pg_socket);
} socket_storage SEC(".maps");

/* OPAQUE: clang 22 leaves the mask out where it knows what a subprogram returns, which the
 * verifier (6.18) does not. */
static __always_inline struct bpfdb_proxy_client *client_at(u64 i)
{
	OPAQUE(i);
	return &proxy.clients[i & (BPFDB_PROXY_CLIENTS - 1)];
}

static __always_inline struct bpfdb_proxy_server *server_at(u64 s)
{
	OPAQUE(s);
	return &proxy.servers[s & (BPFDB_PROXY_SERVERS - 1)];
}

static __always_inline struct bpfdb_proxy_pool *pool_at(u64 p)
{
	OPAQUE(p);
	return &proxy.pools[p & (BPFDB_PROXY_POOLS - 1)];
}

static __always_inline u32 word_state(u64 w)
{
	return w & BPFDB_PROXY_STATE;
}

static __always_inline u32 word_server(u64 w)
{
	return (w & BPFDB_PROXY_SERVER) >> BPFDB_PROXY_SERVER_SHIFT;
}

static __always_inline u32 word_due(u64 w)
{
	return (w & BPFDB_PROXY_DUE) >> BPFDB_PROXY_DUE_SHIFT;
}

static __always_inline u32 word_generation(u64 w)
{
	return w >> BPFDB_PROXY_GENERATION_SHIFT;
}

static __always_inline u64 word_with(u64 w, u32 state, u32 server)
{
	w &= ~(BPFDB_PROXY_STATE | BPFDB_PROXY_SERVER);
	/* What its server has, the next one has not. */
	if (state == BPFDB_PROXY_IDLE)
		w &= ~BPFDB_PROXY_HAS;
	return w | state | (u64)server << BPFDB_PROXY_SERVER_SHIFT;
}

static __always_inline void tell(u32 kind, u32 index)
{
	struct bpfdb_proxy_event event = {.kind = kind, .index = index};

	bpf_ringbuf_output(&events, &event, sizeof(event), 0);
}

#endif
