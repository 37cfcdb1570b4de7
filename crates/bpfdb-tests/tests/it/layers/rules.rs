//! The rules of layers, as data: the only place where they stand.

/// What a layer of the sources in C may include besides itself.
pub(super) const INCLUDES: &[(&str, &[&str])] = &[
    ("abi", &[]),
    ("transport", &["abi"]),
    ("front_end", &["abi", "transport"]),
    ("storage", &["abi"]),
    ("log", &["abi", "storage"]),
    ("txn", &["abi", "storage", "log"]),
    ("operators", &["abi", "storage", "log", "txn"]),
    ("values", &["abi", "operators"]),
    ("procedures", &["abi", "operators", "values"]),
    ("driver", &["abi", "operators", "values", "procedures"]),
    ("net", &["abi", "transport", "operators"]),
    (
        "redis",
        &[
            "abi",
            "transport",
            "front_end",
            "operators",
            "values",
            "procedures",
            "net",
            "tier",
        ],
    ),
    ("proxy", &["abi"]),
    ("table_file", &["abi"]),
    ("ring", &["abi"]),
    ("table", &["abi", "ring", "table_file"]),
    ("tier", &["abi", "operators", "ring"]),
    // Of `net` only what is read of kernel structures.
    ("pg", &["abi", "proxy", "net"]),
    (
        "api",
        &[
            "abi",
            "operators",
            "values",
            "procedures",
            "table_file",
            "table",
        ],
    ),
    ("program", EVERYTHING),
    ("tests", EVERYTHING),
];

const EVERYTHING: &[&str] = &[
    "abi",
    "transport",
    "front_end",
    "storage",
    "log",
    "txn",
    "operators",
    "values",
    "procedures",
    "driver",
    "net",
    "redis",
    "proxy",
    "pg",
    "ring",
    "table_file",
    "table",
    "tier",
    "api",
    "program",
    "tests",
];

/// The layer of a file in C: that of the first row by which its path begins.
pub(super) const FOLDERS: &[(&str, &str)] = &[
    // What is about connections, or the Redis front end, is not for the engine.
    ("include/bpfdb/commands.h", "front_end"),
    ("include/bpfdb/redis.h", "front_end"),
    ("include/bpfdb/connection.h", "transport"),
    // What is about the proxy.
    ("include/bpfdb/proxy.h", "proxy"),
    // What is about tables.
    ("include/bpfdb/table.h", "table_file"),
    // For programs that embed the engine.
    ("bpf/api/", "api"),
    ("include/bpfdb/", "abi"),
    ("bpf/storage/", "storage"),
    ("bpf/log/", "log"),
    ("bpf/txn/", "txn"),
    ("bpf/operators/", "operators"),
    ("bpf/values/", "values"),
    ("bpf/procedures/", "procedures"),
    ("bpf/driver/", "driver"),
    ("bpf/net/", "net"),
    ("bpf/redis/", "redis"),
    ("bpf/pg/", "pg"),
    ("bpf/ring/", "ring"),
    ("bpf/table/", "table"),
    ("bpf/tier/", "tier"),
    ("bpf/tests/", "tests"),
    ("bpf/bench/", "program"),
    ("bpf/*.bpf.c", "program"),
    ("examples/", "program"),
];

/// A crate, and its layers from the lowest: each may use those before it. A layer is a module with
/// all that is below it. `folder/file` is one that is apart from its folder; then `folder` alone
/// is the code of its `mod.rs`.
pub(super) struct Crate {
    pub(super) name: &'static str,
    pub(super) layers: &'static [&'static str],
}

