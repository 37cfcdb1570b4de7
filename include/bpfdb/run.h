/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Runs, the files of cold values, as far as programs read them: docs/formats/runs.md. */
#ifndef BPFDB_RUN_H
#define BPFDB_RUN_H

/* What an entry has before its key, bytes. */
#define BPFDB_RUN_ENTRY_HEAD 48

#endif
