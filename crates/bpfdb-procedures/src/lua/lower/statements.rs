//! Statements. One that is unsupported does not keep the next ones from being looked at.

use super::super::syntax::{
    Binary, Block, Expression, ExpressionKind, Statement, StatementKind, Target, Unary, VariableId,
};
use super::super::unsupported::Unsupported;
use super::{Binding, Lowered, Lowering};
use crate::ir::{Operand, Operation, Register};

impl<'a> Lowering<'a> {
    pub(super) fn block(&mut self, block: &'a Block) {
        for statement in block {
            if self.code.is_too_long() {
                return;
            }
            self.code.line = statement.line;
            if let Err(problem) = self.statement(statement) {
                self.problems.push(problem);
            }
        }
    }

    fn statement(&mut self, statement: &'a Statement) -> Lowered<()> {
        let line = statement.line;
        match &statement.kind {
            StatementKind::Local(names, values) => self.local(names, values),
            StatementKind::LocalFunction(name, function) if self.is_assigned(*name) => {
                self.declare_nil(*name);
                let name = &self.chunk.variables[name.0].name;
                Err(Unsupported::assigned(function.line, name))
            }
            StatementKind::LocalFunction(name, function) => {
                self.bindings.set(*name, Binding::Function(function));
                Ok(())
            }
            StatementKind::Assign(targets, values) => self.assign(line, targets, values),
            StatementKind::Call(call) => self.value(call).map(drop),
            StatementKind::Do(block) => {
                self.block(block);
                Ok(())
            }
            StatementKind::If(branches, otherwise) => self.branches(branches, otherwise),
            StatementKind::While(condition, body) => self.while_loop(condition, body),
            StatementKind::Repeat(body, until) => self.repeat_loop(body, until),
            StatementKind::For(numeric) => self.for_loop(numeric),
            StatementKind::ForEach(each) => self.for_each_loop(line, each),
            StatementKind::Break => self.break_loop(line),
            StatementKind::Return(values) => self.return_values(values),
            StatementKind::Unsupported(reason) => Err(Unsupported::new(line, reason)),
        }
    }

    /// Its values cannot see the new variables, so each may be declared at once.
    fn local(&mut self, names: &'a [VariableId], values: &'a [Expression]) -> Lowered<()> {
        let mut outcome = Ok(());
        for (place, name) in names.iter().enumerate() {
            let declared = match values.get(place) {
                Some(value) => self.declare(*name, value),
                None => {
                    self.declare_nil(*name);
                    Ok(())
                }
            };
            if declared.is_err() {
                // What uses it is looked at too.
                self.declare_nil(*name);
            }
            outcome = outcome.and(declared);
        }
        for value in values.iter().skip(names.len()) {
            self.value(value)?;
        }
        outcome
    }

    fn declare(&mut self, name: VariableId, value: &'a Expression) -> Lowered<()> {
        if !self.is_assigned(name) {
            let known = match self.bindings.known(value) {
                Some(known) => Some(known),
                None => self.table(value)?.map(Binding::Table),
            };
            if let Some(known) = known {
                self.bindings.set(name, known);
                return Ok(());
            }
        } else if let ExpressionKind::Function(function) = &value.kind {
            let name = &self.chunk.variables[name.0].name;
            return Err(Unsupported::assigned(function.line, name));
        }
        let register = self.variable(name);
        self.value_to(value, register)
    }

    /// A register for a variable, which has no value yet.
    pub(super) fn variable(&mut self, name: VariableId) -> Register {
        let variable = &self.chunk.variables[name.0];
        let register = self.code.variable(&variable.name, variable.assigned);
        let value = Binding::Value(Operand::Register(register));
        self.bindings.set(name, value);
        register
    }

    pub(super) fn declare_nil(&mut self, name: VariableId) {
        let register = self.variable(name);
        self.code.copy(register, Operand::Nil);
    }

    fn assign(
        &mut self,
        line: u32,
        targets: &'a [Target],
        values: &'a [Expression],
    ) -> Lowered<()> {
        let registers = targets
            .iter()
            .map(|target| self.assigned_register(line, target))
            .collect::<Lowered<Vec<_>>>()?;
        match (registers.as_slice(), values) {
            (&[register], [value]) => self.assign_one(register, value),
            (registers, values) => self.assign_all(registers, values),
        }
    }

    fn assigned_register(&self, line: u32, target: &Target) -> Lowered<Register> {
        match target {
            Target::Global(name) => Err(Unsupported::global(line, name)),
            Target::Element => Err(Unsupported::new(line, "a table is changed")),
            Target::Outer(id) => {
                let name = &self.chunk.variables[id.0].name;
                let reason = format!("{name} of an outer function is assigned to");
                Err(Unsupported::new(line, reason))
            }
            Target::Local(id) => match self.bindings.get(*id) {
                Some(Binding::Value(Operand::Register(register))) => Ok(*register),
                _ => {
                    let name = &self.chunk.variables[id.0].name;
                    Err(Unsupported::assigned(line, name))
                }
            },
        }
    }

    fn assign_one(&mut self, register: Register, value: &'a Expression) -> Lowered<()> {
        // The variable may be read in the expression.
        let to = self.writes_last(value).then_some(register);
        let value = self.value_in(value, to)?;
        self.code.copy(register, value);
        Ok(())
    }

    /// All values are evaluated before the first is assigned. Lua assigns the last one first.
    fn assign_all(&mut self, registers: &[Register], values: &'a [Expression]) -> Lowered<()> {
        let mut operands = Vec::new();
        for value in values {
            let operand = self.value(value)?;
            operands.push(match operand {
                Operand::Register(register) if registers.contains(&register) => {
                    self.compute(None, |to| Operation::Move(to, operand))
                }
                operand => operand,
            });
        }
        operands.resize(registers.len().max(operands.len()), Operand::Nil);
        for (register, operand) in registers.iter().zip(operands).rev() {
            self.code.copy(*register, operand);
        }
        Ok(())
    }

    fn branches(
        &mut self,
        branches: &'a [(Expression, Block)],
        otherwise: &'a Block,
    ) -> Lowered<()> {
        let end = self.code.label();
        let mut outcome = Ok(());
        for (condition, block) in branches {
            let next = self.code.label();
            self.code.line = condition.line;
            outcome = outcome.and(self.jump(condition, false, next));
            self.block(block);
            self.code.jump(end);
            self.code.place(next);
        }
        self.block(otherwise);
        self.code.place(end);
        outcome
    }

    /// Is everything read before the value is put into its place?
    fn writes_last(&self, value: &Expression) -> bool {
        match &value.kind {
            ExpressionKind::Unary(Unary::Minus | Unary::Length, _)
            | ExpressionKind::Binary(Binary::Arithmetic(_) | Binary::Concatenate, ..)
            | ExpressionKind::Index(..) => true,
            ExpressionKind::Call(callee, _) => self.is_command(callee),
            _ => false,
        }
    }
}
