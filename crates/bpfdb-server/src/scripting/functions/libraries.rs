//! Libraries of functions, all that there are at a moment.

use std::collections::BTreeMap;
use std::rc::Rc;

use bpfdb_lua::{Registered, Source};

use crate::values::functions_dump;

/// A library that was read and understood.
#[derive(Debug)]
pub(crate) struct Library {
    pub(crate) name: Vec<u8>,
    pub(crate) source: Source,
    /// None, if it could not be loaded in this process.
    pub(crate) functions: Vec<Registered>,
    /// False: it could not be loaded, for want of memory or time perhaps.
    pub(crate) is_understood: bool,
}

impl Library {
    /// Bytes that it takes to keep it: of its text, and of what that says of functions.
    pub(crate) fn bytes(&self) -> usize {
        let said = |one: &Registered| one.name.len() + one.description.as_ref().map_or(0, Vec::len);
        self.source.text.len() + self.functions.iter().map(said).sum::<usize>()
    }
}

/// A function of a library.
#[derive(Clone, Debug)]
pub(crate) struct FunctionOf {
    pub(crate) library: Rc<Library>,
    number: usize,
}

impl FunctionOf {
    pub(crate) fn registered(&self) -> &Registered {
        &self.library.functions[self.number]
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Libraries {
    by_name: BTreeMap<Vec<u8>, Rc<Library>>,
    /// By names in small letters: Redis finds functions by letters of either size.
    functions: BTreeMap<Vec<u8>, FunctionOf>,
}

impl Libraries {
    pub(crate) fn all(&self) -> impl Iterator<Item = &Rc<Library>> {
        self.by_name.values()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(crate) fn functions(&self) -> usize {
        self.functions.len()
    }

    pub(crate) fn has(&self, library: &[u8]) -> bool {
        self.by_name.contains_key(library)
    }

    /// Is this the function that was found in these, or in others with the same library?
    pub(crate) fn has_still(&self, function: &FunctionOf) -> bool {
        let library = self.by_name.get(&function.library.name);
        library.is_some_and(|library| Rc::ptr_eq(library, &function.library))
    }

    pub(crate) fn function(&self, name: &[u8]) -> Option<&FunctionOf> {
        self.functions.get(&name.to_ascii_lowercase())
    }

    /// Adds a library, in the place of one of that name if `replaces`.
    ///
    /// # Errors
    /// Why it cannot be, as FUNCTION RESTORE words it; nothing is changed.
    pub(crate) fn add(&mut self, library: &Rc<Library>, replaces: bool) -> Result<(), String> {
        let name = &library.name;
        if self.has(name) && !replaces {
            let name = String::from_utf8_lossy(name);
            return Err(format!("ERR Library {name} already exists"));
        }
        for new in &library.functions {
            if (self.function(&new.name)).is_some_and(|known| known.library.name != *name) {
                let function = String::from_utf8_lossy(&new.name);
                return Err(format!("ERR Function {function} already exists"));
            }
        }
        self.remove(name);
        for (number, new) in library.functions.iter().enumerate() {
            let function = FunctionOf {
                library: Rc::clone(library),
                number,
            };
            (self.functions).insert(new.name.to_ascii_lowercase(), function);
        }
        self.by_name.insert(name.clone(), Rc::clone(library));
        Ok(())
    }

    /// Adds one that [`add`](Self::add) refuses, so that its text is kept. Its name is that of its
    /// text if another one has its own.
    pub(crate) fn add_without_functions(&mut self, library: &Rc<Library>) {
        let name = match self.has(&library.name) {
            true => library.source.sha1().to_string().into_bytes(),
            false => library.name.clone(),
        };
        let kept = Library {
            name: name.clone(),
            source: library.source.clone(),
            functions: Vec::new(),
            is_understood: false,
        };
        self.by_name.insert(name, Rc::new(kept));
    }

    /// False: there was none.
    pub(crate) fn remove(&mut self, library: &[u8]) -> bool {
        let Some(library) = self.by_name.remove(library) else {
            return false;
        };
        for function in &library.functions {
            self.functions.remove(&function.name.to_ascii_lowercase());
        }
        true
    }

    /// Bytes that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.all().map(|library| library.bytes()).sum()
    }

    /// As FUNCTION DUMP gives them, and the engine keeps them.
    pub(crate) fn encode(&self) -> Vec<u8> {
        functions_dump::encode(self.all().map(|library| &*library.source.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(name: &str, functions: &[&str]) -> Rc<Library> {
        let registered = |name: &&str| Registered {
            name: name.as_bytes().to_vec(),
            description: None,
            flags: bpfdb_lua::FunctionFlags::default(),
        };
        Rc::new(Library {
            name: name.into(),
            source: Source::new(name.as_bytes()),
            functions: functions.iter().map(registered).collect(),
            is_understood: true,
        })
    }

    #[test]
    fn names_are_unique() {
        let mut all = Libraries::default();
        all.add(&library("a", &["f", "g"]), false).expect("new");
        assert!(all.add(&library("a", &["f"]), false).is_err());
        assert!(all.add(&library("b", &["h", "F"]), true).is_err());
        assert_eq!((all.len(), all.functions()), (1, 2));
        all.add(&library("a", &["f", "i"]), true).expect("replaced");
        assert!(all.function(b"g").is_none());
        assert!(all.function(b"I").is_some());
        let found = all.function(b"i").expect("a function").clone();
        assert!(all.has_still(&found));
        all.add(&library("a", &["f", "i"]), true).expect("replaced");
        assert!(!all.has_still(&found));
        assert!(all.remove(b"a") && !all.remove(b"a"));
        assert_eq!((all.len(), all.functions()), (0, 0));
    }
}
