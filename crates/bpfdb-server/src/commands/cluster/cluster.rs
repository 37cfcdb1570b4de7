//! CLUSTER: there is no cluster. Each of its subcommands is known, with its number of words, and refused as
//! by a Redis whose setting cluster-enabled is off.

use super::super::definition::Deprecated;
use super::super::prelude::*;
use super::disabled;

pub(crate) static ADDSLOTS: Command = Command {
    name: "cluster|addslots",
    summary: "Would give the node slots",
    since: "3.0.0",
    group: Group::Cluster,
    complexity: "O(1)",
    arity: -3,
    arguments: "slot:integer...",
    flags: &[Flag::Admin, Flag::Stale, Flag::NoAsyncLoading],
    run: disabled,
    ..Command::BASE
};

pub(crate) static ADDSLOTSRANGE: Command = Command {
    name: "cluster|addslotsrange",
    summary: "Would give the node ranges of slots",
    since: "7.0.0",
    group: Group::Cluster,
    complexity: "O(1)",
    arity: -4,
    arguments: "start-slot_end-slot{start-slot:integer, end-slot:integer}...",
    flags: &[Flag::Admin, Flag::Stale, Flag::NoAsyncLoading],
    run: disabled,
    ..Command::BASE
};

pub(crate) static BUMPEPOCH: Command = Command {
    name: "cluster|bumpepoch",
    summary: "Would advance the epoch of the node",
    since: "3.0.0",
    group: Group::Cluster,
    complexity: "O(1)",
    arity: 2,
    flags: &[Flag::Admin, Flag::Stale, Flag::NoAsyncLoading],
    tips: &["nondeterministic_output"],
    run: disabled,
    ..Command::BASE
};

pub(crate) static COUNT_FAILURE_REPORTS: Command = Command {
    name: "cluster|count-failure-reports",
    summary: "Would count the reports that a node has failed",
    since: "3.0.0",
    group: Group::Cluster,
    complexity: "O(1)",
    arity: 3,
    arguments: "node-id",
    flags: &[Flag::Admin, Flag::Stale],
    tips: &["nondeterministic_output"],
    run: disabled,
    ..Command::BASE
};

pub(crate) static COUNTKEYSINSLOT: Command = Command {
    name: "cluster|countkeysinslot",
    summary: "Would count the keys of a slot",
    since: "3.0.0",
    group: Group::Cluster,
    complexity: "O(1)",
    arity: 3,
    arguments: "slot:integer",
    flags: &[Flag::Stale],
    run: disabled,
    ..Command::BASE
};

pub(crate) static DELSLOTS: Command = Command {
    name: "cluster|delslots",
    summary: "Would take slots from the node",
    since: "3.0.0",
    group: Group::Cluster,
    complexity: "O(1)",
    arity: -3,
    arguments: "slot:integer...",
    flags: &[Flag::Admin, Flag::Stale, Flag::NoAsyncLoading],
    run: disabled,
    ..Command::BASE
};

pub(crate) static DELSLOTSRANGE: Command = Command {
    name: "cluster|delslotsrange",
    summary: "Would take ranges of slots from the node",
    since: "7.0.0",
    group: Group::Cluster,
    complexity: "O(1)",
    arity: -4,
    arguments: "start-slot_end-slot{start-slot:integer, end-slot:integer}...",
    flags: &[Flag::Admin, Flag::Stale, Flag::NoAsyncLoading],
    run: disabled,
    ..Command::BASE
};

pub(crate) static FAILOVER: Command = Command {
    name: "cluster|failover",
    summary: "Would make a replica the master",
    since: "3.0.0",
    group: Group::Cluster,
    complexity: "O(1)",
    arity: -2,
    arguments: "[options(FORCE|TAKEOVER)]",
    flags: &[Flag::Admin, Flag::Stale, Flag::NoAsyncLoading],
    run: disabled,
    ..Command::BASE
};

pub(crate) static FLUSHSLOTS: Command = Command {
    name: "cluster|flushslots",
    summary: "Would take all slots from the node",
    since: "3.0.0",
    group: Group::Cluster,
    complexity: "O(1)",
    arity: 2,
    flags: &[Flag::Admin, Flag::Stale, Flag::NoAsyncLoading],
    run: disabled,
    ..Command::BASE
};

