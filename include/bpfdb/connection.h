/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Connections: what the transport in the kernel (bpf/net) and the daemon
 * (crates/bpfdb-server) share. bpf/net/connection.bpf.h has the protocol
 * between them. What is only about Redis is in redis.h.
 */
#ifndef BPFDB_CONNECTION_H
#define BPFDB_CONNECTION_H

#include <linux/types.h>
#include <bpfdb/attempts.h>
#include <bpfdb/limits.h>

/* Longest request that the kernel assembles from parts, bytes. */
#define BPFDB_REQUEST_MAX (BPFDB_VALUE_MAX + BPFDB_KEY_MAX + 256)
/* Longest value that the kernel puts into a reply, bytes: the packet window of
 * a program ends at 32 KiB. */
#define BPFDB_REPLY_VALUE_MAX (28 * 1024)
/* Reply bytes after which the kernel sends what it has. */
#define BPFDB_REPLY_BATCH (64 * 1024)
/* Send buffer of a connection, bytes. When half of it is taken, the daemon
 * answers: it can wait for the client to read, a program cannot. */
#define BPFDB_SEND_BUFFER (1 << 20)
/* Bytes that may have arrived and not been taken in yet. What the kernel holds
 * for a program does not close the window of TCP, so that a client which sends
 * without end and reads nothing must lose its connection at some point; one
 * that sends faster than the kernel's worker runs should not. */
#define BPFDB_UNANSWERED_MAX (64 << 20)
/* More for a connection that sends a long argument to the daemon, in steps of this many
 * bytes, while all connections together have not more than this. */
#define BPFDB_GRANT (64 << 20)
#define BPFDB_GRANTS_MAX (1ULL << 30)
/* A message of a local client that is longer goes through TCP, bytes: one
 * sendmsg() may bring more than a program finds linear memory for. */
#define BPFDB_LOCAL_MESSAGE_MAX (128 * 1024)
/* Replies that a local client has not read, bytes; then its requests go through
 * TCP, which lets it wait. */
#define BPFDB_LOCAL_UNREAD_MAX (256 * 1024)
/* The same, messages: each takes the kernel 1 KiB besides its bytes. */
#define BPFDB_LOCAL_MESSAGES_MAX 1024
/* A local client sees the answer to its SYN within this time, nanoseconds. */
#define BPFDB_LOCAL_HANDSHAKE_MAX 10000000000ULL
/* Replies that a client on this machine must have received by recvmsg() before it is answered
 * in its own send(): what it reads by splice() would be TCP's only. */
#define BPFDB_LOCAL_READS 4
/* Messages of a local client until its connection is known to be one of ours;
 * after that it is left alone for good. */
#define BPFDB_LOCAL_TRIES 16
_Static_assert(BPFDB_REPLY_BATCH + BPFDB_REPLY_VALUE_MAX + 64 < BPFDB_SEND_BUFFER / 2,
	       "the replies of one run fit what is left of the send buffer");
_Static_assert(BPFDB_REPLY_VALUE_MAX + 64 < 32768, "a reply fits the packet window");

/* Messages that are answered at the same time, at least. The daemon makes room for more on a
 * machine with many processors: a program that loses its processor keeps its context. */
#define BPFDB_CONTEXTS 16
/* So many are looked at for one that is free. */
#define BPFDB_CONTEXTS_TRIED 64
/* Words of a connection that are the front end's. */
#define BPFDB_FRONT_END_WORDS 8

/* `arrived`: flags | bytes that arrived from the client, ever. */
#define BPFDB_CONNECTION_DAEMON (1ULL << 63) /* the daemon answers */
#define BPFDB_CONNECTION_CLOSED (1ULL << 62) /* the socket is gone */
#define BPFDB_CONNECTION_BROKEN (1ULL << 61) /* to be closed by the daemon */
/* The daemon answers, for ever: the socket is in no map, and no program sees it. */
#define BPFDB_CONNECTION_PLAIN (1ULL << 60)
#define BPFDB_CONNECTION_BYTES (BPFDB_CONNECTION_PLAIN - 1)

