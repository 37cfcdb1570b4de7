//! TABLE OPEN.

use super::*;

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
    let (by, pool) = (settings.tables_by.by(), settings.tables_pool.bytes());
    let pool = usize::try_from(pool).unwrap_or(usize::MAX);
    let pending = context.instance.tables.open(&name, by, pool, asker)?;
    context.go_on_with(Asking(pending));
    Ok(())
}
