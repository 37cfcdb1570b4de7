//! From [`syntax`](super::syntax) to operations.
//!
//! Every expression becomes an operand, and whatever has to run before that. Since nothing in
//! an expression assigns to a local variable, the operand of a local variable is its register,
//! wherever the value is used.
//!
//! Functions that are called are put in the place of the call, so there is only one list of
//! operations. Their variables are other registers each time.

mod bindings;
mod calls;
mod code;
mod commands;
mod conditions;
mod expressions;
mod inline;
mod labels;
mod loops;
mod registers;
mod replies;
mod results;
mod statements;
mod tables;

pub(super) use bindings::{Binding, Bindings};
use code::Code;
pub(super) use code::WORK_MAX;
use results::Results;

use super::syntax::{Chunk, Expression, Function, VariableId};
use super::unsupported::Unsupported;
use crate::ir::{self, Label, Operand, Operation, Words};

type Lowered<T> = Result<T, Unsupported>;

/// One function on its way.
struct Lowering<'a> {
    chunk: &'a Chunk,
    bindings: Bindings<'a>,
    code: Code,
    problems: Vec<Unsupported>,
    /// The ends of the loops around here.
    loops: Vec<Label>,
    /// The functions around here, for which calls stood.
    inlined: Vec<&'a Function>,
    /// Of the functions that were looked at: see [`Function::minus_zero`].
    minus_zero: Option<u32>,
    /// Where `return` leads.
    results: Results,
    /// The function around here may return nothing, as far as it was looked at.
    returns_nothing: bool,
}

/// # Errors
/// All that keeps it out of the kernel.
pub(super) fn script(chunk: &Chunk) -> Result<ir::Function, Vec<Unsupported>> {
    let mut bindings = Bindings::new(chunk);
    bindings.is_script = true;
    let mut lowering = Lowering::new(chunk, bindings);
    lowering.block(&chunk.body);
    lowering.finish(Vec::new())
}

/// A function that a library registers: what it becomes, or all that keeps it out of the kernel;
/// and how much of [`WORK_MAX`] that took. `bindings` are those of the library.
pub(super) fn function<'a>(
    chunk: &'a Chunk,
    bindings: Bindings<'a>,
    name: &[u8],
    function: &'a Function,
) -> (Result<ir::Function, Vec<Unsupported>>, usize) {
    let mut lowering = Lowering::new(chunk, bindings);
    lowering.code.take_body(function.size);
    lowering.parameters(function);
    lowering.enter(function);
    lowering.block(&function.body);
    let work = lowering.code.work();
    (lowering.finish(name.to_vec()), work)
}

impl<'a> Lowering<'a> {
    fn new(chunk: &'a Chunk, bindings: Bindings<'a>) -> Self {
        Self {
            chunk,
            bindings,
            code: Code::default(),
            problems: Vec::new(),
            loops: Vec::new(),
            inlined: Vec::new(),
            minus_zero: chunk.minus_zero,
            results: Results::Reply,
            returns_nothing: false,
        }
    }

    /// Redis calls a function with two tables: of keys, and of arguments.
    fn parameters(&mut self, function: &'a Function) {
        self.code.line = function.line;
        if function.takes_more {
            self.problems.push(Unsupported::left(function.line, "..."));
        }
        let tables = [Words::Keys, Words::Arguments].map(Some).into_iter();
        let tables = tables.chain(std::iter::repeat(None));
        for (parameter, words) in function.parameters.iter().zip(tables) {
            match words {
                Some(_) if self.is_assigned(*parameter) => {
                    let name = &self.chunk.variables[parameter.0].name;
                    let problem = Unsupported::assigned(function.line, name);
                    self.problems.push(problem);
                }
                Some(words) => self.bindings.set(*parameter, Binding::Words(words)),
                None => self.declare_nil(*parameter),
            }
        }
    }

    /// A function that gets to its end returns nothing.
    fn finish(mut self, name: Vec<u8>) -> Result<ir::Function, Vec<Unsupported>> {
        self.code.emit(Operation::Return(Operand::Nil));
        self.problems.sort();
        self.problems.dedup();
        if let (true, Some(line)) = (self.problems.is_empty(), self.minus_zero) {
            self.problems
                .push(Unsupported::new(line, "-0 is no integer"));
        }
        if !self.problems.is_empty() {
            return Err(self.problems);
        }
        self.code.finish(name).map_err(|problem| vec![problem])
    }

    /// Its body is looked at.
    fn enter(&mut self, function: &'a Function) {
        self.minus_zero = self.minus_zero.or(function.minus_zero);
        self.inlined.push(function);
    }

    /// Is there an assignment to it apart from its declaration?
    fn is_assigned(&self, variable: VariableId) -> bool {
        self.chunk.variables[variable.0].assigned
    }

    /// The line of what is lowered by `part` is that of the expression.
    fn at<T>(&mut self, expression: &Expression, part: impl FnOnce(&mut Self) -> T) -> T {
        let around = std::mem::replace(&mut self.code.line, expression.line);
        let lowered = part(self);
        self.code.line = around;
        lowered
    }
}
