//! `redis.call` and `redis.pcall`.
//!
//! They are the same here: a command that fails ends the run.

use super::super::constants::constant;
use super::super::syntax::Expression;
use super::super::unsupported::Unsupported;
use super::bindings::Table;
use super::{Lowered, Lowering};
use crate::ir::collection::has_list;
use crate::ir::{
    CollectionCommand, Command, Operand, Operation, Presence, Register, Set, SetReturns, Time,
};

const SECONDS: u32 = 1000;
const MILLISECONDS: u32 = 1;

/// What a call of a command is made of.
enum Parsed {
    One(Command),
    /// MGET, HMGET and the like, with the name: commands whose replies are a list.
    List(String, Vec<Command>),
    /// MSET: keys and values.
    Set(Vec<(Operand, Operand)>),
}

impl<'a> Lowering<'a> {
    /// Is it `redis.call`, by whatever name?
    pub(super) fn is_command(&self, callee: &Expression) -> bool {
        let path = self.bindings.library(callee);
        matches!(path.as_deref(), Some("redis.call" | "redis.pcall"))
    }

    pub(super) fn command(
        &mut self,
        line: u32,
        arguments: &'a [Expression],
        to: Option<Register>,
    ) -> Lowered<Operand> {
        match self.parsed(line, arguments)? {
            Parsed::One(command) => Ok(self.compute(to, |to| Operation::Call(to, command))),
            Parsed::List(name, _) => {
                let reason = format!("this use of the reply of {name}");
                Err(Unsupported::left(line, reason))
            }
            Parsed::Set(pairs) => {
                for (key, value) in pairs {
                    let set = plain_set(key, value);
                    self.compute(None, |to| Operation::Call(to, Command::Set(set)));
                }
                let text = Operand::Text(b"OK".into());
                Ok(self.compute(to, |to| Operation::Status(to, text)))
            }
        }
    }

    /// The reply of MGET and its kin; `None` if it is another command.
    pub(super) fn read_many(&mut self, arguments: &'a [Expression]) -> Lowered<Option<Table>> {
        let is_it = arguments.first().is_some_and(|name| {
            let name = constant(name, &self.bindings);
            matches!(name, Some(Operand::Text(name)) if name.eq_ignore_ascii_case(b"MGET") || has_list(&name))
        });
        if !is_it {
            return Ok(None);
        }
        let line = self.code.line;
        let Parsed::List(_, commands) = self.parsed(line, arguments)? else {
            return Ok(None);
        };
        let call = |command| self.compute(None, |to| Operation::Call(to, command));
        Ok(Some(Table {
            elements: commands.into_iter().map(call).collect(),
            is_full: true,
        }))
    }

    /// Evaluates the arguments, and looks what command they make.
    fn parsed(&mut self, line: u32, arguments: &'a [Expression]) -> Lowered<Parsed> {
        let Some((name, arguments)) = arguments.split_first() else {
            return Err(Unsupported::new(line, "a call without a command"));
        };
        let Some(Operand::Text(name)) = constant(name, &self.bindings) else {
            let reason = "the name of a command is no literal";
            return Err(Unsupported::new(name.line, reason));
        };
        let mut operands = Vec::new();
        for argument in arguments {
            operands.push(self.argument(argument)?);
        }
        let name = name.to_ascii_uppercase();
        let name = name.escape_ascii().to_string();
        parse(&name, operands).map_err(|reason| Unsupported::new(line, reason))
    }

    /// A command takes strings and numbers.
    fn argument(&mut self, argument: &'a Expression) -> Lowered<Operand> {
        match self.value(argument)? {
            Operand::Nil | Operand::Boolean(_) => Err(Unsupported::new(
                argument.line,
                "an argument of a command is nil or a boolean",
            )),
            operand => Ok(operand),
        }
    }
}

fn parse(name: &str, operands: Vec<Operand>) -> Result<Parsed, String> {
    let count = operands.len();
    match name {
        "MGET" if count > 0 => {
            let commands = operands.into_iter().map(Command::Get).collect();
            return Ok(Parsed::List(name.to_owned(), commands));
        }
        "MSET" if count > 0 && count.is_multiple_of(2) => return Ok(Parsed::Set(pairs(operands))),
        "DEL" | "UNLINK" if count > 0 => return Ok(Parsed::One(Command::Delete(operands))),
        "EXISTS" | "TOUCH" if count > 0 => return Ok(Parsed::One(Command::Exists(operands))),
        "SET" if count > 2 => {
            return set_with_options(operands).map(|set| Parsed::One(Command::Set(set)));
        }
        _ => {}
    }
    if let Some(parsed) = of_collection(name, &operands) {
        return Ok(parsed);
    }
    let command = match count {
        1 => <[_; 1]>::try_from(operands)
            .ok()
            .and_then(|of| of_one(name, of)),
        2 => <[_; 2]>::try_from(operands)
            .ok()
            .and_then(|of| of_two(name, of)),
        3 => <[_; 3]>::try_from(operands)
            .ok()
            .and_then(|of| of_three(name, of)),
        _ => None,
    };
    command
        .map(Parsed::One)
        .ok_or_else(|| format!("{name} with {count} arguments is the interpreter's"))
}

