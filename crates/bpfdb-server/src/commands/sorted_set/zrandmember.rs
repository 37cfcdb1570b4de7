//! ZRANDMEMBER.

use bpfdb::{Entry, ValueType};
use bpfdb_values::sorted_set::SortedSet;

use super::super::arguments::{is, number, syntax_error};
use super::super::collection::{REPLY_TOO_LONG, load};
use super::super::prelude::*;
use super::scores::Form;
use crate::protocol::reply::Replies;
use crate::settings::limits::MESSAGE_MAX;
use crate::values::random::Random;

pub(crate) static COMMAND: Command = Command {
    name: "zrandmember",
    summary: "Picks members of a sorted set at random",
    since: "6.2.0",
    group: Group::SortedSet,
    complexity: "O(length of the sorted set, and count)",
    arity: -2,
    arguments: "key:key, [options{count:integer, [WITHSCORES]}]",
    flags: &[Flag::Readonly],
    categories: &[Category::SortedSet],
    tips: &["nondeterministic_output"],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    differences: "The reply has at most 640 MiB.",
    run,
    ..Command::BASE
};

/// Bytes of the shortest member in a reply.
const SHORTEST: usize = b"$0\r\n\r\n".len();

const BELOW_LEAST: &str = "ERR value is out of range, value must between -9223372036854775807 and \
                           9223372036854775807";

/// How many members are wanted; negative: any may come more than once.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    count: i64,
    with_scores: bool,
}

impl Wanted {
    fn parse(words: &[Vec<u8>]) -> Result<Self, Failure> {
        let count = number(&words[0])?;
        if count == i64::MIN {
            return Err(BELOW_LEAST.into());
        }
        let with_scores = match &words[1..] {
            [] => false,
            [option] if is(option, "withscores") => true,
            _ => return Err(syntax_error()),
        };
        if with_scores && count.unsigned_abs() > i64::MAX as u64 / 2 {
            return Err("ERR value is out of range".into());
        }
        Ok(Self { count, with_scores })
    }

    /// Random members; all of them, the highest score first as in Redis, if so many are wanted.
    fn reply(self, replies: &mut Replies, set: &SortedSet<'_>) -> Outcome {
        let mut random = Random::new();
        let form = Form::of(replies, self.with_scores);
        let (entries, len) = (set.entries(), set.len());
        let count = usize::try_from(self.count.unsigned_abs()).unwrap_or(usize::MAX);
        if self.count < 0 {
            // Without a look at any of them: it would be too long if they were empty.
            if count > MESSAGE_MAX / SHORTEST {
                return Err(REPLY_TOO_LONG.into());
            }
            form.reply(replies, (0..count).map(|_| &entries[random.below(len)]))
        } else if count < len {
            let chosen = random.some_below(len, count);
            form.reply(replies, chosen.iter().map(|&number| &entries[number]))
        } else {
            form.reply(replies, entries.iter().rev())
        }
    }
}

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let wanted = match &arguments[1..] {
        [] => None,
        words => Some(Wanted::parse(words)?),
    };
    let read = load(context.session, &arguments[0], ValueType::SORTED_SET)?;
    let replies = &mut *context.replies;
    let (Some(read), Some(wanted)) = (&read, wanted) else {
        return reply_one(replies, read.as_ref(), wanted.is_some());
    };
    let set = SortedSet::read(&read.value)?;
    wanted.reply(replies, &set)
}

/// One member, or that there is none.
fn reply_one(replies: &mut Replies, read: Option<&Entry>, is_array: bool) -> Outcome {
    let Some(read) = read else {
        if is_array {
            replies.array(0);
        } else {
            replies.null();
        }
        return Ok(());
    };
    let set = SortedSet::read(&read.value)?;
    let number = Random::new().below(set.len());
    replies.bulk_or_null(set.entries().get(number).map(|entry| entry.member));
    Ok(())
}