pub(crate) static FORGET: Command = Command {
    name: "cluster|forget",
    summary: "Would forget a node",
    since: "3.0.0",
    group: Group::Cluster,
    complexity: "O(1)",
    arity: 3,
    arguments: "node-id",
    flags: &[Flag::Admin, Flag::Stale, Flag::NoAsyncLoading],
    run: disabled,
    ..Command::BASE
};

pub(crate) static GETKEYSINSLOT: Command = Command {
    name: "cluster|getkeysinslot",
    summary: "Would list keys of a slot",
    since: "3.0.0",
    group: Group::Cluster,
    complexity: "O(1)",
    arity: 4,
    arguments: "slot:integer, count:integer",
    flags: &[Flag::Stale],
    tips: &["nondeterministic_output"],
    run: disabled,
    ..Command::BASE
};

pub(crate) static HELP: Command = Command {
    name: "cluster|help",
    summary: "Would explain the subcommands",
    since: "5.0.0",
    group: Group::Cluster,
    complexity: "O(1)",
    arity: 2,
    flags: &[Flag::Loading, Flag::Stale],
    run: disabled,
    ..Command::BASE
};

pub(crate) static INFO: Command = Command {
    name: "cluster|info",
    summary: "Would describe the state of the cluster",
    since: "3.0.0",
    group: Group::Cluster,
    complexity: "O(1)",
    arity: 2,
    flags: &[Flag::Stale],
    tips: &["nondeterministic_output"],
    run: disabled,
    ..Command::BASE
};

pub(crate) static KEYSLOT: Command = Command {
    name: "cluster|keyslot",
    summary: "Would return the slot of a key",
    since: "3.0.0",
    group: Group::Cluster,
    complexity: "O(1)",
    arity: 3,
    arguments: "key",
    flags: &[Flag::Stale],
    run: disabled,
    ..Command::BASE
};

pub(crate) static LINKS: Command = Command {
    name: "cluster|links",
    summary: "Would list connections to other nodes",
    since: "7.0.0",
    group: Group::Cluster,
    complexity: "O(1)",
    arity: 2,
    flags: &[Flag::Stale],
    tips: &["nondeterministic_output"],
    run: disabled,
    ..Command::BASE
};

pub(crate) static MEET: Command = Command {
    name: "cluster|meet",
    summary: "Would make a node known",
    since: "3.0.0",
    group: Group::Cluster,
    complexity: "O(1)",
    arity: -4,
    arguments: "ip, port:integer, [cluster_bus_port:integer@4.0.0]",
    flags: &[Flag::Admin, Flag::Stale, Flag::NoAsyncLoading],
    run: disabled,
    ..Command::BASE
};

pub(crate) static MYID: Command = Command {
    name: "cluster|myid",
    summary: "Would return the name of the node",
    since: "3.0.0",
    group: Group::Cluster,
    complexity: "O(1)",
    arity: 2,
    flags: &[Flag::Stale],
    run: disabled,
    ..Command::BASE
};

pub(crate) static NODES: Command = Command {
    name: "cluster|nodes",
    summary: "Would list the nodes",
    since: "3.0.0",
    group: Group::Cluster,
    complexity: "O(1)",
    arity: 2,
    flags: &[Flag::Stale],
    tips: &["nondeterministic_output"],
    run: disabled,
    ..Command::BASE
};

pub(crate) static REPLICAS: Command = Command {
    name: "cluster|replicas",
    summary: "Would list the replicas of a master",
    since: "5.0.0",
    group: Group::Cluster,
    complexity: "O(1)",
    arity: 3,
    arguments: "node-id",
    flags: &[Flag::Admin, Flag::Stale],
    tips: &["nondeterministic_output"],
    run: disabled,
    ..Command::BASE
};

pub(crate) static REPLICATE: Command = Command {
    name: "cluster|replicate",
    summary: "Would make the node a replica",
    since: "3.0.0",
    group: Group::Cluster,
    complexity: "O(1)",
    arity: 3,
    arguments: "node-id",
    flags: &[Flag::Admin, Flag::Stale, Flag::NoAsyncLoading],
    run: disabled,
    ..Command::BASE
};

