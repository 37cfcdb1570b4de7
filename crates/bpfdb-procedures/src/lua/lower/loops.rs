//! Loops. All of them have the form
//!
//! ```text
//!   head:
//!     leave, if it is over: jump end
//!     …
//!     fuel
//!     jump head
//!   end:
//! ```

use super::super::constants::{constant, within_limits};
use super::super::syntax::{Block, Expression, ExpressionKind, For, ForEach, VariableId};
use super::super::unsupported::Unsupported;
use super::expressions::is_number;
use super::{Lowered, Lowering};
use crate::ir::{Arithmetic, Comparison, Condition, Label, Operand, Operation, Register, Words};

impl<'a> Lowering<'a> {
    pub(super) fn while_loop(&mut self, condition: &'a Expression, body: &'a Block) -> Lowered<()> {
        let end = self.code.label();
        let head = self.code.place_head();
        let outcome = self.jump(condition, false, end);
        self.body(body, end);
        self.code.repeat(head);
        self.code.place(end);
        outcome
    }

    pub(super) fn repeat_loop(&mut self, body: &'a Block, until: &'a Expression) -> Lowered<()> {
        let end = self.code.label();
        let head = self.code.place_head();
        self.body(body, end);
        let outcome = self.jump(until, true, end);
        self.code.repeat(head);
        self.code.place(end);
        outcome
    }

    /// `break` in there leads to `end`.
    fn body(&mut self, body: &'a Block, end: Label) {
        let line = self.code.line;
        self.loops.push(end);
        self.block(body);
        self.loops.pop();
        self.code.line = line;
    }

    pub(super) fn break_loop(&mut self, line: u32) -> Lowered<()> {
        let end = self.loops.last().copied();
        let end = end.ok_or_else(|| Unsupported::new(line, "no loop is around break"))?;
        self.code.jump(end);
        Ok(())
    }

    pub(super) fn for_loop(&mut self, numeric: &'a For) -> Lowered<()> {
        let counter = self.counter(numeric.variable);
        let outcome = self.bounds(counter, numeric);
        let (last, step) = match &outcome {
            Ok((last, step)) => (last.clone(), *step),
            // The body is looked at too.
            Err(_) => (Operand::Integer(0), 1),
        };
        let within = match step > 0 {
            true => Comparison::LessOrEqual,
            false => Comparison::GreaterOrEqual,
        };
        let end = self.code.label();
        let head = self.code.place_head();
        self.leave_behind(counter, within, last, end);
        self.round(counter, numeric.variable);
        self.body(&numeric.body, end);
        self.count(counter, step);
        self.code.repeat(head);
        self.code.place(end);
        outcome.map(drop)
    }

    /// Sets the counter to the first value. Returns the last one, and the step.
    fn bounds(&mut self, counter: Register, numeric: &'a For) -> Lowered<(Operand, i64)> {
        self.number_to(&numeric.first, counter)?;
        let step = self.step(numeric)?;
        self.step_back(counter, numeric, step)?;
        let last = match constant(&numeric.last, &self.bindings) {
            Some(Operand::Integer(last)) => Operand::Integer(last),
            _ => {
                let register = self.code.temporary();
                self.number_to(&numeric.last, register)?;
                Operand::Register(register)
            }
        };
        Ok((last, step))
    }

    /// Lua begins with `first - step + step`. So both must be whole numbers within 2^53, or else that
    /// may be another one.
    fn step_back(&mut self, counter: Register, numeric: &For, step: i64) -> Lowered<()> {
        if let Some(Operand::Integer(first)) = constant(&numeric.first, &self.bindings) {
            let reason = "a loop begins at a number that is too large";
            return match within_limits(first - step) {
                Some(_) => Ok(()),
                None => Err(Unsupported::new(numeric.first.line, reason)),
            };
        }
        self.count(counter, -step);
        self.count(counter, step);
        Ok(())
    }

