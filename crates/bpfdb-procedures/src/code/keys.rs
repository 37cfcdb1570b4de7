//! Which keys a procedure writes.
//!
//! A call that reads a key under a shared lock, and then writes it, meets every other one that does the
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
                    if !all.is_empty() {
                        all += " .. ";
                    }
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

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Is what the first command reads written by another one?
    fn is_written(text: &str) -> bool {
        let function = crate::lua::script(text.as_bytes()).expect("it is compiled");
        let read = function.commands().next().expect("it reads").keys();
        WrittenKeys::of(&function).has(&read[0])
    }

    #[test]
    fn keys_are_the_same_in_whatever_steps_they_are_made() {
        let read = "local part = 'k:' .. ARGV[1] redis.call('GET', part .. ':x') ";
        for (key, same) in [
            ("'k:' .. ARGV[1] .. ':x'", true),
            ("part .. ':x'", true),
            ("'k:' .. ARGV[1] .. ':y'", false),
            ("'k:' .. ARGV[2] .. ':x'", false),
        ] {
            let text = format!("{read} redis.call('SET', {key}, 1)");
            assert_eq!(is_written(&text), same, "{key}");
        }
    }

    /// A key of hundreds of parts, used thousands of times.
    #[test]
    fn keys_of_many_parts_take_no_time() {
        let eight = |part: &str| [part; 8].join(" .. ");
        let keys = vec!["c"; 240].join(", ");
        let parts = [eight("ARGV[1]"), eight("a"), eight("b")];
        let [a, b, c] = parts.map(|parts| format!("{parts} "));
        let body = format!("redis.call('DEL', {keys}) ").repeat(30);
        let text = format!("local a = {a} local b = {b} local c = {c} redis.call('GET', c) ")
            + &format!("local function f() {body} end ")
            + &"f() ".repeat(10);
        let begun = Instant::now();
        is_written(&text);
        assert!(
            begun.elapsed() < Duration::from_secs(5),
            "{:?}",
            begun.elapsed()
        );
    }
}
