//! `return`: of the function itself, and of those that stand in the place of a call.

use super::super::syntax::Expression;
use super::{Binding, Lowered, Lowering};
use crate::ir::{Label, Operand, Operation, Register};
use crate::lua::unsupported::Unsupported;

/// What a call has room for.
const ELEMENTS_MAX: usize = bpfdb::abi::BPFDB_CALL_REPLIES as usize;

/// Where `return` leads.
#[derive(Clone, Copy, Debug)]
pub(super) enum Results {
    /// Out of the run.
    Reply,
    /// Behind the call that the function stands for.
    Value { to: Register, end: Label },
}

impl<'a> Lowering<'a> {
    pub(super) fn return_values(&mut self, values: &'a [Expression]) -> Lowered<()> {
        match (self.results, values) {
            (_, []) => {
                self.note_nothing();
                self.return_one(Operand::Nil);
                Ok(())
            }
            // What it returns is what we return.
            (Results::Reply, [value]) if self.is_local_call(value) => self.tail_call(value),
            (Results::Reply, [value]) => self.reply(value),
            (Results::Reply, [first, rest @ ..]) => self.reply_first(first, rest),
            (Results::Value { to, end }, [value]) => {
                let (operand, has_value) = self.value_if_any(value, Some(to))?;
                self.returns_nothing |= !has_value;
                self.at(value, |lowering| lowering.code.copy(to, operand));
                self.code.jump(end);
                Ok(())
            }
            (Results::Value { .. }, [first, ..]) => Err(Unsupported::new(
                first.line,
                "a function returns several values",
            )),
        }
    }

    /// Here the function returns nothing. What is left out of a program that is too long anyway
    /// is no reason.
    pub(super) fn note_nothing(&mut self) {
        self.returns_nothing |= self.code.is_reachable() && !self.code.is_too_long();
    }

    pub(super) fn return_one(&mut self, value: Operand) {
        match self.results {
            Results::Reply => self.code.emit(Operation::Return(value)),
            Results::Value { to, end } => {
                self.code.copy(to, value);
                self.code.jump(end);
            }
        }
    }

    fn reply(&mut self, value: &'a Expression) -> Lowered<()> {
        let operation = self.reply_of(value)?;
        self.code.emit(operation);
        Ok(())
    }

    /// Redis replies with the first of several values.
    fn reply_first(&mut self, first: &'a Expression, rest: &'a [Expression]) -> Lowered<()> {
        let operation = self.reply_of(first)?;
        for value in rest {
            self.known_or_value(value)?;
        }
        self.code.emit(operation);
        Ok(())
    }

    fn reply_of(&mut self, value: &'a Expression) -> Lowered<Operation> {
        Ok(match self.known_or_value(value)? {
            Binding::Value(value) => Operation::Return(value),
            Binding::Table(table) if table.elements.len() > ELEMENTS_MAX => {
                let reason = format!("a reply of more than {ELEMENTS_MAX} elements");
                return Err(Unsupported::left(value.line, reason));
            }
            Binding::Table(table) => Operation::ReturnArray(table.elements.to_vec()),
            _ => return Err(self.no_value(value)),
        })
    }
}
