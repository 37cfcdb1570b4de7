/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * What a protocol must define to stand on the transport. The transport brings messages and
 * takes replies away; what a request is, and what it does, only the front end knows. Its
 * program file (bpf/redis.bpf.c) includes its definitions, `struct context` first, and then
 * programs.bpf.h. The compiler refuses an object in which one is missing, and inlines all
 * of them.
 *
 *   net_answer ─► message_open ─► front_end_begin
 *                                      │
 *                     ┌────────────────▼
 *                     │         front_end_request ── PASS_TO_DAEMON, INCOMPLETE ──┐
 *                     │                │ DONE                                     │
 *                     │         front_end_is_amid? ── yes: the next part ─┐       │
 *                     │                │ no                               │       │
 *                     │         front_end_answered                        │       │
 *                     │                │                                  │       │
 *                     └── bytes are left, and not front_end_run_is_over ◄─┘       │
 *                                      │                                          │
 *                               front_end_end ◄───────────────────────────────────┘
 *                                      │
 *                   nothing was answered, and it is the daemon's: front_end_passes
 *                                      │
 *             replies are sent, the rest is kept back or handed over (front_end_passed)
 *
 * What the front end may use, and the transport keeps for it:
 *
 * - window_at (message.bpf.h) reads the message; a parser moves c->at.
 * - room_make (room.bpf.h) makes room for a reply behind c->out, which the front end then
 *   advances. With room_until it says up to where requests are used up: replies may lie over
 *   them. A request that may still be handed over, or executed again, must stay readable.
 * - The session is the connection's own, and no other program uses it meanwhile.
 * - The context `c` is the memory for this message (context.bpf.h). A front end defines it, with
 *   CONTEXT_WORDS first. What does not end with the message it keeps in `front_end` of the
 *   connection.
 *
 * Only the daemon can wait. A front end passes on what it does not know, what must wait for
 * memory or for a lock, and what is too long, and must have changed nothing by it then: the
 * daemon begins with the first byte of that request, in the same session.
 */
#ifndef BPFDB_NET_FRONT_END_BPF_H
#define BPFDB_NET_FRONT_END_BPF_H

#include "message.bpf.h"

/* What its sessions are: a kind of session (BPFDB_SESSION_). */
static __always_inline u32 front_end_sessions(void);

/* A connection begins: the front end's words of it. */
static __always_inline void front_end_opened(struct bpfdb_connection *c);

/* A message is there. */
static __always_inline void front_end_begin(struct context *c,
					    const struct bpfdb_connection *connection);

/*
 * Answers the request at c->at. DONE with c->at behind it and the reply written;
 * PASS_TO_DAEMON with nothing changed; INCOMPLETE with nothing changed and, if it is known,
 * c->complete_size for the bytes of the message that complete it; NO_ROOM if it was executed
 * and its reply is lost: the connection is closed.
 */
static __always_inline enum result front_end_request(struct sk_msg_md *m, struct context *c,
						     struct bpfdb_session *s);

/* Is what was answered last only a part of a whole that counts, and is handed over, as one? */
static __always_inline bool front_end_is_amid(const struct context *c);

/* One request was answered. */
static __always_inline void front_end_answered(struct context *c);

/* May this run of the program answer no more, though requests are left? */
static __always_inline bool front_end_run_is_over(const struct context *c);

/* The run ends by `result`: undoes a whole that is not over, which is the daemon's then. What
 * stopped the run, for the transport. */
static __always_inline enum result front_end_end(struct context *c,
						 struct bpfdb_connection *connection,
						 struct bpfdb_session *s, enum result result);

/* The daemon is to answer from c->request on: what it will need may be fetched. Nothing is changed but
 * what every request changes of the context and of the session. */
static __always_inline void front_end_passes(struct sk_msg_md *m, struct context *c);

/* A segment has arrived that the daemon gets, which has the connection, and its session: the same. */
static __always_inline void front_end_arrives(struct __sk_buff *skb);

/* A segment has arrived that is all that the kernel's connection has under way, and may have a seat: does the front
 * end keep the request that it is (park.bpf.h)? */
static __always_inline int front_end_parks(struct __sk_buff *skb);

/* Is the sender none that sends the daemon's replies, but the one of replies to requests that were kept? */
static __always_inline bool front_end_is_sender(void);

/* It sends a reply to a request that was kept: SK_PASS or SK_DROP. */
static __always_inline int front_end_sends(struct sk_msg_md *m);

/* The request that comes first is handed over. */
static __always_inline void front_end_passed(struct bpfdb_connection *c);

#endif