/// A key, and what is behind it.
fn of_collection(name: &str, operands: &[Operand]) -> Option<Parsed> {
    let (key, operands) = operands.split_first()?;
    if let Some(command) = CollectionCommand::parse(name, key, operands) {
        return Some(Parsed::One(Command::Collection(command)));
    }
    let commands = CollectionCommand::parse_list(name, key, operands)?;
    let commands: Vec<_> = commands.into_iter().map(Command::Collection).collect();
    (!commands.is_empty()).then(|| Parsed::List(name.to_owned(), commands))
}

fn of_one(name: &str, [key]: [Operand; 1]) -> Option<Command> {
    let increment = |key, negative| Command::Increment {
        key,
        by: Operand::Integer(1),
        negative,
    };
    Some(match name {
        "GET" => Command::Get(key),
        "GETDEL" => Command::GetDelete(key),
        "INCR" => increment(key, false),
        "DECR" => increment(key, true),
        "STRLEN" => Command::Length(key),
        "PERSIST" => Command::Persist(key),
        "TYPE" => Command::Type(key),
        "TTL" => Command::TimeLeft(key, time(SECONDS, true)),
        "PTTL" => Command::TimeLeft(key, time(MILLISECONDS, true)),
        "EXPIRETIME" => Command::TimeLeft(key, time(SECONDS, false)),
        "PEXPIRETIME" => Command::TimeLeft(key, time(MILLISECONDS, false)),
        _ => return None,
    })
}

fn of_two(name: &str, [key, operand]: [Operand; 2]) -> Option<Command> {
    Some(match name {
        "SET" => Command::Set(plain_set(key, operand)),
        "SETNX" => Command::Set(Set {
            only_if: Presence::Absent,
            returns: SetReturns::Integer,
            ..plain_set(key, operand)
        }),
        "GETSET" => Command::Set(Set {
            returns: SetReturns::Old,
            ..plain_set(key, operand)
        }),
        "INCRBY" | "DECRBY" => Command::Increment {
            key,
            by: operand,
            negative: name == "DECRBY",
        },
        "APPEND" => Command::Append(key, operand),
        "EXPIRE" => Command::Expire(key, time(SECONDS, true), operand),
        "PEXPIRE" => Command::Expire(key, time(MILLISECONDS, true), operand),
        "EXPIREAT" => Command::Expire(key, time(SECONDS, false), operand),
        "PEXPIREAT" => Command::Expire(key, time(MILLISECONDS, false), operand),
        _ => return None,
    })
}

fn of_three(name: &str, [key, expires, value]: [Operand; 3]) -> Option<Command> {
    let unit = match name {
        "SETEX" => SECONDS,
        "PSETEX" => MILLISECONDS,
        _ => return None,
    };
    Some(Command::Set(Set {
        expires: Some((time(unit, true), expires)),
        ..plain_set(key, value)
    }))
}

fn time(unit: u32, from_now: bool) -> Time {
    Time { unit, from_now }
}

fn plain_set(key: Operand, value: Operand) -> Set {
    Set {
        key,
        value,
        only_if: Presence::Any,
        expires: None,
        keeps_time: false,
        returns: SetReturns::Status,
    }
}

fn pairs(operands: Vec<Operand>) -> Vec<(Operand, Operand)> {
    let mut operands = operands.into_iter();
    let pairs = std::iter::from_fn(|| operands.next().zip(operands.next()));
    pairs.collect()
}

/// `SET key value` and more.
fn set_with_options(operands: Vec<Operand>) -> Result<Set, String> {
    let mut operands = operands.into_iter();
    let (Some(key), Some(value)) = (operands.next(), operands.next()) else {
        return Err("SET needs a key and a value".into());
    };
    let mut set = plain_set(key, value);
    while let Some(option) = operands.next() {
        let Operand::Text(option) = option else {
            return Err("an option of SET is no literal".into());
        };
        let option = option.to_ascii_uppercase();
        if !add_option(&mut set, &option, &mut operands) {
            let option = option.escape_ascii();
            return Err(format!("{option} does not fit the other options of SET"));
        }
    }
    Ok(set)
}

/// Does it fit those before?
fn add_option(set: &mut Set, option: &[u8], more: &mut impl Iterator<Item = Operand>) -> bool {
    let expires = match option {
        b"EX" => time(SECONDS, true),
        b"PX" => time(MILLISECONDS, true),
        b"EXAT" => time(SECONDS, false),
        b"PXAT" => time(MILLISECONDS, false),
        b"NX" => return add_presence(set, Presence::Absent),
        b"XX" => return add_presence(set, Presence::Present),
        b"GET" => {
            set.returns = SetReturns::Old;
            return true;
        }
        b"KEEPTTL" => {
            set.keeps_time = true;
            return set.expires.is_none();
        }
        _ => return false,
    };
    let Some(when) = more.next() else {
        return false;
    };
    set.expires.replace((expires, when)).is_none() && !set.keeps_time
}

fn add_presence(set: &mut Set, presence: Presence) -> bool {
    let fits = set.only_if == Presence::Any || set.only_if == presence;
    set.only_if = presence;
    fits
}
