//! Commands on small collections: GET of any type, a function of the runtime
//! (`bpf/procedures/collection.bpf.h`) with its outcome, and SET, DELETE or nothing, as that says.

use std::mem::offset_of;

use bpfdb::abi::{self, bpfdb_frame};

use super::super::assembly::{Jump, R0, R1, R2, R3, R4, R5, Width};
use super::super::emit::{Emitter, FRAME, Slot, at};
use super::super::operands::{Digits, Form, Number, Text};
use crate::error::Result;
use crate::ir::{Action, CollectionCommand, End, Operand, Register};
use crate::types::Type;

/// Of `enum list_end` in `bpf/values/element.bpf.h`.
const LEFT: i64 = 0;
const RIGHT: i64 = 1;
/// Of `rt_entry`.
const KEY: i64 = 0;
const VALUE: i64 = 1;
/// An index of the last element.
const LAST: i64 = -1;

impl Emitter<'_> {
    pub(super) fn collection(&mut self, to: Register, command: &CollectionCommand) -> Result<()> {
        let at = at(offset_of!(bpfdb_frame, type_));
        self.asm()
            .store_value(Width::Word, FRAME, at, command.kind as i32);
        match command.action {
            Action::Count => self.count_elements(to, command),
            Action::Has => self.has_element(to, command),
            Action::Value => self.entry_value(to, command),
            Action::ValueLength => self.entry_length(to, command),
            Action::Score => self.member_score(to, command),
            Action::At => self.element_at(to, command),
            Action::Put | Action::PutAll => self.put_fields(to, command),
            Action::PutNew => self.put_new_field(to, command),
            Action::AddToValue => self.add_to_field(to, command),
            Action::Add => self.each_element(to, command, "rt_add_element", None),
            Action::Take => self.each_element(to, command, "rt_take", None),
            Action::Push(end) => {
                let end = match end {
                    End::Left => LEFT,
                    End::Right => RIGHT,
                };
                self.each_element(to, command, "rt_push", Some(end))
            }
            Action::Pop(end) => self.pop(to, command, end),
            Action::PutScores => self.put_scores(to, command),
            Action::AddToScore => self.add_to_score(to, command),
        }
    }

    // ---- Reading -------------------------------------------------------------------

    /// Reads the collection: its outcome is in r3, where functions of the runtime expect it.
    fn read_collection(&mut self, command: &CollectionCommand) {
        self.read_any(&command.key);
        self.asm().copy(R3, R0);
    }

    fn count_elements(&mut self, to: Register, command: &CollectionCommand) -> Result<()> {
        self.key(&command.key)?;
        self.read_collection(command);
        self.asm().set(R4, to.0.into());
        self.with_session("rt_elements");
        self.tag(to, Type::Integer);
        Ok(())
    }

    /// Looks for the entry whose key is the first operand: FOUND or not is in r0.
    fn find_entry(&mut self, command: &CollectionCommand) -> Result<()> {
        let key = self.text(&command.key, Digits::Argument)?;
        let entry = self.text(&command.operands[0], Digits::Argument)?;
        self.key_text(key);
        self.read_collection(command);
        self.load_text(entry, R4);
        self.outcome_with_session("rt_look");
        Ok(())
    }

    /// The same as `with_session`, of a function that comes to an outcome.
    fn outcome_with_session(&mut self, function: &'static str) {
        self.asm().copy(R1, FRAME);
        self.asm().copy(R2, super::SESSION);
        self.outcome_of(function);
    }

    fn has_element(&mut self, to: Register, command: &CollectionCommand) -> Result<()> {
        let missing = self.place();
        self.find_entry(command)?;
        self.unless_found(missing);
        self.done_or_not(to, missing);
        Ok(())
    }

    fn entry_value(&mut self, to: Register, command: &CollectionCommand) -> Result<()> {
        self.find_entry(command)?;
        self.entry_or_false(to, VALUE);
        Ok(())
    }

    /// The key or the value of the entry, if one was found; else false.
    fn entry_or_false(&mut self, to: Register, what: i64) {
        let (missing, end) = (self.place(), self.place());
        self.unless_found(missing);
        self.entry(Slot(to.0), what);
        self.tag(to, Type::Text);
        self.asm().jump(end);
        self.asm().put(missing);
        self.tag(to, Type::False);
        self.asm().put(end);
    }

    fn entry(&mut self, to: Slot, what: i64) {
        self.asm().set(R3, what);
        self.asm().set(R4, to.0.into());
        self.with_session("rt_entry");
    }

    fn entry_length(&mut self, to: Register, command: &CollectionCommand) -> Result<()> {
        let (missing, end) = (self.place(), self.place());
        self.find_entry(command)?;
        self.unless_found(missing);
        let len = offset_of!(bpfdb_frame, entry) + abi::BPFDB_CALL_ENTRY_VALUE_LEN as usize;
        self.asm().load(Width::Word, R1, FRAME, at(len));
        self.put(to, R1, Type::Integer);
        self.asm().jump(end);
        self.asm().put(missing);
        self.put_value(to, 0, Type::Integer);
        self.asm().put(end);
        Ok(())
    }

    fn member_score(&mut self, to: Register, command: &CollectionCommand) -> Result<()> {
        let (missing, end) = (self.place(), self.place());
        self.find_entry(command)?;
        self.unless_found(missing);
        self.with_session("rt_score");
        self.score_text(to);
        self.asm().jump(end);
        self.asm().put(missing);
        self.tag(to, Type::False);
        self.asm().put(end);
        Ok(())
    }

    /// The score in the frame as a text.
    fn score_text(&mut self, to: Register) {
        let score = at(offset_of!(bpfdb_frame, score));
        self.asm().load(Width::Double, R2, FRAME, score);
        self.asm().copy(R1, FRAME);
        self.asm().set(R3, to.0.into());
        self.call("rt_text");
        self.tag(to, Type::Text);
    }

    fn element_at(&mut self, to: Register, command: &CollectionCommand) -> Result<()> {
        let key = self.text(&command.key, Digits::Argument)?;
        let index = self.number(&command.operands[0], Form::Redis)?;
        self.key_text(key);
        self.read_collection(command);
        self.load_number(index, R4);
        self.outcome_with_session("rt_element");
        self.entry_or_false(to, KEY);
        Ok(())
    }

    // ---- Writing -------------------------------------------------------------------

    fn texts(&mut self, operands: &[Operand]) -> Result<Vec<Text>> {
        let texts = operands.iter();
        texts
            .map(|operand| self.text(operand, Digits::Argument))
            .collect()
    }

    /// Reads the collection under a lock for writing: as `read_collection`.
    fn lock_collection(&mut self) {
        self.operator_of_any("bpfdb_get_for_update");
        self.asm().copy(R3, R0);
    }

    fn store_word(&mut self, offset: usize, value: i32) {
        self.asm()
            .store_value(Width::Word, FRAME, at(offset), value);
    }

    /// Writes what a function of the runtime, whose outcome is in r0, has made of the collection.
    fn write_collection(&mut self) {
        let (nothing_left, end) = (self.place(), self.place());
        let (unchanged, gone) = (abi::BPFDB_FOUND as i32, abi::BPFDB_NOT_FOUND as i32);
        self.asm().jump_if_int(Jump::Equal, R0, unchanged, end);
        self.asm().jump_if_int(Jump::Equal, R0, gone, nothing_left);
        self.operator("rt_set");
        self.asm().jump(end);
        self.asm().put(nothing_left);
        self.operator("rt_delete");
        self.asm().put(end);
    }

    /// How many elements the command has counted.
    fn counted(&mut self, to: Register) {
        let elements = at(offset_of!(bpfdb_frame, elements));
        self.asm().load(Width::Word, R1, FRAME, elements);
        self.put(to, R1, Type::Integer);
    }

    /// The same function for each element: it gets the element, and `more`.
    fn each_element(
        &mut self,
        to: Register,
        command: &CollectionCommand,
        function: &'static str,
        more: Option<i64>,
    ) -> Result<()> {
        let key = self.text(&command.key, Digits::Argument)?;
        let elements = self.texts(&command.operands)?;
        self.store_word(offset_of!(bpfdb_frame, elements), 0);
        self.key_text(key);
        for (number, element) in elements.into_iter().enumerate() {
            self.element_fuel(number);
            self.lock_collection();
            self.load_text(element, R4);
            if let Some(more) = more {
                self.asm().set(R5, more);
            }
            self.outcome_with_session(function);
            self.write_collection();
        }
        self.counted(to);
        Ok(())
    }

    /// Each element but the first, which has that of the key, takes fuel as a key does.
    fn element_fuel(&mut self, number: usize) {
        if number > 0 {
            self.fuel(abi::BPFDB_CALL_FUEL_COMMAND);
        }
    }

    fn put_fields(&mut self, to: Register, command: &CollectionCommand) -> Result<()> {
        let key = self.text(&command.key, Digits::Argument)?;
        let texts = self.texts(&command.operands)?;
        self.store_word(offset_of!(bpfdb_frame, elements), 0);
        self.key_text(key);
        for (number, pair) in texts.chunks_exact(2).enumerate() {
            self.element_fuel(number);
            self.lock_collection();
            self.put_field(pair[0], pair[1]);
        }
        match command.action {
            Action::PutAll => self.status(to, b"OK"),
            _ => {
                self.counted(to);
                Ok(())
            }
        }
    }

    fn put_field(&mut self, field: Text, value: Text) {
        self.load_text(field, R4);
        self.load_text(value, R5);
        self.outcome_with_session("rt_field_put");
        self.write_collection();
    }

    fn put_new_field(&mut self, to: Register, command: &CollectionCommand) -> Result<()> {
        let key = self.text(&command.key, Digits::Argument)?;
        let [field, value] = [0, 1].map(|number| &command.operands[number]);
        let field = self.text(field, Digits::Argument)?;
        let value = self.text(value, Digits::Argument)?;
        let outcome = self.fresh()?;
        let (is_new, end) = (self.place(), self.place());
        self.key_text(key);
        self.lock_collection();
        self.store_slot(outcome, R3);
        self.load_text(field, R4);
        self.outcome_with_session("rt_look");
        self.unless_found(is_new);
        self.put_value(to, 0, Type::Integer);
        self.asm().jump(end);
        self.asm().put(is_new);
        self.load_slot(outcome, R3);
        self.put_field(field, value);
        self.put_value(to, 1, Type::Integer);
        self.asm().put(end);
        Ok(())
    }

    fn add_to_field(&mut self, to: Register, command: &CollectionCommand) -> Result<()> {
        let key = self.text(&command.key, Digits::Argument)?;
        let field = self.text(&command.operands[0], Digits::Argument)?;
        let by = self.number(&command.operands[1], Form::Redis)?;
        self.key_text(key);
        self.lock_collection();
        self.load_text(field, R4);
        self.load_number(by, R5);
        self.outcome_with_session("rt_field_add");
        self.write_collection();
        let sum = at(offset_of!(bpfdb_frame, score));
        self.asm().load(Width::Double, R1, FRAME, sum);
        self.put(to, R1, Type::Integer);
        Ok(())
    }

    fn pop(&mut self, to: Register, command: &CollectionCommand, from: End) -> Result<()> {
        let (missing, end) = (self.place(), self.place());
        let index = match from {
            End::Left => 0,
            End::Right => LAST,
        };
        self.key(&command.key)?;
        self.lock_collection();
        self.asm().set(R4, index);
        self.outcome_with_session("rt_element");
        self.unless_found(missing);
        self.entry(Slot(to.0), KEY);
        self.outcome_with_session("rt_pop");
        self.write_collection();
        self.tag(to, Type::Text);
        self.asm().jump(end);
        self.asm().put(missing);
        self.tag(to, Type::False);
        self.asm().put(end);
        Ok(())
    }

    // ---- Sorted sets ---------------------------------------------------------------

    fn put_scores(&mut self, to: Register, command: &CollectionCommand) -> Result<()> {
        let key = self.text(&command.key, Digits::Argument)?;
        let mut members = Vec::new();
        for pair in command.operands.chunks_exact(2) {
            let score = self.number(&pair[0], Form::Redis)?;
            members.push((score, self.text(&pair[1], Digits::Argument)?));
        }
        self.store_word(offset_of!(bpfdb_frame, elements), 0);
        self.key_text(key);
        for (number, (score, member)) in members.into_iter().enumerate() {
            self.element_fuel(number);
            self.put_score(score, member, false);
        }
        self.counted(to);
        Ok(())
    }

    fn add_to_score(&mut self, to: Register, command: &CollectionCommand) -> Result<()> {
        let key = self.text(&command.key, Digits::Argument)?;
        let by = self.number(&command.operands[0], Form::Redis)?;
        let member = self.text(&command.operands[1], Digits::Argument)?;
        self.key_text(key);
        self.put_score(by, member, true);
        self.score_text(to);
        Ok(())
    }

    /// A member that stands elsewhere with its new score is written twice.
    fn put_score(&mut self, score: Number, member: Text, adds: bool) {
        let end = self.place();
        let in_frame = at(offset_of!(bpfdb_frame, score));
        let moved = offset_of!(bpfdb_frame, moved);
        self.load_number(score, R1);
        self.asm().store(Width::Double, FRAME, in_frame, R1);
        self.store_word(moved, 0);
        self.write_member(member, adds);
        self.asm().load(Width::Word, R1, FRAME, at(moved));
        self.asm().jump_if_value(Jump::Equal, R1, 0, end);
        self.write_member(member, adds);
        self.asm().put(end);
    }

    fn write_member(&mut self, member: Text, adds: bool) {
        self.lock_collection();
        self.load_text(member, R4);
        self.asm().set(R5, adds.into());
        self.outcome_with_session("rt_member");
        self.write_collection();
    }
}
