//! Conditions, and the operators that evaluate their right side only sometimes.

use super::super::constants::truth;
use super::super::syntax::{Binary, Expression, ExpressionKind, Unary};
use super::expressions::is_true;
use super::{Lowered, Lowering};
use crate::ir::{Condition, Label, Operand, Register};

impl<'a> Lowering<'a> {
    /// Jumps if the expression is true, or if it is not (`when`).
    pub(super) fn jump(
        &mut self,
        expression: &'a Expression,
        when: bool,
        label: Label,
    ) -> Lowered<()> {
        self.at(expression, |lowering| match &expression.kind {
            ExpressionKind::Unary(Unary::Not, operand) => lowering.jump(operand, !when, label),
            // One of two decides alone for `or` if it is true, for `and` if it is not.
            ExpressionKind::Binary(Binary::Or, left, right) => {
                lowering.jump_two(left, right, true, when, label)
            }
            ExpressionKind::Binary(Binary::And, left, right) => {
                lowering.jump_two(left, right, false, when, label)
            }
            _ => lowering.jump_one(expression, when, label),
        })
    }

    fn jump_two(
        &mut self,
        left: &'a Expression,
        right: &'a Expression,
        decides: bool,
        when: bool,
        label: Label,
    ) -> Lowered<()> {
        if decides == when {
            self.jump(left, when, label)?;
            return self.jump(right, when, label);
        }
        let decided = self.code.label();
        self.jump(left, decides, decided)?;
        self.jump(right, when, label)?;
        self.code.place(decided);
        Ok(())
    }

    fn jump_one(&mut self, expression: &'a Expression, when: bool, label: Label) -> Lowered<()> {
        if let ExpressionKind::Binary(Binary::Comparison(comparison), left, right) =
            &expression.kind
        {
            let left = self.value(left)?;
            let right = self.value(right)?;
            let condition = match when {
                true => Condition::Compare(left, *comparison, right),
                false => Condition::Not(left, *comparison, right),
            };
            self.code.jump_if(condition, label);
            return Ok(());
        }
        let value = self.value(expression)?;
        self.jump_on(value, when, label);
        Ok(())
    }

    fn jump_on(&mut self, value: Operand, when: bool, label: Label) {
        match truth(&value) {
            Some(truth) if truth == when => self.code.jump(label),
            Some(_) => {}
            None if when => self.code.jump_if(Condition::True(value), label),
            None => self.code.jump_if(Condition::False(value), label),
        }
    }

    /// True or false.
    pub(super) fn truth_value(
        &mut self,
        expression: &'a Expression,
        to: Option<Register>,
    ) -> Lowered<Operand> {
        let (to, end) = (self.target(to), self.code.label());
        self.code.copy(to, Operand::Boolean(true));
        self.jump(expression, true, end)?;
        self.code.copy(to, Operand::Boolean(false));
        self.code.place(end);
        Ok(Operand::Register(to))
    }

    /// `left and right`: the left value if that is nil or false, else the right one.
    pub(super) fn and(
        &mut self,
        left: &'a Expression,
        right: &'a Expression,
        to: Option<Register>,
    ) -> Lowered<Operand> {
        self.either(left, right, false, to)
    }

    /// `left or right`: the left value unless that is nil or false, else the right one.
    pub(super) fn or(
        &mut self,
        left: &'a Expression,
        right: &'a Expression,
        to: Option<Register>,
    ) -> Lowered<Operand> {
        match &left.kind {
            ExpressionKind::Binary(Binary::And, condition, value) if is_true(value) => {
                self.choice(condition, value, right, to)
            }
            _ => self.either(left, right, true, to),
        }
    }

    /// The left value, if it is as true as `decides`, else the right one.
    fn either(
        &mut self,
        left: &'a Expression,
        right: &'a Expression,
        decides: bool,
        to: Option<Register>,
    ) -> Lowered<Operand> {
        let (to, end) = (self.target(to), self.code.label());
        if is_boolean(left) {
            self.code.copy(to, Operand::Boolean(decides));
            self.jump(left, decides, end)?;
        } else {
            self.value_to(left, to)?;
            self.jump_on(Operand::Register(to), decides, end);
        }
        self.value_to(right, to)?;
        self.code.place(end);
        Ok(Operand::Register(to))
    }

    /// `condition and value or otherwise`, where the value is true.
    fn choice(
        &mut self,
        condition: &'a Expression,
        value: &'a Expression,
        otherwise: &'a Expression,
        to: Option<Register>,
    ) -> Lowered<Operand> {
        let to = self.target(to);
        let (not, end) = (self.code.label(), self.code.label());
        self.jump(condition, false, not)?;
        self.value_to(value, to)?;
        self.code.jump(end);
        self.code.place(not);
        self.value_to(otherwise, to)?;
        self.code.place(end);
        Ok(Operand::Register(to))
    }
}

/// Is its value always true or false?
pub(super) fn is_boolean(expression: &Expression) -> bool {
    match &expression.kind {
        ExpressionKind::Boolean(_)
        | ExpressionKind::Unary(Unary::Not, _)
        | ExpressionKind::Binary(Binary::Comparison(_), ..) => true,
        ExpressionKind::Binary(Binary::And | Binary::Or, left, right) => {
            is_boolean(left) && is_boolean(right)
        }
        _ => false,
    }
}
