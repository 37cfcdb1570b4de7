//! Calls of functions that Redis and Lua give.

use super::super::syntax::{Binary, Expression, ExpressionKind};
use super::super::unsupported::{CLOSURES, Unsupported};
use super::{Lowered, Lowering};
use crate::ir::{Arithmetic, Comparison, Condition, Operand, Operation, Register};

impl<'a> Lowering<'a> {
    pub(super) fn call(
        &mut self,
        callee: &'a Expression,
        arguments: &'a [Expression],
        to: Option<Register>,
    ) -> Lowered<Operand> {
        if let Some(function) = self.local_function(callee) {
            let call = self.call_local(callee, function, arguments, to);
            return call.map(|(value, _)| value);
        }
        let Some(path) = self.bindings.library(callee) else {
            return Err(self.no_function(callee));
        };
        let line = callee.line;
        let one = || match arguments {
            [argument] => Ok(argument),
            _ => Err(wrong_count(line, &path)),
        };
        match path.as_str() {
            "redis.call" | "redis.pcall" => self.command(line, arguments, to),
            "redis.error_reply" => self.error_reply(one()?, to),
            "redis.status_reply" => self.status(one()?, to),
            "tonumber" => self.number(line, arguments, to),
            "tostring" => self.unary(one()?, to, Operation::ToText),
            "math.floor" => self.rounded(Arithmetic::FloorDivide, one()?, to),
            "math.ceil" => self.rounded(Arithmetic::CeilDivide, one()?, to),
            "math.abs" => self.absolute(one()?, to),
            "math.min" => self.extreme(line, Arithmetic::Minimum, arguments, to),
            "math.max" => self.extreme(line, Arithmetic::Maximum, arguments, to),
            "string.len" => self.unary(one()?, to, Operation::Length),
            "string.sub" => match arguments {
                [text, range @ ..] => {
                    let text = self.value(text)?;
                    self.part(line, text, range, to)
                }
                [] => Err(wrong_count(line, &path)),
            },
            _ => Err(Unsupported::left(line, path)),
        }
    }

    /// A value; false: Lua may have none, because it is what a function returns.
    pub(super) fn value_if_any(
        &mut self,
        expression: &'a Expression,
        to: Option<Register>,
    ) -> Lowered<(Operand, bool)> {
        if let ExpressionKind::Call(callee, arguments) = &expression.kind
            && let Some(function) = self.local_function(callee)
        {
            return self.at(expression, |lowering| {
                lowering.call_local(callee, function, arguments, to)
            });
        }
        Ok((self.value_in(expression, to)?, true))
    }

    fn no_function(&self, callee: &Expression) -> Unsupported {
        match &callee.kind {
            ExpressionKind::Global(name) => Unsupported::global(callee.line, name),
            ExpressionKind::Local(id) => {
                let name = &self.chunk.variables[id.0].name;
                Unsupported::left(callee.line, format!("a call of the variable {name}"))
            }
            ExpressionKind::Index(of, _) => match &of.kind {
                ExpressionKind::Global(name) if self.bindings.library(of).is_none() => {
                    Unsupported::global(of.line, name)
                }
                _ => Unsupported::left(callee.line, "a call of a table's element"),
            },
            _ => Unsupported::new(callee.line, CLOSURES),
        }
    }

    fn unary(
        &mut self,
        operand: &'a Expression,
        to: Option<Register>,
        operation: impl FnOnce(Register, Operand) -> Operation,
    ) -> Lowered<Operand> {
        let operand = self.value(operand)?;
        Ok(self.compute(to, |to| operation(to, operand)))
    }

    fn number(
        &mut self,
        line: u32,
        arguments: &'a [Expression],
        to: Option<Register>,
    ) -> Lowered<Operand> {
        match arguments {
            [value] => match self.value_if_any(value, None)? {
                (value, true) => Ok(self.compute(to, |to| Operation::ToNumber(to, value))),
                (_, false) => Err(Unsupported::left(
                    line,
                    "tonumber of a function that may return nothing",
                )),
            },
            [value, base] => {
                let value = self.value(value)?;
                if self.value(base)? != Operand::Integer(10) {
                    return Err(Unsupported::left(line, "tonumber with a base"));
                }
                Ok(self.compute(to, |to| Operation::ToNumber(to, value)))
            }
            _ => Err(wrong_count(line, "tonumber")),
        }
    }

