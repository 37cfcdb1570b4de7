//! CONFIG GET.

use super::super::super::arguments::is;
use super::super::super::prelude::*;
use crate::settings::parameters::PARAMETERS;
use crate::settings::{SETTINGS, Setting};
use crate::values::glob;

pub(crate) static COMMAND: Command = Command {
    name: "config|get",
    summary: "Values of the settings that match patterns",
    since: "2.0.0",
    group: Group::Server,
    complexity: "O(settings named)",
    arity: -3,
    arguments: "parameter{parameter}...",
    flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
    differences: "Knows the parameters of Redis 7.0 and those of settings.md; operation.md says which have no effect.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, patterns: &[Vec<u8>]) -> Outcome {
    let settings = SETTINGS
        .iter()
        .map(|setting| (setting.name, value(context, setting)));
    let known = &context.instance.parameters;
    let parameters = PARAMETERS.iter().flat_map(|parameter| {
        let value = known.show(parameter);
        parameter.names().map(move |name| (name, value.clone()))
    });
    let found: Vec<(&[u8], String)> = settings
        .chain(parameters)
        .filter_map(|(name, value)| Some((asked(patterns, name)?, value)))
        .collect();
    context.replies.map(found.len());
    for (name, value) in found {
        context.replies.bulk(name);
        context.replies.bulk(value);
    }
    Ok(())
}

/// The name to reply with, if it is asked for. As in Redis, what is named in full is
/// called as the client calls it.
fn asked<'a>(patterns: &'a [Vec<u8>], name: &'static str) -> Option<&'a [u8]> {
    patterns.iter().find_map(|pattern| {
        let is_pattern = pattern.iter().any(|byte| b"*?[".contains(byte));
        if is_pattern {
            glob::matches_any_case(pattern, name.as_bytes()).then_some(name.as_bytes())
        } else {
            is(pattern, name).then_some(pattern)
        }
    })
}

/// What holds now: of what was left to the server, what it chose.
fn value(context: &Context<'_>, setting: &Setting) -> String {
    match setting.name {
        // What is less than an engine needs is kept as it was said.
        "maxmemory" if !context.instance.refuses_writes() => {
            context.engine.memory_limit().to_string()
        }
        "metrics-address" => context
            .instance
            .metrics_address
            .map(|address| address.to_string())
            .unwrap_or_default(),
        "port" => context.instance.address.port().to_string(),
        _ => setting.show(&context.instance.settings),
    }
}
