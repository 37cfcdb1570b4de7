//! Jumps.

use bpfdb::abi;

use super::assembly::{Jump, Place, R0, R1, R2, R3, Width};
use super::emit::{Emitter, FRAME, Slot};
use crate::error::Result;
use crate::ir::{Comparison, Condition, Operand};
use crate::types::Type;

/// What comparisons of texts return besides their result: the call has run for long enough.
const NO_FUEL: i32 = 3;

impl Emitter<'_> {
    /// Jumps if the condition holds.
    pub(super) fn condition(&mut self, condition: &Condition, to: Place) -> Result<()> {
        let next = self.place();
        match condition {
            Condition::True(operand) => self.truth(operand, to, next),
            Condition::False(operand) => self.truth(operand, next, to),
            Condition::Compare(a, comparison, b) => self.compare(a, *comparison, b, to, next)?,
            Condition::Not(a, comparison, b) => self.compare(a, *comparison, b, next, to)?,
        }
        self.asm().put(next);
        Ok(())
    }

    fn truth(&mut self, operand: &Operand, yes: Place, no: Place) {
        match (self.typing.operand(operand).truth(), operand) {
            ((true, false), _) => self.asm().jump(yes),
            ((false, _), _) => self.asm().jump(no),
            (_, Operand::Register(register)) => {
                let tag = Slot(register.0).tag();
                self.asm().load(Width::Byte, R1, FRAME, tag);
                self.asm()
                    .jump_if_value(Jump::Greater, R1, Type::False as i32, yes);
                self.asm().jump(no);
            }
            (_, other) => {
                self.test(other, Type::Text, no);
                self.asm().jump(yes);
            }
        }
    }

    /// Jumps to one of the two.
    fn compare(
        &mut self,
        a: &Operand,
        comparison: Comparison,
        b: &Operand,
        holds: Place,
        fails: Place,
    ) -> Result<()> {
        match comparison {
            Comparison::Equal => self.equal(a, b, holds, fails),
            Comparison::NotEqual => self.equal(a, b, fails, holds),
            Comparison::Less => self.ordered(a, b, false, holds, fails),
            Comparison::LessOrEqual => self.ordered(a, b, true, holds, fails),
            Comparison::Greater => self.ordered(b, a, false, holds, fails),
            Comparison::GreaterOrEqual => self.ordered(b, a, true, holds, fails),
        }
    }

    /// Values of different types are different. Nothing is converted.
    fn equal(&mut self, a: &Operand, b: &Operand, same: Place, differ: Place) -> Result<()> {
        let (a_types, b_types) = (self.typing.operand(a), self.typing.operand(b));
        for one in a_types.iter().filter(|&one| b_types.has(one)) {
            let other = self.place();
            self.test(a, one, other);
            self.test(b, one, other);
            match one {
                Type::Nil | Type::False | Type::True => self.asm().jump(same),
                Type::Integer => {
                    self.load_value(a, R1)?;
                    self.load_value(b, R2)?;
                    self.asm().jump_if(Jump::Equal, R1, R2, same);
                    self.asm().jump(differ);
                }
                Type::Text => {
                    self.compare_texts("rt_equal", a, b)?;
                    self.asm().jump_if_int(Jump::Equal, R0, 1, same);
                    self.asm().jump(differ);
                }
                // Tables: are they the same one?
                Type::Status | Type::Error => self.give_up(abi::BPFDB_DEOPTIMISATION_TYPE),
            }
            self.asm().put(other);
        }
        self.asm().jump(differ);
        Ok(())
    }

    /// a < b, or a <= b: two numbers or two texts.
    fn ordered(
        &mut self,
        a: &Operand,
        b: &Operand,
        or_equal: bool,
        holds: Place,
        fails: Place,
    ) -> Result<()> {
        let (a_types, b_types) = (self.typing.operand(a), self.typing.operand(b));
        let both = |one| a_types.has(one) && b_types.has(one);
        let texts = self.place();
        if both(Type::Integer) {
            self.test(a, Type::Integer, texts);
            self.test(b, Type::Integer, texts);
            let when = if or_equal {
                Jump::SLessOrEqual
            } else {
                Jump::SLess
            };
            self.load_value(a, R1)?;
            self.load_value(b, R2)?;
            self.asm().jump_if(when, R1, R2, holds);
            self.asm().jump(fails);
        }
        self.asm().put(texts);
        let other = self.exit(abi::BPFDB_DEOPTIMISATION_TYPE);
        if both(Type::Text) {
            self.test(a, Type::Text, other);
            self.test(b, Type::Text, other);
            self.compare_texts("rt_compare", a, b)?;
            // It returned 0 for less, 1 for the same.
            self.asm()
                .jump_if_int(Jump::LessOrEqual, R0, i32::from(or_equal), holds);
            self.asm().jump(fails);
        }
        self.asm().jump(other);
        Ok(())
    }

    fn compare_texts(&mut self, function: &'static str, a: &Operand, b: &Operand) -> Result<()> {
        self.load_value(a, R2)?;
        self.load_value(b, R3)?;
        self.asm().copy(R1, FRAME);
        self.asm().call(function);
        let fuel = self.exit(abi::BPFDB_DEOPTIMISATION_FUEL);
        self.asm().jump_if_int(Jump::Equal, R0, NO_FUEL, fuel);
        Ok(())
    }
}