    /// A quotient that is rounded so; anything else is whole, or the interpreter's.
    fn rounded(
        &mut self,
        division: Arithmetic,
        operand: &'a Expression,
        to: Option<Register>,
    ) -> Lowered<Operand> {
        match &operand.kind {
            ExpressionKind::Binary(Binary::Arithmetic(Arithmetic::Divide), left, right) => {
                self.arithmetic(division, left, right, to)
            }
            _ => self.unary(operand, to, Operation::Whole),
        }
    }

    fn absolute(&mut self, operand: &'a Expression, to: Option<Register>) -> Lowered<Operand> {
        let operand = self.value(operand)?;
        let (to, end) = (self.target(to), self.code.label());
        let value = Operand::Register(to);
        self.code.emit(Operation::ToNumber(to, operand));
        let is_positive = Condition::Not(value.clone(), Comparison::Less, Operand::Integer(0));
        self.code.jump_if(is_positive, end);
        self.code.emit(Operation::Negate(to, value.clone()));
        self.code.place(end);
        Ok(value)
    }

    /// `math.min`, `math.max`
    fn extreme(
        &mut self,
        line: u32,
        operation: Arithmetic,
        arguments: &'a [Expression],
        to: Option<Register>,
    ) -> Lowered<Operand> {
        let values = arguments.iter().map(|argument| self.value(argument));
        let values = values.collect::<Lowered<Vec<_>>>()?;
        let Some((first, rest)) = values.split_first() else {
            return Err(wrong_count(line, "math.min and math.max"));
        };
        let Some((last, between)) = rest.split_last() else {
            return Ok(self.compute(to, |to| Operation::Whole(to, first.clone())));
        };
        let mut so_far = first.clone();
        for value in between {
            so_far = self.compute(None, |to| {
                Operation::Arithmetic(to, operation, so_far, value.clone())
            });
        }
        Ok(self.compute(to, |to| {
            Operation::Arithmetic(to, operation, so_far, last.clone())
        }))
    }

    /// `text:name(…)`. Unlike `string.sub(text)`, it is an error for a number, as `#` is.
    pub(super) fn method(
        &mut self,
        of: &'a Expression,
        name: &str,
        arguments: &'a [Expression],
        to: Option<Register>,
    ) -> Lowered<Operand> {
        let line = of.line;
        match (name, arguments) {
            ("len", []) => self.unary(of, to, Operation::Length),
            ("sub", range) => {
                let text = self.value(of)?;
                // A word is a string, or nil, of which there is no part either.
                if !is_text(of) && !matches!(text, Operand::Text(_) | Operand::Word(..)) {
                    let text = text.clone();
                    self.compute(None, |to| Operation::Length(to, text));
                }
                self.part(line, text, range, to)
            }
            _ => Err(Unsupported::left(line, format!("the method {name}"))),
        }
    }

    fn part(
        &mut self,
        line: u32,
        text: Operand,
        range: &'a [Expression],
        to: Option<Register>,
    ) -> Lowered<Operand> {
        let (first, last) = match range {
            [first] => (self.value(first)?, Operand::Integer(-1)),
            [first, last] => (self.value(first)?, self.value(last)?),
            _ => return Err(wrong_count(line, "string.sub")),
        };
        Ok(self.compute(to, |to| Operation::Part(to, text, first, last)))
    }
}

fn is_text(expression: &Expression) -> bool {
    matches!(
        expression.kind,
        ExpressionKind::Binary(Binary::Concatenate, ..)
    )
}

fn wrong_count(line: u32, path: &str) -> Unsupported {
    Unsupported::left(line, format!("{path} with so many arguments"))
}
