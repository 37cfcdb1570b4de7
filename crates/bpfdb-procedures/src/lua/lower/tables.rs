//! Tables of which every use is known. There are two kinds.
//!
//!  * Those of Redis: the words of the call, read by index.
//!  * Those that a list of values makes, `{a, b}`, and the reply of MGET: they are read by
//!    indices that are literals, or returned. There is no table then, only its elements.

use super::super::constants::{constant, truth};
use super::super::syntax::{Expression, ExpressionKind, Field};
use super::super::unsupported::{TABLES, Unsupported};
use super::bindings::Table;
use super::expressions::is_true;
use super::{Binding, Lowered, Lowering};
use crate::ir::{Operand, Operation, Register, Words};

/// Words that have an operand of their own.
const WORDS: std::ops::RangeInclusive<i64> = 1..=64;

impl<'a> Lowering<'a> {
    /// A value, or what else may be returned and passed on.
    pub(super) fn known_or_value(&mut self, expression: &'a Expression) -> Lowered<Binding<'a>> {
        Ok(match self.bindings.known(expression) {
            Some(Binding::Value(literal)) => Binding::Value(self.taken(literal)?),
            Some(known) => known,
            None => match self.table(expression)? {
                Some(table) => Binding::Table(table),
                None => Binding::Value(self.value(expression)?),
            },
        })
    }

    /// The elements, if the expression makes a table.
    pub(super) fn table(&mut self, expression: &'a Expression) -> Lowered<Option<Table>> {
        self.at(expression, |lowering| match &expression.kind {
            ExpressionKind::Table(fields) => match positional(fields) {
                Some(values) => lowering.list(&values).map(Some),
                None => Ok(None),
            },
            ExpressionKind::Call(callee, arguments) if lowering.is_command(callee) => {
                lowering.read_many(arguments)
            }
            _ => Ok(None),
        })
    }

    fn list(&mut self, values: &[&'a Expression]) -> Lowered<Table> {
        let (mut elements, mut is_full) = (Vec::new(), true);
        for value in values {
            let element = self.value(value)?;
            is_full &= is_true(value)
                || truth(&element).is_some_and(|_| element != Operand::Nil)
                || self.is_call_of_redis(value);
            elements.push(self.lasting(element));
        }
        Ok(Table {
            elements: elements.into(),
            is_full,
        })
    }

    /// No command replies with nil: Lua sees false.
    fn is_call_of_redis(&self, expression: &Expression) -> bool {
        match &expression.kind {
            ExpressionKind::Call(callee, _) => self.is_command(callee),
            _ => false,
        }
    }

    /// The value of now, of a variable that may change.
    fn lasting(&mut self, value: Operand) -> Operand {
        match value {
            Operand::Register(register) if self.code.changes(register) => {
                self.compute(None, |to| Operation::Move(to, value))
            }
            value => value,
        }
    }

    /// `of[key]`
    pub(super) fn element(
        &mut self,
        of: &'a Expression,
        key: &'a Expression,
        to: Option<Register>,
    ) -> Lowered<Operand> {
        if let Some(words) = self.bindings.words(of) {
            return self.word(words, key, to);
        }
        let key = constant(key, &self.bindings);
        if let Some(table) = self.table_of(of)? {
            return known_element(of, &table, key);
        }
        match key {
            Some(Operand::Text(name)) if name == b"ok" => {
                let reply = self.value(of)?;
                Ok(self.compute(to, |to| Operation::StatusText(to, reply)))
            }
            Some(Operand::Text(name)) if name == b"err" => {
                let reply = self.value(of)?;
                Ok(self.compute(to, |to| Operation::ErrorText(to, reply)))
            }
            _ => Err(match &of.kind {
                ExpressionKind::Global(name) => Unsupported::global(of.line, name),
                _ => Unsupported::new(of.line, TABLES),
            }),
        }
    }

    /// The elements that a variable stands for, or `redis.call('MGET', …)[1]`.
    fn table_of(&mut self, of: &'a Expression) -> Lowered<Option<Table>> {
        match self.bindings.known(of) {
            Some(Binding::Table(table)) => Ok(Some(table)),
            Some(_) => Ok(None),
            None => self.table(of),
        }
    }

    /// `KEYS[key]`
    fn word(
        &mut self,
        words: Words,
        key: &'a Expression,
        to: Option<Register>,
    ) -> Lowered<Operand> {
        let index = self.value(key)?;
        match index {
            Operand::Integer(place) if WORDS.contains(&place) => Ok(Operand::Word(
                words,
                u16::try_from(place).unwrap_or(u16::MAX),
            )),
            // Only numbers from 1 on lead to something.
            Operand::Integer(..=0) | Operand::Text(_) | Operand::Boolean(_) | Operand::Nil => {
                Ok(Operand::Nil)
            }
            index => Ok(self.compute(to, |to| Operation::Word(to, words, index))),
        }
    }

    /// `#of`
    pub(super) fn length(&mut self, of: &'a Expression, to: Option<Register>) -> Lowered<Operand> {
        if let Some(words) = self.bindings.words(of) {
            return Ok(self.compute(to, |to| Operation::Count(to, words)));
        }
        let Some(table) = self.table_of(of)? else {
            let text = self.value(of)?;
            return Ok(self.compute(to, |to| Operation::Length(to, text)));
        };
        match i64::try_from(table.elements.len()) {
            Ok(count) if table.is_full => Ok(Operand::Integer(count)),
            _ => Err(Unsupported::left(
                of.line,
                "the length of a table with elements that may be nil",
            )),
        }
    }
}

fn known_element(of: &Expression, table: &Table, key: Option<Operand>) -> Lowered<Operand> {
    match key {
        Some(Operand::Integer(place)) => {
            let place = usize::try_from(place).ok();
            let element = place.and_then(|place| table.elements.get(place.checked_sub(1)?));
            Ok(element.cloned().unwrap_or(Operand::Nil))
        }
        Some(_) => Ok(Operand::Nil),
        None => Err(Unsupported::left(
            of.line,
            "a table that is read by an index that is no literal",
        )),
    }
}

/// The values, if none of them has a key.
fn positional<'a>(fields: &'a [Field]) -> Option<Vec<&'a Expression>> {
    let value = |field: &'a Field| match field {
        Field::Positional(value) => Some(value),
        Field::Named(..) => None,
    };
    fields.iter().map(value).collect()
}
