//! What Lua makes of operators between literals when it reads a text (`constfolding` of lcode.c in
//! Lua 5.1).
//!
//! That matters for one thing. Lua keeps every constant of a function once, and takes 0 and -0 for
//! the same: so each 0 is -0 in a function in which the first of them came out as -0, though that one
//! is never used.

use super::super::syntax::{Binary, Unary};
use crate::ir::Arithmetic;

/// What Lua keeps of an expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Folded {
    /// Instructions.
    No,
    Number(f64),
    /// A number that is not known here.
    Unknown,
}

impl Folded {
    fn new(number: f64) -> Self {
        match number.is_nan() {
            true => Self::No,
            false => Self::Number(number),
        }
    }

    pub(super) fn may_be_minus_zero(self) -> bool {
        match self {
            Self::No => false,
            Self::Number(number) => number == 0.0 && number.is_sign_negative(),
            Self::Unknown => true,
        }
    }
}

pub(super) fn unary(operator: Unary, operand: Folded) -> Folded {
    match (operator, operand) {
        (Unary::Minus, Folded::Number(number)) => Folded::new(-number),
        (Unary::Minus, Folded::Unknown) => Folded::Unknown,
        _ => Folded::No,
    }
}

/// `None`: an operator that has no name here.
pub(super) fn binary(operator: Option<Binary>, left: Folded, right: Folded) -> Folded {
    let arithmetic = match operator {
        Some(Binary::Arithmetic(arithmetic)) => Some(arithmetic),
        Some(_) => return Folded::No,
        None => None,
    };
    match (left, right, arithmetic) {
        (Folded::No, _, _) | (_, Folded::No, _) => Folded::No,
        (Folded::Number(a), Folded::Number(b), Some(arithmetic)) => compute(arithmetic, a, b),
        _ => Folded::Unknown,
    }
}

fn compute(operation: Arithmetic, a: f64, b: f64) -> Folded {
    match operation {
        Arithmetic::Add => Folded::new(a + b),
        Arithmetic::Subtract => Folded::new(a - b),
        Arithmetic::Multiply => Folded::new(a * b),
        // It divides by 0 when it runs.
        Arithmetic::Divide | Arithmetic::Modulo if b == 0.0 => Folded::No,
        Arithmetic::Divide => Folded::new(a / b),
        Arithmetic::Modulo => Folded::new(a - (a / b).floor() * b),
        // Calls of functions.
        Arithmetic::FloorDivide | Arithmetic::Minimum | Arithmetic::Maximum => Folded::No,
    }
}
