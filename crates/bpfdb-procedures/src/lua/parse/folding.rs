//! Folding: what Lua makes of operators between literals when it reads a text (`constfolding` of lcode.c in
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
    /// A text, a truth value, or nil.
    Constant,
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
            Self::No | Self::Constant => false,
            Self::Number(number) => number == 0.0 && number.is_sign_negative(),
            Self::Unknown => true,
        }
    }
}

pub(super) fn unary(operator: Unary, operand: Folded) -> Folded {
    match (operator, operand) {
        (Unary::Minus, Folded::Number(number)) => Folded::new(-number),
        (Unary::Minus, Folded::Unknown) => Folded::Unknown,
        (Unary::Not, Folded::Constant | Folded::Number(_) | Folded::Unknown) => Folded::Constant,
        _ => Folded::No,
    }
}

/// `None`: `^`.
pub(super) fn binary(operator: Option<Binary>, left: Folded, right: Folded) -> Folded {
    match (operator, left, right) {
        (_, Folded::No, _) => Folded::No,
        // What is known on the left decides, and the right side may be all that is left.
        (Some(Binary::And | Binary::Or), ..) => right,
        (Some(Binary::Comparison(_) | Binary::Concatenate), ..)
        | (_, _, Folded::No | Folded::Constant)
        | (_, Folded::Constant, _) => Folded::No,
        (Some(Binary::Arithmetic(operation)), Folded::Number(a), Folded::Number(b)) => {
            compute(operation, a, b)
        }
        (None, Folded::Number(a), Folded::Number(b)) => Folded::new(a.powf(b)),
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
        Arithmetic::FloorDivide
        | Arithmetic::CeilDivide
        | Arithmetic::Minimum
        | Arithmetic::Maximum => Folded::No,
    }
}
