//! The ways of a request, and what is measured on each.

use anyhow::Result;

use super::load::{Asks, Load, Test};
use super::namespace::NetworkNamespace;
use crate::plan::Plan;

/// A way from the client to the server and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// Loopback, answered by TCP's receiver
    Loopback,
    /// Loopback, answered inside the client's send()
    Local,
    /// From another network namespace, as from another machine
    Remote,
    /// The same, received by a processor of its own, as from a network card
    Steered,
    /// Loopback, commands that are asked for less
    Other,
    /// Loopback, MULTI … EXEC
    Transactions,
    /// Loopback, commands that the kernel leaves to the daemon
    Daemon,
    /// Loopback, more and more connections
    Connections,
}

/// What is measured there: how many times the requests of the better Redis are
/// to be answered, if there is a target.
pub(crate) struct Row {
    pub(crate) load: Load,
    pub(crate) target: Option<f64>,
}

const PIPELINES: [u32; 2] = [1, 16];
/// What a server is asked for at most.
pub(crate) const CONNECTIONS_MAX: u32 = 10_000;

pub(crate) const GET: Test = test("get", "-t get");
pub(crate) const SET: Test = test("set", "-t set");
const INCR: Test = test("incr", "-t incr");
const MSET: Test = test("mset", "-t mset");

/// Of caches: values with an expiry, and conditions.
const SETEX: Test = test("SET EX", "SET key:__rand_int__ 0123456789abcdef EX 100000");
const SETNX: Test = test("SETNX", "SETNX key:__rand_int__ 0123456789abcdef");
const EXPIRE: Test = test("EXPIRE", "EXPIRE key:__rand_int__ 100000");
const TTL: Test = test("TTL", "TTL key:__rand_int__");

/// Of keys, and of parts of values: readers, and those that read and write.
const OTHER: [Test; 10] = [
    test("TYPE", "TYPE key:__rand_int__"),
    test("GETRANGE", "GETRANGE key:__rand_int__ 2 9"),
    test("GETBIT", "GETBIT key:__rand_int__ 7"),
    test("BITCOUNT", "BITCOUNT key:__rand_int__"),
    test("EXPIREAT", "EXPIREAT key:__rand_int__ 4102444800"),
    test("GETEX", "GETEX key:__rand_int__ EX 100000"),
    test("PERSIST", "PERSIST key:__rand_int__"),
    test("GETSET", "GETSET key:__rand_int__ 0123456789abcdef"),
    test("SETRANGE", "SETRANGE key:__rand_int__ 2 abcd"),
    test("SETBIT", "SETBIT key:__rand_int__ 7 1"),
];

/// Transactions, each between MULTI and EXEC.
const TRANSACTIONS: [Test; 3] = [
    block("INCRBY", "INCRBY number:__rand_int__ 7"),
    block(
        "SET SET GET",
        "SET key:__rand_int__ 0123456789abcdef; SET key:__rand_int__ fedcba9876543210; \
         GET key:__rand_int__",
    ),
    block(
        "GET GET GET GET",
        "GET key:__rand_int__; GET key:__rand_int__; GET key:__rand_int__; GET key:__rand_int__",
    ),
];

/// Commands of the daemon: readers, writers, and both.
const DAEMON: [Test; 9] = [
    test("DUMP", "DUMP key:__rand_int__"),
    test("OBJECT", "OBJECT ENCODING key:__rand_int__"),
    test("BITPOS", "BITPOS key:__rand_int__ 1"),
    test("LCS", "LCS key:__rand_int__ key:__rand_int__ LEN"),
    test("SCAN", "SCAN 0 COUNT 10"),
    test("INCRBYFLOAT", "INCRBYFLOAT float:__rand_int__ 1.5"),
    test("MSETNX", "MSETNX new:__rand_int__ 1 key:__rand_int__ 2"),
    test("EXPIRE GT", "EXPIRE key:__rand_int__ 100000 GT"),
    test("COPY", "COPY key:__rand_int__ copy:__rand_int__ REPLACE"),
];

/// For any number of connections.
const MANY: [Test; 2] = [
    command("SET", "SET key:__rand_int__ 0123456789abcdef"),
    command("GET", "GET key:__rand_int__"),
];

/// With long values.
const LONG: [Test; 3] = [SET, GET, test("BITCOUNT", "BITCOUNT key:__rand_int__")];

const fn test(name: &'static str, arguments: &'static str) -> Test {
    let asks = Asks::Benchmark(arguments);
    Test { name, asks }
}

const fn block(name: &'static str, commands: &'static str) -> Test {
    let asks = Asks::Block(commands);
    Test { name, asks }
}

const fn command(name: &'static str, command: &'static str) -> Test {
    let asks = Asks::Command(command);
    Test { name, asks }
}

