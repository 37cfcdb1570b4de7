//! The list, operation by operation.

use std::collections::{BTreeMap, HashMap};
use std::mem::offset_of;

use bpfdb::abi::{self, bpfdb_frame, bpfdb_session};

use super::assembly::{Assembly, Code, Jump, Place, R0, R1, R2, R6, R7, R8, R9, Width};
use super::keys::WrittenKeys;
use crate::error::{Error, Result};
use crate::ir::{Function, Label, Operand, Operation, Register, Words};
use crate::types::{Type, Types, Typing};

/// The frame, and the session: arguments of the function, kept over calls.
pub(super) const FRAME: super::assembly::Reg = R6;
pub(super) const SESSION: super::assembly::Reg = R7;
/// 2^53 and 2^54: a number is in range if it is not beyond the second when the first is added.
pub(super) const HALF: super::assembly::Reg = R8;
pub(super) const WHOLE: super::assembly::Reg = R9;

/// The code of a program: the function whose number is in the frame runs.
///
/// # Errors
/// If what it needs is more than a call, or a jump, has room for.
pub fn emit(functions: &[&Function]) -> Result<Code> {
    let mut program = Program::default();
    program.begin(functions.len());
    for (number, function) in functions.iter().enumerate() {
        let start = program.starts[number];
        program.assembly.put(start);
        Emitter::new(&mut program, function).run()?;
    }
    program.end()
}

/// What all functions of a program share.
#[derive(Default)]
pub(super) struct Program {
    pub(super) assembly: Assembly,
    starts: Vec<Place>,
    /// Where a run ends that the interpreter is to do, by the reason.
    exits: BTreeMap<u32, Place>,
    /// Where one ends with what a call returned.
    bail: Option<Place>,
}

impl Program {
    fn begin(&mut self, functions: usize) {
        self.assembly.copy(FRAME, R1);
        self.assembly.copy(SESSION, R2);
        self.assembly.set(HALF, 1 << 53);
        self.assembly.set(WHOLE, 1 << 54);
        self.assembly.load(
            Width::Word,
            R1,
            FRAME,
            at(offset_of!(bpfdb_frame, function)),
        );
        for number in 0..functions {
            let start = self.assembly.place();
            self.starts.push(start);
            self.assembly
                .jump_if_value(Jump::Equal, R1, number as i32, start);
        }
        // None of its functions.
        let missed = self.exit(abi::BPFDB_DEOPTIMISATION_MISSED);
        self.assembly.jump(missed);
    }

    pub(super) fn exit(&mut self, why: u32) -> Place {
        let assembly = &mut self.assembly;
        *self.exits.entry(why).or_insert_with(|| assembly.place())
    }

    pub(super) fn bail(&mut self) -> Place {
        let assembly = &mut self.assembly;
        *self.bail.get_or_insert_with(|| assembly.place())
    }

    fn end(mut self) -> Result<Code> {
        for (why, place) in self.exits {
            self.assembly.put(place);
            self.assembly.set(R0, why.into());
            self.assembly.exit();
        }
        if let Some(place) = self.bail {
            self.assembly.put(place);
            self.assembly.exit();
        }
        self.assembly.finish()
    }
}

/// A constant offset in the frame or the session.
pub(super) fn at(offset: usize) -> i16 {
    i16::try_from(offset).expect("the layout asserts that constant offsets reach it")
}

/// A place for a value, in the frame: that of a register, or beyond all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(pub(super) u16);

impl Slot {
    pub(super) fn value(self) -> i16 {
        at(offset_of!(bpfdb_frame, registers) + 8 * usize::from(self.0))
    }

    pub(super) fn tag(self) -> i16 {
        at(offset_of!(bpfdb_frame, tags) + usize::from(self.0))
    }
}

