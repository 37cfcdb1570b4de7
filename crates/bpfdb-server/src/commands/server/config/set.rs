//! CONFIG SET: all of it or nothing.

use std::time::Duration;

use super::super::super::arguments::syntax_error;
use super::super::super::prelude::*;
use crate::settings::parameters::{self, Parameters};
use crate::settings::{Change, Setting, Settings, Size, memory};

pub(crate) static COMMAND: Command = Command {
    name: "config|set",
    summary: "Changes settings while the server runs",
    since: "2.0.0",
    group: Group::Server,
    complexity: "O(settings named)",
    arity: -4,
    arguments: "parameter_value{parameter, value}...",
    flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    differences: "maxmemory is rounded up to 16 MiB, and not more than the machine has; below 32 MiB all commands that may need memory are refused.",
    secret: true,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    if !arguments.len().is_multiple_of(2) {
        return Err(syntax_error());
    }
    let mut settings = context.instance.settings.clone();
    let mut parameters = context.instance.parameters.clone();
    let mut seen: Vec<&[u8]> = Vec::new();
    for pair in arguments.chunks_exact(2) {
        let (name, text) = (&pair[0], &pair[1]);
        if seen.iter().any(|other| other.eq_ignore_ascii_case(name)) {
            return Err(failed(name, "duplicate parameter"));
        }
        seen.push(name);
        match setting(name) {
            Some(setting) => set(&mut settings, setting, name, text)?,
            None => keep(&mut parameters, name, text)?,
        }
    }
    let most = context.instance.clients_max;
    if settings.max_clients > most {
        let why = format!("there are sessions and files for {most} clients; more need a restart");
        return Err(failed(b"maxclients", &why));
    }
    let limit = memory_limit(context, &settings, &seen)?;
    let was_sync = context.instance.is_sync(None);
    let age = Duration::from_secs(settings.snapshot_max_age);
    let before = context.instance.settings.clone();
    let changed = context.instance.change(settings);
    changed.map_err(|error| format!("ERR CONFIG SET failed: {error}"))?;
    if let Some(Err(status)) = limit.map(|limit| context.engine.set_memory_limit(limit)) {
        let _ = context.instance.change(before);
        return Err(status.into());
    }
    context.engine.set_snapshot_max_age(age);
    let settings = &context.instance.settings;
    if let Some(tier) = context.instance.tier.as_ref().filter(|_| settings.tier) {
        tier.set_memory(memory::tier_memory(settings, context.engine.memory_limit()));
    }
    context.instance.tell_who_reads();
    context.instance.parameters = parameters;
    if !was_sync && context.instance.is_sync(None) {
        hold_replies(context);
    }
    context.replies.ok();
    Ok(())
}

/// What is still here of replies to clients that are synchronous from now on; what precedes this in
/// the pipeline of its own client, too.
fn hold_replies(context: &mut Context<'_>) {
    let now = context.engine.now();
    for other in context.others.iter_mut() {
        if context.instance.is_sync(other.info.durability) {
            other.info.hold_until(now);
        }
    }
    context.hold_own_replies();
}

/// What maxmemory is to be, if it is among what was `named`.
fn memory_limit(
    context: &Context<'_>,
    settings: &Settings,
    named: &[&[u8]],
) -> Result<Option<u64>, Failure> {
    let name = b"maxmemory";
    if !named.iter().any(|named| named.eq_ignore_ascii_case(name)) {
        return Ok(None);
    }
    // Less than an engine has is taken as in Redis: writes are refused then.
    let mut wanted = settings.clone();
    if memory::is_too_little(settings.max_memory) {
        wanted.max_memory = memory::least();
    }
    let limit = memory::memory_limit(&wanted).map_err(|why| failed(name, &why))?;
    let most = context.engine.memory_limit_max();
    if limit > most {
        let why = format!("there is room for {}; more needs a restart", Size(most));
        return Err(failed(name, &why));
    }
    Ok(Some(limit))
}

fn setting(name: &[u8]) -> Option<&'static Setting> {
    Setting::find(std::str::from_utf8(name).ok()?)
}

fn set(settings: &mut Settings, setting: &Setting, name: &[u8], text: &[u8]) -> Outcome {
    let text = std::str::from_utf8(text).map_err(|_| failed(name, "argument must be text"))?;
    let before = setting.show(settings);
    match setting.change {
        Change::Restart => return Err(failed(name, "can't set immutable config")),
        Change::RestartProtected => return Err(failed(name, "can't set protected config")),
        Change::RestartUnlessSame | Change::Now => setting.set(settings, text),
    }
    .map_err(|why| failed(name, &why))?;
    if setting.change != Change::Now && setting.show(settings) != before {
        return Err(failed(name, "a new value needs a restart"));
    }
    Ok(())
}

/// A parameter that is no setting.
fn keep(parameters: &mut Parameters, name: &[u8], text: &[u8]) -> Outcome {
    let parameter = parameters::find(name).ok_or_else(|| unknown(name))?;
    let text = std::str::from_utf8(text).map_err(|_| failed(name, "argument must be text"))?;
    parameters
        .set(parameter, text)
        .map_err(|why| failed(name, &why))
}

fn failed(name: &[u8], why: &str) -> Failure {
    let start = b"ERR CONFIG SET failed (possibly related to argument '";
    Failure::Text([&start[..], name, b"') - ", why.as_bytes()].concat())
}

fn unknown(name: &[u8]) -> Failure {
    let start = b"ERR Unknown option or number of arguments for CONFIG SET - '";
    Failure::Text([&start[..], name, b"'"].concat())
}
