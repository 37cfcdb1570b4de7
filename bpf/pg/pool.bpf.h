/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Which client gets which server. state.bpf.h has the rules. */
#ifndef BPFDB_PG_POOL_BPF_H
#define BPFDB_PG_POOL_BPF_H

#include "names.bpf.h"
#include "socket.bpf.h"

/* Takes a bit of `mask` out of one word of a set: which, plus 1; 0: there is none, or another has taken
 * it just now. */
static __always_inline u32 bit_take(u64 *word, u32 index, u64 mask)
{
	u64 all = LOAD(*word), some = all & mask, lowest = some & -some;
	u32 at = 0;

	if (!some)
		return 0;
	/* The number of the bit: BPF has no instruction for it. */
	at |= lowest & 0xffffffff00000000ULL ? 32 : 0;
	at |= lowest & 0xffff0000ffff0000ULL ? 16 : 0;
	at |= lowest & 0xff00ff00ff00ff00ULL ? 8 : 0;
	at |= lowest & 0xf0f0f0f0f0f0f0f0ULL ? 4 : 0;
	at |= lowest & 0xccccccccccccccccULL ? 2 : 0;
	at |= lowest & 0xaaaaaaaaaaaaaaaaULL ? 1 : 0;
	return CAS(word, all, all & ~lowest) == all ? index * BPFDB_PROXY_BITS + at + 1 : 0;
}

/* A server from number `from` on that may be free, which is not in the set any more: its number
 * plus 1. */
__noinline int server_pop(u32 number, u32 from)
{
	struct bpfdb_proxy_pool *pool = pool_at(number);
	u64 mask = ~0ULL << (from % BPFDB_PROXY_BITS);
	u32 i = 0, word = from / BPFDB_PROXY_BITS;

	/* Twice as many turns as words: another may take a bit just now. */
	while (i++ < 2 * BPFDB_PROXY_SERVER_WORDS && can_loop) {
		u64 at = word;
		u32 found;

		if (at >= BPFDB_PROXY_SERVER_WORDS)
			break;
		OPAQUE(at);
		at &= BPFDB_PROXY_SERVER_WORDS - 1;
		found = bit_take(&pool->free[at], at, mask);
		if (found)
			return found;
		if (LOAD(pool->free[at]) & mask)
			continue;
		mask = ~0ULL;
		word++;
	}
	return 0;
}

static __always_inline bool server_is_listed(const struct bpfdb_proxy_pool *pool, u32 s)
{
	u64 at = s / BPFDB_PROXY_BITS;

	OPAQUE(at);
	return LOAD(pool->free[at & (BPFDB_PROXY_SERVER_WORDS - 1)]) & BIT(s);
}

static __always_inline void server_list(struct bpfdb_proxy_pool *pool, u32 s)
{
	u64 at = s / BPFDB_PROXY_BITS;

	OPAQUE(at);
	FETCH_OR(&pool->free[at & (BPFDB_PROXY_SERVER_WORDS - 1)], BIT(s));
}

enum claim { CLAIM_NO, CLAIM_YES, CLAIM_LATER };

/* May `taker` have a server that was popped? If it rests, its client is IDLE from now on. Two may have
 * popped it, since it may be listed once more than it was free: one of them gets it. */
static __always_inline enum claim server_claim(struct bpfdb_proxy_server *server, u32 s, u32 taker)
{
	u32 owner = LOAD(server->owner);
	struct bpfdb_proxy_client *client = client_at(owner - 1);
	u64 w;

	if (!server->active || owner == BPFDB_PROXY_PROCESS)
		return CLAIM_NO;
	if (!owner)
		return CAS(&server->owner, 0, taker) == 0 ? CLAIM_YES : CLAIM_NO;
	w = LOAD(client->word);
	if (word_state(w) != BPFDB_PROXY_RESTING || word_server(w) != s || w & BPFDB_PROXY_SLOW)
		return CLAIM_NO; /* in use: it will be listed again */
	if (is_sending(server)) {
		COUNT_PG(sending);
		return CLAIM_LATER;
	}
	if (CAS(&client->word, w, word_with(w, BPFDB_PROXY_IDLE, 0)) != w)
		return CLAIM_NO;
	STORE(server->owner, taker);
	return CLAIM_YES;
}

#define TRIES 8

static __always_inline bool someone_waits(const struct bpfdb_proxy_pool *pool)
{
	u64 any = 0;
	u32 i;

#pragma unroll
	for (i = 0; i < BPFDB_PROXY_CLIENT_WORDS; i++)
		any |= LOAD(pool->waiting[i]);
	return any;
}

