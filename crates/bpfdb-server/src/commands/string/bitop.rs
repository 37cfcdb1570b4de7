//! BITOP.

use bpfdb::Session;

use super::super::arguments::{is, syntax_error};
use super::super::in_slices::{InSlices, Work};
use super::super::prelude::*;
use super::super::time_slice::TimeSlice;

/// Bytes that are combined between two looks at the clock.
const BYTES: usize = 256 * 1024;

pub(crate) static COMMAND: Command = Command {
    name: "bitop",
    summary: "Combines values bit by bit and keeps the result under another key",
    since: "2.6.0",
    group: Group::Bitmap,
    complexity: "O(sum of the lengths)",
    arity: -4,
    arguments: "operation, destkey:key, key:key...",
    flags: &[Flag::Write, Flag::DenyOom],
    categories: &[Category::Bitmap],
    keys: &[
        Keys::at(2, &[KeyFlag::Overwrite, KeyFlag::Update]),
        Keys::at(3, &[KeyFlag::ReadOnly, KeyFlag::Access]).last(-1),
    ],
    events: Events::Stored("set"),
    run,
    ..Command::BASE
};

type Join = fn(u8, u8) -> u8;

#[derive(Clone, Copy, Debug)]
enum Operation {
    Join(Join),
    Not,
}

impl Operation {
    fn parse(word: &[u8]) -> Result<Self, Failure> {
        let joins: [(&str, Join); 3] = [
            ("and", |a, b| a & b),
            ("or", |a, b| a | b),
            ("xor", |a, b| a ^ b),
        ];
        if is(word, "not") {
            return Ok(Self::Not);
        }
        joins
            .into_iter()
            .find(|(name, _)| is(word, name))
            .map(|(_, join)| Self::Join(join))
            .ok_or_else(syntax_error)
    }
}

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let operation = Operation::parse(&arguments[0])?;
    if matches!(operation, Operation::Not) && arguments.len() != 3 {
        return Err("ERR BITOP NOT must be called with a single source key.".into());
    }
    let work = InSlices::new(context.session, Combining::new(operation));
    context.go_on_with(work);
    Ok(())
}

/// Values are combined one after the other: a key may be named any number of times. A value is read in
/// one step, as by GET, and the result is written in one.
#[derive(Debug)]
struct Combining {
    operation: Operation,
    /// Values that were read.
    read: usize,
    /// Of the values so far.
    result: Option<Vec<u8>>,
    /// The next value, as long as the result, and how much of it is combined.
    value: Vec<u8>,
    combined: usize,
}

impl Combining {
    fn new(operation: Operation) -> Self {
        Self {
            operation,
            read: 0,
            result: None,
            value: Vec::new(),
            combined: 0,
        }
    }

    /// Shorter values are thought to go on with zeros.
    fn take(&mut self, mut value: Vec<u8>) {
        self.read += 1;
        let result = match (self.operation, &mut self.result) {
            (Operation::Not, _) => self.result.insert(vec![0xff; value.len()]),
            (Operation::Join(_), None) => {
                self.result = Some(value);
                return;
            }
            (Operation::Join(_), Some(result)) => result,
        };
        let len = result.len().max(value.len());
        result.resize(len, 0);
        value.resize(len, 0);
        self.value = value;
        self.combined = 0;
    }

    fn combine_some(&mut self) {
        let join = match self.operation {
            Operation::Join(join) => join,
            Operation::Not => |ones, byte| ones ^ byte,
        };
        let end = self.value.len().min(self.combined + BYTES);
        let range = self.combined..end;
        if let Some(result) = &mut self.result {
            let pairs = result[range.clone()].iter_mut().zip(&self.value[range]);
            pairs.for_each(|(a, &b)| *a = join(*a, b));
        }
        self.combined = end;
    }
}

impl Work for Combining {
    fn writes(&self) -> bool {
        true
    }

    fn advance(
        &mut self,
        session: &mut Session,
        words: &[Vec<u8>],
        slice: TimeSlice,
    ) -> Result<bool, Failure> {
        let (target, sources) = (&words[1], &words[2..]);
        loop {
            if slice.is_over() {
                return Ok(false);
            }
            if self.combined < self.value.len() {
                self.combine_some();
            } else if let Some(key) = sources.get(self.read) {
                self.take(session.get(key)?.unwrap_or_default());
            } else {
                break;
            }
        }
        match self.result.as_deref() {
            None | Some([]) => {
                session.delete(target)?;
            }
            Some(result) => session.set(target, result)?,
        }
        Ok(true)
    }

    fn restart(&mut self) {
        *self = Self::new(self.operation);
    }

    fn reply(&mut self, context: &mut Context<'_>) {
        let len = self.result.as_ref().map_or(0, Vec::len);
        context.replies.integer(len as i64);
    }

    fn is_short(&self) -> bool {
        true
    }

    fn memory(&self) -> usize {
        self.result.as_ref().map_or(0, Vec::len) + self.value.len()
    }
}
