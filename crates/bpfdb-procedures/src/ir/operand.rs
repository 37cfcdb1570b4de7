//! Values that operations work on.

use std::fmt;

/// A place for one value: a local variable of Lua, or what lies between two operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Register(pub u16);

/// What an operation works on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    Register(Register),
    /// Within ±2^53.
    Integer(i64),
    Text(Vec<u8>),
    Nil,
    Boolean(bool),
    /// `KEYS[n]`, `ARGV[n]`, from 1 on: nil if the call has fewer.
    Word(Words, u16),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Words {
    Keys,
    Arguments,
}

// ---- As text -----------------------------------------------------------------------

impl fmt::Display for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keys => "KEYS",
            Self::Arguments => "ARGV",
        })
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Register(register) => write!(f, "{register}"),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Text(text) => write!(f, "'{}'", text.escape_ascii()),
            Self::Nil => f.write_str("nil"),
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Word(words, place) => write!(f, "{words}[{place}]"),
        }
    }
}
