//! Numbers: whole ones within 2^53, which Lua has exactly. What would be none ends the run.

use bpfdb::abi;

use super::assembly::{Alu, Jump, R1, R2, R3, R4, Reg};
use super::emit::Emitter;
use super::operands::Form;
use crate::error::Result;
use crate::ir::{Arithmetic, Operand, Register};
use crate::types::Type;

/// Numbers whose product surely fits 64 bits, and half of the range of those that floor(a / b) and
/// ceil(a / b) of floating point have exactly.
const SMALL: i64 = 1 << 31;
const DIVIDEND_MAX: i64 = 1 << 52;
/// The product of a number and a literal up to this one fits 64 bits.
const LITERAL_MAX: i64 = 1 << 9;

fn small_literal(operand: &Operand) -> Option<i64> {
    match operand {
        Operand::Integer(value) if value.abs() <= LITERAL_MAX => Some(*value),
        _ => None,
    }
}

/// A divisor that asks for no question at run time.
fn plain_divisor(operand: &Operand) -> Option<i32> {
    match operand {
        Operand::Integer(value) => i32::try_from(*value).ok().filter(|&value| value > 0),
        _ => None,
    }
}

impl Emitter<'_> {
    pub(super) fn arithmetic(
        &mut self,
        to: Register,
        operation: Arithmetic,
        a: &Operand,
        b: &Operand,
    ) -> Result<()> {
        let (a, b) = match operation {
            Arithmetic::Multiply if small_literal(a).is_some() => (b, a),
            _ => (a, b),
        };
        let (first, second) = (self.number(a, Form::Lua)?, self.number(b, Form::Lua)?);
        self.load_number(first, R1);
        self.load_number(second, R2);
        match operation {
            Arithmetic::Add => self.asm().alu(Alu::Add, R1, R2),
            Arithmetic::Subtract => self.asm().alu(Alu::Subtract, R1, R2),
            Arithmetic::Multiply => match small_literal(b) {
                Some(literal) => self.multiply_by(literal),
                None => self.multiply(),
            },
            Arithmetic::Modulo => match plain_divisor(b) {
                Some(divisor) => self.modulo_by(divisor),
                None => self.modulo(),
            },
            Arithmetic::Divide => match plain_divisor(b) {
                Some(divisor) => self.divide_by(divisor),
                None => self.divide(),
            },
            Arithmetic::FloorDivide => self.floor_divide(),
            Arithmetic::CeilDivide => self.ceil_divide(),
            Arithmetic::Minimum => self.choose(Jump::SLessOrEqual),
            Arithmetic::Maximum => self.choose(Jump::SGreaterOrEqual),
        }
        if matches!(
            operation,
            Arithmetic::Add | Arithmetic::Subtract | Arithmetic::Multiply
        ) {
            self.check_range();
        }
        self.put(to, R1, Type::Integer);
        Ok(())
    }

    /// r1 = r1 * r2, which is this literal.
    fn multiply_by(&mut self, literal: i64) {
        let minus_zero = self.exit(abi::BPFDB_DEOPTIMISATION_MINUS_ZERO);
        // 0 times a negative number is -0 in Lua.
        match literal {
            0 => self.asm().jump_if_value(Jump::SLess, R1, 0, minus_zero),
            ..0 => self.asm().jump_if_value(Jump::Equal, R1, 0, minus_zero),
            _ => {}
        }
        self.asm().alu(Alu::Multiply, R1, R2);
    }

    /// r1 = r1 * r2.
    fn multiply(&mut self) {
        let (wide, product) = (self.place(), self.place());
        let too_large = self.exit(abi::BPFDB_DEOPTIMISATION_NUMBER_TOO_LARGE);
        for factor in [R1, R2] {
            self.asm().copy(R3, factor);
            self.asm().set(R4, SMALL);
            self.asm().alu(Alu::Add, R3, R4);
            self.asm().alu_by(Alu::ShiftRight, R3, 32);
            self.asm().jump_if_value(Jump::NotEqual, R3, 0, wide);
        }
        self.asm().copy(R3, R1);
        self.asm().alu(Alu::Multiply, R1, R2);
        self.asm().jump(product);
        self.asm().put(wide);
        // The product has no 64 bits if division does not lead back.
        self.asm().copy(R3, R1);
        self.asm().alu(Alu::Multiply, R1, R2);
        self.asm().jump_if_value(Jump::Equal, R3, 0, product);
        self.asm().copy(R4, R1);
        self.asm().alu_signed(Alu::Divide, R4, R3);
        self.asm().jump_if(Jump::NotEqual, R4, R2, too_large);
        self.asm().put(product);
        self.check_minus_zero();
    }

    /// Ends the run if r1 is 0 and r2 or r3 negative. Without a way around: the verifier would
    /// walk what follows once for each.
    fn check_minus_zero(&mut self) {
        let minus_zero = self.exit(abi::BPFDB_DEOPTIMISATION_MINUS_ZERO);
        // The sign of r1 | -r1 says that it is not 0.
        self.asm().set(R4, 0);
        self.asm().alu(Alu::Subtract, R4, R1);
        self.asm().alu(Alu::Or, R4, R1);
        self.asm().alu_by(Alu::Xor, R4, -1);
        self.asm().alu(Alu::Or, R3, R2);
        self.asm().alu(Alu::And, R4, R3);
        self.asm().jump_if_value(Jump::SLess, R4, 0, minus_zero);
    }

    /// r1 = r1 - floor(r1 / r2) * r2.
    fn modulo(&mut self) {
        let end = self.place();
        let fraction = self.exit(abi::BPFDB_DEOPTIMISATION_FRACTION);
        self.asm().jump_if_value(Jump::Equal, R2, 0, fraction);
        // Beyond, floor(a / b) * b of floating point is rounded.
        self.check_half(R1);
        self.check_half(R2);
        self.asm().alu_signed(Alu::Modulo, R1, R2);
        // It has the sign of the divisor.
        self.asm().jump_if_value(Jump::Equal, R1, 0, end);
        self.asm().copy(R3, R1);
        self.asm().alu(Alu::Xor, R3, R2);
        self.asm().jump_if_value(Jump::SGreaterOrEqual, R3, 0, end);
        self.asm().alu(Alu::Add, R1, R2);
        self.asm().put(end);
    }

    /// r1 = r1 - floor(r1 / divisor) * divisor.
    fn modulo_by(&mut self, divisor: i32) {
        let end = self.place();
        self.check_half(R1);
        self.asm().alu_signed_by(Alu::Modulo, R1, divisor);
        // It has the sign of the dividend.
        self.asm().jump_if_value(Jump::SGreaterOrEqual, R1, 0, end);
        self.asm().alu_by(Alu::Add, R1, divisor);
        self.asm().put(end);
    }

    /// r1 = r1 / divisor, where nothing is left.
    fn divide_by(&mut self, divisor: i32) {
        let fraction = self.exit(abi::BPFDB_DEOPTIMISATION_FRACTION);
        self.asm().copy(R3, R1);
        self.asm().alu_signed_by(Alu::Modulo, R3, divisor);
        self.asm().jump_if_value(Jump::NotEqual, R3, 0, fraction);
        self.asm().alu_signed_by(Alu::Divide, R1, divisor);
    }

    /// r1 = r1 / r2, where nothing is left.
    fn divide(&mut self) {
        let fraction = self.exit(abi::BPFDB_DEOPTIMISATION_FRACTION);
        self.check_divisor();
        self.asm().copy(R3, R1);
        self.asm().alu_signed(Alu::Modulo, R3, R2);
        self.asm().jump_if_value(Jump::NotEqual, R3, 0, fraction);
        self.asm().alu_signed(Alu::Divide, R1, R2);
    }

    /// r1 = r1 / r2, rounded towards 0; jumps if nothing is left. Else r3 has the sign of the
    /// quotient. Floating point rounds to another whole number only beyond [`DIVIDEND_MAX`]: below,
    /// the quotient is farther from the next one than rounding goes.
    fn quotient(&mut self, exact: super::assembly::Place) {
        self.check_divisor();
        self.check_half(R1);
        self.asm().copy(R3, R1);
        self.asm().alu_signed(Alu::Modulo, R3, R2);
        self.asm().alu_signed(Alu::Divide, R1, R2);
        self.asm().jump_if_value(Jump::Equal, R3, 0, exact);
        // What is left has the sign of the dividend.
        self.asm().alu(Alu::Xor, R3, R2);
    }

    /// r1 = ceil(r1 / r2). Between -1 and 0 that is -0 in Lua.
    fn ceil_divide(&mut self) {
        let (negative, end) = (self.place(), self.place());
        let minus_zero = self.exit(abi::BPFDB_DEOPTIMISATION_MINUS_ZERO);
        self.quotient(end);
        self.asm().jump_if_value(Jump::SLess, R3, 0, negative);
        self.asm().alu_by(Alu::Add, R1, 1);
        self.asm().jump(end);
        self.asm().put(negative);
        self.asm().jump_if_value(Jump::Equal, R1, 0, minus_zero);
        self.asm().put(end);
    }

    /// r1 = floor(r1 / r2).
    fn floor_divide(&mut self) {
        let end = self.place();
        self.quotient(end);
        self.asm().jump_if_value(Jump::SGreaterOrEqual, R3, 0, end);
        self.asm().alu_by(Alu::Add, R1, -1);
        self.asm().put(end);
    }

    /// Ends the run if the number is beyond [`DIVIDEND_MAX`]. Uses r3.
    fn check_half(&mut self, number: Reg) {
        let too_large = self.exit(abi::BPFDB_DEOPTIMISATION_NUMBER_TOO_LARGE);
        self.asm().set(R3, DIVIDEND_MAX);
        self.asm().jump_if(Jump::SGreater, number, R3, too_large);
        self.asm().set(R3, -DIVIDEND_MAX);
        self.asm().jump_if(Jump::SLess, number, R3, too_large);
    }

    /// By 0 there is no number; 0 by a negative one is -0.
    fn check_divisor(&mut self) {
        let end = self.place();
        let fraction = self.exit(abi::BPFDB_DEOPTIMISATION_FRACTION);
        let minus_zero = self.exit(abi::BPFDB_DEOPTIMISATION_MINUS_ZERO);
        self.asm().jump_if_value(Jump::Equal, R2, 0, fraction);
        self.asm().jump_if_value(Jump::NotEqual, R1, 0, end);
        self.asm().jump_if_value(Jump::SLess, R2, 0, minus_zero);
        self.asm().put(end);
    }

    /// r1 stays if it compares so to r2; else it becomes r2.
    fn choose(&mut self, first: Jump) {
        let end = self.place();
        self.asm().jump_if(first, R1, R2, end);
        self.asm().copy(R1, R2);
        self.asm().put(end);
    }

    pub(super) fn negate(&mut self, to: Register, of: &Operand) -> Result<()> {
        let number = self.number(of, Form::Lua)?;
        let minus_zero = self.exit(abi::BPFDB_DEOPTIMISATION_MINUS_ZERO);
        self.load_number(number, R2);
        self.asm().jump_if_value(Jump::Equal, R2, 0, minus_zero);
        self.asm().set(R1, 0);
        self.asm().alu(Alu::Subtract, R1, R2);
        self.put(to, R1, Type::Integer);
        Ok(())
    }

    pub(super) fn whole(&mut self, to: Register, of: &Operand) -> Result<()> {
        let number = self.number(of, Form::Lua)?;
        self.load_number(number, R1);
        self.put(to, R1, Type::Integer);
        Ok(())
    }

    /// Nil of what is neither a number nor a text.
    pub(super) fn number_or_nil(&mut self, to: Register, of: &Operand) -> Result<()> {
        let types = self.typing.operand(of);
        let (other, end) = (self.place(), self.place());
        if types.has(Type::Integer) || types.has(Type::Text) {
            if !types.has(Type::Integer) {
                self.test(of, Type::Text, other);
            } else if !types.has(Type::Text) {
                self.test(of, Type::Integer, other);
            } else {
                self.test_either(of, other);
            }
            self.whole(to, of)?;
            self.asm().jump(end);
        }
        self.asm().put(other);
        if self.typing.register(to).has(Type::Nil) {
            self.tag(to, Type::Nil);
        }
        self.asm().put(end);
        Ok(())
    }

    /// Jumps if the value is neither a number nor a text.
    fn test_either(&mut self, of: &Operand, other: super::assembly::Place) {
        let (text, end) = (self.place(), self.place());
        self.test(of, Type::Integer, text);
        self.asm().jump(end);
        self.asm().put(text);
        self.test(of, Type::Text, other);
        self.asm().put(end);
    }
}
