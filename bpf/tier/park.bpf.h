/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * A GET of a cold value waits in a seat while its value is read, and is answered by the program on the completion
 * of the read (docs/decisions/0054-cold-values-answered-in-the-kernel.md). What is about the connection is in
 * net/park.bpf.h, the programs are in redis/park.bpf.h.
 *
 *   seat_park:   place, key, request ──► READING ──READ──► io_uring
 *   seat_read:   compares, looks the key up again ──► SENDING ──SEND──► io_uring
 *   redis_sent:  ──► IDLE      the daemon, by the same word: LATE, TAKEN
 *
 * 1. The word of a seat says what is under way: of io_uring one operation in READING, SENDING, LATE and TAKEN, which
 *    ends by its completion (seat_completed), and none in IDLE and FAILED.
 * 2. A seat is parked in by the program of its own socket alone, under that socket's lock, in IDLE. The daemon gives it another
 *    owner in IDLE, when that socket has no program any more.
 * 3. The generation is another one for each request and each owner. A SEND that has been committed, and whose
 *    completion is still to come, is known by it.
 * 4. What was read is believed if checksum, key, length, run, offset and engine are what the version named when the
 *    request arrived; and if the version of the key names the same now. Bytes of a place never change, so
 *    this is what a GET now would read.
 * 5. Nothing waits: what finds no place in the ring is the daemon's.
 * 6. A thread of the process submits (crates/bpfdb-tier/src/park.rs), and does nothing else: what it has submitted ends in it, so the
 *    program on completions runs there, and so does redis_sent.
 */
#ifndef BPFDB_TIER_PARK_BPF_H
#define BPFDB_TIER_PARK_BPF_H

#include "../operators/transaction.bpf.h"
#include "../ring/completion.bpf.h"
#include "checksum.bpf.h"

/* Wakes the thread that submits: its ring polls it. What is in it means nothing, and the thread empties it. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16384);
} park_bell SEC(".maps");

/* Attempts to have the latch of the ring. */
#define PARK_TRIES 32
/* The record that wakes. */
#define PARK_BELL_BYTES 8

/* User data: which operation, generation, number of the seat. */
#define PARK_KIND_SHIFT 56
#define PARK_READ 1ULL
#define PARK_SEND 2ULL
#define PARK_GENERATION_SHIFT 8
#define PARK_GENERATION_MASK ((1ULL << 48) - 1)

_Static_assert(BPFDB_SEATS <= 1 << PARK_GENERATION_SHIFT, "a number has room");

/* Words of an entry's head, bytes from its beginning: docs/formats/runs.md. */
#define SEAT_ENTRY_CHECKSUM 0
#define SEAT_ENTRY_KEY_LEN 4
#define SEAT_ENTRY_LEN 8
#define SEAT_ENTRY_RUN 24
#define SEAT_ENTRY_OFFSET 32
#define SEAT_ENTRY_ENGINE 40

static __always_inline u64 park_user_data(u64 kind, u32 number, u64 word)
{
	u64 generation = word >> BPFDB_SEAT_STATE_BITS & PARK_GENERATION_MASK;

	return kind << PARK_KIND_SHIFT | generation << PARK_GENERATION_SHIFT | number;
}

/* ---- The ring ------------------------------------------------------------ */

/* The thread says that it waits, then looks at the queue once more; here it is the other way round. */
static __always_inline void park_wake(void)
{
	u64 record = 0;

	if (FETCH_OR(&parking.waits, 0))
		bpf_ringbuf_output(&park_bell, &record, PARK_BELL_BYTES, BPF_RB_FORCE_WAKEUP);
}

/* Sends bytes of the process's memory on a registered socket. False: the queue is full. */
static __always_inline bool ring_send(struct bpfdb_ring *ring, u32 file, u64 from, u32 bytes,
				      u64 user_data)
{
	u64 *place = ring_place(ring);

	if (!place)
		return false;
	place[0] = IORING_OP_SEND | IOSQE_FIXED_FILE << 8 | (u64)file << 32;
	place[1] = 0;
	place[2] = from;
	place[3] = bytes;
	place[4] = user_data;
	place[5] = 0;
	place[6] = 0;
	place[7] = 0;
	ring_submit(ring);
	return true;
}