    fn step(&self, numeric: &For) -> Lowered<i64> {
        let Some(step) = &numeric.step else {
            return Ok(1);
        };
        match constant(step, &self.bindings) {
            Some(Operand::Integer(step)) if step != 0 => Ok(step),
            _ => Err(Unsupported::new(
                step.line,
                "the step of a loop is no literal",
            )),
        }
    }

    /// `for` takes strings that are numbers.
    fn number_to(&mut self, expression: &'a Expression, to: Register) -> Lowered<()> {
        if is_number(expression) {
            return self.value_to(expression, to);
        }
        let value = self.value(expression)?;
        match value {
            Operand::Integer(_) => self.code.copy(to, value),
            _ => self.code.emit(Operation::ToNumber(to, value)),
        }
        Ok(())
    }

    /// `for i, word in ipairs(KEYS)`: none of them is nil.
    pub(super) fn for_each_loop(&mut self, line: u32, each: &'a ForEach) -> Lowered<()> {
        let Some(words) = self.ipairs(&each.values) else {
            let reason = "a loop over anything but ipairs of keys or arguments";
            self.look_at_body(each);
            return Err(Unsupported::left(line, reason));
        };
        let Some((&index, others)) = each.variables.split_first() else {
            return Ok(());
        };
        let counter = self.counter(index);
        let last = self.code.temporary();
        self.code.copy(counter, Operand::Integer(1));
        self.code.emit(Operation::Count(last, words));
        let end = self.code.label();
        let head = self.code.place_head();
        self.leave_behind(
            counter,
            Comparison::LessOrEqual,
            Operand::Register(last),
            end,
        );
        self.round(counter, index);
        self.words_of_round(counter, words, others);
        self.body(&each.body, end);
        self.count(counter, 1);
        self.code.repeat(head);
        self.code.place(end);
        Ok(())
    }

    /// The table, if this is `ipairs` of keys or arguments, and of nothing that would have to be
    /// evaluated besides.
    fn ipairs(&self, values: &[Expression]) -> Option<Words> {
        let [value] = values else {
            return None;
        };
        let ExpressionKind::Call(callee, arguments) = &value.kind else {
            return None;
        };
        let [of] = arguments.as_slice() else {
            return None;
        };
        let is_it = self.bindings.library(callee).as_deref() == Some("ipairs");
        self.bindings.words(of).filter(|_| is_it)
    }

    /// The variables behind the first: one has the word, others have nothing.
    fn words_of_round(&mut self, counter: Register, words: Words, variables: &[VariableId]) {
        for (place, variable) in variables.iter().enumerate() {
            if place > 0 {
                self.declare_nil(*variable);
                continue;
            }
            let to = self.variable(*variable);
            let index = Operand::Register(counter);
            self.code.emit(Operation::Word(to, words, index));
        }
    }

    /// For more reasons.
    fn look_at_body(&mut self, each: &'a ForEach) {
        for variable in &each.variables {
            self.declare_nil(*variable);
        }
        let end = self.code.label();
        self.body(&each.body, end);
        self.code.place(end);
    }

    /// Leaves a loop when the counter has passed the last value.
    fn leave_behind(&mut self, counter: Register, within: Comparison, last: Operand, end: Label) {
        let goes_on = Condition::Not(Operand::Register(counter), within, last);
        self.code.jump_if(goes_on, end);
    }

    /// What a loop counts with: the variable, unless the body assigns to that.
    fn counter(&mut self, variable: VariableId) -> Register {
        match self.is_assigned(variable) {
            true => self.code.temporary(),
            false => self.variable(variable),
        }
    }

    /// The variable of a new round.
    fn round(&mut self, counter: Register, variable: VariableId) {
        if self.is_assigned(variable) {
            let register = self.variable(variable);
            self.code.copy(register, Operand::Register(counter));
        }
    }

    fn count(&mut self, counter: Register, step: i64) {
        self.code.emit(Operation::Arithmetic(
            counter,
            Arithmetic::Add,
            Operand::Register(counter),
            Operand::Integer(step),
        ));
    }
}
