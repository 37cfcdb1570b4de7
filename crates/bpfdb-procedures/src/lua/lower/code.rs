//! The list of operations as it grows.
//!
//! What cannot be reached is never added: behind a jump or a return nothing is, up to a label
//! that a jump leads to.

use super::super::unsupported::Unsupported;
use super::{labels, registers};
use crate::ir::{Condition, Function, Label, Line, Operand, Operation, Register};

/// Registers of the emitter, which keeps some for itself.
const REGISTERS_MAX: usize = 250;
/// So long a function takes the verifier a second.
const LINES_MAX: usize = 20_000;
/// Of what is asked for most becomes a line. More is work without end: functions that call
/// functions.
pub(in crate::lua) const WORK_MAX: usize = 4 * LINES_MAX;
/// Numbers of registers and labels, of which the last one stands for all that are beyond.
const NUMBERS_MAX: usize = u16::MAX as usize;
/// So many bytes of a body that is put in are work like that for a line, whatever they say.
const BODY_UNIT: usize = 64;
/// So many bytes of a literal are, each time that it is copied.
const LITERAL_UNIT: usize = 16;

pub(super) struct Code {
    /// Of the source, for what is added.
    pub(super) line: u32,
    lines: Vec<Line>,
    registers: Vec<Slot>,
    /// Jumps to each label.
    jumps: Vec<usize>,
    reachable: bool,
    /// All that was asked for, added or not: bounds the work, and the memory.
    work: usize,
}

struct Slot {
    name: Option<String>,
    /// It is assigned to after its declaration.
    changes: bool,
}

impl Default for Code {
    fn default() -> Self {
        Self {
            line: 1,
            lines: Vec::new(),
            registers: Vec::new(),
            jumps: Vec::new(),
            reachable: true,
            work: 0,
        }
    }
}

impl Code {
    /// All that was asked for, in lines.
    pub(super) fn work(&self) -> usize {
        self.work
    }

    pub(super) fn is_too_long(&self) -> bool {
        let numbers = self.registers.len().max(self.jumps.len());
        self.lines.len() > LINES_MAX || self.work > WORK_MAX || numbers > NUMBERS_MAX
    }

    /// A function's body stands in the place of a call.
    pub(super) fn take_body(&mut self, bytes: usize) {
        self.work += bytes / BODY_UNIT;
    }

    /// # Errors
    /// Too much was copied.
    pub(super) fn take_literal(&mut self, bytes: usize) -> Result<(), Unsupported> {
        self.work += bytes / LITERAL_UNIT;
        match self.work > WORK_MAX {
            true => Err(self.too_long()),
            false => Ok(()),
        }
    }

    fn too_long(&self) -> Unsupported {
        let reason = match self.lines.len() > LINES_MAX {
            true => format!("it is longer than {LINES_MAX} operations"),
            false => {
                "it becomes too long when functions and literals are put in their places".to_owned()
            }
        };
        Unsupported::new(1, reason)
    }

    /// False behind a jump or a return.
    pub(super) fn is_reachable(&self) -> bool {
        self.reachable
    }

    /// A register for what lies between two operations.
    pub(super) fn temporary(&mut self) -> Register {
        self.register(None, false)
    }

    /// A register for a variable; does it change after its declaration?
    pub(super) fn variable(&mut self, name: &str, changes: bool) -> Register {
        self.register(Some(name.to_owned()), changes)
    }

    fn register(&mut self, name: Option<String>, changes: bool) -> Register {
        self.work += 1;
        // A function that needs more than there are gets no program.
        let register = Register(u16::try_from(self.registers.len()).unwrap_or(u16::MAX));
        self.registers.push(Slot { name, changes });
        register
    }

    pub(super) fn changes(&self, register: Register) -> bool {
        self.registers[usize::from(register.0)].changes
    }

    /// Each of many operands is work as an operation is.
    pub(super) fn emit(&mut self, operation: Operation) {
        self.work += 1 + operation.many().len();
        if !self.reachable {
            return;
        }
        if let Operation::Jump(label) | Operation::JumpIf(_, label) = &operation {
            self.jumps[usize::from(label.0)] += 1;
        }
        self.reachable = !ends_run(&operation);
        self.lines.push(Line {
            number: self.line,
            operation,
        });
    }

    /// `to = from`, unless it is the same.
    pub(super) fn copy(&mut self, to: Register, from: Operand) {
        if from != Operand::Register(to) {
            self.emit(Operation::Move(to, from));
        }
    }

    /// A label that has no place yet.
    pub(super) fn label(&mut self) -> Label {
        self.work += 1;
        let label = Label(u16::try_from(self.jumps.len()).unwrap_or(u16::MAX));
        self.jumps.push(0);
        label
    }

    pub(super) fn jump(&mut self, label: Label) {
        self.emit(Operation::Jump(label));
    }

    pub(super) fn jump_if(&mut self, condition: Condition, label: Label) {
        self.emit(Operation::JumpIf(condition, label));
    }

    /// The place of a label that all jumps forwards lead to.
    pub(super) fn place(&mut self, label: Label) {
        let last = self.lines.last().map(|line| &line.operation);
        if !self.reachable && last == Some(&Operation::Jump(label)) {
            // It leads to the next line.
            self.lines.pop();
            self.jumps[usize::from(label.0)] -= 1;
            self.reachable = true;
        }
        if self.jumps[usize::from(label.0)] > 0 {
            self.reachable = true;
            self.emit(Operation::Label(label));
        }
    }

    /// The place of a label that jumps backwards lead to.
    pub(super) fn place_head(&mut self) -> Label {
        let head = self.label();
        self.emit(Operation::Label(head));
        head
    }

    /// The end of a loop's body.
    pub(super) fn repeat(&mut self, head: Label) {
        self.emit(Operation::Fuel);
        self.jump(head);
    }

    /// # Errors
    /// It is too large.
    pub(super) fn finish(mut self, name: Vec<u8>) -> Result<Function, Unsupported> {
        if self.is_too_long() {
            return Err(self.too_long());
        }
        labels::number(&mut self.lines, self.jumps.len());
        let names = self.registers.into_iter().map(|slot| slot.name);
        let mut function = Function {
            name,
            registers: names.collect(),
            lines: self.lines,
        };
        registers::save(&mut function, REGISTERS_MAX);
        if function.registers.len() > REGISTERS_MAX {
            let reason = format!(
                "it has more than {REGISTERS_MAX} variables and intermediate values at a time"
            );
            return Err(Unsupported::new(1, reason));
        }
        Ok(function)
    }
}

fn ends_run(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Jump(_) | Operation::Return(_) | Operation::ReturnArray(_)
    )
}
