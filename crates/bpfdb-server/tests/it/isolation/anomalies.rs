//! Each anomaly that has a name, and what it would break.

use crate::isolation::actors::{Body, Role};
use crate::isolation::steps;

/// What is under the keys; `-`: nothing.
type Values<'a> = &'a [&'a str];

/// Transactions of several roles, which clients run at the same time on the same keys.
#[derive(Debug)]
pub(crate) struct Anomaly {
    /// As in `tests/scripts`.
    pub(crate) name: &'static str,
    pub(crate) keys: &'static [&'static str],
    /// What is under them at the start.
    pub(crate) start: &'static [&'static str],
    pub(crate) roles: &'static [Role],
    /// Of every snapshot.
    pub(crate) holds: fn(Values<'_>) -> bool,
    /// Of every snapshot and a later one of the same client.
    pub(crate) may_follow: fn(Values<'_>, Values<'_>) -> bool,
    /// Of what is there when so many transactions were committed.
    pub(crate) holds_at_end: fn(Values<'_>, u64) -> bool,
}

/// A function of anomalies.lua, and the same in steps.rs. It may get anything.
const fn role(function: &'static str, keys: &'static [&'static str], steps: Body) -> Role {
    Role {
        function,
        keys,
        arguments: &[],
        steps,
        is_well: |_| true,
    }
}

/// Reads all keys of an anomaly at one moment.
pub(crate) fn observer(keys: &'static [&'static str]) -> Role {
    role("look", keys, steps::look)
}

/// One that nothing breaks.
const NONE: Anomaly = Anomaly {
    name: "",
    keys: &[],
    start: &[],
    roles: &[],
    holds: |_| true,
    may_follow: |_, _| true,
    holds_at_end: |_, _| true,
};

fn sum(values: Values<'_>) -> i64 {
    let number = |value: &&str| value.parse::<i64>().unwrap_or(0);
    values.iter().map(number).sum()
}

fn both_same(told: &str) -> bool {
    told.split_once(' ').is_some_and(|(a, b)| a == b)
}

pub(crate) const ANOMALIES: &[Anomaly] = &[
    // G0: x of the one, y of the other.
    Anomaly {
        name: "dirty write",
        keys: &["x", "y"],
        start: &["A", "A"],
        roles: &[
            Role {
                arguments: &["A"],
                ..role("write_both", &["x", "y"], steps::write_both)
            },
            Role {
                arguments: &["B"],
                ..role("write_both", &["y", "x"], steps::write_both)
            },
        ],
        holds: |values| values[0] == values[1],
        ..NONE
    },
    // G1a: what was rolled back is seen.
    Anomaly {
        name: "aborted read",
        keys: &["x", "copy"],
        start: &["clean", "-"],
        roles: &[
            Role {
                arguments: &["dirty", "fails"],
                is_well: |_| false,
                ..role("write_or_fail", &["x"], steps::write_or_fail)
            },
            // The kernel does not run for long what it gives up most of the time.
            Role {
                arguments: &["clean", "1"],
                ..role("write_or_fail", &["x"], steps::write_or_fail)
            },
            Role {
                is_well: |told| told == "clean",
                ..role("copy", &["x", "copy"], steps::copy)
            },
        ],
        holds: |values| values[0] == "clean",
        ..NONE
    },
    // G1b: the first of two writes is seen.
    Anomaly {
        name: "intermediate read",
        keys: &["x", "copy"],
        start: &["whole", "-"],
        roles: &[
            Role {
                arguments: &["half", "whole"],
                ..role("write_twice", &["x"], steps::write_twice)
            },
            Role {
                is_well: |told| told == "whole",
                ..role("copy", &["x", "copy"], steps::copy)
            },
        ],
        holds: |values| values[0] == "whole",
        ..NONE
    },
    // G1c: each has seen what the other one wrote.
    Anomaly {
        name: "circular information flow",
        keys: &["x", "y", "x has seen", "y has seen"],
        start: &["0", "0", "-1", "-1"],
        roles: &[
            role(
                "count_and_see",
                &["x", "y", "x has seen"],
                steps::count_and_see,
            ),
            role(
                "count_and_see",
                &["y", "x", "y has seen"],
                steps::count_and_see,
            ),
        ],
        holds: |values| !(values[2] == values[1] && values[3] == values[0]),
        ..NONE
    },
    // What was read changes under the reader.
    Anomaly {
        name: "fuzzy read",
        keys: &["x", "copy"],
        start: &["0", "-"],
        roles: &[
            Role {
                arguments: &["1"],
                ..role("add", &["x"], steps::add)
            },
            Role {
                is_well: both_same,
                ..role("read_twice", &["x", "copy"], steps::read_twice)
            },
            Role {
                is_well: both_same,
                ..role("see_twice", &["x"], steps::see_twice)
            },
        ],
        ..NONE
    },
    // G-single: x before a transfer, y after it.
    Anomaly {
        name: "read skew",
        keys: &["x", "y", "sum"],
        start: &["50", "50", "-"],
        roles: &[
            Role {
                arguments: &["1"],
                ..role("transfer", &["x", "y"], steps::transfer)
            },
            Role {
                arguments: &["3"],
                ..role("transfer", &["y", "x"], steps::transfer)
            },
            Role {
                is_well: |told| told == "100",
                ..role("sum", &["x", "y", "sum"], steps::sum)
            },
        ],
        holds: |values| sum(&values[..2]) == 100,
        ..NONE
    },
    Anomaly {
        name: "lost update",
        keys: &["n"],
        start: &["0"],
        roles: &[Role {
            arguments: &["1"],
            ..role("add", &["n"], steps::add)
        }; 2],
        holds_at_end: |values, committed| sum(values) == committed as i64,
        ..NONE
    },
    // A. Fekete, E. O'Neil, P. O'Neil, "A Read-Only Transaction Anomaly Under Snapshot Isolation",
    // 2004: a snapshot shows a deposit and no withdrawal, and then the withdrawal had a fee for want
    // of a deposit.
    Anomaly {
        name: "read-only anomaly",
        keys: &["deposited", "withdrawn", "day"],
        start: &["no", "no", "0"],
        roles: &[
            role("deposit", &["deposited"], steps::deposit),
            role("withdraw", &["deposited", "withdrawn"], steps::withdraw),
            role(
                "next_day",
                &["deposited", "withdrawn", "day"],
                steps::next_day,
            ),
        ],
        may_follow: |first, second| {
            let is_shown = first[0] == "yes" && first[1] == "no";
            !(is_shown && first[2] == second[2] && second[1] == "with a fee")
        },
        ..NONE
    },
    // G2-item, of two: both leave, because the other one stays.
    Anomaly {
        name: "write skew",
        keys: &["alice", "bob"],
        start: &["on", "on"],
        roles: &[
            role("leave_or_return", &["alice", "bob"], steps::leave_or_return),
            role("leave_or_return", &["bob", "alice"], steps::leave_or_return),
        ],
        holds: |values| values.contains(&"on"),
        ..NONE
    },
    // G2-item, of three in a ring: the last to leave has seen the first one gone.
    Anomaly {
        name: "G2-item",
        keys: &["x", "y", "z"],
        start: &["on", "on", "on"],
        roles: &[
            role("leave_or_return", &["x", "y"], steps::leave_or_return),
            role("leave_or_return", &["y", "z"], steps::leave_or_return),
            role("leave_or_return", &["z", "x"], steps::leave_or_return),
        ],
        holds: |values| values.contains(&"on"),
        ..NONE
    },
    // G2 by absence: both insert, because the other key is not there.
    Anomaly {
        name: "G2",
        keys: &["x", "y"],
        start: &["-", "-"],
        roles: &[
            role("insert_or_delete", &["x", "y"], steps::insert_or_delete),
            role("insert_or_delete", &["y", "x"], steps::insert_or_delete),
        ],
        holds: |values| values.contains(&"-"),
        ..NONE
    },
    // Two have seen that the name is free, and take it.
    Anomaly {
        name: "phantom",
        keys: &["name", "claimed", "released"],
        start: &["-", "0", "0"],
        roles: &[role(
            "claim_or_release",
            &["name", "claimed", "released"],
            steps::claim_or_release,
        ); 2],
        holds: |values| {
            let there = i64::from(values[0] != "-");
            sum(&values[1..2]) - sum(&values[2..]) == there
        },
        ..NONE
    },
];
