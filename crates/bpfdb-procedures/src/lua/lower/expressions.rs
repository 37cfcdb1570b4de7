//! Expressions: each becomes an operand.
//!
//! Some are given a place for their value, `to`. Then nothing that is still to be read may be
//! there, because a value may be put there before all of the expression was evaluated.

use super::super::constants::{LITERAL_MAX, constant, shown};
use super::super::syntax::{Binary, Expression, ExpressionKind, Unary};
use super::super::unsupported::{CLOSURES, TABLES, Unsupported};
use super::{Binding, Lowered, Lowering};
use crate::ir::{Arithmetic, Operand, Operation, Register};

impl<'a> Lowering<'a> {
    pub(super) fn value(&mut self, expression: &'a Expression) -> Lowered<Operand> {
        self.value_in(expression, None)
    }

    /// Puts the value of an expression into a register.
    pub(super) fn value_to(&mut self, expression: &'a Expression, to: Register) -> Lowered<()> {
        let value = self.value_in(expression, Some(to))?;
        self.at(expression, |lowering| lowering.code.copy(to, value));
        Ok(())
    }

    /// The value of an expression, which is `to` if something has to run for it.
    pub(super) fn value_in(
        &mut self,
        expression: &'a Expression,
        to: Option<Register>,
    ) -> Lowered<Operand> {
        match self.bindings.known(expression) {
            Some(Binding::Value(literal)) => self.taken(literal),
            Some(_) => Err(self.no_value(expression)),
            None => self.at(expression, |lowering| lowering.unknown(expression, to)),
        }
    }

    /// A copy of a literal.
    pub(super) fn taken(&mut self, literal: Operand) -> Lowered<Operand> {
        if let Operand::Text(text) = &literal {
            self.code.take_literal(text.len())?;
        }
        Ok(literal)
    }

    fn unknown(&mut self, expression: &'a Expression, to: Option<Register>) -> Lowered<Operand> {
        let line = expression.line;
        match &expression.kind {
            ExpressionKind::Local(id) => match self.bindings.get(*id) {
                Some(Binding::Value(value)) => Ok(value.clone()),
                _ => Err(self.no_value(expression)),
            },
            ExpressionKind::Global(name) => Err(Unsupported::global(line, name)),
            ExpressionKind::Index(of, key) => self.element(of, key, to),
            ExpressionKind::Call(callee, arguments) => self.call(callee, arguments, to),
            ExpressionKind::Method(of, name, arguments) => self.method(of, name, arguments, to),
            ExpressionKind::Table(fields) => self.reply_table(line, fields, to),
            ExpressionKind::Unary(Unary::Minus, operand) => self.negated(operand, to),
            ExpressionKind::Unary(Unary::Length, operand) => self.length(operand, to),
            ExpressionKind::Unary(Unary::Not, _) => self.truth_value(expression, to),
            ExpressionKind::Binary(operator, left, right) => match operator {
                Binary::Arithmetic(operation) => self.arithmetic(*operation, left, right, to),
                Binary::Concatenate => self.concatenation(expression, to),
                Binary::Comparison(_) => self.truth_value(expression, to),
                Binary::And => self.and(left, right, to),
                Binary::Or => self.or(left, right, to),
            },
            ExpressionKind::Unsupported(reason) => Err(Unsupported::new(line, reason)),
            // Others are known, as what follows is.
            ExpressionKind::Text(_) => Err(Unsupported::long_literal(line)),
            ExpressionKind::Nil
            | ExpressionKind::Boolean(_)
            | ExpressionKind::Integer(_)
            | ExpressionKind::Function(_) => Err(self.no_value(expression)),
        }
    }