static __always_inline bool some_are_free(const struct bpfdb_proxy_pool *pool)
{
	u64 any = 0;
	u32 i;

#pragma unroll
	for (i = 0; i < BPFDB_PROXY_SERVER_WORDS; i++)
		any |= LOAD(pool->free[i]);
	return any;
}

/* A client that may be WAITING, which is not in the set any more: its number plus 1. The search
 * goes round, so that each has its turn. */
__noinline int client_pop(u32 number)
{
	struct bpfdb_proxy_pool *pool = pool_at(number);
	u32 i = 0, from = LOAD(pool->next_client);

	while (i <= BPFDB_PROXY_CLIENT_WORDS && can_loop) {
		u64 at = (from + i++) % BPFDB_PROXY_CLIENT_WORDS;
		u32 found;

		OPAQUE(at);
		at &= BPFDB_PROXY_CLIENT_WORDS - 1;
		found = bit_take(&pool->waiting[at], at, ~0ULL);
		if (found) {
			STORE(pool->next_client, at + 1);
			return found;
		}
	}
	return 0;
}

static __always_inline void client_list(struct bpfdb_proxy_pool *pool, u32 slot)
{
	u64 at = slot / BPFDB_PROXY_BITS;

	OPAQUE(at);
	FETCH_OR(&pool->waiting[at & (BPFDB_PROXY_CLIENT_WORDS - 1)], BIT(slot));
}

/*
 * Gives a server to a client that may wait. One with other parameters is the process's, and so is
 * one that names a statement that the server lacks. One of another
 * pool has the place of a client that has waited here: the set is a hint only.
 */
__noinline int client_give(u32 slot, u32 s)
{
	struct bpfdb_proxy_client *client = client_at(slot);
	struct bpfdb_proxy_server *server = server_at(s);
	u64 w = LOAD(client->word);

	if (word_state(w) != BPFDB_PROXY_WAITING || w & BPFDB_PROXY_SLOW)
		return 0; /* it has another, or is the process's */
	if (client->pool != server->pool)
		return 0;
	if (client->digest != server->digest) {
		if (CAS(&client->word, w, w | BPFDB_PROXY_SLOW) == w)
			tell(BPFDB_PROXY_TAKE, slot);
		return 0;
	}
	if (!has_statements(s, slot)) {
		if (CAS(&client->word, w, w | BPFDB_PROXY_SLOW) == w) {
			COUNT_PG(slow_statement);
			tell(BPFDB_PROXY_TAKE, slot);
		}
		return 0;
	}
	STORE(server->owner, slot + 1);
	return CAS(&client->word, w, word_with(w, BPFDB_PROXY_LINKING, s)) == w;
}

/* Gives a server, whose database sends just now, to a client that waits: its number plus 1. */
__noinline int pool_give(u32 s)
{
	u32 i = 0;

	while (i++ < TRIES && can_loop) {
		u32 slot = client_pop(server_at(s)->pool);

		if (!slot)
			break;
		if (client_give(slot - 1, s))
			return slot;
	}
	return 0;
}

/* A free server of a pool, whose owner is `taker` then: its number plus 1, BUSY or NONE. */
__noinline u32 server_take(u32 number, u32 taker)
{
	struct bpfdb_proxy_pool *pool = pool_at(number);
	u32 i = 0, from = 0, result = BPFDB_PROXY_NONE;

	while (i++ < TRIES && can_loop) {
		u32 s = server_pop(number, from);
		struct bpfdb_proxy_server *server;
		enum claim claim;

		if (!s)
			break;
		server = server_at(--s);
		/* Listed late, by a program that had the server before it, of another pool. */
		if (server->pool != number)
			continue;
		claim = server_claim(server, s, taker);
		if (claim == CLAIM_YES)
			return s + 1;
		if (claim == CLAIM_LATER) {
			server_list(pool, s);
			result = BPFDB_PROXY_BUSY;
			from = s + 1;
		}
	}
	return result;
}

/* This server of a pool, if it is free: as server_take. It may stay in the set, where it is not free. */
__noinline u32 server_take_this(u32 number, u32 s, u32 taker)
{
	struct bpfdb_proxy_server *server = server_at(s);

	if (server->pool != number || server_claim(server, s, taker) != CLAIM_YES)
		return BPFDB_PROXY_NONE;
	return s + 1;
}

/* A server is free: into the set with it, and the process hears of it if it wants one. */
__noinline int server_rests(u32 s)
{
	struct bpfdb_proxy_server *server = server_at(s);
	struct bpfdb_proxy_pool *pool = pool_at(server->pool);

	if (!server_is_listed(pool, s))
		server_list(pool, s);
	/* Clients that have begun to wait since the check whether one does. */
	if (unlikely(LOAD(pool->wanted) || someone_waits(pool)))
		tell(BPFDB_PROXY_FREE, server->pool);
	return 0;
}

#endif
