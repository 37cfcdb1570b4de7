//! Texts, and the replies that are made of them.

use std::mem::offset_of;

use bpfdb::abi::{self, bpfdb_frame};

use super::assembly::{Alu, R1, R2, R3, R4, R5, Width};
use super::emit::{Emitter, FRAME, Slot, at};
use super::operands::{Digits, Form, Text};
use crate::error::Result;
use crate::ir::{Operand, Register, Words};
use crate::types::Type;

impl Emitter<'_> {
    pub(super) fn concatenate(&mut self, to: Register, parts: &[Operand]) -> Result<()> {
        self.build(parts)?;
        self.built(Slot(to.0));
        self.tag(to, Type::Text);
        Ok(())
    }

    /// Puts a text together at the end of the heap.
    pub(super) fn build(&mut self, parts: &[Operand]) -> Result<()> {
        self.begin_text();
        for part in parts {
            self.add(part)?;
        }
        Ok(())
    }

    pub(super) fn begin_text(&mut self) {
        let (used, building) = (
            at(offset_of!(bpfdb_frame, heap_used)),
            at(offset_of!(bpfdb_frame, building)),
        );
        self.asm().load(Width::Word, R1, FRAME, used);
        self.asm().store(Width::Word, FRAME, building, R1);
    }

    /// The text that was put together is the value of a slot.
    pub(super) fn built(&mut self, to: Slot) {
        self.asm().copy(R1, FRAME);
        self.asm().set(R2, to.0.into());
        self.call("rt_built");
    }

    /// A part: a text, or the digits of a number.
    fn add(&mut self, part: &Operand) -> Result<()> {
        let types = self.typing.operand(part);
        let (number, end) = (self.place(), self.place());
        if let Operand::Integer(_) = part {
            let text = self.text(part, Digits::Lua)?;
            self.add_text(text);
            return Ok(());
        }
        if types.has(Type::Text) {
            self.test(part, Type::Text, number);
            self.load_value(part, R2)?;
            self.asm().copy(R1, FRAME);
            self.call("rt_add");
            self.asm().jump(end);
        }
        self.asm().put(number);
        let other = self.exit(abi::BPFDB_DEOPTIMISATION_TYPE);
        self.test(part, Type::Integer, other);
        if types.has(Type::Integer) {
            self.load_digits(part, Digits::Lua)?;
            self.asm().copy(R1, FRAME);
            self.call("rt_add_number");
        }
        self.asm().put(end);
        Ok(())
    }

    pub(super) fn add_text(&mut self, text: Text) {
        self.load_text(text, R2);
        self.asm().copy(R1, FRAME);
        self.call("rt_add");
    }

    /// `#` of a text. Of a number it is an error in Lua.
    pub(super) fn length(&mut self, to: Register, of: &Operand) -> Result<()> {
        let other = self.exit(abi::BPFDB_DEOPTIMISATION_TYPE);
        self.test(of, Type::Text, other);
        self.load_value(of, R1)?;
        self.asm().alu_by(Alu::ShiftRight, R1, 32);
        self.put(to, R1, Type::Integer);
        Ok(())
    }

    pub(super) fn part(
        &mut self,
        to: Register,
        text: &Operand,
        first: &Operand,
        last: &Operand,
    ) -> Result<()> {
        let text = self.text(text, Digits::Lua)?;
        let first = self.number(first, Form::Lua)?;
        let last = self.number(last, Form::Lua)?;
        self.load_text(text, R2);
        self.load_number(first, R3);
        self.load_number(last, R4);
        self.asm().copy(R1, FRAME);
        self.asm().set(R5, to.0.into());
        self.call("rt_part");
        self.tag(to, Type::Text);
        Ok(())
    }

    pub(super) fn text_value(&mut self, to: Register, of: &Operand) -> Result<()> {
        let text = self.text(of, Digits::Lua)?;
        self.load_text(text, R1);
        self.put(to, R1, Type::Text);
        Ok(())
    }

    /// `KEYS[i]`; the runtime puts the tag, too.
    pub(super) fn word(&mut self, to: Register, words: Words, index: &Operand) -> Result<()> {
        // KEYS['1'] is nil: nothing is converted.
        let other = self.exit(abi::BPFDB_DEOPTIMISATION_TYPE);
        self.test(index, Type::Integer, other);
        self.load_value(index, R3)?;
        self.asm().copy(R1, FRAME);
        self.asm().set(R2, (words == Words::Arguments).into());
        self.asm().set(R4, to.0.into());
        self.call("rt_word");
        Ok(())
    }

    pub(super) fn count(&mut self, to: Register, words: Words) {
        self.load_count(words, R1);
        self.put(to, R1, Type::Integer);
    }

    /// A status or an error, which is one line of a reply.
    pub(super) fn line_value(&mut self, to: Register, text: &Operand, kind: Type) -> Result<()> {
        // Of a number there is no such reply.
        let other = self.exit(abi::BPFDB_DEOPTIMISATION_TYPE);
        self.test(text, Type::Text, other);
        self.load_value(text, R2)?;
        self.asm().copy(R1, FRAME);
        self.call("rt_line");
        self.load_value(text, R1)?;
        self.put(to, R1, kind);
        Ok(())
    }

    /// The text of a reply of this kind; nil of one of another kind.
    pub(super) fn field(&mut self, to: Register, of: &Operand, kind: Type) -> Result<()> {
        let (other_kind, end) = (self.place(), self.place());
        let no_reply = self.exit(abi::BPFDB_DEOPTIMISATION_TYPE);
        let other = match kind {
            Type::Status => Type::Error,
            _ => Type::Status,
        };
        let types = self.typing.operand(of);
        if types.has(kind) {
            self.test(of, kind, other_kind);
            self.load_value(of, R1)?;
            self.put(to, R1, Type::Text);
            self.asm().jump(end);
        }
        self.asm().put(other_kind);
        self.test(of, other, no_reply);
        if types.has(other) {
            self.tag(to, Type::Nil);
        }
        self.asm().put(end);
        Ok(())
    }
}