/* Polls the bell, again and again. */
static __always_inline bool ring_poll_bell(struct bpfdb_ring *ring)
{
	u64 *place = ring_place(ring);

	if (!place)
		return false;
	place[0] = IORING_OP_POLL_ADD | parking.bell << 32;
	place[1] = 0;
	place[2] = 0;
	place[3] = IORING_POLL_ADD_MULTI | 1ULL << 32;
	place[4] = parking.hello;
	place[5] = 0;
	place[6] = 0;
	place[7] = 0;
	ring_submit(ring);
	return true;
}

/* Has `submit` write to the queue, which no other program does meanwhile. False: it has not. */
#define PARK_SUBMIT(submit)                                                                        \
	({                                                                                         \
		bool submitted_ = false;                                                           \
		preempt_off();                                                                     \
		for (u32 try_ = 0; try_ < PARK_TRIES; try_++) {                                    \
			if (!ring_latch(&parking.ring))                                            \
				continue;                                                          \
			submitted_ = (submit);                                                     \
			ring_unlatch(&parking.ring);                                               \
			break;                                                                     \
		}                                                                                  \
		preempt_on();                                                                      \
		submitted_;                                                                        \
	})

/* ---- To the seat --------------------------------------------------------- */

/* Was the place read lately, as far as is known? It counts as read now. The daemon looks there, too. */
static __always_inline bool place_was_read(u64 run, u32 offset)
{
	u64 hash = (run << 32 ^ offset) * 0x9E3779B97F4A7C15ULL;
	u32 *recent = &parking.recent[hash >> 40 & (BPFDB_PARK_RECENT - 1)];
	u32 mark = (u32)hash | 1;

	if (LOAD(*recent) == mark)
		return true;
	STORE(*recent, mark);
	return false;
}

static __always_inline u64 seat_entry_bytes(const struct bpfdb_seat *seat)
{
	return BPFDB_RUN_ENTRY_HEAD + (u64)seat->key_len + seat->len;
}

/* Is the value of the session's key a cold string, and short enough? The seat gets its place. Of no transaction, and no access. */
static __always_inline bool seat_find(struct bpfdb_session *s, struct bpfdb_seat *seat)
{
	struct bpfdb_large *large;
	u64 len;

	if (UNTRACKED(s, bpfdb_peek(s)) != BPFDB_FOUND || !form_is_large(s->value_len))
		return false;
	large = bpfdb_at(s->value[0]);
	if (!large)
		return false;
	len = LOAD(large->len);
	seat->run = LOAD(large->place.run);
	seat->offset = LOAD(large->place.offset);
	seat->checksum = LOAD(large->place.checksum);
	if (!seat->run || len > BPFDB_SEAT_ENTRY)
		return false;
	seat->len = len;
	seat->key_len = s->key_len;
	return seat_entry_bytes(seat) <= BPFDB_SEAT_ENTRY && bpfdb_still_valid(s);
}

static __always_inline bool seat_submit_read(u32 number, const struct bpfdb_seat *seat, u64 word)
{
	u32 file = seat->run & (BPFDB_RUNS_MAX - 1);
	u64 to = parking.seats + (u64)number * sizeof(*seat) +
		 __builtin_offsetof(struct bpfdb_seat, entry);

	return PARK_SUBMIT(ring_read(&parking.ring, file, (u64)seat->offset * BPFDB_LOG_GRAIN, to,
				     seat_entry_bytes(seat),
				     park_user_data(PARK_READ, number, word)));
}

/* The read begins; false: it does not, and the seat is IDLE. All of the request is in the seat, and the connection knows
 * of it: it may have ended before this returns. */
static __always_inline bool seat_park(u32 number, struct bpfdb_seat *seat)
{
	u64 word = seat_in(LOAD(seat->word) + (1 << BPFDB_SEAT_STATE_BITS), BPFDB_SEAT_READING);

	seat->since = bpf_ktime_get_ns();
	STORE_RELEASE(seat->word, word);
	if (!seat_submit_read(number, seat, word)) {
		/* The daemon may have taken the request meanwhile, which is closing the connection then: nothing is
		 * under way. */
		if (!seat_move(seat, word, BPFDB_SEAT_IDLE))
			STORE_RELEASE(seat->word, seat_in(word, BPFDB_SEAT_IDLE));
		return false;
	}
	ADD(&parking.parked, 1);
	park_wake();
	return true;
}

/* ---- What was read ------------------------------------------------------- */

static __always_inline u64 seat_word(struct bpfdb_seat *seat, u32 at)
{
	return *(u64 *)seat_byte(seat, at);
}