impl Path {
    /// Of the tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Loopback => "tcp",
            Self::Local => "local",
            Self::Remote => "remote",
            Self::Steered => "steered",
            Self::Other => "other",
            Self::Transactions => "transactions",
            Self::Daemon => "daemon",
            Self::Connections => "connections",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Loopback => "through TCP on loopback",
            Self::Local => "clients of this machine, answered inside their send()",
            Self::Remote => "from another network namespace, over veth",
            Self::Steered => "over veth, received by the second processor",
            Self::Other => "other commands that the kernel answers, through TCP on loopback",
            Self::Transactions => "MULTI … EXEC in one message, through TCP on loopback",
            Self::Daemon => "commands that the daemon answers, through TCP on loopback",
            Self::Connections => "many connections, through TCP on loopback",
        }
    }

    /// For `--local-clients`.
    pub(crate) fn local_clients(self) -> &'static str {
        match self {
            Self::Local => "auto",
            _ => "off",
        }
    }

    /// Where the servers are, and where the clients.
    pub(crate) fn namespaces(self) -> Result<[NetworkNamespace; 2]> {
        match self {
            Self::Remote => NetworkNamespace::veth_pair(),
            Self::Steered => {
                let namespaces = NetworkNamespace::veth_pair()?;
                namespaces[0].steer(1)?;
                Ok(namespaces)
            }
            _ => Ok([NetworkNamespace::here(), NetworkNamespace::here()]),
        }
    }

    /// Whether the 99th percentile must be below that of the better Redis.
    pub(crate) fn wants_lower_latency(self) -> bool {
        self == Self::Local
    }

    /// Bytes of the values; every store is filled anew for each.
    pub(crate) fn sizes(self) -> &'static [u32] {
        match self {
            Self::Other | Self::Transactions | Self::Connections => &[16],
            Self::Daemon => &[16, 48 << 10],
            _ => &[16, 1024],
        }
    }

    /// What is measured with values of `size`.
    pub(crate) fn rows(self, size: u32, quick: bool) -> Vec<Row> {
        let mut rows = Vec::new();
        for &connections in self.connections(quick) {
            for pipeline in PIPELINES {
                for &threads in self.threads() {
                    for &test in self.tests(size, quick) {
                        let load = Load {
                            connections,
                            threads,
                            size,
                            pipeline,
                            test,
                        };
                        let target = self.target(load);
                        rows.push(Row { load, target });
                    }
                }
            }
        }
        rows
    }

    fn connections(self, quick: bool) -> &'static [u32] {
        match (self, quick) {
            (Self::Connections, false) => &[100, 1_000, CONNECTIONS_MAX],
            (Self::Connections, true) => &[100],
            _ => &[64],
        }
    }

    /// Threads of the client.
    fn threads(self) -> &'static [u32] {
        match self {
            Self::Local | Self::Remote | Self::Steered => &[1, 2],
            _ => &[2],
        }
    }

    fn tests(self, size: u32, quick: bool) -> &'static [Test] {
        match (self, size, quick) {
            (Self::Daemon, 16, true) => &DAEMON[..1],
            (Self::Other, _, true) => &OTHER[..1],
            (Self::Transactions, ..) => &TRANSACTIONS,
            (Self::Connections, ..) => &MANY,
            (_, _, true) => &[SET],
            (Self::Other, ..) => &OTHER,
            (Self::Daemon, 16, _) => &DAEMON,
            (Self::Daemon, ..) => &LONG,
            (Self::Loopback, 16, _) => &[SET, GET, INCR, MSET, SETEX, SETNX, EXPIRE, TTL],
            _ => &[SET, GET],
        }
    }

    fn target(self, load: Load) -> Option<f64> {
        let deep = load.pipeline > 1;
        match self {
            Self::Other | Self::Transactions | Self::Daemon => Some(0.8),
            Self::Connections => None,
            _ if ![SET, GET].contains(&load.test) => None,
            Self::Loopback | Self::Remote | Self::Steered => Some(if deep { 1.5 } else { 1.0 }),
            Self::Local => Some(if deep { 2.0 } else { 2.5 }),
        }
    }
}

impl Load {
    /// Different keys: those of the plan, less of the values that are large.
    pub(crate) fn keys(&self, plan: &Plan) -> u32 {
        keys(plan, self.size)
    }

    /// How often it is asked for: less where one request is much work.
    pub(crate) fn requests(&self, plan: &Plan) -> u32 {
        let requests = plan.tcp_requests[usize::from(self.pipeline > 1)];
        match (self.test, self.size) {
            (MSET, _) => requests / 4,
            (_, LARGE..) => requests / 20,
            _ if TRANSACTIONS.contains(&self.test) => requests / 4,
            _ if DAEMON.contains(&self.test) || OTHER.contains(&self.test) => requests / 2,
            _ => requests,
        }
    }
}

/// Values from here on are so large that there are less of them.
const LARGE: u32 = 10_000;

/// Different keys with values of `size`.
pub(crate) fn keys(plan: &Plan, size: u32) -> u32 {
    plan.tcp_keys / if size >= LARGE { 100 } else { 1 }
}