pub(super) struct Emitter<'a> {
    pub(super) program: &'a mut Program,
    pub(super) typing: Typing,
    pub(super) written: WrittenKeys<'a>,
    function: &'a Function,
    labels: HashMap<Label, Place>,
    /// Where literals lie in the heap.
    literals: HashMap<Vec<u8>, u32>,
    literals_end: u32,
    /// The next slot that no register has.
    scratch: u16,
}

impl<'a> Emitter<'a> {
    fn new(program: &'a mut Program, function: &'a Function) -> Self {
        Self {
            program,
            typing: Typing::of(function),
            written: WrittenKeys::of(function),
            function,
            labels: HashMap::new(),
            literals: HashMap::new(),
            literals_end: 0,
            scratch: 0,
        }
    }

    fn run(mut self) -> Result<()> {
        for line in &self.function.lines {
            self.asm().line(line.number);
            self.scratch = self.function.registers.len() as u16;
            self.operation(&line.operation)?;
        }
        Ok(())
    }

    pub(super) fn asm(&mut self) -> &mut Assembly {
        &mut self.program.assembly
    }

    pub(super) fn place(&mut self) -> Place {
        self.asm().place()
    }

    /// A slot for a value that is needed until the operation ends.
    pub(super) fn fresh(&mut self) -> Result<Slot> {
        if u32::from(self.scratch) >= abi::BPFDB_CALL_REGISTERS {
            return Err(Error::Values);
        }
        self.scratch += 1;
        Ok(Slot(self.scratch - 1))
    }

    fn label(&mut self, label: Label) -> Place {
        if let Some(&place) = self.labels.get(&label) {
            return place;
        }
        let place = self.place();
        self.labels.insert(label, place);
        place
    }

    // ---- Ends of a run -------------------------------------------------------------

    /// Where the run ends that the interpreter is to do.
    pub(super) fn exit(&mut self, why: u32) -> Place {
        self.program.exit(why)
    }

    /// Ends the run here.
    pub(super) fn give_up(&mut self, why: u32) {
        let exit = self.exit(why);
        self.asm().jump(exit);
    }

    /// Calls a function of the runtime, whose arguments are there; what is not 0 ends the run.
    pub(super) fn call(&mut self, function: &'static str) {
        let bail = self.program.bail();
        self.asm().call(function);
        self.asm().jump_if_int(Jump::NotEqual, R0, 0, bail);
    }

    /// Calls an operator of the engine; an Error ends the run, an outcome is left in r0.
    pub(super) fn operator(&mut self, operator: &'static str) {
        self.asm().copy(R1, SESSION);
        self.outcome_of(operator);
    }

    /// The same of one that finds values of any type.
    pub(super) fn operator_of_any(&mut self, operator: &'static str) {
        self.finds(abi::BPFDB_TYPE_ANY);
        self.asm().copy(R1, SESSION);
        self.asm().call(operator);
        self.finds(abi::BPFDB_TYPE_STRING);
        self.leave_on_error();
    }

    /// Calls a function, whose arguments are there, that comes to an outcome, left in r0, or to an
    /// Error, which ends the run.
    pub(super) fn outcome_of(&mut self, function: &'static str) {
        self.asm().call(function);
        self.leave_on_error();
    }

    fn leave_on_error(&mut self) {
        let bail = self.program.bail();
        self.asm().jump_if_int(
            Jump::GreaterOrEqual,
            R0,
            abi::BPFDB_FIRST_ERROR as i32,
            bail,
        );
    }

    /// Of which type the values are that operators find.
    fn finds(&mut self, value_type: u32) {
        let to = at(offset_of!(bpfdb_session, value_type));
        self.asm()
            .store_value(Width::Half, SESSION, to, value_type as i32);
    }

    /// Takes fuel.
    pub(super) fn fuel(&mut self, amount: u32) {
        let exit = self.exit(abi::BPFDB_DEOPTIMISATION_FUEL);
        let fuel = at(offset_of!(bpfdb_frame, fuel));
        let amount = i32::try_from(amount).expect("a small number");
        self.asm().take(FRAME, fuel, amount, exit);
    }

