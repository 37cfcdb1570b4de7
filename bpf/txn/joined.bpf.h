/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Has the object of this program joined the engine whose maps it has? docs/joining.md says what a
 * loader does for that.
 *
 * Invariants
 *  1. A program opens a session only if its structures are laid out as those of the object that
 *     created the engine, and its configuration is the engine's: what it writes is then what
 *     others read, in memory and in the log.
 *  2. A session that a program opens has a holder, so that the engine's owner closes it when the
 *     program is gone.
 *
 * An object that shares no map has an engine of its own, which nothing has created: its layout is
 * 0, which is that of no object. One that has the maps of one engine and the configuration of
 * another has another identity.
 */
#ifndef BPFDB_JOINED_BPF_H
#define BPFDB_JOINED_BPF_H

#include "../storage/engine_state.bpf.h"

#define DIGEST_FACTOR 0x9e3779b97f4a7c15ULL

/* Of what all objects of an engine have in common: not of the port, nor of the holder. */
static __always_inline u64 config_digest(void)
{
	u64 digest = 1;

	digest = digest * DIGEST_FACTOR + config.versions;
	digest = digest * DIGEST_FACTOR + config.directory_bits;
	digest = digest * DIGEST_FACTOR + config.sessions;
	digest = digest * DIGEST_FACTOR + config.segments_max;
	digest = digest * DIGEST_FACTOR + config.pages_max;
	digest = digest * DIGEST_FACTOR + config.locks_max;
	digest = digest * DIGEST_FACTOR + config.idle_limit;
	digest = digest * DIGEST_FACTOR + config.log_ring;
	digest = digest * DIGEST_FACTOR + config.log_rings;
	digest = digest * DIGEST_FACTOR + config.user_sessions;
	digest = digest * DIGEST_FACTOR + config.ordered_tables;
	return digest;
}

/* What the object that creates the engine writes into it. */
static __always_inline void join_as_first(void)
{
	engine.identity = config.identity;
	engine.layout = BPFDB_LAYOUT;
	engine.constants = config_digest();
}

/* Are the engine's structures where this object has them? Asked before anything else of it is
 * used. */
static __always_inline bool is_laid_out(void)
{
	return LOAD(engine.layout) == BPFDB_LAYOUT;
}

static __always_inline bool is_joined(void)
{
	return is_laid_out() && config.holder && LOAD(engine.identity) == config.identity &&
	       LOAD(engine.constants) == config_digest();
}

#endif
