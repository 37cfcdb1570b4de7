//! Which functions a library registers.
//!
//! To load a library is to run its text. What it registers at the end of that is known here
//! for calls of `redis.register_function` that stand in the text itself, not in a function or
//! behind a condition, with names and functions that are known.

use super::Compiled;
use super::constants::constant;
use super::lower::{self, Binding, Bindings};
use super::syntax::{
    Block, Chunk, Expression, ExpressionKind, Field, Function, StatementKind, VariableId,
};
use super::unsupported::{CLOSURES, Unsupported};
use crate::ir::{self, Operand};

/// Functions of a library that are compiled. Each has a number in the kernel, of 1,024 in all.
const FUNCTIONS_MAX: usize = 128;
/// What the functions may take together: a text registers some thousand times, and each time a
/// function that calls others.
const WORK_MAX: usize = 5 * lower::WORK_MAX;

struct Library<'a> {
    chunk: &'a Chunk,
    bindings: Bindings<'a>,
    compiled: Vec<Compiled>,
    /// Those without a problem.
    count: usize,
    /// What all took.
    work: usize,
}

/// Compiles all that are found.
///
/// # Errors
/// If the text may end before its end: it is not known which of them are registered.
pub(super) fn functions(chunk: &Chunk) -> Result<Vec<Compiled>, Vec<Unsupported>> {
    if let Some(problem) = early_end(&chunk.body) {
        return Err(vec![problem]);
    }
    let mut library = Library {
        chunk,
        bindings: Bindings::new(chunk),
        compiled: Vec::new(),
        count: 0,
        work: 0,
    };
    library.block(&chunk.body);
    Ok(library.compiled)
}

/// Where a library may end early, or do what is not known here.
fn early_end(block: &Block) -> Option<Unsupported> {
    block.iter().find_map(|statement| match &statement.kind {
        StatementKind::Return(_) => Some(Unsupported::new(
            statement.line,
            "a library that returns registers functions that are not known",
        )),
        StatementKind::Unsupported(reason) => Some(Unsupported::new(statement.line, reason)),
        StatementKind::Do(block)
        | StatementKind::While(_, block)
        | StatementKind::Repeat(block, _) => early_end(block),
        StatementKind::For(one) => early_end(&one.body),
        StatementKind::ForEach(one) => early_end(&one.body),
        StatementKind::If(branches, otherwise) => branches
            .iter()
            .find_map(|(_, block)| early_end(block))
            .or_else(|| early_end(otherwise)),
        StatementKind::Local(..)
        | StatementKind::LocalFunction(..)
        | StatementKind::Assign(..)
        | StatementKind::Call(_)
        | StatementKind::Break => None,
    })
}

/// While a library is loaded, Redis gives it nothing but this: another name for what it gives
/// functions would name nothing.
fn is_there_at_load(binding: &Binding<'_>) -> bool {
    !matches!(binding, Binding::Library(path) if path != "redis.register_function")
}

/// The two arguments that matter.
struct Registration<'a> {
    name: &'a Expression,
    callback: &'a Expression,
}

impl<'a> Library<'a> {
    fn block(&mut self, block: &'a Block) {
        for statement in block {
            match &statement.kind {
                StatementKind::Local(names, values) => self.local(names, values),
                StatementKind::LocalFunction(name, function) => {
                    self.bind(*name, || Some(Binding::Function(function)))
                }
                StatementKind::Do(block) => self.block(block),
                StatementKind::Call(call) => self.call(call),
                _ => {}
            }
        }
    }

    fn local(&mut self, names: &[VariableId], values: &'a [Expression]) {
        for (name, value) in names.iter().zip(values) {
            let known = self.bindings.known(value);
            self.bind(*name, || known.filter(is_there_at_load));
        }
    }

    /// A variable that is assigned to elsewhere may have any value by then.
    fn bind(&mut self, name: VariableId, binding: impl FnOnce() -> Option<Binding<'a>>) {
        if !self.chunk.variables[name.0].assigned
            && let Some(binding) = binding()
        {
            self.bindings.set(name, binding);
        }
    }

    fn call(&mut self, call: &'a Expression) {
        let ExpressionKind::Call(callee, arguments) = &call.kind else {
            return;
        };
        if self.bindings.library(callee).as_deref() != Some("redis.register_function") {
            return;
        }
        let Some(registration) = Registration::of(arguments) else {
            return;
        };
        let Some(Operand::Text(name)) = constant(registration.name, &self.bindings) else {
            return;
        };
        let outcome = self.outcome(&name, registration.callback);
        self.count += usize::from(outcome.is_ok());
        self.compiled.push(Compiled { name, outcome });
    }

    fn outcome(
        &mut self,
        name: &[u8],
        callback: &'a Expression,
    ) -> Result<ir::Function, Vec<Unsupported>> {
        let function = self.function(callback).map_err(|problem| vec![problem])?;
        if let Some(reason) = self.is_full() {
            return Err(vec![Unsupported::new(callback.line, reason)]);
        }
        let (outcome, work) = lower::function(self.chunk, self.bindings.clone(), name, function);
        self.work += work;
        outcome
    }

    /// Why no more functions are compiled.
    fn is_full(&self) -> Option<String> {
        if self.count >= FUNCTIONS_MAX {
            return Some(format!(
                "{FUNCTIONS_MAX} functions of the library are compiled"
            ));
        }
        (self.work > WORK_MAX).then(|| "the functions before it are too long together".to_owned())
    }

    fn function(&self, callback: &'a Expression) -> Result<&'a Function, Unsupported> {
        if let Some(Binding::Function(function)) = self.bindings.known(callback) {
            return Ok(function);
        }
        Err(match &callback.kind {
            ExpressionKind::Local(id) if self.chunk.variables[id.0].assigned => {
                Unsupported::assigned(callback.line, &self.chunk.variables[id.0].name)
            }
            _ => Unsupported::new(callback.line, CLOSURES),
        })
    }
}

impl<'a> Registration<'a> {
    fn of(arguments: &'a [Expression]) -> Option<Self> {
        match arguments {
            [name, callback] => Some(Self { name, callback }),
            [
                Expression {
                    kind: ExpressionKind::Table(fields),
                    ..
                },
            ] => Self::of_fields(fields),
            _ => None,
        }
    }

    /// Any other field might have one of the two names as well.
    fn of_fields(fields: &'a [Field]) -> Option<Self> {
        let fields = fields.iter().map(named).collect::<Option<Vec<_>>>()?;
        Some(Self {
            name: only(&fields, b"function_name")?,
            callback: only(&fields, b"callback")?,
        })
    }
}

/// The name and the value of a field, if its name stands in the text.
fn named(field: &Field) -> Option<(&[u8], &Expression)> {
    match field {
        Field::Named(key, value) => match &key.kind {
            ExpressionKind::Text(name) => Some((name, value)),
            _ => None,
        },
        Field::Positional(_) => None,
    }
}

/// The value of the field of this name, if there is one and no other.
fn only<'a>(fields: &[(&[u8], &'a Expression)], name: &[u8]) -> Option<&'a Expression> {
    let mut values = fields.iter().filter(|(other, _)| *other == name);
    let (_, value) = values.next()?;
    values.next().is_none().then_some(*value)
}
