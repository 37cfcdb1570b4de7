//! How often the interpreter ran a call, by procedure. The kernel counts its own.

use bpfdb_lua::Sha1;
use rustc_hash::FxHashMap;

#[derive(Debug, Default)]
pub(super) struct Interpreted {
    scripts: FxHashMap<Sha1, u64>,
    functions: FxHashMap<Vec<u8>, u64>,
    /// Of all, also those that were forgotten.
    all: u64,
}

impl Interpreted {
    pub(super) fn note_script(&mut self, name: Sha1) {
        *self.scripts.entry(name).or_default() += 1;
        self.all += 1;
    }

    pub(super) fn note_function(&mut self, name: &[u8]) {
        match self.functions.get_mut(name) {
            Some(calls) => *calls += 1,
            None => drop(self.functions.insert(name.to_vec(), 1)),
        }
        self.all += 1;
    }

    pub(super) fn script(&self, name: Sha1) -> u64 {
        self.scripts.get(&name).copied().unwrap_or_default()
    }

    pub(super) fn function(&self, name: &[u8]) -> u64 {
        self.functions.get(name).copied().unwrap_or_default()
    }

    pub(super) fn all(&self) -> u64 {
        self.all
    }

    /// Forgets the others: there are no more counters than procedures.
    pub(super) fn keep_scripts(&mut self, keep: impl Fn(&Sha1) -> bool) {
        self.scripts.retain(|name, _| keep(name));
    }

    pub(super) fn keep_functions(&mut self, keep: impl Fn(&[u8]) -> bool) {
        self.functions.retain(|name, _| keep(name));
    }
}
