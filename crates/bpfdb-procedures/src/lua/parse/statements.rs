//! Statements and blocks.

use full_moon::ast;

use super::super::syntax::{
    Block, Expression, For, ForEach, Function, Statement, StatementKind, Target,
};
use super::super::unsupported::NOT_LUA;
use super::scopes::Scopes;
use super::{line_of, list, name_of, size_of};

impl Scopes {
    pub(super) fn block(&mut self, block: &ast::Block) -> Block {
        self.scope(|scopes| scopes.statements(block))
    }

    fn statements(&mut self, block: &ast::Block) -> Block {
        let mut all: Block = Vec::new();
        for statement in block.stmts() {
            let line = line_of(statement);
            let kind = self.statement(statement);
            all.push(Statement { line, kind });
        }
        if let Some(last) = block.last_stmt() {
            let line = line_of(last);
            let kind = self.last(last);
            all.push(Statement { line, kind });
        }
        all
    }

    fn last(&mut self, last: &ast::LastStmt) -> StatementKind {
        match last {
            ast::LastStmt::Break(_) => StatementKind::Break,
            ast::LastStmt::Return(values) => {
                StatementKind::Return(self.expressions(values.returns()))
            }
            _ => StatementKind::Unsupported(NOT_LUA.into()),
        }
    }

    fn statement(&mut self, statement: &ast::Stmt) -> StatementKind {
        match statement {
            ast::Stmt::Assignment(assignment) => self.assignment(assignment),
            ast::Stmt::Do(block) => StatementKind::Do(self.block(block.block())),
            ast::Stmt::FunctionCall(call) => StatementKind::Call(self.call(call)),
            ast::Stmt::FunctionDeclaration(declaration) => self.function_declaration(declaration),
            ast::Stmt::GenericFor(each) => self.for_each(each),
            ast::Stmt::If(branches) => self.branches(branches),
            ast::Stmt::LocalAssignment(local) => self.local(local),
            ast::Stmt::LocalFunction(local) => self.local_function(local),
            ast::Stmt::NumericFor(numeric) => self.numeric_for(numeric),
            ast::Stmt::Repeat(repeat) => self.repeat(repeat),
            ast::Stmt::While(repeat) => {
                let condition = self.expression(repeat.condition());
                StatementKind::While(condition, self.block(repeat.block()))
            }
            _ => StatementKind::Unsupported(NOT_LUA.into()),
        }
    }

    /// The values are read first: a new variable is not seen in its own value.
    fn local(&mut self, local: &ast::LocalAssignment) -> StatementKind {
        let values = self.expressions(local.expressions());
        let names = list(local.names()).map(name_of).collect::<Vec<_>>();
        let variables = names.into_iter().map(|name| self.declare(name)).collect();
        StatementKind::Local(variables, values)
    }

    /// Its name is seen in its own body.
    fn local_function(&mut self, local: &ast::LocalFunction) -> StatementKind {
        let variable = self.declare(name_of(local.name()));
        let line = line_of(local);
        StatementKind::LocalFunction(variable, self.function_body(line, local.body()))
    }

    fn function_declaration(&mut self, declaration: &ast::FunctionDeclaration) -> StatementKind {
        let names = list(declaration.name().names())
            .map(name_of)
            .collect::<Vec<_>>();
        let plain = names.len() == 1 && declaration.name().method_name().is_none();
        let target = names.into_iter().next().filter(|_| plain);
        let target = target.map(|name| (self.assign(name.clone()), name));
        // For the assignments in it: it may be called while the library is loaded.
        self.function_body(line_of(declaration), declaration.body());
        StatementKind::Unsupported(match target {
            None => "a table is changed".into(),
            Some((Target::Global(_), name)) => format!("{name} is a global variable"),
            Some((_, name)) => format!("the variable {name} is assigned a function"),
        })
    }

    fn assignment(&mut self, assignment: &ast::Assignment) -> StatementKind {
        // Lua's order: what comes first decides whether its zeros are -0.
        let targets = list(assignment.variables()).map(|target| self.target(target));
        let targets = targets.collect();
        StatementKind::Assign(targets, self.expressions(assignment.expressions()))
    }

    fn target(&mut self, target: &ast::Var) -> Target {
        if let ast::Var::Name(name) = target {
            return self.assign(name_of(name));
        }
        // For the assignments in it: a table and an index may be what functions return.
        self.variable(target);
        Target::Element
    }

    fn branches(&mut self, branches: &ast::If) -> StatementKind {
        let first = (branches.condition(), branches.block());
        let others = branches.else_if().into_iter().flatten();
        let others = others.map(|branch| (branch.condition(), branch.block()));
        let mut all: Vec<(Expression, Block)> = Vec::new();
        for (condition, block) in std::iter::once(first).chain(others) {
            let condition = self.expression(condition);
            all.push((condition, self.block(block)));
        }
        let otherwise = branches.else_block().map(|block| self.block(block));
        StatementKind::If(all, otherwise.unwrap_or_default())
    }

    /// The condition sees the variables of the body.
    fn repeat(&mut self, repeat: &ast::Repeat) -> StatementKind {
        self.scope(|scopes| {
            let body = scopes.statements(repeat.block());
            StatementKind::Repeat(body, scopes.expression(repeat.until()))
        })
    }

    fn numeric_for(&mut self, numeric: &ast::NumericFor) -> StatementKind {
        let first = self.expression(numeric.start());
        let last = self.expression(numeric.end());
        let step = numeric.step().map(|step| self.expression(step));
        self.scope(|scopes| {
            StatementKind::For(For {
                variable: scopes.declare(name_of(numeric.index_variable())),
                first,
                last,
                step,
                body: scopes.block(numeric.block()),
            })
        })
    }

    fn for_each(&mut self, each: &ast::GenericFor) -> StatementKind {
        let values = self.expressions(each.expressions());
        self.scope(|scopes| {
            let names = list(each.names()).map(name_of);
            StatementKind::ForEach(ForEach {
                variables: names.map(|name| scopes.declare(name)).collect(),
                values,
                body: scopes.block(each.block()),
            })
        })
    }

    pub(super) fn function_body(&mut self, line: u32, body: &ast::FunctionBody) -> Function {
        let around = self.minus_zero.take();
        let function = self.function(|scopes| {
            let mut parameters = Vec::new();
            let mut takes_more = false;
            for parameter in list(body.parameters()) {
                match parameter {
                    ast::Parameter::Name(name) => parameters.push(scopes.declare(name_of(name))),
                    _ => takes_more = true,
                }
            }
            let block = scopes.block(body.block());
            Function {
                line,
                parameters,
                takes_more,
                minus_zero: scopes.minus_zero,
                size: size_of(body),
                body: block,
            }
        });
        self.minus_zero = around;
        function
    }
}
