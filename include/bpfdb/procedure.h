/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Calls of compiled procedures: what a program that calls one, the generated program
 * (crates/bpfdb-procedures) and user space share. bpf/procedures/frame.bpf.h tells how a
 * call goes.
 */
#ifndef BPFDB_PROCEDURE_H
#define BPFDB_PROCEDURE_H

#include <linux/types.h>
#include <bpfdb/abi.h>
#include <bpfdb/limits.h>

/* Keys that a call may have, and arguments. A power of two. */
#define BPFDB_CALL_WORDS 64
/* Values of a procedure: local variables, and what lies between two operations. A power
 * of two. */
#define BPFDB_CALL_REGISTERS 256
/* Elements of an array that is replied. A power of two. */
#define BPFDB_CALL_REPLIES 64
/* Bytes for the texts of a call. A power of two. */
#define BPFDB_CALL_HEAP 65536
/* The first of them are for the literals of the procedure. */
#define BPFDB_CALL_LITERALS 4096
/* Longest text, bytes: what a reply holds. */
#define BPFDB_CALL_TEXT_MAX (28 * 1024)
/* Behind the heap: an access may begin at its last byte. The verifier wants room for what a
 * reply may copy. */
#define BPFDB_CALL_PAD (32768 + 64)
/* Keys and arguments of a call together, bytes: half of the heap. */
#define BPFDB_CALL_WORDS_BYTES (BPFDB_CALL_HEAP / 2 - BPFDB_CALL_LITERALS)
/* What a call may do: a round of a loop takes one, and one more for each 64 instructions, a key of
 * a command BPFDB_CALL_FUEL_COMMAND, and a value that is written one for each
 * BPFDB_CALL_FUEL_BYTES: it goes to memory, if there are many. (What is read has the heap for its
 * bound.) With all of it a call takes about a millisecond. (From 65,535 rounds on a loop that is
 * bounded by may_goto may end in the kernel 6.18.) */
#define BPFDB_CALL_FUEL 60000
#define BPFDB_CALL_FUEL_COMMAND 40
#define BPFDB_CALL_FUEL_BYTES 96
/* No attempt begins so long after a first one has met a conflict, nanoseconds: with both a call
 * stays below two milliseconds. */
#define BPFDB_CALL_RETRY 300000
/* Words of an entry of a collection (bpf/values/packed_entry.bpf.h), and where in it the length of
 * its value is, bytes. */
#define BPFDB_CALL_ENTRY_WORDS 5
#define BPFDB_CALL_ENTRY_VALUE_LEN 20
/* Longest line of a status or an error that the kernel replies, bytes. A power of two. */
#define BPFDB_CALL_LINE_MAX 512
/* Longest name of a function, or of a script, by which the kernel finds it. */
#define BPFDB_CALL_NAME_MAX 40
/* Calls at the same time, at least. The loader of the map gives it more on a machine with many
 * processors: a call that loses its processor keeps its frame. */
#define BPFDB_FRAMES 16
/* So many are looked at for one that is free. */
#define BPFDB_FRAMES_TRIED 64
/* Programs, and names by which they are called. */
#define BPFDB_PROCEDURE_SLOTS 256
#define BPFDB_PROCEDURE_NAMES 1024
/* Calls in one run of the program, of procedures, of redis_apart and of redis_large: each is a tail
 * call, of which there may be 33. */
#define BPFDB_CALLS_PER_RUN 32

_Static_assert(BPFDB_CALL_PAD > BPFDB_CALL_TEXT_MAX, "a text may begin at the heap's end");

/* What a value is. Those below INTEGER are no true and have no more than this. */
enum bpfdb_tag {
	BPFDB_TAG_NIL = 0,
	BPFDB_TAG_FALSE = 1,
	BPFDB_TAG_TRUE = 2,
	BPFDB_TAG_INTEGER = 3, /* the number, within 2^53 */
	BPFDB_TAG_TEXT = 4, /* place in the heap | length << 32 */
	BPFDB_TAG_STATUS = 5, /* the same */
	BPFDB_TAG_ERROR = 6, /* the same */
	BPFDB_TAG_COUNT = 7,
};

/*
 * Why a call ended without a result, besides an Error of the engine (enum bpfdb_status), as
 * one list. All that it did was undone, and the interpreter is to run it. These compare as
 * Errors.
 *
 * X(NAME, value, "text")
 */
