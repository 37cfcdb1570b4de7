//! Values into registers of the processor.
//!
//! What must be converted is converted first, by calls, after which only r6 to r9 are left;
//! then the values are loaded.

use std::mem::offset_of;

use bpfdb::abi::{self, bpfdb_frame};

use super::assembly::{Alu, Jump, Place, R1, R2, R3, R4, Reg, Width};
use super::emit::{Emitter, FRAME, HALF, Slot, WHOLE, at};
use crate::error::Result;
use crate::ir::{Operand, Register, Words};
use crate::types::Type;

/// Where a number is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Slot(Slot),
    Value(i64),
}

/// Where a text is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Text {
    Slot(Slot),
    Word(Words, u16),
    /// Of a literal.
    Value(i64),
}

/// Which texts are numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Those that Lua takes for one.
    Lua,
    /// Those that a command of Redis does: no zeros in front.
    Redis,
}

/// The text that a number has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Digits {
    /// Of `tostring` and `..`: `%.14g`.
    Lua,
    /// Of an argument of `redis.call`: `%.17g`.
    Argument,
}

/// From here on `%.14g` is not made of digits only.
const LUA_DIGITS: i64 = 100_000_000_000_000;
/// Of a whole number that is exact.
const NUMBER_MAX: i64 = 1 << 53;