const fn of(name: &'static str, layers: &'static [&'static str]) -> Crate {
    Crate { name, layers }
}

/// All crates from the lowest: each may depend on those before it.
#[rustfmt::skip]
pub(super) const CRATES: &[Crate] = &[
    of("bpfdb-build", &[
        "result", "tree", "clang", "headers", "objects", "compile", "abi", "lists", "engine", "programs",
    ]),
    of("bpfdb-service", &["http", "endpoint", "notify"]),
    of("bpfdb-values", &[
        "integer", "double", "places", "run", "limits", "edit", "elements", "list", "hash", "set",
        "sorted_set", "listpack", "stream", "big", "hyperloglog", "geo",
    ]),
    of("bpfdb-model", &["fault", "history", "op", "checker", "engine"]),
    of("bpfdb", &[
        "abi", "keyspace", "value_type", "status", "conflict", "deoptimisation", "commands", "operators",
        "error", "random", "architecture", "mounts", "memory/cgroups", "objects", "layout", "memory/grace",
        "memory/chore", "options", "mapped", "program", "maps", "later", "driver", "claim", "memory/usage", "clock", "cold",
        "memory/grow", "memory", "time", "holders", "memory/shrink", "memory/idle", "memory/thread", "stats",
        "figures", "engine", "memory/presize", "log", "session", "database_order", "scan", "ordered", "victims", "emptying", "checkpoint", "locks",
        "tier",
    ]),
    of("bpfdb-log", &[
        "format/layout", "format/form", "disk", "format/moment", "error", "disk/buffer", "disk/queue", "format/segment",
        "format/batch", "format/record", "format/checkpoint", "format/control", "format/place",
        "disk/simulation", "disk/folders", "disk/owner", "disk/directory",
        "read/reader", "read/retained", "read/until", "read/recovered", "read/recovery", "read/follow",
        "write/plan", "write/spares", "write/writer", "write/queued", "write/beginning", "write/open",
        "tools/check", "tools/copy", "tools/lost", "tools/cut", "tools/rebuild",
    ]),
    of("bpfdb-ring", &["abi", "mapped", "ring"]),
    of("bpfdb-tier", &[
        "abi", "bell", "format", "prefetch", "park", "figures", "runs", "check", "victims", "writer", "reads", "values", "compact", "demoter", "tier", "tests",
    ]),
    of("bpfdb-durability", &[
        "budget", "error", "pace", "waiters", "wall", "home", "shared", "value_type", "feed", "load",
        "in_order", "opening", "checkpoint", "restore", "groups", "writer", "durability",
    ]),
    of("bpfdb-copies", &[
        "limits", "error", "collection", "crc64", "header", "sink", "source", "writer", "rdb", "binary",
        "jsonl", "format", "file", "large", "snapshot", "loader", "dump", "restore",
    ]),
    of("bpfdb-table", &[
        "abi", "error", "buffer", "bounds", "field", "aggregate", "block", "header", "writer", "sorter", "table", "walk", "reader",
        "kernel", "source", "input",
    ]),
    of("bpfdb-lua", &[
        "bit", "header", "limits", "number", "random", "sha1", "library", "call", "work", "charged",
        "native", "reply", "pattern", "matching", "pack", "msgpack", "json", "compile", "answer",
        "sandbox", "vm",
    ]),
    of("bpfdb-procedures", &[
        "error", "ir", "types", "lua", "code", "load", "listing", "unit", "inside", "embedded",
    ]),
    of("bpfdb-server", &[
        "values", "settings", "error", "io", "kernel/objects", "kernel/cgroup", "kernel/flags", "kernel/connections",
        "kernel/workers", "kernel/programs", "protocol", "kernel/redis", "kernel/procedures",
        "kernel/apart", "kernel/prefetch", "kernel/park", "kernel/waiting", "stats", "eviction", "tables",
        "connection", "scripting", "instance", "commands", "executor", "server",
    ]),
    of("bpfdb-proxy", &[
        "error", "hba", "io", "wire", "settings", "names", "config", "traffic", "parameters", "kernel", "statements", "auth", "pool", "mirror", "takeover", "client",
        "awaited", "server", "metrics", "proxy",
        "flags", "log_file",
    ]),
    of("bpfdb-tests", &[
        "lent", "log", "tier", "namespace", "random", "settings", "target", "timer", "words", "kernel",
        "schedule", "script", "steps", "stress", "files", "interrupt", "noise", "process", "serial",
        "programs", "server", "install",
    ]),
    of("bpfdb-cli", &[
        "bars", "flags", "interrupts", "left", "log", "output", "pins", "server", "times",
        "changes", "check", "checkpoint", "docs", "doctor", "dump", "locks", "procedures", "query", "recover",
        "offline", "export", "recovering", "restore", "stats", "data", "repair", "tail", "load", "serve",
    ]),
    of("bpfdb-apps", &[
        "client", "pattern", "random", "application", "procedures", "idempotency", "lock",
        "rate_limiter", "smallbank", "tatp", "voter",
    ]),
    of("bpfdb-bench", &[
        "commit", "machine", "objects", "records", "sample", "report", "docs", "plan", "tcp", "run", "kernel", "memory",
        "hostile", "types", "postgres", "durability", "procedures", "table", "proxy", "tier",
    ]),
];

/// Modules of a layer use each other in one direction, too, and so do the modules of each folder in
/// them. These uses close a circle, or point up: a crate, the module that uses (`*`: all of the
/// folder), the one that is used. No new row is for a new file.
#[rustfmt::skip]
pub(super) const CIRCLES: &[(&str, &str, &str)] = &[
    ("bpfdb-bench", "durability/files/store", "durability/files/save"),
    ("bpfdb-bench", "durability/files/targets", "durability/files/tables"),
    ("bpfdb-bench", "plan", "tcp"),
    ("bpfdb-bench", "tcp/load", "tcp/block"),
    ("bpfdb-bench", "tcp/server", "tcp/fill"),
    ("bpfdb-bench", "tcp/server", "tcp/path"),
    ("bpfdb-lua", "call", "json"),
    ("bpfdb-lua", "call", "reply"),
    ("bpfdb-procedures", "lua/constants", "lua/lower"),
    // The table has all commands; some of them list it.
    ("bpfdb-server", "commands/*", "commands/table"),
    ("bpfdb-server", "commands/context", "commands/job"),
    ("bpfdb-server", "commands/context", "commands/transaction"),
    ("bpfdb-server", "commands/scripting/redis_call", "commands/scripting/call"),
    ("bpfdb-server", "commands/transaction/queue", "commands/transaction/multi"),
    ("bpfdb-server", "executor/running", "executor/request"),
    ("bpfdb-server", "scripting/procedures/loaded", "scripting/procedures/direct"),
    ("bpfdb-server", "scripting/procedures/loaded", "scripting/procedures/functions"),
    ("bpfdb-tests", "process", "server"),
    ("bpfdb-tests", "server/lent", "server/pool"),
];

/// What the compiler needs besides for a header, or for those of a folder, that says what must be
/// defined before it is included.
pub(super) const NEEDS: &[(&str, &[&str])] = &[
    (
        "bpf/api/bpfdb/continuation.bpf.h",
        &[
            "-DBPFDB_CPS_SECTION=\"tc\"",
            "-DBPFDB_CPS_CONTEXT=struct __sk_buff",
            "-DBPFDB_CPS_SESSION(ctx)=((void)(ctx), (struct bpfdb_session *)0)",
        ],
    ),
    // A front end's definitions: see bpf/net/front_end.bpf.h.
    (
        "bpf/net/",
        &[
            "-include",
            "bpf/redis/context.bpf.h",
            "-Wno-undefined-internal",
        ],
    ),
];
