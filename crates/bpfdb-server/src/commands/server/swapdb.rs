//! SWAPDB: no key moves, the databases exchange their numbers.

use super::super::atomic::{Kind, is_open, once};
use super::super::connection::database;
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "swapdb",
    summary: "Exchanges two databases",
    since: "4.0.0",
    group: Group::Server,
    complexity: "O(clients)",
    arity: 3,
    arguments: "index1:integer, index2:integer",
    flags: &[Flag::Write, Flag::Fast],
    categories: &[Category::Keyspace, Category::Dangerous],
    differences: "Refused while a client waits for a key, and while a transaction is open (BEGIN, MULTI, a script, another client's BEGIN), which would find its keys exchanged. EXEC after WATCH is void, whatever was watched. Programs that embed the engine go on with the keys that were in database 0 at first.",
    events: Events::None,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (first, _) = database(context, &arguments[0]).map_err(|_| "ERR invalid first DB index")?;
    let (second, _) =
        database(context, &arguments[1]).map_err(|_| "ERR invalid second DB index")?;
    if is_open(context.session) || context.is_of_block {
        return Err("ERR SWAPDB inside a transaction or a script is not allowed".into());
    }
    if first != second && context.instance.waiting.len() > 0 {
        return Err(
            "ERR SWAPDB while clients wait for keys (BLPOP and its kin) is not allowed".into(),
        );
    }
    refuse_beside_transactions(context)?;
    if first == second {
        context.replies.ok();
        return Ok(());
    }
    // Else the kernel might begin a transaction between a look at those that are open and the exchange.
    let stopped = (context.instance).keep_kernel_from_answering(context.engine);
    let swapped = match stopped {
        Ok(()) => swap(context, first, second),
        Err(error) => Err(format!("ERR {error}").into()),
    };
    context.instance.let_kernel_answer();
    swapped?;
    context.replies.ok();
    Ok(())
}

fn refuse_beside_transactions(context: &Context<'_>) -> Outcome {
    match context.engine.stats()?.transactions {
        0 => Ok(()),
        _ => Err("CONFLICT another client has an open transaction; run the command again".into()),
    }
}

/// Exchanges two databases, while the kernel answers nothing.
fn swap(context: &mut Context<'_>, first: usize, second: usize) -> Outcome {
    refuse_beside_transactions(context)?;
    let databases = &context.instance.databases;
    once(context.session, Kind::Write, |session| {
        Ok(databases.write_swap(session, first, second)?)
    })?;
    let told = context.instance.swap_databases(first, second);
    go_over(context);
    told.map_err(|error| format!("ERR {error}").into())
}

/// Every client finds the other keys under the number that it has chosen.
fn go_over(context: &mut Context<'_>) {
    let instance = &*context.instance;
    for other in context.others.iter() {
        if let Some(database) = instance.databases.get(other.info.database) {
            instance.kernel.set_database(other.index, database);
        }
    }
    context.select(context.connection.database);
}
