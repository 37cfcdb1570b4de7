//! Libraries of functions that a state of Lua has loaded.
//!
//! A library is text. To load it is to run it: it calls `redis.register_function` for each of
//! its functions, and may do nothing else but write to the log. A state keeps what was
//! registered, by the SHA-1 of the text, and runs the text of a library once.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use mlua::{Function, Table};

use crate::header::Flags;
use crate::sha1::Sha1;

/// Libraries that a state keeps; then it forgets all of them, and loads again those that are
/// called.
const LIBRARIES_MAX: usize = 500;

/// The text of a library, and its name for states of Lua.
#[derive(Clone, Debug)]
pub struct Source {
    pub text: Rc<[u8]>,
    pub(crate) sha1: Sha1,
}

impl Source {
    pub fn new(text: &[u8]) -> Self {
        Self {
            sha1: Sha1::of(text),
            text: text.into(),
        }
    }

    pub fn sha1(&self) -> Sha1 {
        self.sha1
    }
}

/// What a library says of one of its functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    pub name: Vec<u8>,
    pub description: Option<Vec<u8>>,
    pub flags: FunctionFlags,
}

/// Flags of a function, as `redis.register_function` was given them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionFlags(u8);

impl FunctionFlags {
    /// In the order in which FUNCTION LIST shows them.
    const NAMES: [&str; 5] = [
        "no-writes",
        "allow-oom",
        "allow-stale",
        "no-cluster",
        "allow-cross-slot-keys",
    ];

    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let is_set = move |&(number, _): &(usize, _)| self.0 & (1 << number) != 0;
        let names = Self::NAMES.into_iter().enumerate();
        names.filter(is_set).map(|(_, name)| name)
    }

    /// Those that matter to a call.
    pub fn of_call(self) -> Flags {
        Flags {
            has_header: true,
            no_writes: self.0 & 1 != 0,
            allow_oom: self.0 & 2 != 0,
        }
    }

    fn add(&mut self, name: &str) {
        if let Some(number) = Self::NAMES.iter().position(|known| *known == name) {
            self.0 |= 1 << number;
        }
    }
}

#[derive(Debug)]
struct Library {
    registered: Vec<Registered>,
    functions: HashMap<Vec<u8>, Function>,
}

/// What a state has loaded. Calls of the state share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Libraries(Rc<RefCell<HashMap<Sha1, Library>>>);

impl Libraries {
    pub(crate) fn has(&self, library: Sha1) -> bool {
        self.0.borrow().contains_key(&library)
    }

    /// Functions of all of them.
    pub(crate) fn registered(&self) -> usize {
        let all = self.0.borrow();
        all.values().map(|library| library.registered.len()).sum()
    }

    pub(crate) fn functions(&self, library: Sha1) -> Option<Vec<Registered>> {
        let all = self.0.borrow();
        all.get(&library).map(|library| library.registered.clone())
    }

    pub(crate) fn function(&self, library: Sha1, name: &[u8]) -> Option<Function> {
        self.0.borrow().get(&library)?.functions.get(name).cloned()
    }

    /// Keeps what `load_library` of the sandbox has returned.
    pub(crate) fn add(&self, sha1: Sha1, all: &Table) -> mlua::Result<()> {
        let mut library = Library {
            registered: Vec::new(),
            functions: HashMap::new(),
        };
        for one in all.sequence_values::<Table>() {
            library.add(&one?)?;
        }
        let mut libraries = self.0.borrow_mut();
        if libraries.len() >= LIBRARIES_MAX {
            libraries.clear();
        }
        libraries.insert(sha1, library);
        Ok(())
    }
}

impl Library {
    fn add(&mut self, one: &Table) -> mlua::Result<()> {
        let text = |field| one.raw_get::<Option<mlua::LuaString>>(field);
        let name = text("function_name")?.map(|name| name.as_bytes().to_vec());
        let name = name.unwrap_or_default();
        let mut flags = FunctionFlags::default();
        if let Some(names) = one.raw_get::<Option<Table>>("flags")? {
            for flag in names.sequence_values::<String>() {
                flags.add(&flag?);
            }
        }
        let description = text("description")?.map(|text| text.as_bytes().to_vec());
        self.functions
            .insert(name.clone(), one.raw_get("callback")?);
        self.registered.push(Registered {
            name,
            description,
            flags,
        });
        Ok(())
    }
}
