//! TABLE, of bpfdb: tables that are asked (docs/tables.md).
//!
//! A question goes to the thread of its table (`tables/keeper.rs`), and the command waits for the bell.

mod close;
mod count;
mod get;
mod help;
mod list;
mod max;
mod min;
mod open;
mod range;
mod sum;

use bpfdb_table::{Field, KEY_MAX};

use super::super::arguments::{is, syntax_error};
use super::super::prelude::*;
use crate::tables::question::{AnsweredBy, Pending, Question, What};
use crate::tables::{Asker, Name};

pub(crate) static COMMAND: Command = Command {
    name: "table",
    summary: "Asks tables that bpfdb export has made",
    since: "0.1.0",
    group: Group::Server,
    complexity: "That of the subcommand",
    arity: -2,
    subcommands: &[
        &close::COMMAND,
        &count::COMMAND,
        &get::COMMAND,
        &help::COMMAND,
        &list::COMMAND,
        &max::COMMAND,
        &min::COMMAND,
        &open::COMMAND,
        &range::COMMAND,
        &sum::COMMAND,
    ],
    ..Command::BASE
};

/// What subcommands have in common that wait for a table. A disk answers: no block and no script holds its locks until then.
const ASKS: Command = Command {
    since: "0.1.0",
    group: Group::Server,
    flags: &[Flag::NoScript, Flag::NoMulti],
    categories: &[Category::Read],
    ..Command::BASE
};

fn name(word: &[u8]) -> Result<Name, Failure> {
    Name::new(word).ok_or_else(|| {
        "ERR a table is the name of a file in the folder of tables, not a path".into()
    })
}

/// A key that a client names, or an end of a range. What is behind the first byte that no key of a table has makes no difference
/// to its order among these, so no more of it is kept.
fn key(word: &[u8]) -> Vec<u8> {
    word[..word.len().min(KEY_MAX + 1)].to_vec()
}

fn asker(context: &Context<'_>) -> Asker {
    Asker {
        session: context.session.index(),
        protocol: context.replies.protocol(),
    }
}

/// Asks the table of this name. The connection goes on when it has answered.
fn ask(context: &mut Context<'_>, table: &[u8], question: Question) -> Outcome {
    let pending = context
        .instance
        .tables
        .ask(&name(table)?, question, asker(context))?;
    context.go_on_with(Asking(pending));
    Ok(())
}

/// TABLE COUNT, SUM, MIN and MAX: `table from to [FIELD offset:type]`.
fn aggregate(context: &mut Context<'_>, arguments: &[Vec<u8>], what: What) -> Outcome {
    let (range, options) = arguments.split_at(3);
    let field = match options {
        [] if what == What::Count => None,
        [word, field] if is(word, "field") => Some(parse_field(field)?),
        _ => return Err(syntax_error()),
    };
    let question = Question::Aggregate {
        from: key(&range[1]),
        to: key(&range[2]),
        what,
        field,
    };
    ask(context, &range[0], question)
}

/// Longer than any field is written.
const FIELD_MAX: usize = 128;

fn parse_field(text: &[u8]) -> Result<Field, Failure> {
    // The error repeats it.
    if text.len() > FIELD_MAX {
        return Err(format!(
            "ERR a field has {FIELD_MAX} bytes at most: OFFSET:TYPE, such as 8:u32"
        )
        .into());
    }
    let field = String::from_utf8_lossy(text).parse::<Field>();
    field.map_err(|error| format!("ERR {error}").into())
}

/// A question that is not answered yet.
#[derive(Debug)]
struct Asking(Pending);

impl Job for Asking {
    fn step(&mut self, context: &mut Context<'_>, _: &[Vec<u8>]) -> Result<Progress, Failure> {
        let Some(outcome) = self.0.take() else {
            return Ok(Progress::More);
        };
        let answer = outcome.map_err(Failure::Text)?;
        let numbers = &context.instance.statistics.numbers;
        match answer.by {
            AnsweredBy::Kernel => numbers.table_questions_by_kernel.increment(),
            AnsweredBy::Pool => numbers.table_questions_from_pool.increment(),
            AnsweredBy::Process => numbers.table_questions_by_process.increment(),
            AnsweredBy::Nobody => {}
        }
        context.replies.append(&answer.reply);
        Ok(Progress::Done)
    }

    /// It looks whether there is an answer.
    fn is_short(&self) -> bool {
        true
    }

    fn is_blocked(&self) -> bool {
        true
    }

    fn memory(&self) -> usize {
        self.0.memory()
    }
}
