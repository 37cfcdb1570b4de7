//! Calls of local functions: the body stands in the place of the call.
//!
//! A function sees the variables around it. As a call can only be where the function is seen,
//! these have the values that they have in Lua. A function that assigns to one of them is
//! unsupported, so operands of an expression around the call stay what they were.
//!
//! Lua distinguishes nothing from nil: `tonumber()` is an error, and `tonumber(nil)` is nil. Whether a
//! function may return nothing is known when it was put in: what it calls may be a parameter.

use super::super::syntax::{Expression, ExpressionKind, Function};
use super::super::unsupported::Unsupported;
use super::{Binding, Lowered, Lowering, Results};
use crate::ir::{Operand, Register};

/// Bodies in each other, with that of the function that is registered.
const DEPTH_MAX: usize = 8;

impl<'a> Lowering<'a> {
    pub(super) fn local_function(&self, callee: &Expression) -> Option<&'a Function> {
        match &callee.kind {
            ExpressionKind::Local(id) => match self.bindings.get(*id)? {
                Binding::Function(function) => Some(*function),
                _ => None,
            },
            _ => None,
        }
    }

    pub(super) fn is_local_call(&self, expression: &Expression) -> bool {
        match &expression.kind {
            ExpressionKind::Call(callee, _) => self.local_function(callee).is_some(),
            _ => false,
        }
    }

    /// `return f(…)`: the function's `return` is ours.
    pub(super) fn tail_call(&mut self, call: &'a Expression) -> Lowered<()> {
        if let ExpressionKind::Call(callee, arguments) = &call.kind
            && let Some(function) = self.local_function(callee)
        {
            self.inline(callee, function, arguments, self.results)?;
            self.return_one(Operand::Nil);
        }
        Ok(())
    }

    /// The value of a call; false: it may have none.
    pub(super) fn call_local(
        &mut self,
        callee: &Expression,
        function: &'a Function,
        arguments: &'a [Expression],
        to: Option<Register>,
    ) -> Lowered<(Operand, bool)> {
        let (to, end) = (self.target(to), self.code.label());
        let has_value = self.inline(callee, function, arguments, Results::Value { to, end })?;
        self.code.copy(to, Operand::Nil);
        self.code.place(end);
        Ok((Operand::Register(to), has_value))
    }

    /// The body, with `return` leading to `results`. Its end is where we are afterwards. False:
    /// it may return nothing.
    fn inline(
        &mut self,
        callee: &Expression,
        function: &'a Function,
        arguments: &'a [Expression],
        results: Results,
    ) -> Lowered<bool> {
        let mut values = Vec::new();
        for argument in arguments {
            values.push(self.known_or_value(argument)?);
        }
        self.check_inline(callee.line, function)?;
        self.code.take_body(function.size);
        self.bind_parameters(function, values);
        let line = self.code.line;
        let loops = std::mem::take(&mut self.loops);
        let outer = std::mem::replace(&mut self.results, results);
        let around = std::mem::replace(&mut self.returns_nothing, false);
        self.enter(function);
        self.block(&function.body);
        self.inlined.pop();
        self.note_nothing();
        let returns_nothing = std::mem::replace(&mut self.returns_nothing, around);
        self.results = outer;
        self.loops = loops;
        self.code.line = line;
        Ok(!returns_nothing)
    }

    fn check_inline(&self, line: u32, function: &Function) -> Lowered<()> {
        if function.takes_more {
            return Err(Unsupported::left(function.line, "..."));
        }
        let is_same = |other: &&Function| std::ptr::eq(*other, function);
        if self.inlined.iter().any(is_same) {
            return Err(Unsupported::new(line, "a function calls itself"));
        }
        if self.inlined.len() >= DEPTH_MAX {
            let reason = format!("functions call each other more than {DEPTH_MAX} deep");
            return Err(Unsupported::new(line, reason));
        }
        Ok(())
    }

    /// A parameter that is never assigned to is what was given.
    fn bind_parameters(&mut self, function: &'a Function, values: Vec<Binding<'a>>) {
        let missing = std::iter::repeat_with(|| Binding::Value(Operand::Nil));
        let values = values.into_iter().chain(missing);
        for (parameter, value) in function.parameters.iter().zip(values) {
            match value {
                value if !self.is_assigned(*parameter) => self.bindings.set(*parameter, value),
                Binding::Value(value) => {
                    let register = self.variable(*parameter);
                    self.code.copy(register, value);
                }
                _ => {
                    self.declare_nil(*parameter);
                    let name = &self.chunk.variables[parameter.0].name;
                    self.problems
                        .push(Unsupported::assigned(function.line, name));
                }
            }
        }
    }
}
