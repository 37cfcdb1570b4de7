//! Expressions.

use full_moon::ast;
use full_moon::tokenizer::{Symbol, TokenReference, TokenType};

use super::super::syntax::{Binary, Expression, ExpressionKind, Field, Unary};
use super::super::unsupported::NOT_LUA;
use super::folding::{self, Folded};
use super::scopes::Scopes;
use super::{line_of, list, literals, name_of};
use crate::ir::{Arithmetic, Comparison};

impl Scopes {
    pub(super) fn expressions(
        &mut self,
        all: &ast::punctuated::Punctuated<ast::Expression>,
    ) -> Vec<Expression> {
        list(all).map(|one| self.expression(one)).collect()
    }

    pub(super) fn expression(&mut self, expression: &ast::Expression) -> Expression {
        self.folded(expression).0
    }

    /// And what Lua makes of its literals.
    fn folded(&mut self, expression: &ast::Expression) -> (Expression, Folded) {
        let line = line_of(expression);
        match expression {
            // They only limit a call to one value, and ours have no more.
            ast::Expression::Parentheses { expression, .. } => self.folded(expression),
            ast::Expression::BinaryOperator { lhs, binop, rhs } => {
                let (kind, folded) = self.binary(lhs, binop, rhs);
                (Expression { line, kind }, self.noted(line, folded))
            }
            ast::Expression::UnaryOperator { unop, expression } => {
                let (kind, folded) = self.unary(unop, expression);
                (Expression { line, kind }, self.noted(line, folded))
            }
            ast::Expression::Number(token) => {
                let kind = number(token);
                let folded = match kind {
                    ExpressionKind::Integer(value) => Folded::Number(value as f64),
                    _ => fraction(token),
                };
                (Expression { line, kind }, folded)
            }
            ast::Expression::String(_) | ast::Expression::Symbol(_) => {
                (self.unfolded(line, expression), Folded::Constant)
            }
            _ => (self.unfolded(line, expression), Folded::No),
        }
    }

    fn noted(&mut self, line: u32, folded: Folded) -> Folded {
        if folded.may_be_minus_zero() {
            self.minus_zero.get_or_insert(line);
        }
        folded
    }

    fn unfolded(&mut self, line: u32, expression: &ast::Expression) -> Expression {
        let kind = match expression {
            ast::Expression::FunctionCall(call) => return self.call(call),
            ast::Expression::Var(variable) => return self.variable(variable),
            ast::Expression::Function(function) => {
                ExpressionKind::Function(self.function_body(line, function.body()))
            }
            ast::Expression::TableConstructor(table) => self.table(table),
            ast::Expression::String(token) => string(token),
            ast::Expression::Symbol(token) => symbol(token),
            _ => ExpressionKind::Unsupported(NOT_LUA.into()),
        };
        Expression { line, kind }
    }

    fn unary(
        &mut self,
        operator: &ast::UnOp,
        operand: &ast::Expression,
    ) -> (ExpressionKind, Folded) {
        let operator = match operator {
            ast::UnOp::Minus(_) => Unary::Minus,
            ast::UnOp::Not(_) => Unary::Not,
            ast::UnOp::Hash(_) => Unary::Length,
            _ => return (ExpressionKind::Unsupported(NOT_LUA.into()), Folded::No),
        };
        let (operand, folded) = self.folded(operand);
        let kind = ExpressionKind::Unary(operator, Box::new(operand));
        (kind, folding::unary(operator, folded))
    }

    fn binary(
        &mut self,
        left: &ast::Expression,
        operator: &ast::BinOp,
        right: &ast::Expression,
    ) -> (ExpressionKind, Folded) {
        let (left, left_folded) = self.folded(left);
        let (right, right_folded) = self.folded(right);
        let known = binary_operator(operator);
        let kind = match known {
            Some(operator) => ExpressionKind::Binary(operator, Box::new(left), Box::new(right)),
            None => {
                let operator = operator.token().token();
                ExpressionKind::Unsupported(format!("{operator} is the interpreter's"))
            }
        };
        (kind, folding::binary(known, left_folded, right_folded))
    }

    fn table(&mut self, table: &ast::TableConstructor) -> ExpressionKind {
        let mut fields = Vec::new();
        for field in list(table.fields()) {
            fields.push(match field {
                ast::Field::NoKey(value) => Field::Positional(self.expression(value)),
                ast::Field::NameKey { key, value, .. } => {
                    Field::Named(name_as_text(key), self.expression(value))
                }
                ast::Field::ExpressionKey { key, value, .. } => {
                    let key = self.expression(key);
                    Field::Named(key, self.expression(value))
                }
                _ => return ExpressionKind::Unsupported(NOT_LUA.into()),
            });
        }
        ExpressionKind::Table(fields)
    }

    pub(super) fn variable(&mut self, variable: &ast::Var) -> Expression {
        match variable {
            ast::Var::Name(name) => self.name(name),
            ast::Var::Expression(path) => self.suffixed(path.prefix(), path.suffixes()),
            _ => Expression {
                line: line_of(variable),
                kind: ExpressionKind::Unsupported(NOT_LUA.into()),
            },
        }
    }

    fn name(&mut self, token: &TokenReference) -> Expression {
        let name = name_of(token);
        let kind = match self.find(&name) {
            Some(id) => ExpressionKind::Local(id),
            None => ExpressionKind::Global(name),
        };
        let line = line_of(token);
        Expression { line, kind }
    }

