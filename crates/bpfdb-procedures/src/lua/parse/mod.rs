//! From text to [`syntax`](super::syntax): the parser is full_moon, which knows Lua 5.1.

mod expressions;
mod folding;
mod literals;
mod nesting;
mod scopes;
mod statements;

use full_moon::node::Node;
use full_moon::tokenizer::{Lexer, LexerResult, TokenReference};
use full_moon::{LuaVersion, ast};

use super::syntax::Chunk;
use super::unsupported::Unsupported;
use scopes::Scopes;

/// Reads a text.
///
/// # Errors
/// Why it cannot be read.
pub(super) fn chunk(text: &str) -> Result<Chunk, Vec<Unsupported>> {
    check_nesting(text)?;
    let parsed = full_moon::parse_fallible(text, LuaVersion::lua51());
    let tree = parsed.into_result().map_err(|errors| {
        let problem = |error: &full_moon::Error| {
            let line = line_number(error.range().0.line());
            Unsupported::new(line, one_line(&error.error_message()))
        };
        errors.iter().map(problem).collect::<Vec<_>>()
    })?;
    let mut scopes = Scopes::default();
    let body = scopes.block(tree.nodes());
    Ok(Chunk {
        variables: scopes.variables,
        minus_zero: scopes.minus_zero,
        body,
    })
}

fn check_nesting(text: &str) -> Result<(), Vec<Unsupported>> {
    match Lexer::new(text, LuaVersion::lua51()).collect() {
        LexerResult::Ok(tokens) => nesting::check(&tokens).map_err(|problem| vec![problem]),
        LexerResult::Recovered(_, errors) | LexerResult::Fatal(errors) => {
            let problem = |error: &full_moon::tokenizer::TokenizerError| {
                let line = line_number(error.position().line());
                Unsupported::new(line, one_line(&error.error().to_string()))
            };
            Err(errors.iter().map(problem).collect())
        }
    }
}

fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn line_number(line: usize) -> u32 {
    u32::try_from(line).unwrap_or(u32::MAX)
}

/// Where a part of the tree begins.
fn line_of(node: &impl Node) -> u32 {
    node.start_position()
        .map_or(1, |position| line_number(position.line()))
}

/// Bytes of its text.
fn size_of(node: &impl Node) -> usize {
    let begin = node.start_position().map(|position| position.bytes());
    let end = node.end_position().map(|position| position.bytes());
    end.unwrap_or(0).saturating_sub(begin.unwrap_or(0))
}

/// The word of a token that is a name.
fn name_of(token: &TokenReference) -> String {
    token.token().to_string()
}

/// The expressions of a list with commas.
fn list<T>(all: &ast::punctuated::Punctuated<T>) -> impl Iterator<Item = &T> {
    all.iter()
}
