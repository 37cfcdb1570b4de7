//! Which types the value of each register may have.
//!
//! The types of a register are those of everything that is ever put into it, wherever that is:
//! a fixpoint over the list, which needs no order of its operations. A register that has one
//! type needs no tag at run time.

use std::fmt;

use bpfdb::abi;

use crate::ir::{
    Action, Command, Function, Operand, Operation, Presence, Register, Set, SetReturns,
};

/// A set of types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Types(u8);

/// One type: a tag of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Type {
    Nil = abi::BPFDB_TAG_NIL as u8,
    False = abi::BPFDB_TAG_FALSE as u8,
    True = abi::BPFDB_TAG_TRUE as u8,
    Integer = abi::BPFDB_TAG_INTEGER as u8,
    Text = abi::BPFDB_TAG_TEXT as u8,
    Status = abi::BPFDB_TAG_STATUS as u8,
    Error = abi::BPFDB_TAG_ERROR as u8,
}

impl Type {
    const ALL: [Self; 7] = [
        Self::Nil,
        Self::False,
        Self::True,
        Self::Integer,
        Self::Text,
        Self::Status,
        Self::Error,
    ];

    pub(crate) fn is_true(self) -> bool {
        !matches!(self, Self::Nil | Self::False)
    }

    /// Has a value besides its tag.
    pub(crate) fn has_value(self) -> bool {
        !matches!(self, Self::Nil | Self::False | Self::True)
    }
}

impl Types {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn of(types: &[Type]) -> Self {
        Self(types.iter().fold(0, |all, &one| all | 1 << one as u8))
    }

    pub(crate) fn has(self, one: Type) -> bool {
        self.0 & 1 << one as u8 != 0
    }

    pub(crate) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The type, if there is one only.
    pub(crate) fn only(self) -> Option<Type> {
        let mut all = self.iter();
        let first = all.next()?;
        all.next().is_none().then_some(first)
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Type> {
        Type::ALL.into_iter().filter(move |&one| self.has(one))
    }

    /// May a value of these be true, and may it be not?
    pub(crate) fn truth(self) -> (bool, bool) {
        (
            self.iter().any(Type::is_true),
            !self.iter().all(Type::is_true),
        )
    }
}

impl fmt::Display for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, one) in self.iter().enumerate() {
            let between = if place > 0 { " or " } else { "" };
            write!(f, "{between}{}", format!("{one:?}").to_lowercase())?;
        }
        Ok(())
    }
}

/// A function that prints the types of its registers before its operations.
pub(crate) struct Typed<'a>(pub(crate) &'a Function);

impl fmt::Display for Typed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(function) = self;
        let typing = Typing::of(function);
        function.fmt_head(f)?;
        for (number, (name, types)) in function.registers.iter().zip(&typing.0).enumerate() {
            match name {
                Some(name) => writeln!(f, "        r{number} is {name}: {types}")?,
                None => writeln!(f, "        r{number}: {types}")?,
            }
        }
        function.fmt_lines(f)
    }
}

/// The types of all registers.
#[derive(Debug)]
pub(crate) struct Typing(Vec<Types>);

impl Typing {
    pub(crate) fn of(function: &Function) -> Self {
        let mut typing = Self(vec![Types::NONE; function.registers.len()]);
        let mut changed = true;
        while changed {
            changed = false;
            for line in &function.lines {
                changed |= typing.visit(&line.operation);
            }
        }
        typing
    }

    pub(crate) fn register(&self, register: Register) -> Types {
        self.0[usize::from(register.0)]
    }

    pub(crate) fn operand(&self, operand: &Operand) -> Types {
        match operand {
            Operand::Register(register) => self.register(*register),
            Operand::Integer(_) => Types::of(&[Type::Integer]),
            Operand::Text(_) => Types::of(&[Type::Text]),
            Operand::Nil => Types::of(&[Type::Nil]),
            Operand::Boolean(false) => Types::of(&[Type::False]),
            Operand::Boolean(true) => Types::of(&[Type::True]),
            Operand::Word(..) => Types::of(&[Type::Text, Type::Nil]),
        }
    }