    // ---- Values --------------------------------------------------------------------

    /// Says what a slot has now, if that is not known from the register.
    pub(super) fn tag(&mut self, to: Register, tag: Type) {
        if self.typing.register(to).only().is_none() {
            let slot = Slot(to.0);
            self.asm()
                .store_value(Width::Byte, FRAME, slot.tag(), tag as i32);
        }
    }

    /// The register gets what is in this register of the processor.
    pub(super) fn put(&mut self, to: Register, from: super::assembly::Reg, tag: Type) {
        let slot = Slot(to.0);
        self.asm().store(Width::Double, FRAME, slot.value(), from);
        self.tag(to, tag);
    }

    pub(super) fn put_value(&mut self, to: Register, value: i32, tag: Type) {
        let slot = Slot(to.0);
        self.asm()
            .store_value(Width::Double, FRAME, slot.value(), value);
        self.tag(to, tag);
    }

    /// A literal, which is put into its place in the heap, though an earlier operation may have done so: the
    /// value.
    pub(super) fn literal(&mut self, text: &[u8]) -> Result<i64> {
        let len = text.len() as u32;
        let known = self.literals.get(text).copied();
        let place = match known {
            Some(place) => place,
            None => {
                let place = self.literals_end;
                self.literals_end = (place + len).next_multiple_of(8);
                self.literals.insert(text.to_vec(), place);
                place
            }
        };
        if self.literals_end > abi::BPFDB_CALL_LITERALS {
            return Err(Error::Literals(abi::BPFDB_CALL_LITERALS as usize));
        }
        self.store_literal(place, text);
        Ok(i64::from(place) | i64::from(len) << 32)
    }

    fn store_literal(&mut self, place: u32, text: &[u8]) {
        for (number, part) in text.chunks(4).enumerate() {
            let mut word = [0; 4];
            word[..part.len()].copy_from_slice(part);
            let offset = offset_of!(bpfdb_frame, heap) + place as usize + 4 * number;
            self.asm()
                .store_value(Width::Word, FRAME, at(offset), i32::from_le_bytes(word));
        }
    }

    // ---- Operations ----------------------------------------------------------------

    fn operation(&mut self, operation: &Operation) -> Result<()> {
        match operation {
            Operation::Label(label) => {
                let place = self.label(*label);
                self.asm().put(place);
            }
            Operation::Jump(label) => {
                let place = self.label(*label);
                self.asm().jump(place);
            }
            Operation::JumpIf(condition, label) => {
                let place = self.label(*label);
                self.condition(condition, place)?;
            }
            Operation::Fuel => self.round(),
            Operation::Move(to, from) => self.copy(*to, from)?,
            Operation::Arithmetic(to, operation, a, b) => self.arithmetic(*to, *operation, a, b)?,
            Operation::Negate(to, of) => self.negate(*to, of)?,
            Operation::Whole(to, of) => self.whole(*to, of)?,
            Operation::Concatenate(to, parts) => self.concatenate(*to, parts)?,
            Operation::Length(to, of) => self.length(*to, of)?,
            Operation::Part(to, text, first, last) => self.part(*to, text, first, last)?,
            Operation::ToNumber(to, of) => self.number_or_nil(*to, of)?,
            Operation::ToText(to, of) => self.text_value(*to, of)?,
            Operation::Word(to, words, index) => self.word(*to, *words, index)?,
            Operation::Count(to, words) => self.count(*to, *words),
            Operation::Status(to, text) => self.line_value(*to, text, Type::Status)?,
            Operation::Error(to, text) => self.line_value(*to, text, Type::Error)?,
            Operation::StatusText(to, of) => self.field(*to, of, Type::Status)?,
            Operation::ErrorText(to, of) => self.field(*to, of, Type::Error)?,
            Operation::Call(to, command) => self.command(*to, command)?,
            Operation::Return(value) => self.leave(std::slice::from_ref(value), false)?,
            Operation::ReturnArray(values) => self.leave(values, true)?,
        }
        Ok(())
    }

