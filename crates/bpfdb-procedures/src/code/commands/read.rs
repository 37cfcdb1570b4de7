//! Commands that read.

use std::mem::offset_of;

use bpfdb::ValueType;
use bpfdb::abi::{self, bpfdb_session};

use super::super::assembly::{Alu, Jump, R1, Width};
use super::super::emit::{Emitter, SESSION, Slot, at};
use super::super::operands::Digits;
use crate::error::Result;
use crate::ir::{Operand, Register};
use crate::types::Type;

impl Emitter<'_> {
    pub(super) fn get(&mut self, to: Register, key: &Operand) -> Result<()> {
        self.key(key)?;
        self.read(key);
        self.text_or_false(to);
        Ok(())
    }

    /// What the operator before has found; false if that is nothing.
    pub(super) fn text_or_false(&mut self, to: Register) {
        let (missing, end) = (self.place(), self.place());
        self.unless_found(missing);
        self.found(Slot(to.0));
        self.tag(to, Type::Text);
        self.asm().jump(end);
        self.asm().put(missing);
        self.tag(to, Type::False);
        self.asm().put(end);
    }

    pub(super) fn exists(&mut self, to: Register, keys: &[Operand]) -> Result<()> {
        self.count_keys(to, keys, |emitter, key| emitter.read_any(key))
    }

    pub(super) fn delete(&mut self, to: Register, keys: &[Operand]) -> Result<()> {
        self.count_keys(to, keys, |emitter, _| emitter.operator("rt_delete"))
    }

    /// For how many keys the operator has found something.
    fn count_keys(
        &mut self,
        to: Register,
        keys: &[Operand],
        operator: impl Fn(&mut Self, &Operand),
    ) -> Result<()> {
        // Not in the register itself: it may be one of the keys.
        let mut texts = Vec::new();
        for key in keys {
            texts.push(self.text(key, Digits::Argument)?);
        }
        let count = self.fresh()?;
        self.asm().set(R1, 0);
        self.store_slot(count, R1);
        for (key, text) in keys.iter().zip(texts) {
            let next = self.place();
            self.key_text(text);
            operator(self, key);
            self.unless_found(next);
            self.load_slot(count, R1);
            self.asm().alu_by(Alu::Add, R1, 1);
            self.store_slot(count, R1);
            self.asm().put(next);
        }
        self.load_slot(count, R1);
        self.put(to, R1, Type::Integer);
        Ok(())
    }

    /// STRLEN.
    pub(super) fn value_length(&mut self, to: Register, key: &Operand) -> Result<()> {
        let (missing, end) = (self.place(), self.place());
        let too_long = self.exit(abi::BPFDB_DEOPTIMISATION_VALUE);
        self.key(key)?;
        self.read(key);
        self.unless_found(missing);
        let len = at(offset_of!(bpfdb_session, value_len));
        self.asm().load(Width::Word, R1, SESSION, len);
        self.asm()
            .jump_if_value(Jump::Greater, R1, abi::BPFDB_VALUE_MAX as i32, too_long);
        self.put(to, R1, Type::Integer);
        self.asm().jump(end);
        self.asm().put(missing);
        self.put_value(to, 0, Type::Integer);
        self.asm().put(end);
        Ok(())
    }

    pub(super) fn value_type(&mut self, to: Register, key: &Operand) -> Result<()> {
        let (missing, end) = (self.place(), self.place());
        self.key(key)?;
        self.read_any(key);
        self.unless_found(missing);
        for value_type in ValueType::all() {
            let other = self.place();
            let form = at(offset_of!(bpfdb_session, value_len));
            self.asm().load(Width::Word, R1, SESSION, form);
            self.asm()
                .alu_by(Alu::ShiftRight, R1, abi::BPFDB_FORM_LENGTH_BITS as i32);
            self.asm()
                .alu_by(Alu::And, R1, abi::BPFDB_FORM_TYPE_MASK as i32);
            self.asm()
                .jump_if_value(Jump::NotEqual, R1, value_type.code().into(), other);
            self.status(to, value_type.name().as_bytes())?;
            self.asm().jump(end);
            self.asm().put(other);
        }
        self.give_up(abi::BPFDB_DEOPTIMISATION_VALUE_TYPE);
        self.asm().put(missing);
        self.status(to, b"none")?;
        self.asm().put(end);
        Ok(())
    }
}