impl Emitter<'_> {
    // ---- Loading -------------------------------------------------------------------

    /// The bits of a value, whatever its type; not of a word that may be missing.
    pub(super) fn load_value(&mut self, operand: &Operand, to: Reg) -> Result<()> {
        match operand {
            Operand::Register(register) => self.load_slot(Slot(register.0), to),
            Operand::Integer(value) => self.asm().set(to, *value),
            Operand::Text(text) => {
                let value = self.literal(text)?;
                self.asm().set(to, value);
            }
            Operand::Word(words, number) => self.load_word(*words, *number, to),
            Operand::Nil | Operand::Boolean(_) => self.asm().set(to, 0),
        }
        Ok(())
    }

    pub(super) fn load_slot(&mut self, slot: Slot, to: Reg) {
        self.asm().load(Width::Double, to, FRAME, slot.value());
    }

    pub(super) fn store_slot(&mut self, slot: Slot, from: Reg) {
        self.asm().store(Width::Double, FRAME, slot.value(), from);
    }

    pub(super) fn load_word(&mut self, words: Words, number: u16, to: Reg) {
        let first = match words {
            Words::Keys => offset_of!(bpfdb_frame, key_words),
            Words::Arguments => offset_of!(bpfdb_frame, argument_words),
        };
        let offset = first + 8 * (usize::from(number) - 1);
        self.asm().load(Width::Double, to, FRAME, at(offset));
    }

    pub(super) fn load_number(&mut self, number: Number, to: Reg) {
        match number {
            Number::Slot(slot) => self.load_slot(slot, to),
            Number::Value(value) => self.asm().set(to, value),
        }
    }

    pub(super) fn load_text(&mut self, text: Text, to: Reg) {
        match text {
            Text::Slot(slot) => self.load_slot(slot, to),
            Text::Word(words, number) => self.load_word(words, number, to),
            Text::Value(value) => self.asm().set(to, value),
        }
    }

    /// How many there are.
    pub(super) fn load_count(&mut self, words: Words, to: Reg) {
        let count = match words {
            Words::Keys => offset_of!(bpfdb_frame, keys),
            Words::Arguments => offset_of!(bpfdb_frame, arguments),
        };
        self.asm().load(Width::Word, to, FRAME, at(count));
    }

    // ---- Tests ---------------------------------------------------------------------

    /// Jumps if the call has fewer than so many.
    pub(super) fn test_word(&mut self, words: Words, number: u16, missing: Place) {
        self.load_count(words, R1);
        self.asm()
            .jump_if_value(Jump::Less, R1, i32::from(number), missing);
    }

    /// Jumps if the value is not of this type. Uses r1.
    pub(super) fn test(&mut self, operand: &Operand, wanted: Type, other: Place) {
        let types = self.typing.operand(operand);
        if types.only() == Some(wanted) {
            return;
        }
        if !types.has(wanted) {
            self.asm().jump(other);
            return;
        }
        match operand {
            Operand::Register(register) => self.test_tag(*register, wanted, other),
            Operand::Word(words, number) if wanted == Type::Text => {
                self.test_word(*words, *number, other);
            }
            Operand::Word(words, number) => {
                self.load_count(*words, R1);
                self.asm()
                    .jump_if_value(Jump::GreaterOrEqual, R1, i32::from(*number), other);
            }
            _ => unreachable!("a literal has one type"),
        }
    }

    fn test_tag(&mut self, register: Register, wanted: Type, other: Place) {
        self.asm()
            .load(Width::Byte, R1, FRAME, Slot(register.0).tag());
        self.asm()
            .jump_if_value(Jump::NotEqual, R1, wanted as i32, other);
    }

    // ---- Numbers -------------------------------------------------------------------

    /// The value as a number; a text is converted.
    pub(super) fn number(&mut self, operand: &Operand, form: Form) -> Result<Number> {
        let types = self.typing.operand(operand);
        match operand {
            Operand::Integer(value) => return Ok(Number::Value(*value)),
            Operand::Text(text) => return Ok(self.number_of_literal(text, form)),
            Operand::Register(register) if types.only() == Some(Type::Integer) => {
                return Ok(Number::Slot(Slot(register.0)));
            }
            _ => {}
        }
        let slot = self.fresh()?;
        let (text, end) = (self.place(), self.place());
        if types.has(Type::Integer) {
            self.test(operand, Type::Integer, text);
            self.load_value(operand, R1)?;
            self.store_slot(slot, R1);
            self.asm().jump(end);
        }
        self.asm().put(text);
        self.number_of_text(operand, form, slot)?;
        self.asm().put(end);
        Ok(Number::Slot(slot))
    }

    /// Of a value that is no number.
    fn number_of_text(&mut self, operand: &Operand, form: Form, to: Slot) -> Result<()> {
        let types = self.typing.operand(operand);
        if !types.has(Type::Text) {
            self.give_up(abi::BPFDB_DEOPTIMISATION_TYPE);
            return Ok(());
        }
        let other = self.exit(abi::BPFDB_DEOPTIMISATION_TYPE);
        self.test(operand, Type::Text, other);
        self.load_value(operand, R2)?;
        self.asm().copy(R1, FRAME);
        self.asm().set(R3, to.0.into());
        self.asm().set(R4, (form == Form::Redis).into());
        self.call("rt_number");
        Ok(())
    }

    fn number_of_literal(&mut self, text: &[u8], form: Form) -> Number {
        match integer_of(text, form) {
            Some(value) => Number::Value(value),
            None => {
                self.give_up(abi::BPFDB_DEOPTIMISATION_TEXT_IS_NO_NUMBER);
                Number::Value(0)
            }
        }
    }

    /// Ends the run if the number in r1 is not exact. Uses r2.
    pub(super) fn check_range(&mut self) {
        let exit = self.exit(abi::BPFDB_DEOPTIMISATION_NUMBER_TOO_LARGE);
        self.asm().copy(R2, R1);
        self.asm().alu(Alu::Add, R2, HALF);
        self.asm().jump_if(Jump::Greater, R2, WHOLE, exit);
    }

    // ---- Texts ---------------------------------------------------------------------

    /// The value as a text; a number is converted.
    pub(super) fn text(&mut self, operand: &Operand, digits: Digits) -> Result<Text> {
        let types = self.typing.operand(operand);
        match operand {
            Operand::Text(text) => return Ok(Text::Value(self.literal(text)?)),
            Operand::Integer(value) => return self.text_of_literal(*value, digits),
            Operand::Word(words, number) => {
                let missing = self.exit(abi::BPFDB_DEOPTIMISATION_TYPE);
                self.test_word(*words, *number, missing);
                return Ok(Text::Word(*words, *number));
            }
            Operand::Register(register) if types.only() == Some(Type::Text) => {
                return Ok(Text::Slot(Slot(register.0)));
            }
            _ => {}
        }
        let slot = self.fresh()?;
        let (number, end) = (self.place(), self.place());
        if types.has(Type::Text) {
            self.test(operand, Type::Text, number);
            self.load_value(operand, R1)?;
            self.store_slot(slot, R1);
            self.asm().jump(end);
        }
        self.asm().put(number);
        let other = self.exit(abi::BPFDB_DEOPTIMISATION_TYPE);
        self.test(operand, Type::Integer, other);
        if types.has(Type::Integer) {
            self.load_digits(operand, digits)?;
            self.asm().copy(R1, FRAME);
            self.asm().set(R3, slot.0.into());
            self.call("rt_text");
        }
        self.asm().put(end);
        Ok(Text::Slot(slot))
    }

    /// A number whose text is its digits into r2. Uses r1.
    pub(super) fn load_digits(&mut self, operand: &Operand, digits: Digits) -> Result<()> {
        self.load_value(operand, R2)?;
        if digits == Digits::Lua {
            let exit = self.exit(abi::BPFDB_DEOPTIMISATION_NUMBER_IN_TEXT);
            self.asm().set(R1, LUA_DIGITS);
            self.asm().jump_if(Jump::SGreaterOrEqual, R2, R1, exit);
            self.asm().set(R1, -LUA_DIGITS);
            self.asm().jump_if(Jump::SLessOrEqual, R2, R1, exit);
        }
        Ok(())
    }

    fn text_of_literal(&mut self, value: i64, digits: Digits) -> Result<Text> {
        if digits == Digits::Lua && value.abs() >= LUA_DIGITS {
            self.give_up(abi::BPFDB_DEOPTIMISATION_NUMBER_IN_TEXT);
            return Ok(Text::Value(0));
        }
        let value = self.literal(value.to_string().as_bytes())?;
        Ok(Text::Value(value))
    }
}

/// The number of a text, as `integer_of` in `bpf/values/integer.bpf.h` has it.
fn integer_of(text: &[u8], form: Form) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_plain =
        !digits.is_empty() && digits.len() <= 16 && digits.iter().all(u8::is_ascii_digit);
    let value: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    let is_zero_with_sign = text[0] == b'-' && value == 0;
    let is_short = digits[0] != b'0' || text.len() == 1;
    (is_plain && !is_zero_with_sign && value.abs() <= NUMBER_MAX && (form == Form::Lua || is_short))
        .then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_numbers_as_in_the_kernel() {
        for (text, lua, redis) in [
            ("0", Some(0), Some(0)),
            ("-7", Some(-7), Some(-7)),
            ("007", Some(7), None),
            ("-0", None, None),
            ("", None, None),
            ("-", None, None),
            ("+1", None, None),
            ("1.5", None, None),
            (" 1", None, None),
            ("9007199254740992", Some(1 << 53), Some(1 << 53)),
            ("9007199254740993", None, None),
            ("00000000000000001", None, None),
        ] {
            assert_eq!(integer_of(text.as_bytes(), Form::Lua), lua, "{text}");
            assert_eq!(integer_of(text.as_bytes(), Form::Redis), redis, "{text}");
        }
    }
}
