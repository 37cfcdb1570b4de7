//! Bindings of the variables of a text, at one place of it.

use std::rc::Rc;

use super::super::constants::constant;
use super::super::syntax::{Chunk, Expression, ExpressionKind, Function, VariableId};
use crate::ir::{Operand, Words};

/// Global names that Redis gives to scripts and functions.
const GLOBALS: &[&str] = &[
    "_G",
    "_VERSION",
    "assert",
    "bit",
    "cjson",
    "cmsgpack",
    "collectgarbage",
    "coroutine",
    "error",
    "gcinfo",
    "getmetatable",
    "ipairs",
    "load",
    "loadstring",
    "math",
    "next",
    "pairs",
    "pcall",
    "rawequal",
    "rawget",
    "rawset",
    "redis",
    "select",
    "setmetatable",
    "string",
    "struct",
    "table",
    "tonumber",
    "tostring",
    "type",
    "unpack",
    "xpcall",
];

/// Those that are tables, whose members are read without that anything runs: one that is not there is
/// nil. (`_G` raises an error then.)
const LIBRARIES: &[&str] = &[
    "bit",
    "cjson",
    "cmsgpack",
    "coroutine",
    "math",
    "redis",
    "string",
    "struct",
    "table",
];

/// What a variable stands for.
#[derive(Clone, Debug)]
pub(in crate::lua) enum Binding<'a> {
    /// Its register; or a literal, for one that is never assigned to.
    Value(Operand),
    /// The table of keys, or of arguments.
    Words(Words),
    /// `redis.call`, by its path.
    Library(String),
    Function(&'a Function),
    Table(Table),
}

/// A table that is not changed: its elements.
#[derive(Clone, Debug)]
pub(in crate::lua) struct Table {
    pub(super) elements: Rc<[Operand]>,
    /// None of them is nil.
    pub(super) is_full: bool,
}

/// What all variables stand for.
#[derive(Clone, Debug)]
pub(in crate::lua) struct Bindings<'a> {
    by_variable: Vec<Option<Binding<'a>>>,
    /// KEYS and ARGV are global.
    pub(super) is_script: bool,
}

impl<'a> Bindings<'a> {
    pub(in crate::lua) fn new(chunk: &Chunk) -> Self {
        Self {
            by_variable: vec![None; chunk.variables.len()],
            is_script: false,
        }
    }

    pub(in crate::lua) fn set(&mut self, variable: VariableId, binding: Binding<'a>) {
        self.by_variable[variable.0] = Some(binding);
    }

    pub(super) fn get(&self, variable: VariableId) -> Option<&Binding<'a>> {
        self.by_variable[variable.0].as_ref()
    }

    /// The literal that a variable stands for.
    pub(in crate::lua) fn literal(&self, variable: VariableId) -> Option<Operand> {
        match self.get(variable)? {
            Binding::Value(Operand::Register(_) | Operand::Word(..)) => None,
            Binding::Value(literal) => Some(literal.clone()),
            _ => None,
        }
    }

    /// What a variable stands for if this is its value and always will be, without that
    /// anything has to run.
    pub(in crate::lua) fn known(&self, value: &'a Expression) -> Option<Binding<'a>> {
        if let Some(literal) = constant(value, self) {
            return Some(Binding::Value(literal));
        }
        if let Some(words) = self.words(value) {
            return Some(Binding::Words(words));
        }
        if let Some(path) = self.library(value) {
            return Some(Binding::Library(path));
        }
        match &value.kind {
            ExpressionKind::Function(function) => Some(Binding::Function(function)),
            ExpressionKind::Local(id) => match self.get(*id)? {
                Binding::Value(_) => None,
                binding => Some(binding.clone()),
            },
            _ => None,
        }
    }

    /// Is it the table of keys, or of arguments?
    pub(super) fn words(&self, expression: &Expression) -> Option<Words> {
        match &expression.kind {
            ExpressionKind::Global(name) if self.is_script => match name.as_str() {
                "KEYS" => Some(Words::Keys),
                "ARGV" => Some(Words::Arguments),
                _ => None,
            },
            ExpressionKind::Local(id) => match self.get(*id)? {
                Binding::Words(words) => Some(*words),
                _ => None,
            },
            _ => None,
        }
    }

    /// The path of something that Redis gives to Lua, or of a member of such a table: of what that
    /// has for members nothing is known.
    pub(in crate::lua) fn library(&self, expression: &Expression) -> Option<String> {
        match &expression.kind {
            ExpressionKind::Global(name) => GLOBALS.contains(&name.as_str()).then(|| name.clone()),
            ExpressionKind::Local(id) => match self.get(*id)? {
                Binding::Library(path) => Some(path.clone()),
                _ => None,
            },
            ExpressionKind::Index(library, member) => {
                let library = self.library(library)?;
                if !LIBRARIES.contains(&library.as_str()) {
                    return None;
                }
                let Operand::Text(member) = constant(member, self)? else {
                    return None;
                };
                Some(format!("{library}.{}", member.escape_ascii()))
            }
            _ => None,
        }
    }
}