/* `cookie`: flag | cookie of the socket. Cookies are small numbers. */
#define BPFDB_COOKIE_RETIRED (1ULL << 63) /* to be freed by its last user */

/* `client`: flag | cookie of the client's own socket, if it is on this machine.
 * While the flag is set a program runs in that client's sendmsg(). */
#define BPFDB_CLIENT_RUNNING (1ULL << 63)

/* How a connection is served, and why not in its client's own send(). */
enum bpfdb_way {
	BPFDB_WAY_REMOTE =
		0, /* its client's socket is not known: not on this machine, or left out */
	BPFDB_WAY_FOREIGN, /* a program of others owns its client's socket */
	BPFDB_WAY_UNDECIDED, /* the client has not received enough to know how it does */
	BPFDB_WAY_LOCAL, /* in its send() */
	BPFDB_WAY_SPLICED, /* the client reads by splice() */
	BPFDB_WAY_LEFT, /* the client has filled its send buffer */
	BPFDB_WAY_COUNT,
};

/* The two ends of a connection, the same for both: addresses as of IPv6. */
struct bpfdb_flow {
	__u32 client[4];
	__u32 server[4];
	__u32 client_port; /* host order */
	__u32 server_port;
};

/* What the daemon wants of all connections: 0 or 1. */
struct bpfdb_gate {
	__u32 closed; /* the daemon is the first to answer a new client */
	__u32 paused; /* the kernel answers nothing: CLIENT PAUSE */
	__u32 plain; /* new connections are plain TCP: the daemon answers nearly all of them */
};

/* One connection; its index is that of its session. What is needed for a message only is
 * in a context (bpf/net/context.bpf.h). */
struct bpfdb_connection {
	__u64 arrived;
	__u64 cookie; /* of the socket; 0: not in use; see BPFDB_COOKIE_RETIRED */
	__u64 answered; /* bytes of requests that the kernel answered */
	__u64 handed; /* bytes that went to the daemon through the worker */
	__u64 passed; /* bytes that went to the daemon directly */
	__u64 consumed; /* bytes that the daemon received; it writes this */
	__u64 replied; /* bytes of replies that the kernel sent */
	__u64 sent; /* bytes of replies that the daemon sent; it writes this */
	__u64 client; /* see BPFDB_CLIENT_RUNNING; 0: none is known */
	__u64 local; /* requests answered in the client's own send() */
	__u64 granted; /* bytes beyond BPFDB_UNANSWERED_MAX that may wait */
	__u32 patient; /* a long argument may be on its way: it was not looked for yet, or little
			* waited then, or the daemon, which
			* writes this too, says so */
	__u32 sequence; /* TCP sequence number at which replied was 0 */
	__u32 rebase; /* the daemon sent something: sequence is to be taken anew */
	__u32 corked; /* size up to which a split request is being assembled, or 0 */
	__u32 parts; /* how often the split request was looked at */
	__u32 client_first; /* TCP sequence number of the client's first byte */
	__u32 server_first; /* and of the first one to the client */
	__u32 way; /* enum bpfdb_way */
	struct bpfdb_flow flow;
	__u32 front_end[BPFDB_FRONT_END_WORDS]; /* its own: of Redis, see redis.h */
	/* A request that is parked (net/park.bpf.h): where it may be, 0: nowhere, which the daemon writes while it has the
	 * connection; and its bytes, 0: none is. */
	__u32 seat;
	__u32 parked;
	__u32 reserved[14];
};

_Static_assert(sizeof(struct bpfdb_connection) % 64 == 0,
	       "connections of different processors share no cache line");

/* What the programs send to the daemon. */
struct bpfdb_handover {
	__u64 cookie;
	__u32 connection;
	__u32 reserved;
};

/* What the transport counts, first in `front_end` of struct bpfdb_counters. */
struct bpfdb_net_counters {
	__u64 bytes_received; /* of requests answered in the kernel */
	__u64 bytes_sent; /* of its replies */
	__u64 requests_local; /* of the requests, inside the client's own send() */
	__u64 connections_passed; /* times that a connection was handed to the daemon */
	__u64 bytes_passed; /* of requests that were */
};

#endif
