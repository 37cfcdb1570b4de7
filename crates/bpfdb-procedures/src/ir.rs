//! The form between Lua and instructions: a list of operations on registers, as flat as a
//! listing of an assembler, that prints as text.
//!
//! ```text
//!   function vote(keys, args)                function vote: writes
//!     local n = redis.call(              2     n = call GET KEYS[1]
//!       'GET', keys[1])                  4     unless n: jump L1
//!     if not n then … end                5   L1:
//!     return tonumber(n) + 1             7     r3 = number n
//!                                        7     r4 = r3 + 1
//!                                        7     return r4
//! ```
//!
//! An operation means what the expression of Lua means, for operands of any type. What has no
//! such meaning in the kernel, or would be an error in Lua, ends the run: all is rolled back,
//! and the interpreter runs the call. So an operation never has to explain an error.
//!
//! Invariants
//!  1. A register that is read was written before, on every way to there.
//!  2. Every way ends in a `Return`; no jump leads out of the list.
//!  3. Every jump backwards has an [`Operation::Fuel`] between its label and itself.

pub(crate) mod collection;
mod operand;

use std::fmt;

pub use collection::{Action, CollectionCommand, End, Kind};
pub use operand::{Operand, Register, Words};

/// A place in the list that jumps lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label(pub u16);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    /// Of Lua: the result has the sign of the divisor.
    Modulo,
    /// `a / b`, where nothing is left; else the interpreter's.
    Divide,
    /// `math.floor(a / b)`.
    FloorDivide,
    /// `math.ceil(a / b)`.
    CeilDivide,
    /// `math.min`, `math.max` of two.
    Minimum,
    Maximum,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Neither nil nor false.
    True(Operand),
    False(Operand),
    Compare(Operand, Comparison, Operand),
    /// The comparison does not hold. (Not the opposite one: operands may not be comparable.)
    Not(Operand, Comparison, Operand),
}

/// When a value expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// Milliseconds of one: 1,000 for seconds.
    pub unit: u32,
    /// Counts from now on; else it is UNIX time.
    pub from_now: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    Any,
    /// NX
    Absent,
    /// XX
    Present,
}

/// SET and its kin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    pub key: Operand,
    pub value: Operand,
    pub only_if: Presence,
    pub expires: Option<(Time, Operand)>,
    /// KEEPTTL
    pub keeps_time: bool,
    pub returns: SetReturns,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetReturns {
    /// The status OK, or false if it was not set.
    Status,
    /// 1 or 0 (SETNX).
    Integer,
    /// What was there, or false (GET, GETSET).
    Old,
}

/// `redis.call`: a command of Redis with operands. Its result is what Lua sees (RESP2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Get(Operand),
    Set(Set),
    /// INCRBY and its kin; `negative`: the amount is subtracted.
    Increment {
        key: Operand,
        by: Operand,
        negative: bool,
    },
    /// DEL, UNLINK: how many there were.
    Delete(Vec<Operand>),
    /// EXISTS, TOUCH.
    Exists(Vec<Operand>),
    GetDelete(Operand),
    Append(Operand, Operand),
    Length(Operand),
    /// EXPIRE and its kin: 1 or 0.
    Expire(Operand, Time, Operand),
    Persist(Operand),
    /// TTL, PTTL (`from_now`), EXPIRETIME, PEXPIRETIME.
    TimeLeft(Operand, Time),
    /// The status `string`, `hash` … or `none`.
    Type(Operand),
    Collection(CollectionCommand),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    Label(Label),
    Jump(Label),
    JumpIf(Condition, Label),
    /// One round of a loop: a call has fuel for so many.
    Fuel,
    Move(Register, Operand),
    Arithmetic(Register, Arithmetic, Operand, Operand),
    Negate(Register, Operand),
    /// `math.floor`, `math.ceil`: of whole numbers, which stay. `math.abs` is made of others.
    Whole(Register, Operand),
    /// `..` of two and more.
    Concatenate(Register, Vec<Operand>),
    /// `#` of a string.
    Length(Register, Operand),
    /// `string.sub(text, first, last)`.
    Part(Register, Operand, Operand, Operand),
    /// `tonumber` of what is a whole number or its text.
    ToNumber(Register, Operand),
    /// `tostring` of a number or a string.
    ToText(Register, Operand),
    /// `KEYS[i]`, `ARGV[i]`: nil outside.
    Word(Register, Words, Operand),
    /// `#KEYS`, `#ARGV`.
    Count(Register, Words),
    /// `redis.status_reply(text)`, `{ok = text}`.
    Status(Register, Operand),
    /// `redis.error_reply(text)`, `{err = text}`: a value as any other.
    Error(Register, Operand),
    /// `reply.ok`, `reply['ok']` of a status.
    StatusText(Register, Operand),
    /// `reply.err` of an error; nil of a status.
    ErrorText(Register, Operand),
    Call(Register, Command),
    Return(Operand),
    /// `return {a, b, c}`: ends at the first nil.
    ReturnArray(Vec<Operand>),
}

