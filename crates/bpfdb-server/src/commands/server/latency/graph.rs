//! LATENCY GRAPH.

use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "latency|graph",
    summary: "A picture of what was slow",
    since: "2.8.13",
    group: Group::Server,
    complexity: "O(1)",
    arity: 3,
    arguments: "event",
    flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
    tips: &[
        "nondeterministic_output",
        "request_policy:all_nodes",
        "response_policy:special",
    ],
    run,
    ..Command::BASE
};

const WIDTH: usize = 80;
const ROWS: u64 = 4;

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let Some(event) = context.instance.latency.event(&arguments[0]) else {
        let start = b"ERR No samples available for event '";
        return Err(Failure::Text([start, &arguments[0][..], b"'"].concat()));
    };
    let skip = event.samples().len().saturating_sub(WIDTH);
    let times: Vec<u64> = event
        .samples()
        .skip(skip)
        .map(|sample| sample.milliseconds)
        .collect();
    let name = String::from_utf8_lossy(&arguments[0]).into_owned();
    let graph = draw(&name, &times, event.longest);
    context.replies.verbatim("txt", &graph);
    Ok(())
}

/// One column for each sample, the newest at the right.
fn draw(name: &str, times: &[u64], longest: u64) -> String {
    let high = times.iter().copied().max().unwrap_or(0);
    let low = times.iter().copied().min().unwrap_or(0);
    let mut text = format!("{name} - high {high} ms, low {low} ms (all time high {longest} ms)\n");
    text += &"-".repeat(WIDTH);
    text.push('\n');
    for row in (1..=ROWS).rev() {
        let full = |&time: &u64| time * ROWS >= high.max(1) * row;
        text.extend(times.iter().map(|time| if full(time) { '#' } else { ' ' }));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn columns_are_as_high_as_their_samples() {
        let graph = super::draw("command", &[4, 1, 2], 9);
        let rows: Vec<&str> = graph.lines().skip(2).collect();
        assert_eq!(rows, ["#  ", "#  ", "# #", "###"]);
        assert!(graph.starts_with("command - high 4 ms, low 1 ms (all time high 9 ms)"));
    }
}
