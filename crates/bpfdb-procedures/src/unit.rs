//! A text, a library or a script, and what has become of its functions.

use std::time::{Duration, Instant};

use crate::code::{self, Code};
use crate::error::{Error, Result};
use crate::ir::Function;
use crate::listing;
use crate::load::{Program, Template};
use crate::lua::{self, Unsupported};
use crate::types::Typed;

/// A function that the kernel can run.
#[derive(Debug)]
pub struct Ready {
    pub name: Vec<u8>,
    /// By which the program finds its body.
    pub number: u32,
    /// It executes no command that writes.
    pub reads: bool,
    pub function: Function,
}

impl Ready {
    /// Its operations as text, and before them the types that its registers may have.
    pub fn form(&self) -> String {
        Typed(&self.function).to_string()
    }
}

/// One that it cannot.
#[derive(Debug)]
pub struct Left {
    pub name: Vec<u8>,
    pub reasons: Vec<Unsupported>,
}

impl Left {
    /// For a reason that the whole function is: its first line stands for it.
    fn whole(function: Function, reason: impl Into<String>) -> Self {
        let line = function.lines.first().map_or(1, |first| first.number);
        Self {
            name: function.name,
            reasons: vec![Unsupported {
                line,
                reason: reason.into(),
            }],
        }
    }
}

/// Why a function cannot be called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReady {
    /// The text registers no function of this name.
    #[error("there is no function {0:?}")]
    NoFunction(String),
    /// It does, but the kernel cannot run it.
    #[error("the function {function:?} is not compiled: {}", first_of(reasons))]
    NotCompiled {
        function: String,
        reasons: Vec<Unsupported>,
    },
}

fn first_of(reasons: &[Unsupported]) -> String {
    reasons
        .first()
        .map_or_else(String::new, ToString::to_string)
}

/// One program of all functions; none if there are none.
fn load_all(template: &Template, functions: &[Function]) -> Result<(Option<Program>, Code)> {
    let references: Vec<&Function> = functions.iter().collect();
    let code = code::emit(&references)?;
    let program = match functions.is_empty() {
        true => None,
        false => Some(Program::load(template, &code)?),
    };
    Ok((program, code))
}

/// The same of those that have room in one program and that the kernel takes; the others go to
/// `left`.
fn load_what_can_be(
    template: &Template,
    functions: &mut Vec<Function>,
    left: &mut Vec<Left>,
) -> Result<(Option<Program>, Code)> {
    // Without the kernel, if there are many: to load each by itself takes a tenth of a second. Of a
    // few it is worth that to know which of them the kernel refuses.
    while functions.len() > TRIED_BY_THEMSELVES && is_too_long(functions) {
        left.push(without_longest(functions));
    }
    let mut tried = load_all(template, functions);
    if tried.as_ref().is_err_and(Error::is_of_functions) {
        left.extend(without_refused(template, functions)?);
        tried = load_all(template, functions);
    }
    // Each is taken by itself.
    while functions.len() > 1 && tried.as_ref().is_err_and(Error::is_of_functions) {
        left.push(without_longest(functions));
        tried = load_all(template, functions);
    }
    tried
}

/// So many functions are each loaded by itself, when not all of them have room.
const TRIED_BY_THEMSELVES: usize = 8;

/// Whether no program has room for all of them.
fn is_too_long(functions: &[Function]) -> bool {
    let references: Vec<&Function> = functions.iter().collect();
    matches!(code::emit(&references), Err(Error::TooLong))
}

fn without_longest(functions: &mut Vec<Function>) -> Left {
    let lines = |place: &usize| functions[*place].lines.len();
    let longest = (0..functions.len()).max_by_key(lines).unwrap_or(0);
    Left::whole(
        functions.remove(longest),
        "it has no room in the library's program beside the others",
    )
}