#define BPFDB_DEOPTIMISATION_LIST(X)                                                               \
	X(TEXT_IS_NO_NUMBER, 64, "a text was no whole number")                                     \
	X(NUMBER_TOO_LARGE, 65, "a number was beyond 2^53")                                        \
	X(FRACTION, 66, "a number was no whole one")                                               \
	X(MINUS_ZERO, 67, "a number was -0")                                                       \
	X(TYPE, 68, "a value was of a type that Lua would refuse, or that is not compiled")        \
	X(FUEL, 69, "it ran for as long as it may")                                                \
	X(HEAP, 70, "its texts had no room")                                                       \
	X(KEY, 71, "a key was empty, too long or reserved")                                        \
	X(VALUE, 72, "a value was longer than the kernel reads at once")                           \
	X(NUMBER_IN_TEXT, 73, "a number has another text in Lua")                                  \
	X(TIME, 74, "an expiry was in the past, or too far away")                                  \
	X(LINE, 75, "a status or an error was too long, or had several lines")                     \
	X(COUNTER, 76, "a value to be incremented was no number, or went beyond its range")        \
	X(MISSED, 77, "the program was replaced at that moment")                                   \
	X(VALUE_TYPE, 78, "a value was of another type than its command is for")                   \
	X(COLLECTION, 79, "a collection, or what was put into it, was none that the kernel edits") \
	X(WAITED_FOR, 80, "a client waited for the key that was to be filled")

#define BPFDB_DEOPTIMISATION_ENUM(name, value, text) BPFDB_DEOPTIMISATION_##name = value,
enum bpfdb_deoptimisation {
	BPFDB_DEOPTIMISATION_LIST(BPFDB_DEOPTIMISATION_ENUM) BPFDB_DEOPTIMISATION_END = 81,
};
#define BPFDB_DEOPTIMISATION_FIRST 64
#define BPFDB_DEOPTIMISATION_COUNT 17
_Static_assert(BPFDB_DEOPTIMISATION_END - BPFDB_DEOPTIMISATION_FIRST == BPFDB_DEOPTIMISATION_COUNT,
	       "all of the list");

/* Whose a frame is; bpf/procedures/embedded.bpf.h has the way from one to the other. */
enum bpfdb_frame_state {
	BPFDB_FRAME_FREE = 0,
	BPFDB_FRAME_CLAIMED = 1, /* in use by a task */
	BPFDB_FRAME_READY = 2, /* to be entered by its task */
	BPFDB_FRAME_RUNNING = 3, /* entered */
};

/* One call. The generated program reaches what lies before the heap by constant offsets. */
struct bpfdb_frame {
	__u32 busy; /* enum bpfdb_frame_state */
	__u32 session; /* index of the caller's session */
	__u32 function; /* which of the program's bodies */
	__u32 reads; /* it writes nothing: a snapshot is enough */
	__u32 keys; /* how many there are */
	__u32 arguments;
	__u32 heap_used; /* bytes */
	__u32 heap_begin; /* the same when the body begins */
	__u32 fuel;
	__u32 building; /* where the text begins that is being put together */
	__u32 outcome; /* 0; or the Error, or why it was given up */
	__u32 conflicts; /* attempts before the one that counted */
	__u32 replies; /* values of the reply */
	__u32 is_array; /* the reply is one */
	__u32 place; /* of a loop in a text */
	__u32 digits; /* where the number in `text` begins */
	__u32 number; /* of the frame, for the program that enters by it */
	__u32 lacks_words; /* a key or an argument had no room: calls are given up */
	__u32 database; /* Redis database of its keys */
	/* Of the collection that a command is about: BPFDB_TYPE_; those of its elements that the
	 * command has added or taken, or all that there are; and whether a member of a sorted set
	 * was taken out, to be put in elsewhere. */
	__u32 type;
	__u32 elements;
	__u32 moved;
	__u64 task; /* of the caller, while the frame is READY */
	__u64 gets_found; /* the session's, before the attempt */
	__u64 gets_missed;
	__u64 until; /* the clock: no attempt begins later; 0: there was one only */
	__u64 text[4]; /* a number in digits, which end at the last byte */
	/* The score that a member gets, or by how much it grows; an entry of a collection: struct
	 * packed_entry. */
	__s64 score;
	__u64 entry[BPFDB_CALL_ENTRY_WORDS];
	__u64 key_words[BPFDB_CALL_WORDS]; /* as values of the tag TEXT */
	__u64 argument_words[BPFDB_CALL_WORDS];
	__u64 registers[BPFDB_CALL_REGISTERS];
	__u8 tags[BPFDB_CALL_REGISTERS];
	__u64 reply_values[BPFDB_CALL_REPLIES];
	__u8 reply_tags[BPFDB_CALL_REPLIES];
	__u8 heap[BPFDB_CALL_HEAP + BPFDB_CALL_PAD];
};

_Static_assert(__builtin_offsetof(struct bpfdb_frame, heap) + BPFDB_CALL_LITERALS < 32768,
	       "constant offsets of instructions reach all literals");