/// An operation and the line of the source that it comes from, from 1 on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub number: u32,
    pub operation: Operation,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// By which it is registered; empty for a script.
    pub name: Vec<u8>,
    /// By register; local variables have the name of the source, others none.
    pub registers: Vec<Option<String>>,
    pub lines: Vec<Line>,
}

impl Operation {
    /// Its operands, if it may have any number of them.
    pub fn many(&self) -> &[Operand] {
        match self {
            Self::Concatenate(_, all) | Self::ReturnArray(all) => all,
            Self::Call(_, Command::Delete(keys) | Command::Exists(keys)) => keys,
            Self::Call(_, Command::Collection(command)) => &command.operands,
            _ => &[],
        }
    }
}

impl Function {
    /// Does it execute commands that write?
    pub fn writes(&self) -> bool {
        self.commands().any(Command::writes)
    }

    /// The commands of all lines.
    pub fn commands(&self) -> impl Iterator<Item = &Command> {
        self.lines.iter().filter_map(|line| match &line.operation {
            Operation::Call(_, command) => Some(command),
            _ => None,
        })
    }
}

impl Command {
    pub fn writes(&self) -> bool {
        match self {
            Self::Get(_)
            | Self::Exists(_)
            | Self::Length(_)
            | Self::TimeLeft(..)
            | Self::Type(_) => false,
            Self::Set(_)
            | Self::Increment { .. }
            | Self::Delete(_)
            | Self::GetDelete(_)
            | Self::Append(..)
            | Self::Expire(..)
            | Self::Persist(_) => true,
            Self::Collection(command) => command.writes(),
        }
    }

    /// The name in Redis, or one of several.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Get(_) => "GET",
            Self::Set(_) => "SET",
            Self::Increment {
                negative: false, ..
            } => "INCRBY",
            Self::Increment { negative: true, .. } => "DECRBY",
            Self::Delete(_) => "DEL",
            Self::Exists(_) => "EXISTS",
            Self::GetDelete(_) => "GETDEL",
            Self::Append(..) => "APPEND",
            Self::Length(_) => "STRLEN",
            Self::Expire(..) => "EXPIRE",
            Self::Persist(_) => "PERSIST",
            Self::TimeLeft(..) => "TTL",
            Self::Type(_) => "TYPE",
            Self::Collection(command) => command.name,
        }
    }

    /// The keys that it works on.
    pub fn keys(&self) -> &[Operand] {
        match self {
            Self::Delete(keys) | Self::Exists(keys) => keys,
            Self::Set(set) => std::slice::from_ref(&set.key),
            Self::Collection(command) => std::slice::from_ref(&command.key),
            Self::Get(key)
            | Self::Increment { key, .. }
            | Self::GetDelete(key)
            | Self::Append(key, _)
            | Self::Length(key)
            | Self::Expire(key, ..)
            | Self::Persist(key)
            | Self::TimeLeft(key, _)
            | Self::Type(key) => std::slice::from_ref(key),
        }
    }
}

// ---- As text -----------------------------------------------------------------------

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "L{}", self.0)
    }
}

