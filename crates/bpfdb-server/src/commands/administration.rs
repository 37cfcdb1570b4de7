//! What clients ask a server about itself when they connect.

use super::{COMMANDS, Command, Context, Failure, Outcome, wrong_arity};

/// The Redis whose protocol and error texts this server speaks.
const REDIS_VERSION: &str = "7.0.15";

pub(super) fn ping(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    match arguments {
        [] => context.replies.simple("PONG"),
        [message] => context.replies.bulk(message),
        _ => return Err(wrong_arity("ping")),
    }
    Ok(())
}

pub(super) fn echo(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    context.replies.bulk(&arguments[0]);
    Ok(())
}

pub(super) fn quit(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    *context.close = true;
    context.replies.ok();
    Ok(())
}

/// There is one database.
pub(super) fn select(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    match crate::integer::parse(&arguments[0]) {
        Some(0) => context.replies.ok(),
        Some(_) => return Err("ERR DB index is out of range".into()),
        None => return Err("ERR value is not an integer or out of range".into()),
    }
    Ok(())
}

/// Records, those included that are deleted but still seen by a snapshot.
pub(super) fn dbsize(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    let stats = context.engine.stats().map_err(internal)?;
    context.replies.integer(stats.records as i64);
    Ok(())
}

fn internal(error: bpfdb::Error) -> Failure {
    format!("ERR {error}").into()
}

pub(super) fn info(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    let stats = context.engine.stats().map_err(internal)?;
    let text = format!(
        "# Server\r\n\
         server_name:bpfdb\r\n\
         bpfdb_version:{}\r\n\
         redis_version:{REDIS_VERSION}\r\n\
         redis_mode:standalone\r\n\
         process_id:{}\r\n\
         \r\n# Clients\r\n\
         sessions:{}\r\n\
         transactions:{}\r\n\
         \r\n# Memory\r\n\
         used_memory:{}\r\n\
         maxmemory:{}\r\n\
         \r\n# Stats\r\n\
         requests_answered_in_kernel:{}\r\n\
         connections_handed_over:{}\r\n\
         \r\n# Keyspace\r\n\
         db0:keys={},expires=0,avg_ttl=0\r\n",
        env!("CARGO_PKG_VERSION"),
        std::process::id(),
        stats.sessions,
        stats.transactions,
        stats.segments * bpfdb::SEGMENT_SIZE,
        stats.segments_max * bpfdb::SEGMENT_SIZE,
        stats.counters.requests_fast,
        stats.counters.connections_passed,
        stats.records,
    );
    context.replies.bulk(text.as_bytes());
    Ok(())
}

pub(super) fn hello(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    match arguments {
        [] => {}
        [version] => match crate::integer::parse(version) {
            Some(2) => {}
            Some(_) => return Err("NOPROTO unsupported protocol version".into()),
            None => {
                return Err("ERR Protocol version is not an integer or out of range".into());
            }
        },
        _ => return Err("ERR bpfdb knows HELLO 2 without options only".into()),
    }
    let replies = &mut *context.replies;
    replies.array(14);
    for (name, value) in [("server", "bpfdb"), ("version", REDIS_VERSION)] {
        replies.bulk(name.as_bytes());
        replies.bulk(value.as_bytes());
    }
    replies.bulk(b"proto");
    replies.integer(2);
    replies.bulk(b"id");
    replies.integer(context.id as i64);
    for (name, value) in [("mode", "standalone"), ("role", "master")] {
        replies.bulk(name.as_bytes());
        replies.bulk(value.as_bytes());
    }
    replies.bulk(b"modules");
    replies.array(0);
    Ok(())
}

fn lower(word: &[u8]) -> String {
    String::from_utf8_lossy(word).to_ascii_lowercase()
}

fn unknown_subcommand(command: &str, word: &[u8]) -> Failure {
    let shown = &word[..word.len().min(128)];
    let help = format!("'. Try {command} HELP.");
    Failure::Text([b"ERR unknown subcommand '", shown, help.as_bytes()].concat())
}

pub(super) fn client(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    match (lower(&arguments[0]).as_str(), &arguments[1..]) {
        ("id", []) => context.replies.integer(context.id as i64),
        ("getname", []) if context.name.is_empty() => context.replies.nil(),
        ("getname", []) => context.replies.bulk(context.name),
        ("setname", [name]) => {
            if name.iter().any(|byte| !(b'!'..=b'~').contains(byte)) {
                return Err(
                    "ERR Client names cannot contain spaces, newlines or special \
                            characters."
                        .into(),
                );
            }
            context.name.clone_from(name);
            context.replies.ok();
        }
        ("setinfo", [_, _]) => context.replies.ok(),
        ("id" | "getname" | "setname" | "setinfo", _) => {
            return Err(wrong_arity(&format!("client|{}", lower(&arguments[0]))));
        }
        _ => return Err(unknown_subcommand("CLIENT", &arguments[0])),
    }
    Ok(())
}

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

pub(super) fn config(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    match (lower(&arguments[0]).as_str(), &arguments[1..]) {
        ("get", names @ [_, ..]) => {
            let names: Vec<String> = names.iter().map(|name| lower(name)).collect();
            let mut found = settings(context);
            found.retain(|(name, _)| names.iter().any(|asked| asked == "*" || asked == name));
            context.replies.array(2 * found.len());
            for (name, value) in found {
                context.replies.bulk(name.as_bytes());
                context.replies.bulk(value.as_bytes());
            }
        }
        ("get", _) => return Err(wrong_arity("config|get")),
        ("set", _) => return Err("ERR bpfdb is configured on its command line".into()),
        _ => return Err(unknown_subcommand("CONFIG", &arguments[0])),
    }
    Ok(())
}

pub(super) fn command(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let replies = &mut *context.replies;
    let Some((first, names)) = arguments.split_first() else {
        replies.array(COMMANDS.len());
        COMMANDS
            .iter()
            .for_each(|command| describe(replies, command));
        return Ok(());
    };
    match lower(first).as_str() {
        "count" if names.is_empty() => replies.integer(COMMANDS.len() as i64),
        "docs" => replies.array(0),
        "info" => {
            replies.array(names.len());
            for name in names {
                let known = COMMANDS
                    .iter()
                    .find(|command| command.name.as_bytes().eq_ignore_ascii_case(name));
                match known {
                    Some(command) => describe(replies, command),
                    None => replies.nil_array(),
                }
            }
        }
        _ => return Err(unknown_subcommand("COMMAND", first)),
    }
    Ok(())
}

fn describe(replies: &mut crate::reply::Replies, command: &Command) {
    let (first, last, step) = command.keys;
    replies.array(6);
    replies.bulk(command.name.as_bytes());
    replies.integer(command.arity.into());
    replies.array(1);
    replies.simple(if command.writes { "write" } else { "readonly" });
    for position in [first, last, step] {
        replies.integer(position.into());
    }
}
