//! CONFIG.

use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "config",
    summary: "A container for server configuration commands",
    since: "2.0.0",
    group: Group::Server,
    complexity: "Depends on subcommand.",
    arity: -2,
    subcommands: &[&GET, &SET],
    ..Command::BASE
};

pub(crate) static GET: Command = Command {
    name: "config|get",
    summary: "Get the values of configuration parameters",
    since: "2.0.0",
    group: Group::Server,
    complexity: "O(N) when N is the number of configuration parameters provided",
    arity: -3,
    flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
    differences: "Knows few settings.",
    run: get,
    ..Command::BASE
};

pub(crate) static SET: Command = Command {
    name: "config|set",
    summary: "Set configuration parameters to the given values",
    since: "2.0.0",
    group: Group::Server,
    complexity: "O(N) when N is the number of configuration parameters provided",
    arity: -4,
    flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    differences: "Refused: settings are given on the command line.",
    run: set,
    ..Command::BASE
};

/// What CONFIG GET tells, as far as it is true here.
fn settings(context: &Context<'_>) -> Vec<(&'static str, String)> {
    let memory = u64::from(context.engine.config().segments_max) * bpfdb::SEGMENT_SIZE;
    vec![
        ("appendonly", "no".into()),
        ("databases", "1".into()),
        ("maxclients", context.engine.config().sessions.to_string()),
        ("maxmemory", memory.to_string()),
        ("save", String::new()),
    ]
}

fn get(context: &mut Context<'_>, names: &[Vec<u8>]) -> Outcome {
    let asked = |name: &str| {
        let is = |word: &Vec<u8>| word == b"*" || word.eq_ignore_ascii_case(name.as_bytes());
        names.iter().any(is)
    };
    let mut found = settings(context);
    found.retain(|(name, _)| asked(name));
    context.replies.map(found.len());
    for (name, value) in found {
        context.replies.bulk(name);
        context.replies.bulk(value);
    }
    Ok(())
}

fn set(_: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    Err("ERR bpfdb is configured on its command line".into())
}
