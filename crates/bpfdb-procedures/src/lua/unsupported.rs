//! Why something is left to the interpreter.

use std::fmt;

use super::constants::LITERAL_MAX;

/// What keeps a function out of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct Unsupported {
    /// From 1 on.
    pub line: u32,
    /// Half a sentence about the text.
    pub reason: String,
}

impl Unsupported {
    pub(super) fn new(line: u32, reason: impl Into<String>) -> Self {
        Self {
            line,
            reason: reason.into(),
        }
    }

    /// A part of Lua that is not compiled.
    pub(super) fn left(line: u32, what: impl fmt::Display) -> Self {
        Self::new(line, format!("{what} is the interpreter's"))
    }

    pub(super) fn long_literal(line: u32) -> Self {
        Self::new(
            line,
            format!("a literal is longer than {LITERAL_MAX} bytes"),
        )
    }

    pub(super) fn global(line: u32, name: &str) -> Self {
        Self::new(line, format!("{name} is a global variable"))
    }

    pub(super) fn assigned(line: u32, name: &str) -> Self {
        Self::new(line, format!("{name} is assigned to elsewhere"))
    }
}

/// Closures, and functions in the place of values.
pub(super) const CLOSURES: &str = "closures are the interpreter's";
/// Those whose uses are not all known.
pub(super) const TABLES: &str = "tables are the interpreter's";
/// The parser knows more of Lua than Lua 5.1 has.
pub(super) const NOT_LUA: &str = "this is not Lua 5.1";
