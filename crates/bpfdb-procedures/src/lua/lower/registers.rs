//! Fewer registers, for a function that has too many: intermediate values share them.
//!
//! Otherwise they do not. The types of a register are those of all values that are ever in it,
//! and operations on values of one type are faster.

use std::collections::BTreeMap;

use crate::ir::{Command, Condition, Line, Operand, Operation, Register};

/// The lines between which a register is in use.
#[derive(Clone, Copy)]
struct Span {
    register: Register,
    first: usize,
    last: usize,
}

/// Lets intermediate values share registers if there are more than `most`.
pub(super) fn save(lines: &mut [Line], names: &mut Vec<Option<String>>, most: usize) {
    if names.len() <= most {
        return;
    }
    let spans = spans(lines, names);
    let shared = share(&spans, names);
    for line in lines.iter_mut() {
        each_register(&mut line.operation, &mut |register| {
            *register = shared.of(*register);
        });
    }
    *names = shared.names;
}

/// Where each intermediate value is in use, by the place where that begins.
fn spans(lines: &mut [Line], names: &[Option<String>]) -> Vec<Span> {
    let mut spans: BTreeMap<Register, Span> = BTreeMap::new();
    for (place, line) in lines.iter_mut().enumerate() {
        each_register(&mut line.operation, &mut |&mut register| {
            let new = Span {
                register,
                first: place,
                last: place,
            };
            spans.entry(register).or_insert(new).last = place;
        });
    }
    spans.retain(|register, _| names[usize::from(register.0)].is_none());
    let mut spans: Vec<Span> = spans.into_values().collect();
    for (head, end) in loops(lines) {
        for span in &mut spans {
            // What was put there before the loop is read in each round.
            if span.first < head && (head..end).contains(&span.last) {
                span.last = end;
            }
        }
    }
    spans.sort_by_key(|span| span.first);
    spans
}

/// Heads and ends of loops; those inside others come first.
fn loops(lines: &[Line]) -> Vec<(usize, usize)> {
    let mut heads = BTreeMap::new();
    let mut loops = Vec::new();
    for (place, line) in lines.iter().enumerate() {
        match &line.operation {
            Operation::Label(label) => drop(heads.insert(label.0, place)),
            Operation::Jump(label) | Operation::JumpIf(_, label) => {
                if let Some(head) = heads.get(&label.0) {
                    loops.push((*head, place));
                }
            }
            _ => {}
        }
    }
    loops
}

/// Which register stands for which.
struct Shared {
    by_register: Vec<Option<Register>>,
    names: Vec<Option<String>>,
}

fn share(spans: &[Span], names: &[Option<String>]) -> Shared {
    let mut shared = Shared {
        by_register: vec![None; names.len()],
        names: Vec::new(),
    };
    for (number, name) in names.iter().enumerate().filter(|(_, name)| name.is_some()) {
        let new = shared.add(name.clone());
        shared.by_register[number] = Some(new);
    }
    // Registers that were in use, and the line with which that ends.
    let mut ends: Vec<(Register, usize)> = Vec::new();
    for span in spans {
        let free = ends.iter_mut().find(|(_, end)| *end < span.first);
        let register = match free {
            Some((register, end)) => {
                *end = span.last;
                *register
            }
            None => {
                let new = shared.add(None);
                ends.push((new, span.last));
                new
            }
        };
        shared.by_register[usize::from(span.register.0)] = Some(register);
    }
    shared
}

impl Shared {
    fn add(&mut self, name: Option<String>) -> Register {
        let register = Register(u16::try_from(self.names.len()).unwrap_or(u16::MAX));
        self.names.push(name);
        register
    }

    fn of(&self, register: Register) -> Register {
        self.by_register[usize::from(register.0)].unwrap_or(register)
    }
}

/// All registers of an operation.
fn each_register(operation: &mut Operation, with: &mut impl FnMut(&mut Register)) {
    if let Some(register) = target(operation) {
        with(register);
    }
    each_operand(operation, &mut |operand| {
        if let Operand::Register(register) = operand {
            with(register);
        }
    });
}

/// Where the operation puts its value.
fn target(operation: &mut Operation) -> Option<&mut Register> {
    match operation {
        Operation::Label(_)
        | Operation::Jump(_)
        | Operation::JumpIf(..)
        | Operation::Fuel
        | Operation::Return(_)
        | Operation::ReturnArray(_) => None,
        Operation::Move(to, ..)
        | Operation::Arithmetic(to, ..)
        | Operation::Negate(to, ..)
        | Operation::Whole(to, ..)
        | Operation::Concatenate(to, ..)
        | Operation::Length(to, ..)
        | Operation::Part(to, ..)
        | Operation::ToNumber(to, ..)
        | Operation::ToText(to, ..)
        | Operation::Word(to, ..)
        | Operation::Count(to, ..)
        | Operation::Status(to, ..)
        | Operation::Error(to, ..)
        | Operation::StatusText(to, ..)
        | Operation::ErrorText(to, ..)
        | Operation::Call(to, ..) => Some(to),
    }
}

fn each_operand(operation: &mut Operation, with: &mut impl FnMut(&mut Operand)) {
    match operation {
        Operation::Label(_) | Operation::Jump(_) | Operation::Fuel | Operation::Count(..) => {}
        Operation::JumpIf(Condition::True(of) | Condition::False(of), _)
        | Operation::Move(_, of)
        | Operation::Negate(_, of)
        | Operation::Whole(_, of)
        | Operation::Length(_, of)
        | Operation::ToNumber(_, of)
        | Operation::ToText(_, of)
        | Operation::Word(_, _, of)
        | Operation::Status(_, of)
        | Operation::Error(_, of)
        | Operation::StatusText(_, of)
        | Operation::ErrorText(_, of)
        | Operation::Return(of) => with(of),
        Operation::JumpIf(Condition::Compare(a, _, b) | Condition::Not(a, _, b), _)
        | Operation::Arithmetic(_, _, a, b) => [a, b].into_iter().for_each(with),
        Operation::Part(_, text, first, last) => [text, first, last].into_iter().for_each(with),
        Operation::Concatenate(_, all) | Operation::ReturnArray(all) => {
            all.iter_mut().for_each(with);
        }
        Operation::Call(_, command) => each_operand_of(command, with),
    }
}

fn each_operand_of(command: &mut Command, with: &mut impl FnMut(&mut Operand)) {
    match command {
        Command::Get(key)
        | Command::GetDelete(key)
        | Command::Length(key)
        | Command::Persist(key)
        | Command::TimeLeft(key, _)
        | Command::Type(key) => with(key),
        Command::Increment { key, by: value, .. }
        | Command::Append(key, value)
        | Command::Expire(key, _, value) => [key, value].into_iter().for_each(with),
        Command::Delete(keys) | Command::Exists(keys) => keys.iter_mut().for_each(with),
        Command::Set(set) => {
            with(&mut set.key);
            with(&mut set.value);
            if let Some((_, when)) = &mut set.expires {
                with(when);
            }
        }
    }
}
