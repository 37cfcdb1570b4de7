//! How deep a text is nested, before it is parsed: the parser and all that follows call
//! themselves for what lies in something else.
//!
//! Counted are brackets and blocks that are open, and for each of them the operators that
//! stand before the opening, since these may lie in each other too: `- - x`, `a .. b .. c`,
//! `f()()`.

use full_moon::tokenizer::{Symbol, Token, TokenType};

use super::super::unsupported::Unsupported;
use super::line_number;

/// Lua itself parses 200 levels (LUAI_MAXCCALLS).
const NESTING_MAX: usize = 200;

#[derive(Default)]
struct Nesting {
    /// Operators before each bracket that is open.
    outside: Vec<usize>,
    /// Their sum.
    outside_sum: usize,
    /// Operators since the expression began.
    operators: usize,
    /// An expression may have ended with the last token.
    ended: bool,
}

/// # Errors
/// Where it gets too deep.
pub(super) fn check(tokens: &[Token]) -> Result<(), Unsupported> {
    let mut nesting = Nesting::default();
    for token in tokens
        .iter()
        .filter(|token| !token.token_type().is_trivia())
    {
        nesting.add(token.token_type());
        if nesting.depth() > NESTING_MAX {
            let line = line_number(token.start_position().line());
            let reason = format!("it is nested deeper than {NESTING_MAX} levels");
            return Err(Unsupported::new(line, reason));
        }
    }
    Ok(())
}

impl Nesting {
    fn depth(&self) -> usize {
        self.outside.len() + self.outside_sum + self.operators
    }

    fn add(&mut self, token: &TokenType) {
        match token {
            // A name behind an expression begins a statement.
            TokenType::Identifier { .. } if self.ended => self.operators = 0,
            // A string behind an expression is the argument of a call.
            TokenType::StringLiteral { .. } if self.ended => self.operators += 1,
            TokenType::Symbol { symbol } => return self.add_symbol(*symbol),
            _ => {}
        }
        self.ended = true;
    }

    fn add_symbol(&mut self, symbol: Symbol) {
        let mut ended = false;
        match symbol {
            Symbol::LeftParen | Symbol::LeftBracket | Symbol::LeftBrace => {
                self.operators += usize::from(self.ended);
                self.open();
            }
            Symbol::Function => self.open(),
            Symbol::If | Symbol::Do | Symbol::Repeat => {
                self.operators = 0;
                self.open();
            }
            Symbol::RightParen | Symbol::RightBracket | Symbol::RightBrace | Symbol::End => {
                self.close();
                ended = true;
            }
            Symbol::Until => self.close(),
            Symbol::True | Symbol::False | Symbol::Nil | Symbol::Ellipsis => ended = true,
            symbol if begins_anew(symbol) => self.operators = 0,
            _ => self.operators += 1,
        }
        self.ended = ended;
    }

    fn open(&mut self) {
        self.outside.push(self.operators);
        self.outside_sum += self.operators;
        self.operators = 0;
    }

    fn close(&mut self) {
        self.operators = self.outside.pop().unwrap_or(0);
        self.outside_sum -= self.operators;
    }
}

/// Does an expression or a statement of its own come next?
fn begins_anew(symbol: Symbol) -> bool {
    matches!(
        symbol,
        Symbol::Comma
            | Symbol::Semicolon
            | Symbol::Equal
            | Symbol::Break
            | Symbol::Else
            | Symbol::ElseIf
            | Symbol::For
            | Symbol::In
            | Symbol::Local
            | Symbol::Return
            | Symbol::Then
            | Symbol::While
    )
}
