//! LATENCY DOCTOR.

use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "latency|doctor",
    summary: "A report about what was slow, in words",
    since: "2.8.13",
    group: Group::Server,
    complexity: "O(1)",
    arity: 2,
    flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
    tips: &[
        "nondeterministic_output",
        "request_policy:all_nodes",
        "response_policy:special",
    ],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    let instance = &*context.instance;
    let threshold = instance.settings.latency_threshold;
    let mut report = if threshold == 0 {
        "Nothing slow is looked for: CONFIG SET latency-monitor-threshold <milliseconds>.\n".into()
    } else {
        format!(
            "Commands that the daemon executes and that take {threshold} ms or longer are looked for.\n"
        )
    };
    if instance.latency.events().len() == 0 {
        report += "None was seen.\n";
    }
    for (name, event) in instance.latency.events() {
        let count = event.samples().len();
        let longest = event.longest;
        report += &format!("{name}: slow in {count} seconds, {longest} ms at worst; ");
        report += "SLOWLOG GET names the commands.\n";
    }
    context.replies.verbatim("txt", &report);
    Ok(())
}
