//! Does a local function return a value on every way? Lua tells nothing from nil: `tonumber()`
//! is an error, and `tonumber(nil)` is nil.

use super::super::syntax::{Block, Expression, ExpressionKind, Function, StatementKind};
use super::Lowering;

/// Functions that return what others return; deeper ones are not compiled anyway.
const DEPTH_MAX: usize = 8;

impl Lowering<'_> {
    /// False if this is a call of a local function that may return nothing.
    pub(super) fn has_value(&self, expression: &Expression) -> bool {
        self.has_value_within(expression, DEPTH_MAX)
    }

    fn has_value_within(&self, expression: &Expression, depth: usize) -> bool {
        let ExpressionKind::Call(callee, _) = &expression.kind else {
            return true;
        };
        match self.local_function(callee) {
            Some(function) => depth > 0 && self.returns_value(function, depth - 1),
            None => true,
        }
    }

    fn returns_value(&self, function: &Function, depth: usize) -> bool {
        ends_in_return(&function.body) && self.no_return_is_empty(&function.body, depth)
    }

    fn no_return_is_empty(&self, block: &Block, depth: usize) -> bool {
        block.iter().all(|statement| match &statement.kind {
            StatementKind::Return(values) => match values.as_slice() {
                [] => false,
                [value] => self.has_value_within(value, depth),
                _ => true,
            },
            kind => blocks(kind)
                .into_iter()
                .all(|block| self.no_return_is_empty(block, depth)),
        })
    }
}

/// Never its end is reached.
fn ends_in_return(block: &Block) -> bool {
    block.last().is_some_and(|statement| match &statement.kind {
        StatementKind::Return(_) => true,
        StatementKind::Do(block) => ends_in_return(block),
        StatementKind::If(branches, otherwise) => {
            branches.iter().all(|(_, block)| ends_in_return(block)) && ends_in_return(otherwise)
        }
        _ => false,
    })
}

/// The blocks in a statement.
fn blocks(statement: &StatementKind) -> Vec<&Block> {
    match statement {
        StatementKind::Do(block)
        | StatementKind::While(_, block)
        | StatementKind::Repeat(block, _) => {
            vec![block]
        }
        StatementKind::If(branches, otherwise) => {
            let branches = branches.iter().map(|(_, block)| block);
            branches.chain([otherwise]).collect()
        }
        StatementKind::For(numeric) => vec![&numeric.body],
        StatementKind::ForEach(each) => vec![&each.body],
        _ => Vec::new(),
    }
}
