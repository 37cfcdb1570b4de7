//! INCRBY and its kin, APPEND.

use super::super::assembly::{Alu, Jump, R0, R1, R2, R3, R4, R5};
use super::super::emit::{Emitter, FRAME, SESSION};
use super::super::operands::{Digits, Form};
use super::Value;
use crate::error::Result;
use crate::ir::{Operand, Register};
use crate::types::Type;

impl Emitter<'_> {
    pub(super) fn increment(
        &mut self,
        to: Register,
        key: &Operand,
        by: &Operand,
        negative: bool,
    ) -> Result<()> {
        let key = self.text(key, Digits::Argument)?;
        let by = self.number(by, Form::Redis)?;
        self.key_text(key);
        self.operator("bpfdb_get_for_update");
        self.asm().copy(R3, R0);
        self.load_number(by, R4);
        if negative {
            self.asm().copy(R5, R4);
            self.asm().set(R4, 0);
            self.asm().alu(Alu::Subtract, R4, R5);
        }
        self.asm().set(R5, to.0.into());
        self.asm().copy(R1, FRAME);
        self.asm().copy(R2, SESSION);
        self.call("rt_increment");
        self.keep_time();
        self.operator("rt_set");
        self.tag(to, Type::Integer);
        Ok(())
    }

    pub(super) fn append(&mut self, to: Register, key: &Operand, value: &Operand) -> Result<()> {
        let key = self.text(key, Digits::Argument)?;
        let value = self.text(value, Digits::Argument)?;
        let whole = self.fresh()?;
        let (missing, end) = (self.place(), self.place());
        self.key_text(key);
        self.operator("bpfdb_get_for_update");
        self.unless_found(missing);
        self.found(whole);
        self.begin_text();
        self.add_text(super::Text::Slot(whole));
        self.add_text(value);
        self.built(whole);
        self.asm().jump(end);
        self.asm().put(missing);
        self.load_text(value, R1);
        self.store_slot(whole, R1);
        self.asm().put(end);
        self.set_value(Value::Text(super::Text::Slot(whole)));
        self.keep_time();
        self.operator("rt_set");
        self.load_slot(whole, R1);
        self.asm().alu_by(Alu::ShiftRight, R1, 32);
        self.put(to, R1, Type::Integer);
        Ok(())
    }

    /// 1; or 0 where `not_done` is jumped to.
    pub(super) fn done_or_not(&mut self, to: Register, not_done: super::Place) {
        let end = self.place();
        self.put_value(to, 1, Type::Integer);
        self.asm().jump(end);
        self.asm().put(not_done);
        self.put_value(to, 0, Type::Integer);
        self.asm().put(end);
    }

    /// Jumps if what is in r1 is 0.
    pub(super) fn unless_one(&mut self, to: super::Place) {
        self.asm().jump_if_value(Jump::Equal, R1, 0, to);
    }
}