    /// Why something that has a name is not a value.
    pub(super) fn no_value(&self, expression: &Expression) -> Unsupported {
        let line = expression.line;
        if self.bindings.words(expression).is_some() {
            let reason = "the table of keys or arguments is only read, by index and by length";
            return Unsupported::new(line, reason);
        }
        if let Some(path) = self.bindings.library(expression) {
            return Unsupported::left(line, format!("{path} as a value"));
        }
        let ExpressionKind::Local(id) = &expression.kind else {
            return Unsupported::new(line, CLOSURES);
        };
        let name = &self.chunk.variables[id.0].name;
        match self.bindings.get(*id) {
            Some(Binding::Function(_)) => Unsupported::new(line, CLOSURES),
            Some(Binding::Table(_)) => Unsupported::new(line, TABLES),
            _ => Unsupported::new(line, format!("{name} is a variable of the library")),
        }
    }

    pub(super) fn target(&mut self, to: Option<Register>) -> Register {
        to.unwrap_or_else(|| self.code.temporary())
    }

    /// Emits an operation that computes a value.
    pub(super) fn compute(
        &mut self,
        to: Option<Register>,
        operation: impl FnOnce(Register) -> Operation,
    ) -> Operand {
        let to = self.target(to);
        self.code.emit(operation(to));
        Operand::Register(to)
    }

    pub(super) fn arithmetic(
        &mut self,
        operation: Arithmetic,
        left: &'a Expression,
        right: &'a Expression,
        to: Option<Register>,
    ) -> Lowered<Operand> {
        let left = self.value(left)?;
        let right = self.value(right)?;
        Ok(self.compute(to, |to| Operation::Arithmetic(to, operation, left, right)))
    }

    fn negated(&mut self, operand: &'a Expression, to: Option<Register>) -> Lowered<Operand> {
        let value = self.value(operand)?;
        if value == Operand::Integer(0) {
            return Err(Unsupported::new(operand.line, "-0 is no integer"));
        }
        Ok(self.compute(to, |to| Operation::Negate(to, value)))
    }

    fn concatenation(
        &mut self,
        expression: &'a Expression,
        to: Option<Register>,
    ) -> Lowered<Operand> {
        let parts = self.parts(expression)?;
        Ok(self.compute(to, |to| Operation::Concatenate(to, parts)))
    }

    /// The operands of a chain of `..`, from left to right; literals next to each other are one.
    pub(super) fn parts(&mut self, expression: &'a Expression) -> Lowered<Vec<Operand>> {
        let mut links = Vec::new();
        chain(expression, &mut links);
        let mut parts: Vec<Operand> = Vec::new();
        for link in links {
            let literal = constant(link, &self.bindings).and_then(|literal| shown(&literal));
            let Some(literal) = literal else {
                parts.push(self.value(link)?);
                continue;
            };
            self.code.take_literal(literal.len())?;
            match parts.last_mut() {
                Some(Operand::Text(text)) if text.len() + literal.len() > LITERAL_MAX => {
                    return Err(Unsupported::long_literal(link.line));
                }
                Some(Operand::Text(text)) => text.extend(literal),
                _ => parts.push(Operand::Text(literal)),
            }
        }
        Ok(parts)
    }
}

fn chain<'a>(expression: &'a Expression, links: &mut Vec<&'a Expression>) {
    match &expression.kind {
        ExpressionKind::Binary(Binary::Concatenate, left, right) => {
            chain(left, links);
            chain(right, links);
        }
        _ => links.push(expression),
    }
}

/// Is its value always a number?
pub(super) fn is_number(expression: &Expression) -> bool {
    matches!(
        expression.kind,
        ExpressionKind::Integer(_)
            | ExpressionKind::Unary(Unary::Minus | Unary::Length, _)
            | ExpressionKind::Binary(Binary::Arithmetic(_), ..)
    )
}

/// Is its value never nil and never false?
pub(super) fn is_true(expression: &Expression) -> bool {
    is_number(expression)
        || matches!(
            expression.kind,
            ExpressionKind::Text(_)
                | ExpressionKind::Boolean(true)
                | ExpressionKind::Binary(Binary::Concatenate, ..)
        )
}