pub(crate) static RESET: Command = Command {
    name: "cluster|reset",
    summary: "Would make the node a new one",
    since: "3.0.0",
    group: Group::Cluster,
    complexity: "O(1)",
    arity: -2,
    arguments: "[hard_soft(HARD|SOFT)]",
    flags: &[Flag::Admin, Flag::NoScript, Flag::Stale],
    run: disabled,
    ..Command::BASE
};

pub(crate) static SAVECONFIG: Command = Command {
    name: "cluster|saveconfig",
    summary: "Would write the state of the cluster to the disk",
    since: "3.0.0",
    group: Group::Cluster,
    complexity: "O(1)",
    arity: 2,
    flags: &[Flag::Admin, Flag::Stale, Flag::NoAsyncLoading],
    run: disabled,
    ..Command::BASE
};

pub(crate) static SET_CONFIG_EPOCH: Command = Command {
    name: "cluster|set-config-epoch",
    summary: "Would set the epoch of a new node",
    since: "3.0.0",
    group: Group::Cluster,
    complexity: "O(1)",
    arity: 3,
    arguments: "config-epoch:integer",
    flags: &[Flag::Admin, Flag::Stale, Flag::NoAsyncLoading],
    run: disabled,
    ..Command::BASE
};

pub(crate) static SETSLOT: Command = Command {
    name: "cluster|setslot",
    summary: "Would return the node of a slot",
    since: "3.0.0",
    group: Group::Cluster,
    complexity: "O(1)",
    arity: -4,
    arguments: "slot:integer, subcommand(IMPORTING node-id|MIGRATING node-id|NODE node-id|STABLE)",
    flags: &[Flag::Admin, Flag::Stale, Flag::NoAsyncLoading],
    run: disabled,
    ..Command::BASE
};

pub(crate) static SHARDS: Command = Command {
    name: "cluster|shards",
    summary: "Would list the nodes of all ranges of slots",
    since: "7.0.0",
    group: Group::Cluster,
    complexity: "O(1)",
    arity: 2,
    flags: &[Flag::Stale],
    tips: &["nondeterministic_output"],
    run: disabled,
    ..Command::BASE
};

pub(crate) static SLAVES: Command = Command {
    name: "cluster|slaves",
    summary: "Would list the replicas of a master",
    since: "3.0.0",
    deprecated: Some(Deprecated {
        since: "5.0.0",
        replaced_by: "`CLUSTER REPLICAS`",
    }),
    group: Group::Cluster,
    complexity: "O(1)",
    arity: 3,
    arguments: "node-id",
    flags: &[Flag::Admin, Flag::Stale],
    tips: &["nondeterministic_output"],
    run: disabled,
    ..Command::BASE
};

pub(crate) static SLOTS: Command = Command {
    name: "cluster|slots",
    summary: "Would list the ranges of slots",
    since: "3.0.0",
    deprecated: Some(Deprecated {
        since: "7.0.0",
        replaced_by: "`CLUSTER SHARDS`",
    }),
    group: Group::Cluster,
    complexity: "O(1)",
    arity: 2,
    flags: &[Flag::Stale],
    tips: &["nondeterministic_output"],
    run: disabled,
    ..Command::BASE
};

pub(crate) static COMMAND: Command = Command {
    name: "cluster",
    summary: "Would describe and change a cluster",
    since: "3.0.0",
    group: Group::Cluster,
    complexity: "O(1)",
    arity: -2,
    differences: "As of a Redis without a cluster.",
    subcommands: &[
        &ADDSLOTS,
        &ADDSLOTSRANGE,
        &BUMPEPOCH,
        &COUNT_FAILURE_REPORTS,
        &COUNTKEYSINSLOT,
        &DELSLOTS,
        &DELSLOTSRANGE,
        &FAILOVER,
        &FLUSHSLOTS,
        &FORGET,
        &GETKEYSINSLOT,
        &HELP,
        &INFO,
        &KEYSLOT,
        &LINKS,
        &MEET,
        &MYID,
        &NODES,
        &REPLICAS,
        &REPLICATE,
        &RESET,
        &SAVECONFIG,
        &SET_CONFIG_EPOCH,
        &SETSLOT,
        &SHARDS,
        &SLAVES,
        &SLOTS,
    ],
    ..Command::BASE
};
