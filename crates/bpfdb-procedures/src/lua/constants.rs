//! Values that are known before anything runs: literals, variables that stand for one, and
//! what the operators make of them.

use super::lower::Bindings;
use super::syntax::{Binary, Expression, ExpressionKind, Unary};
use crate::ir::{Arithmetic, Operand};

/// Integers up to here are the same in Lua, which has doubles.
const INTEGER_MAX: i64 = 1 << 53;
/// `tostring` shows 14 digits: from here on it has an exponent.
const SHOWN_END: i64 = 100_000_000_000_000;

/// Longest literal, bytes, whether it stands in the text or is made here: what a call has room
/// for.
pub(super) const LITERAL_MAX: usize = bpfdb::abi::BPFDB_CALL_LITERALS as usize;

pub(super) fn within_limits(value: i64) -> Option<i64> {
    (-INTEGER_MAX..=INTEGER_MAX)
        .contains(&value)
        .then_some(value)
}

/// The value of an expression, if it is known.
pub(super) fn constant(expression: &Expression, bindings: &Bindings<'_>) -> Option<Operand> {
    match &expression.kind {
        ExpressionKind::Nil => Some(Operand::Nil),
        ExpressionKind::Boolean(value) => Some(Operand::Boolean(*value)),
        ExpressionKind::Integer(value) => Some(Operand::Integer(*value)),
        ExpressionKind::Text(text) if text.len() <= LITERAL_MAX => {
            Some(Operand::Text(text.clone()))
        }
        ExpressionKind::Local(id) => bindings.literal(*id),
        ExpressionKind::Unary(Unary::Minus, operand) => match constant(operand, bindings)? {
            // There is a -0, and no integer for it.
            Operand::Integer(value) if value != 0 => Some(Operand::Integer(-value)),
            _ => None,
        },
        ExpressionKind::Binary(operator, left, right) => {
            let (left, right) = (constant(left, bindings)?, constant(right, bindings)?);
            match operator {
                Binary::Arithmetic(operation) => arithmetic(*operation, &left, &right),
                Binary::Concatenate => concatenation(&left, &right),
                _ => None,
            }
        }
        _ => None,
    }
}

fn arithmetic(operation: Arithmetic, left: &Operand, right: &Operand) -> Option<Operand> {
    let (&Operand::Integer(a), &Operand::Integer(b)) = (left, right) else {
        return None;
    };
    let value = match operation {
        Arithmetic::Add => a + b,
        Arithmetic::Subtract => a - b,
        // The sign of 0 is that of the factors.
        Arithmetic::Multiply if a.min(b) >= 0 || (a != 0 && b != 0) => a.checked_mul(b)?,
        Arithmetic::Divide if b > 0 && a % b == 0 => a / b,
        // Beyond, Lua's floor(a / b) * b is rounded.
        Arithmetic::Modulo if b > 0 && a.abs().max(b) <= INTEGER_MAX / 2 => a.rem_euclid(b),
        _ => return None,
    };
    within_limits(value).map(Operand::Integer)
}

fn concatenation(left: &Operand, right: &Operand) -> Option<Operand> {
    let mut text = shown(left)?;
    text.extend(shown(right)?);
    // A few lines of text, each twice the one before, would fill all memory.
    (text.len() <= LITERAL_MAX).then_some(Operand::Text(text))
}

/// What `..` makes of a literal.
pub(super) fn shown(literal: &Operand) -> Option<Vec<u8>> {
    match literal {
        Operand::Text(text) => Some(text.clone()),
        Operand::Integer(value) if (-SHOWN_END + 1..SHOWN_END).contains(value) => {
            Some(value.to_string().into_bytes())
        }
        _ => None,
    }
}

/// Is it neither nil nor false? `None`: that is not known.
pub(super) fn truth(operand: &Operand) -> Option<bool> {
    match operand {
        Operand::Nil => Some(false),
        Operand::Boolean(value) => Some(*value),
        Operand::Integer(_) | Operand::Text(_) => Some(true),
        Operand::Register(_) | Operand::Word(..) => None,
    }
}
