//! From the text of Lua to [`ir`](crate::ir).
//!
//! ```text
//!  text ── parse ──► syntax ── lower ──► ir::Function
//!                      │
//!                      └── library: which functions are registered, and by which names
//! ```
//!
//! The text is one that Lua has loaded before. What Lua refuses to load may well be compiled
//! here; it is never run.
//!
//! The interpreter has all of Lua, so nothing has to be compiled. What is compiled has exactly
//! the results of the interpreter. Where that is in doubt, the text is [`Unsupported`].
//!
//! What is compiled
//!  * Local variables, `if`, `while`, `repeat`, the numeric `for`, `ipairs` of keys and
//!    arguments, `break`, `return`.
//!  * Whole numbers, strings, booleans and nil, with the operators of Lua but `^`.
//!  * `redis.call` of the commands in `lower/commands.rs`; functions of Lua in `lower/calls.rs`.
//!  * Local functions: their bodies are put in the place of the calls.
//!  * Tables of which every use is known: see `lower/tables.rs`.

mod constants;
mod library;
mod lower;
mod parse;
mod syntax;
#[cfg(test)]
mod tests;
mod unsupported;

use std::thread;

use crate::ir;

pub use unsupported::Unsupported;

/// Longer texts are the interpreter's: such a function is seldom called.
pub const TEXT_MAX: usize = 64 * 1024;
/// For the parser, which calls itself for what lies in brackets. [`parse`] limits how deep.
const STACK: usize = 64 * 1024 * 1024;

/// One function of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// By which it is registered.
    pub name: Vec<u8>,
    /// The function, or all that keeps it out of the kernel, by line.
    pub outcome: Result<ir::Function, Vec<Unsupported>>,
}

/// Compiles a script (EVAL): the whole text is the body, `KEYS` and `ARGV` are global.
///
/// # Errors
/// All that keeps it out of the kernel, by line.
pub fn script(text: &[u8]) -> Result<ir::Function, Vec<Unsupported>> {
    on_a_large_stack(|| {
        let chunk = parse::chunk(source(text)?)?;
        lower::script(&chunk)
    })
}

/// Compiles a library (FUNCTION LOAD): every function that it registers in a way that can be
/// read off the text. Of several with one name the interpreter has loaded none.
///
/// # Errors
/// What is wrong with the text as a whole.
pub fn library(text: &[u8]) -> Result<Vec<Compiled>, Vec<Unsupported>> {
    on_a_large_stack(|| {
        let chunk = parse::chunk(source(text)?)?;
        library::functions(&chunk)
    })
}

/// The text as the parser takes it. Of a first line `#!lua …` only the end is left, so that
/// the lines keep their numbers.
fn source(text: &[u8]) -> Result<&str, Vec<Unsupported>> {
    if text.len() > TEXT_MAX {
        let reason = format!("the text is longer than {TEXT_MAX} bytes");
        return Err(vec![Unsupported::new(1, reason)]);
    }
    let text = match text.starts_with(b"#!") {
        true => {
            let end = text.iter().position(|&byte| byte == b'\n');
            &text[end.unwrap_or(text.len())..]
        }
        false => text,
    };
    if let Some(line) = bare_return(text) {
        let reason = "a carriage return without a line feed";
        return Err(vec![Unsupported::new(line, reason)]);
    }
    std::str::from_utf8(text).map_err(|error| {
        let before = &text[..error.valid_up_to()];
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        let line = u32::try_from(line).unwrap_or(u32::MAX);
        vec![Unsupported::new(line, "this is not UTF-8")]
    })
}

/// The line that ends in `\r` alone. Lua takes that for a line's end, and `\r\n` and `\n\r` for
/// one; the parser knows no line's end but `\n`, and so no other end of a comment.
fn bare_return(text: &[u8]) -> Option<u32> {
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let (mut rest, mut line) = (text, 1);
    while let Some(end) = rest.iter().position(is_end) {
        let len = match &rest[end..] {
            [b'\r', b'\n', ..] | [b'\n', b'\r', ..] => 2,
            [b'\n', ..] => 1,
            _ => return Some(line),
        };
        rest = &rest[end + len..];
        line += 1;
    }
    None
}

/// A parser that panics has met a text that it cannot read, like one that returns an error.
fn on_a_large_stack<T: Send>(
    work: impl FnOnce() -> Result<T, Vec<Unsupported>> + Send,
) -> Result<T, Vec<Unsupported>> {
    let failed = |reason: &str| Err(vec![Unsupported::new(1, reason)]);
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("lua-compiler".into())
            .stack_size(STACK)
            .spawn_scoped(scope, work);
        match thread.map(|thread| thread.join()) {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => failed("the parser has failed"),
            Err(_) => failed("there is no thread for the parser"),
        }
    })
}