/* A name by which a procedure is called: zero-padded. */
struct bpfdb_procedure_name {
	__u32 kind; /* BPFDB_PROCEDURE_ */
	__u32 len;
	__u64 words[BPFDB_CALL_NAME_MAX / 8];
};
#define BPFDB_PROCEDURE_FUNCTION 0
#define BPFDB_PROCEDURE_SCRIPT 1 /* by its SHA-1 in small hexadecimal digits */

/* What the kernel knows of a procedure. */
struct bpfdb_procedure {
	__u32 slot; /* of its program */
	__u32 function; /* which of the program's bodies */
	__u32 reads; /* it writes nothing: a snapshot is enough */
	__u32 read_only_forms; /* EVALSHA_RO and FCALL_RO call it */
	__u32 number; /* of its counters */
	__u32 reserved;
};

/* What is counted of a procedure, per processor. */
struct bpfdb_procedure_counters {
	__u64 calls; /* answered in the kernel */
	__u64 conflicts; /* attempts that were repeated */
	__u64 errors; /* Errors of the engine: the daemon ran the call */
	__u64 measured; /* calls that were timed */
	__u64 time; /* of these, nanoseconds */
	__u64 longest;
	__u64 deoptimisations[BPFDB_DEOPTIMISATION_COUNT];
};

/* ---- Calls of embedded programs ------------------------------------------- */

/* Functions that user space publishes for an object, by numbers of its own. */
#define BPFDB_FUNCTIONS_MAX 64
/* Each is one word: slot of its program, which of the program's bodies, and whether it only
 * reads. 0: there is none. */
#define BPFDB_FUNCTION_BODY_SHIFT 16
#define BPFDB_FUNCTION_ONLY_READS (1ULL << 32)
#define BPFDB_FUNCTION_SLOT(what) ((__u32)(what) & 0xffff)
#define BPFDB_FUNCTION_BODY(what) ((__u32)(what) >> BPFDB_FUNCTION_BODY_SHIFT)
#define BPFDB_FUNCTION_READS(what) (((what) & BPFDB_FUNCTION_ONLY_READS) != 0)

/* ---- Calls of user space: BPF_PROG_RUN ------------------------------------ */

/*
 * In an io buffer of a session:
 *
 *   struct bpfdb_calls │ call │ call │ … │        │ reply │ reply │ …
 *   0                                             BPFDB_CALLS_SIZE     BPFDB_IO_SIZE
 *
 * All of them are padded to 8 bytes.
 */
#define BPFDB_CALLS_SIZE (176 * 1024)
/* Calls of a run at most, and its fuel: some 25 milliseconds at most. */
#define BPFDB_CALLS_MAX 8192
#define BPFDB_CALLS_FUEL (16 * BPFDB_CALL_FUEL)

struct bpfdb_calls {
	__u32 at; /* in: first call; out: the next one, which was not executed */
	__u32 end; /* in: where the calls end */
	__u32 to; /* out: where the replies end */
	__u32 done; /* out: calls that were executed, each with a reply */
	__u32 status; /* out: the Error of the call at `at`, which may pass: MEMORY_PENDING,
		       * LOG_FULL, LOG_CLOSED, SESSION_BUSY; or BAD_REQUEST; or 0 */
	__u32 fuel; /* in: BPFDB_CALLS_FUEL; out: what is left */
};

/* A call. Behind it lie the lengths of keys and arguments, of 32 bits, and their bytes. */
struct bpfdb_call {
	__u32 function; /* which of the program's bodies */
	__u32 reads; /* it writes nothing: a snapshot is enough */
	__u32 keys; /* how many there are */
	__u32 arguments;
	__u32 bytes; /* of keys and arguments, each of them padded to 8 */
	__u32 reserved;
};

/* Its reply. Behind it lie the values, and then the bytes of texts, each of them padded to
 * 8. */
struct bpfdb_call_reply {
	__u32 outcome; /* 0; or the Error, or why it was given up: it has left nothing then */
	__u32 conflicts; /* attempts before the one that counted */
	__u32 values;
	__u32 is_array;
};

struct bpfdb_call_value {
	__u32 tag; /* enum bpfdb_tag */
	__u32 len; /* of a text */
	__u64 number;
};

/* Longest reply, bytes. */
#define BPFDB_CALL_REPLY_MAX (BPFDB_CALL_TEXT_MAX + BPFDB_CALL_REPLIES * 24 + 16)
_Static_assert(BPFDB_CALL_REPLY_MAX >=
		       sizeof(struct bpfdb_call_reply) +
			       BPFDB_CALL_REPLIES * (sizeof(struct bpfdb_call_value) + 8) +
			       BPFDB_CALL_TEXT_MAX,
	       "values, texts and their padding");
_Static_assert(BPFDB_CALLS_SIZE + 2 * BPFDB_CALL_REPLY_MAX < BPFDB_IO_SIZE, "room for replies");

#endif
