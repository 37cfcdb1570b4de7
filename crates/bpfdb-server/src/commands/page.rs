//! docs/commands.md: the commands as a table.

use std::fmt::Write as _;

use bpfdb::commands::KERNEL_COMMANDS;

use super::definition::{Command, Group, Path};
use super::table::COMMANDS;

/// Commands of Redis 7.0 that are not there, and why.
pub const MISSING: &[(&str, &str)] = &[
    (
        "MIGRATE",
        "It is a client of the server that the key is to go to. DUMP and RESTORE by a client of both do the same.",
    ),
    (
        "PFDEBUG",
        "It shows and changes the registers that Redis's own tests look at.",
    ),
    ("PFSELFTEST", "It tests Redis's own code."),
];

/// The page, as it is to be written.
pub fn page() -> String {
    let mut page = format!(
        "# Commands\n\n\
         Generated from the definitions in `crates/bpfdb-server/src/commands` by `make fmt`.\n\n\
         Commands of the kernel, from the list in `include/bpfdb/commands.h`: {}.\n\n\
         The kernel answers these without waking the daemon, which is the server's process,\n\
         as long as the request has a plain form and size ([network.md](network.md) lists\n\
         what the kernel leaves to the daemon). The daemon answers everything else, on the same session. Since:\n\
         the version of Redis that introduced the command, or of bpfdb if Redis has no such command.\n",
        kernel_commands(),
    );
    for &group in Group::ALL {
        let title = group.name();
        // Writing to a String cannot fail.
        let _ = write!(
            page,
            "\n## {}{}\n\n| Command | Answered by | Since | Differences from Redis 7.0 |\n|---|---|---|---|\n",
            title[..1].to_ascii_uppercase(),
            &title[1..],
        );
        for command in COMMANDS.iter().filter(|command| command.group == group) {
            rows(&mut page, command);
        }
    }
    page += &not_there();
    page
}

fn not_there() -> String {
    let mut section = format!(
        "\n## Not there\n\n\
         COMMAND LIST of Redis 7.0 has 366 names, subcommands included; all but {} are there.\n\n\
         | Command | Why not |\n|---|---|\n",
        MISSING.len()
    );
    for (name, why) in MISSING {
        // Writing to a String cannot fail.
        let _ = writeln!(section, "| {name} | {why} |");
    }
    section
}

/// The names of the commands in the kernel's list.
fn kernel_commands() -> String {
    let names = KERNEL_COMMANDS.map(|command| command.name.to_ascii_uppercase());
    names.join(" ")
}

fn rows(page: &mut String, command: &Command) {
    if command.fits(1) || command.subcommands.is_empty() {
        row(page, command);
    }
    for subcommand in command.subcommands {
        row(page, subcommand);
    }
}

fn row(page: &mut String, command: &Command) {
    let name = command.name.replace('|', " ").to_ascii_uppercase();
    let path = match command.path() {
        Path::Kernel => "kernel",
        Path::Daemon => "daemon",
    };
    let (since, differences) = (command.since, command.differences);
    let _ = writeln!(page, "| {name} | {path} | {since} | {differences} |");
}