    /// Adds what an operation puts into its register; true if that is new.
    fn visit(&mut self, operation: &Operation) -> bool {
        let Some((to, types)) = self.result(operation) else {
            return false;
        };
        let known = &mut self.0[usize::from(to.0)];
        let all = known.with(types);
        let is_new = all != *known;
        *known = all;
        is_new
    }

    fn result(&self, operation: &Operation) -> Option<(Register, Types)> {
        let one = |to: &Register, types: &[Type]| Some((*to, Types::of(types)));
        match operation {
            Operation::Move(to, from) => Some((*to, self.operand(from))),
            Operation::Arithmetic(to, ..)
            | Operation::Negate(to, _)
            | Operation::Whole(to, _)
            | Operation::Length(to, _)
            | Operation::Count(to, _) => one(to, &[Type::Integer]),
            Operation::ToNumber(to, of) => Some((*to, self.number(of))),
            Operation::Concatenate(to, _) | Operation::Part(to, ..) | Operation::ToText(to, _) => {
                one(to, &[Type::Text])
            }
            Operation::Word(to, ..) => one(to, &[Type::Text, Type::Nil]),
            Operation::Status(to, _) => one(to, &[Type::Status]),
            Operation::Error(to, _) => one(to, &[Type::Error]),
            Operation::StatusText(to, of) => Some((*to, self.field(of, Type::Status))),
            Operation::ErrorText(to, of) => Some((*to, self.field(of, Type::Error))),
            Operation::Call(to, command) => Some((*to, command_types(command))),
            Operation::Label(_)
            | Operation::Jump(_)
            | Operation::JumpIf(..)
            | Operation::Fuel
            | Operation::Return(_)
            | Operation::ReturnArray(_) => None,
        }
    }

    /// Nil of what is neither a number nor a text.
    fn number(&self, of: &Operand) -> Types {
        let types = self.operand(of);
        let (numbers, others): (Vec<Type>, Vec<Type>) = types
            .iter()
            .partition(|one| matches!(one, Type::Integer | Type::Text));
        let number = [Type::Integer].repeat(usize::from(!numbers.is_empty()));
        let nil = [Type::Nil].repeat(usize::from(!others.is_empty()));
        Types::of(&number).with(Types::of(&nil))
    }

    /// The field that replies of type `kind` have: a text, nil of other replies.
    fn field(&self, of: &Operand, kind: Type) -> Types {
        match self.operand(of).only() {
            Some(only) if only == kind => Types::of(&[Type::Text]),
            Some(_) => Types::of(&[Type::Nil]),
            None => Types::of(&[Type::Text, Type::Nil]),
        }
    }
}

fn command_types(command: &Command) -> Types {
    match command {
        Command::Get(_) | Command::GetDelete(_) => Types::of(&[Type::Text, Type::False]),
        Command::Set(set) => set_types(set),
        Command::Type(_) => Types::of(&[Type::Status]),
        Command::Collection(command) => action_types(command.action),
        Command::Increment { .. }
        | Command::Delete(_)
        | Command::Exists(_)
        | Command::Append(..)
        | Command::Length(_)
        | Command::Expire(..)
        | Command::Persist(_)
        | Command::TimeLeft(..) => Types::of(&[Type::Integer]),
    }
}

fn set_types(set: &Set) -> Types {
    match set.returns {
        SetReturns::Integer => Types::of(&[Type::Integer]),
        SetReturns::Old => Types::of(&[Type::Text, Type::False]),
        SetReturns::Status if set.only_if == Presence::Any => Types::of(&[Type::Status]),
        SetReturns::Status => Types::of(&[Type::Status, Type::False]),
    }
}

fn action_types(action: Action) -> Types {
    Types::of(match action {
        Action::Value | Action::Score | Action::At | Action::Pop(_) => &[Type::Text, Type::False],
        Action::AddToScore => &[Type::Text],
        Action::PutAll => &[Type::Status],
        Action::Count
        | Action::Has
        | Action::ValueLength
        | Action::Put
        | Action::PutNew
        | Action::AddToValue
        | Action::Add
        | Action::PutScores
        | Action::Take
        | Action::Push(_) => &[Type::Integer],
    })
}
