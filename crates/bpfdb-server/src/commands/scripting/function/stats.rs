//! FUNCTION STATS.

use super::super::super::prelude::*;
use super::super::find::view;

pub(crate) static COMMAND: Command = Command {
    name: "function|stats",
    summary: "Returns which function is running, and how many there are",
    since: "7.0.0",
    group: Group::Scripting,
    complexity: "O(1)",
    arity: 2,
    flags: &[Flag::NoScript, Flag::AllowBusy],
    categories: &[Category::Scripting],
    tips: &[
        "nondeterministic_output",
        "request_policy:all_shards",
        "response_policy:special",
    ],
    differences: "Of functions that are running the one that was begun first; not one that runs in its first slice.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    let libraries = view(context)?;
    let running = context.instance.functions.running();
    let replies = &mut *context.replies;
    replies.map(2);
    replies.bulk("running_script");
    match running {
        None => replies.null(),
        Some(call) => {
            replies.map(3);
            replies.bulk("name");
            replies.bulk(&call.name);
            replies.bulk("command");
            replies.array(call.words.len());
            for word in &call.words {
                replies.bulk(word);
            }
            replies.bulk("duration_ms");
            replies.integer(call.begun.elapsed().as_millis() as i64);
        }
    }
    replies.bulk("engines");
    replies.map(1);
    replies.bulk("LUA");
    replies.map(2);
    replies.bulk("libraries_count");
    replies.integer(libraries.len() as i64);
    replies.bulk("functions_count");
    replies.integer(libraries.functions() as i64);
    Ok(())
}