    pub(super) fn call(&mut self, call: &ast::FunctionCall) -> Expression {
        self.suffixed(call.prefix(), call.suffixes())
    }

    /// `prefix.name[index](arguments):method(arguments)`
    fn suffixed<'a>(
        &mut self,
        prefix: &ast::Prefix,
        suffixes: impl Iterator<Item = &'a ast::Suffix>,
    ) -> Expression {
        let mut inner = match prefix {
            ast::Prefix::Expression(expression) => self.expression(expression),
            ast::Prefix::Name(name) => self.name(name),
            _ => Expression {
                line: line_of(prefix),
                kind: ExpressionKind::Unsupported(NOT_LUA.into()),
            },
        };
        for suffix in suffixes {
            let line = inner.line;
            let kind = self.suffix(Box::new(inner), suffix);
            inner = Expression { line, kind };
        }
        inner
    }

    fn suffix(&mut self, of: Box<Expression>, suffix: &ast::Suffix) -> ExpressionKind {
        match suffix {
            ast::Suffix::Index(ast::Index::Brackets { expression, .. }) => {
                ExpressionKind::Index(of, Box::new(self.expression(expression)))
            }
            ast::Suffix::Index(ast::Index::Dot { name, .. }) => {
                ExpressionKind::Index(of, Box::new(name_as_text(name)))
            }
            ast::Suffix::Call(ast::Call::AnonymousCall(arguments)) => {
                ExpressionKind::Call(of, self.arguments(arguments))
            }
            ast::Suffix::Call(ast::Call::MethodCall(call)) => {
                let arguments = self.arguments(call.args());
                ExpressionKind::Method(of, name_of(call.name()), arguments)
            }
            _ => ExpressionKind::Unsupported(NOT_LUA.into()),
        }
    }

    fn arguments(&mut self, arguments: &ast::FunctionArgs) -> Vec<Expression> {
        let (line, kind) = match arguments {
            ast::FunctionArgs::Parentheses { arguments, .. } => return self.expressions(arguments),
            ast::FunctionArgs::String(token) => (line_of(token), string(token)),
            ast::FunctionArgs::TableConstructor(table) => {
                (line_of(table.as_ref()), self.table(table))
            }
            _ => {
                let kind = ExpressionKind::Unsupported(NOT_LUA.into());
                (line_of(arguments), kind)
            }
        };
        vec![Expression { line, kind }]
    }
}

fn binary_operator(operator: &ast::BinOp) -> Option<Binary> {
    Some(match operator {
        ast::BinOp::Plus(_) => Binary::Arithmetic(Arithmetic::Add),
        ast::BinOp::Minus(_) => Binary::Arithmetic(Arithmetic::Subtract),
        ast::BinOp::Star(_) => Binary::Arithmetic(Arithmetic::Multiply),
        ast::BinOp::Slash(_) => Binary::Arithmetic(Arithmetic::Divide),
        ast::BinOp::Percent(_) => Binary::Arithmetic(Arithmetic::Modulo),
        ast::BinOp::TwoEqual(_) => Binary::Comparison(Comparison::Equal),
        ast::BinOp::TildeEqual(_) => Binary::Comparison(Comparison::NotEqual),
        ast::BinOp::LessThan(_) => Binary::Comparison(Comparison::Less),
        ast::BinOp::LessThanEqual(_) => Binary::Comparison(Comparison::LessOrEqual),
        ast::BinOp::GreaterThan(_) => Binary::Comparison(Comparison::Greater),
        ast::BinOp::GreaterThanEqual(_) => Binary::Comparison(Comparison::GreaterOrEqual),
        ast::BinOp::TwoDots(_) => Binary::Concatenate,
        ast::BinOp::And(_) => Binary::And,
        ast::BinOp::Or(_) => Binary::Or,
        _ => return None,
    })
}

/// `.name` means `['name']`.
fn name_as_text(token: &TokenReference) -> Expression {
    Expression {
        line: line_of(token),
        kind: ExpressionKind::Text(name_of(token).into_bytes()),
    }
}

fn number(token: &TokenReference) -> ExpressionKind {
    let text = token.token().to_string();
    match literals::integer(&text) {
        Some(value) => ExpressionKind::Integer(value),
        None => ExpressionKind::Unsupported(format!("{text} is no whole number within ±2^53")),
    }
}

/// What is folded of a number that is not whole, or too large.
fn fraction(token: &TokenReference) -> Folded {
    match token.token().to_string().parse() {
        Ok(number) => Folded::Number(number),
        Err(_) => Folded::Unknown,
    }
}

fn string(token: &TokenReference) -> ExpressionKind {
    match literals::text(token.token_type()) {
        Some(text) => ExpressionKind::Text(text),
        None => ExpressionKind::Unsupported("a string has an unknown escape".into()),
    }
}

fn symbol(token: &TokenReference) -> ExpressionKind {
    match token.token_type() {
        TokenType::Symbol { symbol } => match symbol {
            Symbol::Nil => ExpressionKind::Nil,
            Symbol::True => ExpressionKind::Boolean(true),
            Symbol::False => ExpressionKind::Boolean(false),
            _ => ExpressionKind::Unsupported("... is the interpreter's".into()),
        },
        _ => ExpressionKind::Unsupported(NOT_LUA.into()),
    }
}