/* The key that the entry has is the one that was asked for. */
static __always_inline bool seat_key_matches(struct bpfdb_seat *seat)
{
	u32 len = seat->key_len;

	repeat(i, BPFDB_KEY_MAX / 8)
	{
		u32 at = i;
		u64 differs;

		if (i * 8 >= len)
			return true;
		OPAQUE(at);
		at &= BPFDB_KEY_MAX / 8 - 1;
		differs = seat_word(seat, BPFDB_RUN_ENTRY_HEAD + at * 8) ^ seat->key[at];
		if (len - i * 8 < 8)
			differs &= (1ULL << (len - i * 8) * 8) - 1;
		if (differs)
			return false;
	}
	return len == BPFDB_KEY_MAX;
}

static __always_inline bool seat_is_whole(u32 number, struct bpfdb_seat *seat)
{
	u32 checksum = seat->checksum;

	return (u32)seat_word(seat, SEAT_ENTRY_CHECKSUM) == checksum &&
	       (u16)seat_word(seat, SEAT_ENTRY_KEY_LEN) == seat->key_len &&
	       seat_word(seat, SEAT_ENTRY_LEN) == seat->len &&
	       seat_word(seat, SEAT_ENTRY_RUN) == seat->run &&
	       seat_word(seat, SEAT_ENTRY_OFFSET) == (u64)seat->offset * BPFDB_LOG_GRAIN &&
	       seat_word(seat, SEAT_ENTRY_ENGINE) == parking.engine && seat_key_matches(seat) &&
	       entry_checksum(number, seat_entry_bytes(seat)) == checksum;
}

/* Does the version of the session's key name the place? */
static __always_inline bool session_names(struct bpfdb_session *s, const struct bpfdb_seat *seat)
{
	struct bpfdb_large *large;

	if (bpfdb_peek(s) != BPFDB_FOUND || !form_is_large(s->value_len))
		return false;
	large = bpfdb_at(s->value[0]);
	return large && LOAD(large->place.run) == seat->run &&
	       LOAD(large->place.offset) == seat->offset &&
	       LOAD(large->place.checksum) == seat->checksum && LOAD(large->len) == seat->len &&
	       bpfdb_still_valid(s);
}

/* GET once more: 1 if the value is still the one that was read. It is an access, and counted, then. */
__noinline int seat_is_current(u32 number)
{
	struct bpfdb_seat *seat = seat_at(number);
	struct bpfdb_session *s;
	int index, names = 0;
	u32 len;

	if (!seat)
		return 0;
	index = bpfdb_session_open(BPFDB_SESSION_USER);
	s = index >= 0 ? bpfdb_session(index) : NULL;
	if (!s)
		return 0;
	len = seat->key_len;
	OPAQUE(len);
	if (len > BPFDB_KEY_MAX)
		len = 0;
	/* Else clang compares `len` - 1 with the limit, of which the verifier of Linux 6.12 learns
	 * nothing about `len`. */
	OPAQUE(len);
	if (len) {
		bpf_probe_read_kernel(s->key, len, seat->key);
		s->key_len = len;
		names = session_names(s, seat);
		if (names)
			count_outcome(s, BPFDB_OP_GET, BPFDB_FOUND);
	}
	bpfdb_session_close(s);
	return names;
}

/* ---- The reply ----------------------------------------------------------- */

static __always_inline void seat_put(struct bpfdb_seat *seat, u32 at, u8 byte)
{
	*(u8 *)seat_byte(seat, at) = byte;
}

/* `$<length>\r\n` in front of the value, over what was compared; and CR LF behind it. Where the reply begins. */
static __always_inline u32 seat_make_reply(struct bpfdb_seat *seat)
{
	u32 value = BPFDB_RUN_ENTRY_HEAD + seat->key_len, at = value, number = seat->len;
	u64 end = value + number;

	seat_put(seat, --at, '\n');
	seat_put(seat, --at, '\r');
	for (u32 digits = 0; digits < 4; digits++) {
		seat_put(seat, --at, '0' + number % 10);
		number /= 10;
		if (!number)
			break;
	}
	seat_put(seat, --at, '$');
	OPAQUE(end);
	if (end <= BPFDB_SEAT_ENTRY) {
		seat->entry[end] = '\r';
		(seat->entry + 1)[end] = '\n';
	}
	seat->reply_len = value + seat->len + 2 - at;
	return at;
}