    /// A round of a loop. The kernel's own bound is never met: fuel ends before.
    fn round(&mut self) {
        let exit = self.exit(abi::BPFDB_DEOPTIMISATION_FUEL);
        let fuel = at(offset_of!(bpfdb_frame, fuel));
        self.asm().take_for_round(FRAME, fuel, exit);
        self.asm().may_goto(exit);
    }

    fn copy(&mut self, to: Register, from: &Operand) -> Result<()> {
        if *from == Operand::Register(to) {
            return Ok(());
        }
        if let Operand::Word(words, number) = from {
            return self.copy_word(to, *words, *number);
        }
        let types = self.typing.operand(from);
        if types.iter().any(Type::has_value) {
            self.load_value(from, R1)?;
            let slot = Slot(to.0);
            self.asm().store(Width::Double, FRAME, slot.value(), R1);
        }
        self.copy_tag(to, from, types);
        Ok(())
    }

    fn copy_tag(&mut self, to: Register, from: &Operand, types: Types) {
        if self.typing.register(to).only().is_some() {
            return;
        }
        match (types.only(), from) {
            (Some(only), _) => self.tag(to, only),
            (None, Operand::Register(from)) => {
                self.asm().load(Width::Byte, R1, FRAME, Slot(from.0).tag());
                self.asm().store(Width::Byte, FRAME, Slot(to.0).tag(), R1);
            }
            (None, _) => unreachable!("words are copied by copy_word, others have one type"),
        }
    }

    /// Nil if there are not so many.
    fn copy_word(&mut self, to: Register, words: Words, number: u16) -> Result<()> {
        let (missing, end) = (self.place(), self.place());
        self.test_word(words, number, missing);
        self.load_word(words, number, R1);
        self.put(to, R1, Type::Text);
        self.asm().jump(end);
        self.asm().put(missing);
        self.tag(to, Type::Nil);
        self.asm().put(end);
        Ok(())
    }

    // ---- Replies -------------------------------------------------------------------

    fn leave(&mut self, values: &[Operand], is_array: bool) -> Result<()> {
        if values.len() > abi::BPFDB_CALL_REPLIES as usize {
            return Err(Error::Values);
        }
        for (number, value) in values.iter().enumerate() {
            self.reply(number, value)?;
        }
        let replies = at(offset_of!(bpfdb_frame, replies));
        let array = at(offset_of!(bpfdb_frame, is_array));
        self.asm()
            .store_value(Width::Word, FRAME, replies, values.len() as i32);
        self.asm()
            .store_value(Width::Word, FRAME, array, i32::from(is_array));
        self.asm().set(R0, 0);
        self.asm().exit();
        Ok(())
    }

    fn reply(&mut self, number: usize, value: &Operand) -> Result<()> {
        let to = at(offset_of!(bpfdb_frame, reply_values) + 8 * number);
        let tag = at(offset_of!(bpfdb_frame, reply_tags) + number);
        let missing = self.place();
        if let Operand::Word(words, place) = value {
            self.asm()
                .store_value(Width::Byte, FRAME, tag, Type::Nil as i32);
            self.test_word(*words, *place, missing);
        }
        let types = self.typing.operand(value);
        if types.iter().any(Type::has_value) {
            self.load_value(value, R1)?;
            self.asm().store(Width::Double, FRAME, to, R1);
        }
        match (types.only(), value) {
            (Some(only), _) => self.asm().store_value(Width::Byte, FRAME, tag, only as i32),
            (None, Operand::Register(from)) => {
                self.asm().load(Width::Byte, R1, FRAME, Slot(from.0).tag());
                self.asm().store(Width::Byte, FRAME, tag, R1);
            }
            (None, _) => self
                .asm()
                .store_value(Width::Byte, FRAME, tag, Type::Text as i32),
        }
        self.asm().put(missing);
        Ok(())
    }
}
