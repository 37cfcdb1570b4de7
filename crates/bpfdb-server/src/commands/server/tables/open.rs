//! TABLE OPEN.

use super::*;
use crate::tables::How;

pub(crate) static COMMAND: Command = Command {
    name: "table|open",
    summary: "Opens a table, or anew if another file has its name",
    complexity: "O(1); the kernel verifies a program",
    arity: 3,
    arguments: "table",
    flags: &[Flag::Admin, Flag::NoScript, Flag::NoMulti],
    categories: &[],
    differences: "Redis has no such command. The table is a file in the folder of the setting tables-dir; 16 may be open. One that is open is opened anew, and answers until then. See [tables.md](tables.md#ask-a-table-through-the-server).",
    run,
    ..ASKS
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (name, asker) = (name(&arguments[0])?, asker(context));
    let settings = &context.instance.settings;
    let how = How {
        by: settings.tables_by.by(),
        pool: usize::try_from(settings.tables_pool.bytes()).unwrap_or(usize::MAX),
    };
    let pending = context.instance.tables.open(&name, how, asker)?;
    context.go_on_with(Asking(pending));
    Ok(())
}