impl fmt::Display for Arithmetic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Modulo => "%",
            Self::Divide => "/",
            Self::FloorDivide => "//",
            Self::CeilDivide => "/^",
            Self::Minimum => "min",
            Self::Maximum => "max",
        })
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Equal => "==",
            Self::NotEqual => "~=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        })
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::True(operand) => write!(f, "if {operand}"),
            Self::False(operand) => write!(f, "unless {operand}"),
            Self::Compare(a, comparison, b) => write!(f, "if {a} {comparison} {b}"),
            Self::Not(a, comparison, b) => write!(f, "unless {a} {comparison} {b}"),
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, operands: &[Operand], between: &str) -> fmt::Result {
    for (place, operand) in operands.iter().enumerate() {
        if place > 0 {
            f.write_str(between)?;
        }
        write!(f, "{operand}")?;
    }
    Ok(())
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.name())?;
        list(f, self.keys(), " ")?;
        match self {
            Self::Set(set) => set.fmt_rest(f),
            Self::Increment { by, .. } => write!(f, " {by}"),
            Self::Append(_, value) => write!(f, " {value}"),
            Self::Expire(_, time, when) => write!(f, " {when} {}", time.name()),
            Self::TimeLeft(_, time) => write!(f, " {}", time.name()),
            Self::Collection(command) => command.fmt_operands(f),
            Self::Get(_)
            | Self::Delete(_)
            | Self::Exists(_)
            | Self::GetDelete(_)
            | Self::Length(_)
            | Self::Persist(_)
            | Self::Type(_) => Ok(()),
        }
    }
}

impl Time {
    /// The word of SET's options.
    fn name(self) -> &'static str {
        match (self.unit, self.from_now) {
            (1, true) => "PX",
            (1, false) => "PXAT",
            (_, true) => "EX",
            (_, false) => "EXAT",
        }
    }
}

impl Set {
    fn fmt_rest(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {}", self.value)?;
        match self.only_if {
            Presence::Any => {}
            Presence::Absent => f.write_str(" NX")?,
            Presence::Present => f.write_str(" XX")?,
        }
        if let Some((time, when)) = &self.expires {
            write!(f, " {} {when}", time.name())?;
        }
        if self.keeps_time {
            f.write_str(" KEEPTTL")?;
        }
        match self.returns {
            SetReturns::Status => Ok(()),
            SetReturns::Integer => f.write_str(" (as a number)"),
            SetReturns::Old => f.write_str(" GET"),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Label(label) => write!(f, "{label}:"),
            Self::Jump(label) => write!(f, "  jump {label}"),
            Self::JumpIf(condition, label) => write!(f, "  {condition}: jump {label}"),
            Self::Fuel => f.write_str("  fuel"),
            Self::Move(to, from) => write!(f, "  {to} = {from}"),
            Self::Arithmetic(to, operation, a, b) => write!(f, "  {to} = {a} {operation} {b}"),
            Self::Negate(to, of) => write!(f, "  {to} = -{of}"),
            Self::Whole(to, of) => write!(f, "  {to} = whole {of}"),
            Self::Concatenate(to, parts) => {
                write!(f, "  {to} = ")?;
                list(f, parts, " .. ")
            }
            Self::Length(to, of) => write!(f, "  {to} = #{of}"),
            Self::Part(to, text, first, last) => write!(f, "  {to} = part {text} {first} {last}"),
            Self::ToNumber(to, of) => write!(f, "  {to} = number {of}"),
            Self::ToText(to, of) => write!(f, "  {to} = text {of}"),
            Self::Word(to, words, index) => write!(f, "  {to} = {words}[{index}]"),
            Self::Count(to, words) => write!(f, "  {to} = #{words}"),
            Self::Status(to, text) => write!(f, "  {to} = status {text}"),
            Self::Error(to, text) => write!(f, "  {to} = error {text}"),
            Self::StatusText(to, of) => write!(f, "  {to} = {of}.ok"),
            Self::ErrorText(to, of) => write!(f, "  {to} = {of}.err"),
            Self::Call(to, command) => write!(f, "  {to} = call {command}"),
            Self::Return(value) => write!(f, "  return {value}"),
            Self::ReturnArray(values) => {
                f.write_str("  return {")?;
                list(f, values, ", ")?;
                f.write_str("}")
            }
        }
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_head(f)?;
        for (number, name) in self.registers.iter().enumerate() {
            if let Some(name) = name {
                writeln!(f, "        r{number} is {name}")?;
            }
        }
        self.fmt_lines(f)
    }
}

impl Function {
    pub(crate) fn fmt_head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.writes() { "writes" } else { "reads" };
        match self.name.is_empty() {
            true => writeln!(f, "script: {kind}"),
            false => writeln!(f, "function {}: {kind}", self.name.escape_ascii()),
        }
    }

    pub(crate) fn fmt_lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            writeln!(f, "{:>5} {}", line.number, line.operation)?;
        }
        Ok(())
    }
}
