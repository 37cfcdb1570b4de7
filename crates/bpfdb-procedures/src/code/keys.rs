//! Which keys a procedure writes.
//!
//! Who reads a key under a shared lock, and then writes it, meets every other one who does the
//! same. So a key that is written somewhere gets the exclusive lock when it is read.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use crate::ir::{Function, Operand, Operation, Register};

/// The keys that a function writes, by the way they are made.
#[derive(Debug)]
pub(crate) struct WrittenKeys<'a> {
    /// What puts something into each register; none if several operations do.
    definitions: HashMap<Register, Option<&'a Operation>>,
    written: HashSet<String>,
    /// Recipes that were asked for: a key may be used thousands of times.
    made: RefCell<HashMap<Register, String>>,
}

/// How far the making of a key is followed, of how many parts, and bytes of a recipe. Who writes
/// a function chooses how its keys are made, so all of it is bounded.
const DEPTH_MAX: u32 = 3;
const PARTS_MAX: usize = 8;
const LEN_MAX: usize = 512;

impl<'a> WrittenKeys<'a> {
    pub(crate) fn of(function: &'a Function) -> Self {
        let mut definitions = HashMap::new();
        for line in &function.lines {
            if let Some(to) = result_of(&line.operation) {
                definitions
                    .entry(to)
                    .and_modify(|known| *known = None)
                    .or_insert(Some(&line.operation));
            }
        }
        let mut keys = Self {
            definitions,
            written: HashSet::new(),
            made: RefCell::default(),
        };
        for command in function.commands().filter(|command| command.writes()) {
            for key in command.keys() {
                let recipe = keys.recipe_of(key);
                keys.written.insert(recipe);
            }
        }
        keys
    }

    /// Is this key surely, or probably, written by the same call?
    pub(crate) fn has(&self, key: &Operand) -> bool {
        self.written.contains(&self.recipe_of(key))
    }

    fn recipe_of(&self, key: &Operand) -> String {
        let Operand::Register(register) = key else {
            return key.to_string();
        };
        if let Some(made) = self.made.borrow().get(register) {
            return made.clone();
        }
        let recipe = self.recipe(key, 0);
        self.made.borrow_mut().insert(*register, recipe.clone());
        recipe
    }

    /// How a key is made: the same text for keys that are the same. What is made in too many
    /// steps counts as itself.
    fn recipe(&self, operand: &Operand, depth: u32) -> String {
        let Operand::Register(register) = operand else {
            return operand.to_string();
        };
        let recipe = match self.only_definition(*register) {
            Some(Operation::Move(_, from)) if depth < DEPTH_MAX => self.recipe(from, depth + 1),
            Some(Operation::Concatenate(_, parts))
                if depth < DEPTH_MAX && parts.len() <= PARTS_MAX =>
            {
                let mut all = String::new();
                for part in parts {
                    // Parts of parts of parts may be hundreds.
                    if all.len() > LEN_MAX {
                        break;
                    }
                    all += " .. ";
                    all += &self.recipe(part, depth + 1);
                }
                all
            }
            _ => return operand.to_string(),
        };
        if recipe.len() > LEN_MAX {
            return operand.to_string();
        }
        recipe
    }

    /// What puts something into this register, if that is one operation only.
    fn only_definition(&self, register: Register) -> Option<&'a Operation> {
        self.definitions.get(&register).copied().flatten()
    }
}

/// The register that an operation writes.
fn result_of(operation: &Operation) -> Option<Register> {
    match operation {
        Operation::Move(to, _)
        | Operation::Arithmetic(to, ..)
        | Operation::Negate(to, _)
        | Operation::Whole(to, _)
        | Operation::Concatenate(to, _)
        | Operation::Length(to, _)
        | Operation::Part(to, ..)
        | Operation::ToNumber(to, _)
        | Operation::ToText(to, _)
        | Operation::Word(to, ..)
        | Operation::Count(to, _)
        | Operation::Status(to, _)
        | Operation::Error(to, _)
        | Operation::StatusText(to, _)
        | Operation::ErrorText(to, _)
        | Operation::Call(to, _) => Some(*to),
        Operation::Label(_)
        | Operation::Jump(_)
        | Operation::JumpIf(..)
        | Operation::Fuel
        | Operation::Return(_)
        | Operation::ReturnArray(_) => None,
    }
}
