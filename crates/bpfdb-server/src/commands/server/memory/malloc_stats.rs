//! MEMORY MALLOC-STATS.

use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "memory|malloc-stats",
    summary: "How full the slots of each size are",
    since: "4.0.0",
    group: Group::Server,
    complexity: "O(pages)",
    arity: 2,
    tips: &[
        "nondeterministic_output",
        "request_policy:all_shards",
        "response_policy:special",
    ],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    // How much data there is.
    context.tells_of_all();
    let stats = context.engine.stats()?;
    let mut text = String::from("Bytes of a slot, pages, slots, slots in use:\n");
    for class in stats.classes.iter().filter(|class| class.pages > 0) {
        let (size, pages, slots, used) = (class.size, class.pages, class.slots, class.used);
        text += &format!("{size:>6} {pages:>10} {slots:>12} {used:>12}\n");
    }
    context.replies.verbatim("txt", &text);
    Ok(())
}
