/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The form of a version: 24 bits that say what its value is. The same word stands in the log, in
 * checkpoints (docs/formats/log.md) and in memory.
 *
 *   BPFDB_ABSENT (all bits)   no value: deleted, or never set
 *   else  bits  0 to 16   length, bytes: 0 to BPFDB_VALUE_MAX; 0 with BPFDB_LARGE
 *         bits 17 to 20   type: BPFDB_TYPE_, also with BPFDB_LARGE
 *         bit  21         zero. A form with this bit is refused
 *         bit  22         BPFDB_LARGE: a value of more than BPFDB_VALUE_MAX bytes
 *         bit  23         BPFDB_EXPIRES: the value has a time at which it expires
 *
 * Rust reads the numbers here from the text of this file (crates/bpfdb-log/src/format/form.rs):
 * each is one decimal number.
 */
#ifndef BPFDB_FORM_H
#define BPFDB_FORM_H

#define BPFDB_FORM_BITS 24
#define BPFDB_FORM_LENGTH_BITS 17
#define BPFDB_FORM_TYPE_BITS 4
#define BPFDB_FORM_ZERO_BIT 21
#define BPFDB_FORM_LARGE_BIT 22
#define BPFDB_FORM_EXPIRES_BIT 23

/*
 * Types of values. A value that is no string has at least one byte and lies in a slot, however
 * short it is, or is a large one. An operator that expects a string says WRONG_TYPE of any other.
 */
#define BPFDB_TYPE_STRING 0
#define BPFDB_TYPE_HASH 1
#define BPFDB_TYPE_LIST 2
#define BPFDB_TYPE_SET 3
#define BPFDB_TYPE_SORTED_SET 4
#define BPFDB_TYPE_STREAM 5
#define BPFDB_TYPE_COUNT 6 /* of those above: a new type has this number, and raises it */
#define BPFDB_TYPE_TEST 14 /* of the tests alone: bytes that nothing interprets */
/* Not a type: GET with this finds values of any. */
#define BPFDB_TYPE_ANY 15

#define BPFDB_FORM_MASK ((1ULL << BPFDB_FORM_BITS) - 1)
#define BPFDB_FORM_LENGTH_MASK ((1ULL << BPFDB_FORM_LENGTH_BITS) - 1)
#define BPFDB_FORM_TYPE_MASK ((1ULL << BPFDB_FORM_TYPE_BITS) - 1)
#define BPFDB_ABSENT BPFDB_FORM_MASK
#define BPFDB_LARGE (1ULL << BPFDB_FORM_LARGE_BIT)
#define BPFDB_EXPIRES (1ULL << BPFDB_FORM_EXPIRES_BIT)

_Static_assert(BPFDB_TYPE_COUNT <= BPFDB_TYPE_TEST, "the type of tests is none of them");
_Static_assert(BPFDB_FORM_LENGTH_BITS + BPFDB_FORM_TYPE_BITS == BPFDB_FORM_ZERO_BIT,
	       "the type is behind the length");

#endif
