//! `redis.call`: commands that a script executes.

use bpfdb::Status;

use super::super::invoke::{count, timed};
use super::super::prelude::*;
use super::super::table;
use super::call::ScriptCall;
use crate::protocol::reply::{self as replies, Protocol, Replies};

impl ScriptCall {
    /// The reply to a command of the script. An Error of the engine ends the attempt.
    pub(super) fn execute(
        &mut self,
        context: &mut Context<'_>,
        words: Vec<Vec<u8>>,
        resp3: bool,
    ) -> Result<Vec<u8>, Failure> {
        let protocol = if resp3 {
            Protocol::Resp3
        } else {
            Protocol::Resp2
        };
        let mut replies = Replies::new(protocol);
        match self.admit(context, &words) {
            Ok(call) => {
                let running = self.running.as_mut().expect("an attempt");
                running.has_begun = true;
                running.has_written |= call.command.has(Flag::Write);
                let mut inner = context.with_replies(&mut replies);
                let arguments = &words[call.name_words..];
                let (outcome, time) = timed(&mut inner, call.command, arguments, true);
                count(context, call.command, time, outcome.is_err());
                match outcome {
                    Ok(()) => {}
                    Err(Failure::Text(text)) => {
                        replies.truncate(0);
                        context.instance.count_error(&text);
                        replies.error(text);
                    }
                    Err(failure) => return Err(failure),
                }
            }
            Err(Failure::Text(text)) => replies.error(text),
            Err(failure) => return Err(failure),
        }
        Ok(replies.take())
    }

    /// The command of these words, if a script may execute it.
    fn admit(&self, context: &Context<'_>, words: &[Vec<u8>]) -> Result<table::Call, Failure> {
        let Ok(call) = table::find(words) else {
            return Err("ERR Unknown Redis command called from script".into());
        };
        let command = call.command;
        if !command.fits(words.len()) {
            return Err("ERR Wrong number of args calling Redis command from script".into());
        }
        if command.has(Flag::NoScript) {
            return Err("ERR This Redis command is not allowed from script".into());
        }
        call.check_keys(words)?;
        if command.may_write() && self.reads {
            return Err("ERR Write commands are not allowed from read-only scripts.".into());
        }
        if command.may_write() && self.snapshot {
            return Err(Status::ScanInTransaction.into());
        }
        let is_short = command.has(Flag::DenyOom) && !self.program.flags().allow_oom;
        if is_short && context.instance.refuses_writes() {
            return Err(Failure::Text(replies::error_text(
                Status::OutOfMemory,
                false,
            )));
        }
        Ok(call)
    }
}