/// Takes those out that are refused by themselves: they should keep the others from nothing.
fn without_refused(template: &Template, functions: &mut Vec<Function>) -> Result<Vec<Left>> {
    let mut refused = Vec::new();
    for function in std::mem::take(functions) {
        match load_all(template, std::slice::from_ref(&function)) {
            Ok(_) => functions.push(function),
            Err(error) if error.is_of_functions() => {
                refused.push(Left::whole(function, error.to_string()));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(refused)
}

/// What has become of a text.
#[derive(Debug)]
pub struct Unit {
    /// One for all of its functions; none if none can be compiled.
    pub program: Option<Program>,
    pub ready: Vec<Ready>,
    pub left: Vec<Left>,
    /// Instructions of the functions, for listings.
    code: Code,
    /// From the text to the program in the kernel.
    pub time: Duration,
}

impl Unit {
    /// Compiles the functions that a library registers.
    ///
    /// # Errors
    /// If the kernel does not take the program, which it should.
    pub fn library(template: &Template, text: &[u8]) -> Result<Self> {
        let begun = Instant::now();
        let mut functions = Vec::new();
        let mut left = Vec::new();
        match lua::library(text) {
            Ok(all) => {
                for one in all {
                    match one.outcome {
                        Ok(function) => functions.push(function),
                        Err(reasons) => left.push(Left {
                            name: one.name,
                            reasons,
                        }),
                    }
                }
            }
            Err(reasons) => left.push(Left {
                name: Vec::new(),
                reasons,
            }),
        }
        Self::load(template, functions, left, begun)
    }

    /// Compiles a script; its function has no name.
    ///
    /// # Errors
    /// As above.
    pub fn script(template: &Template, text: &[u8]) -> Result<Self> {
        let begun = Instant::now();
        let (mut functions, mut left) = (Vec::new(), Vec::new());
        match lua::script(text) {
            Ok(function) => functions.push(function),
            Err(reasons) => left.push(Left {
                name: Vec::new(),
                reasons,
            }),
        }
        Self::load(template, functions, left, begun)
    }

    fn load(
        template: &Template,
        functions: Vec<Function>,
        mut left: Vec<Left>,
        begun: Instant,
    ) -> Result<Self> {
        let mut kept = Vec::new();
        for function in functions {
            // Each by itself: one that needs too much keeps the others from nothing.
            match code::emit(&[&function]) {
                Ok(_) => kept.push(function),
                Err(error) => left.push(Left::whole(function, error.to_string())),
            }
        }
        let (program, code) = load_what_can_be(template, &mut kept, &mut left)?;
        let ready = kept.into_iter().enumerate();
        Ok(Self {
            program,
            ready: ready
                .map(|(number, function)| Ready {
                    name: function.name.clone(),
                    number: number as u32,
                    reads: !function.writes(),
                    function,
                })
                .collect(),
            left,
            code,
            time: begun.elapsed(),
        })
    }

    /// The function of this name that the kernel can run.
    ///
    /// # Errors
    /// Why there is none.
    pub fn find(&self, name: &str) -> std::result::Result<&Ready, NotReady> {
        let named = |other: &[u8]| other == name.as_bytes();
        if let Some(ready) = self.ready.iter().find(|ready| named(&ready.name)) {
            return Ok(ready);
        }
        // Reasons of no function are those of the whole text.
        let mut left = self.left.iter();
        match left.find(|left| named(&left.name) || left.name.is_empty()) {
            Some(left) => Err(NotReady::NotCompiled {
                function: name.to_owned(),
                reasons: left.reasons.clone(),
            }),
            None => Err(NotReady::NoFunction(name.to_owned())),
        }
    }

    /// Leaves all functions from this one on to the interpreter.
    pub fn leave_from(&mut self, first: usize, reason: &str) {
        let left = self.ready.split_off(first.min(self.ready.len()));
        let left = left
            .into_iter()
            .map(|one| Left::whole(one.function, reason));
        self.left.extend(left);
    }

    /// The generated program beside the lines of its source.
    pub fn listing(&self, text: &[u8]) -> String {
        listing::of(&self.code, text)
    }
}
