//! Fewer registers, for a function that has too many: values share one whose times in use do
//! not overlap (linear scan: Poletto and Sarkar, 1999).
//!
//! Otherwise they do not, so that listings have a register for each variable. The types of a
//! register are those of all values that are ever in it, and operations on values of one type
//! are faster. So values of the same types share first, and all others only if that is not
//! enough.
//!
//! Invariant: a value is in use from the first line that names its register to the last one.
//! What was written before a loop and is read in it is so up to the loop's end. What is written
//! in a loop is written anew in each round before it is read: on every way to there, as
//! `ir.rs` demands, so also on that of the first round.

use std::collections::BTreeMap;

use crate::ir::{Command, Condition, Function, Line, Operand, Operation, Register};
use crate::types::{Types, Typing};

/// Names of variables that a shared register shows.
const NAMES_SHOWN: usize = 3;
/// Values of one type share only with each other if so much room is left: the emitter needs some
/// for operands whose types differ.
const ROOM: usize = 70;

/// The lines between which a register is in use.
#[derive(Clone, Copy)]
struct Span {
    register: Register,
    first: usize,
    last: usize,
}

/// Lets values share registers if there are more than `most`.
pub(super) fn save(function: &mut Function, most: usize) {
    if function.registers.len() <= most {
        return;
    }
    let spans = spans(&mut function.lines);
    let typing = Typing::of(function);
    let by_types = share(&spans, function, |register| typing.register(register));
    let shared = match by_types.names.len() + ROOM <= most {
        true => by_types,
        false => share(&spans, function, |_| Types::NONE),
    };
    for line in &mut function.lines {
        each_register(&mut line.operation, &mut |register| {
            *register = shared.of(*register);
        });
    }
    function.registers = shared
        .names
        .into_iter()
        .map(|names| shown(&names))
        .collect();
}

/// Of the variables that are in a register.
fn shown(names: &[String]) -> Option<String> {
    let more = names.len() > NAMES_SHOWN;
    let shown = names[..names.len().min(NAMES_SHOWN)].join(", ");
    (!names.is_empty()).then(|| if more { shown + ", …" } else { shown })
}

/// Where each value is in use, by the place where that begins.
fn spans(lines: &mut [Line]) -> Vec<Span> {
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
    let mut spans: Vec<Span> = spans.into_values().collect();
    for (head, end) in loops(lines) {
        for span in &mut spans {
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
    /// Those of the variables, of each.
    names: Vec<Vec<String>>,
}

/// Values of one class share.
fn share(spans: &[Span], function: &Function, class: impl Fn(Register) -> Types) -> Shared {
    let mut shared = Shared {
        by_register: vec![None; function.registers.len()],
        names: Vec::new(),
    };
    // By class, registers that were in use, and the line with which that ends.
    let mut ends: BTreeMap<Types, Vec<(Register, usize)>> = BTreeMap::new();
    for span in spans {
        let ends = ends.entry(class(span.register)).or_default();
        let free = ends.iter_mut().find(|(_, end)| *end < span.first);
        let register = match free {
            Some((register, end)) => {
                *end = span.last;
                *register
            }
            None => {
                let new = shared.add();
                ends.push((new, span.last));
                new
            }
        };
        let name = &function.registers[usize::from(span.register.0)];
        shared.put(span.register, register, name.as_deref());
    }
    shared
}

impl Shared {
    fn add(&mut self) -> Register {
        let register = Register(u16::try_from(self.names.len()).unwrap_or(u16::MAX));
        self.names.push(Vec::new());
        register
    }

    fn put(&mut self, old: Register, new: Register, name: Option<&str>) {
        self.by_register[usize::from(old.0)] = Some(new);
        let names = &mut self.names[usize::from(new.0)];
        if let Some(name) = name
            && names.len() <= NAMES_SHOWN
            && !names.iter().any(|known| known == name)
        {
            names.push(name.to_owned());
        }
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
        Command::Collection(command) => {
            with(&mut command.key);
            command.operands.iter_mut().for_each(with);
        }
    }
}
