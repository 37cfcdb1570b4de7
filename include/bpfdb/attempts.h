/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * How often something is tried again: all of it, for the engine, the front end in the kernel,
 * the library and the daemon.
 *
 *   caller          what is in the way       attempts            between them      at the end
 *   ------------    ---------------------    ----------------    --------------    --------------
 *   operator        a latch, or a change     TRIES               nothing           CONFLICT (busy)
 *                                                                                  or MEMORY_PENDING
 *   operator        a writer beside a read   READ_TRIES          nothing           EXHAUSTED
 *   read            a value is replaced      COPY_TRIES          nothing           reads a snapshot
 *                   while it is copied
 *   command         CONFLICT, outside of a   COMMAND_TRIES       nothing           to the daemon
 *                   transaction
 *   call            CONFLICT                 COMMAND_TRIES,      nothing           to the daemon
 *                                            for CALL_RETRY
 *   command, call   the reaper in the        READ_TRIES          nothing           SESSION_BUSY; it
 *                   session, at its end                                            rolls back
 *   EXEC, kernel    CONFLICT                 BLOCK_TRIES         nothing           to the daemon
 *   EXEC, daemon    CONFLICT                 BLOCK_TRIES         others are        DAEMON_TRIES
 *                                                                served
 *   daemon          CONFLICT, or             DAEMON_TRIES        DAEMON_PAUSE,     the Error
 *                   VERSIONS_FULL                                others served
 *   daemon, then    CONFLICT with a          DAEMON_PROGRAM_     DAEMON_PROGRAM_   the Error
 *                   program of the kernel    TRIES               PAUSE, the same
 *   daemon          MEMORY_PENDING, or       DAEMON_MEMORY_      DAEMON_MEMORY_    the Error
 *                   LOG_FULL, LOG_CLOSED     TRIES               PAUSE, the same
 *   daemon          no memory, and pages of  DAEMON_MEMORY_      until they are    as above
 *                   large collections that   TRIES               removed, others
 *                   are gone                                     served
 *   daemon          LOG_FULL of a command    DAEMON_DRAIN_       until it is       the Error
 *                   that has filled it with  TRIES               written, others
 *                   pages of collections                         served
 *   EXEC, script    the same, from the       the same, until     the same          the Error
 *                   beginning                they took
 *                                            DAEMON_MOMENT
 *   library         MEMORY_PENDING           MEMORY_TRIES        memory is added   the Error
 *   library         LOG_FULL                 LOG_TRIES           a millisecond     the Error
 *   library         LOG_CLOSED               1                   nothing           the Error
 *   library         the reaper in its        SESSION_TRIES       a tenth of a      SESSION_BUSY
 *                   session                                      millisecond
 *
 * An attempt of a lower row makes all attempts of those above it. Nothing is tried again
 * inside a client's transaction: an Error has failed it. A COMMIT that the log refuses has not, and
 * is tried again; so is what has found its session busy, and was not executed.
 */
#ifndef BPFDB_ATTEMPTS_H
#define BPFDB_ATTEMPTS_H

/* The holder of a latch is on another processor and keeps it for less than a microsecond, or is
 * the program that this one interrupted, and keeps it until this one has ended. */
#define BPFDB_TRIES 64
/* An optimistic read begins anew only when another operator has made progress. */
#define BPFDB_READ_TRIES 4096
#define BPFDB_COPY_TRIES 64
#define BPFDB_COMMAND_TRIES 64
#define BPFDB_BLOCK_TRIES 16
#define BPFDB_DAEMON_TRIES 5
#define BPFDB_DAEMON_PAUSE 200 /* microseconds: a holder was interrupted for a moment */
/* Half a second: a program of the kernel holds the key, whose thread has lost its processor. It
 * ends its transaction when it has one again, after some slices of the scheduler. Not for a
 * transaction that a client has begun with BEGIN: it may keep the key for as long as it likes. */
#define BPFDB_DAEMON_PROGRAM_TRIES 500
#define BPFDB_DAEMON_PROGRAM_PAUSE 1000 /* microseconds */
#define BPFDB_DAEMON_MEMORY_TRIES 500
#define BPFDB_DAEMON_MEMORY_PAUSE 1000 /* microseconds: half of what adding a segment takes */
/* A command logs the pages of large collections before it commits: an attempt that begins before those
 * of the last one are written fills what room there is, and ends as that did. */
#define BPFDB_DAEMON_DRAIN_TRIES 20
/* Of all attempts together, without the pauses. One attempt of a long transaction may need more
 * memory, or more of the log, than there is. */
#define BPFDB_DAEMON_MOMENT 1000000 /* microseconds */
/* A tenth of a millisecond each while a page is changed by an operator that may not have a
 * processor, longer while memory is added. */
#define BPFDB_MEMORY_TRIES 500
#define BPFDB_LOG_TRIES 500
/* A tenth of a millisecond each: the reaper is inside, and may have no processor. */
#define BPFDB_SESSION_TRIES 500

#endif
