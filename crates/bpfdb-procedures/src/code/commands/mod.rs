//! `redis.call`: each command as calls of the runtime and of operators.
//!
//! What is converted is converted before the first operator: a call of the runtime must not
//! come between an operator and what looks at its outcome. The key of the session stays from
//! one operator to the next.

mod collection;
mod counter;
mod read;
mod set;
mod time;

use std::mem::offset_of;

use bpfdb::abi::{self, bpfdb_session};

use super::assembly::{Jump, Place, R0, R1, R2, R3, R4, Width};
use super::emit::{Emitter, FRAME, SESSION, Slot, at};
use super::operands::{Digits, Form, Number, Text};
use crate::error::Result;
use crate::ir::{Command, Operand, Register};
use crate::types::Type;

/// What becomes the value of a SET.
#[derive(Clone, Copy, Debug)]
enum Value {
    Text(Text),
    Number(Number),
}

impl Emitter<'_> {
    pub(super) fn command(&mut self, to: Register, command: &Command) -> Result<()> {
        match command {
            Command::Get(key) => self.get(to, key),
            Command::Set(set) => self.set(to, set),
            Command::Increment { key, by, negative } => self.increment(to, key, by, *negative),
            Command::Delete(keys) => self.delete(to, keys),
            Command::Exists(keys) => self.exists(to, keys),
            Command::GetDelete(key) => self.get_delete(to, key),
            Command::Append(key, value) => self.append(to, key, value),
            Command::Length(key) => self.value_length(to, key),
            Command::Expire(key, time, when) => self.expire(to, key, *time, when),
            Command::Persist(key) => self.persist(to, key),
            Command::TimeLeft(key, time) => self.time_left(to, key, *time),
            Command::Type(key) => self.value_type(to, key),
            Command::Collection(command) => self.collection(to, command),
        }
    }

    /// The key of the operators that follow.
    fn key(&mut self, key: &Operand) -> Result<()> {
        let text = self.text(key, Digits::Argument)?;
        self.key_text(text);
        Ok(())
    }

    fn key_text(&mut self, text: Text) {
        self.fuel(abi::BPFDB_CALL_FUEL_COMMAND);
        self.load_text(text, R3);
        self.with_session("rt_key");
    }

    /// Calls a function of the runtime that works on the session, too: further arguments are
    /// in r3 to r5.
    fn with_session(&mut self, function: &'static str) {
        self.asm().copy(R1, FRAME);
        self.asm().copy(R2, SESSION);
        self.call(function);
    }

    /// Reads the key; under a lock for writing if the procedure writes it somewhere.
    fn read(&mut self, key: &Operand) {
        let operator = self.reader(key);
        self.operator(operator);
    }

    /// The same of a key that has a value of any type.
    fn read_any(&mut self, key: &Operand) {
        let operator = self.reader(key);
        self.operator_of_any(operator);
    }

    fn reader(&self, key: &Operand) -> &'static str {
        match self.written.has(key) {
            true => "bpfdb_get_exclusive",
            false => "bpfdb_get",
        }
    }

    /// Jumps if the operator before has found nothing.
    fn unless_found(&mut self, to: Place) {
        self.asm()
            .jump_if_int(Jump::NotEqual, R0, abi::BPFDB_FOUND as i32, to);
    }

    /// What the operator before has found, as a text.
    fn found(&mut self, to: Slot) {
        self.asm().set(R3, to.0.into());
        self.with_session("rt_found");
    }

    /// What is to be a value, converted as far as it must be.
    fn value(&mut self, operand: &Operand) -> Result<Value> {
        if self.typing.operand(operand).only() == Some(Type::Integer)
            && !matches!(operand, Operand::Integer(_))
        {
            return Ok(Value::Number(self.number(operand, Form::Lua)?));
        }
        Ok(Value::Text(self.text(operand, Digits::Argument)?))
    }

    /// It becomes the value of the next SET.
    fn set_value(&mut self, value: Value) {
        match value {
            Value::Text(text) => {
                self.load_text(text, R3);
                self.with_session("rt_value");
            }
            Value::Number(number) => {
                self.load_number(number, R3);
                self.with_session("rt_value_number");
            }
        }
    }

    /// The next SET keeps when the value expires that the operator before has found.
    fn keep_time(&mut self) {
        let found = at(offset_of!(bpfdb_session, found_expires));
        let next = at(offset_of!(bpfdb_session, expires));
        self.asm().load(Width::Double, R4, SESSION, found);
        self.asm().store(Width::Double, SESSION, next, R4);
    }

    fn status(&mut self, to: Register, text: &[u8]) -> Result<()> {
        let value = self.literal(text)?;
        self.asm().set(R1, value);
        self.put(to, R1, Type::Status);
        Ok(())
    }
}