static __always_inline bool seat_submit_send(u32 number, const struct bpfdb_seat *seat, u64 word,
					     u32 at)
{
	u64 from = parking.seats + (u64)number * sizeof(*seat) +
		   __builtin_offsetof(struct bpfdb_seat, entry) + at;

	return PARK_SUBMIT(ring_send(&parking.ring, BPFDB_RUNS_MAX + number, from, seat->reply_len,
				     park_user_data(PARK_SEND, number, word)));
}

/* ---- Completions --------------------------------------------------------- */

/* What the caller has to do for the connection. */
enum park_outcome {
	PARK_GOES_ON,
	PARK_FAILED, /* the request is the daemon's */
	PARK_BROKEN, /* the reply was not sent, or not whole */
};

/* A read has completed that nobody waits for, or that the daemon was to take over. */
static __always_inline enum park_outcome seat_read_late(struct bpfdb_seat *seat, u64 word)
{
	/* LATE becomes TAKEN in between, at most. */
	if (seat_state(word) == BPFDB_SEAT_LATE && seat_move(seat, word, BPFDB_SEAT_FAILED))
		return PARK_GOES_ON;
	STORE_RELEASE(seat->word, seat_in(word, BPFDB_SEAT_IDLE));
	return PARK_GOES_ON;
}

/* Nothing is under way, and the daemon is to have the request. */
static __always_inline enum park_outcome seat_fail(struct bpfdb_seat *seat, u64 word)
{
	ADD(&parking.left, 1);
	if (seat_move(seat, word, BPFDB_SEAT_FAILED))
		return PARK_FAILED;
	return seat_read_late(seat, LOAD(seat->word));
}

static __always_inline enum park_outcome seat_read(u32 number, struct bpfdb_seat *seat, u64 word,
						   int result)
{
	u64 sending = seat_in(word, BPFDB_SEAT_SENDING);
	u32 at;

	if (seat_state(word) != BPFDB_SEAT_READING)
		return seat_read_late(seat, word);
	if (result != (int)seat_entry_bytes(seat) || !seat_is_whole(number, seat) ||
	    !seat_is_current(number))
		return seat_fail(seat, word);
	at = seat_make_reply(seat);
	if (!seat_move(seat, word, BPFDB_SEAT_SENDING))
		return seat_read_late(seat, LOAD(seat->word));
	/* The completion that this is of wakes the thread. */
	if (seat_submit_send(number, seat, word, at))
		return PARK_GOES_ON;
	return seat_fail(seat, sending);
}

/* A SEND has completed. If redis_sent has committed it, the seat is IDLE since, or has another request. */
static __always_inline enum park_outcome seat_sent(struct bpfdb_seat *seat, u64 word, int result)
{
	switch (seat_state(word)) {
	case BPFDB_SEAT_SENDING:
		if (seat_move(seat, word, BPFDB_SEAT_IDLE))
			return PARK_BROKEN;
		STORE_RELEASE(seat->word, seat_in(word, BPFDB_SEAT_IDLE));
		return PARK_GOES_ON;
	case BPFDB_SEAT_TAKEN:
		STORE_RELEASE(seat->word, seat_in(word, BPFDB_SEAT_IDLE));
		return PARK_GOES_ON;
	case BPFDB_SEAT_IDLE: return result == (int)seat->reply_len ? PARK_GOES_ON : PARK_BROKEN;
	default: return PARK_GOES_ON;
	}
}

/* An operation of the seat has ended. */
static __always_inline enum park_outcome seat_completed(u32 number, struct bpfdb_seat *seat,
							const struct completion *completion)
{
	u64 word = LOAD_ACQUIRE(seat->word), of = completion->user_data;

	if (of == park_user_data(PARK_READ, number, word))
		return seat_read(number, seat, word, completion->result);
	if (of == park_user_data(PARK_SEND, number, word))
		return seat_sent(seat, word, completion->result);
	return PARK_GOES_ON;
}

/* Is it a completion of this ring? Which one that is its first completion tells. */
static __always_inline bool completion_is_ours(const struct completion *completion)
{
	if (!LOAD(parking.context) && parking.hello && completion->user_data == parking.hello)
		STORE(parking.context, completion->ring);
	return LOAD(parking.context) && completion->ring == parking.context;
}

/* The thread that submits does this itself. The bell's poll has to go on; if there is no place for it, the
 * thread looks at the queue by itself after a while. */
static __always_inline void bell_completed(const struct completion *completion)
{
	STORE(parking.thread, (u32)bpf_get_current_pid_tgid());
	if (!(completion->flags & IORING_CQE_F_MORE))
		PARK_SUBMIT(ring_poll_bell(&parking.ring));
}

#endif
