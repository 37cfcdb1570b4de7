//! Scripts: compiled when they are called often.

use bpfdb_lua::Sha1;
use bpfdb_procedures::lua::TEXT_MAX;

use super::compiler::{Caller, Kind};
use super::{Procedures, State};
use crate::kernel::procedures::{Entry, Name};
use crate::scripting::scripts::Script;

/// A script is compiled when it is called so often.
pub(super) const CALLS_BEFORE: u32 = 8;
/// Texts that wait to be compiled, from which on scripts have to wait for their turn.
pub(super) const QUEUED_MAX: usize = 16;
/// Scripts whose calls are counted.
const COUNTED_MAX: usize = 4096;

impl Procedures {
    /// The interpreter runs a script. Those that are called often are compiled.
    pub(crate) fn note_call(&mut self, script: &Script) {
        if !self.enabled {
            return;
        }
        self.interpreted.note_script(script.name);
        if self.scripts.len() >= COUNTED_MAX {
            self.scripts.retain(|_, state| match state {
                State::Loaded(loaded) => loaded.slot.is_some(),
                State::Compiling => true,
                State::Counting(_) | State::Waiting | State::Failed(_) => false,
            });
            let scripts = &self.scripts;
            self.interpreted
                .keep_scripts(|name| scripts.contains_key(name));
        }
        let state = self
            .scripts
            .entry(script.name)
            .or_insert(State::Counting(0));
        if let State::Counting(calls) = state {
            *calls = calls.saturating_add(1);
            if *calls < CALLS_BEFORE || self.queued >= QUEUED_MAX {
                return;
            }
            if script.text.len() > TEXT_MAX {
                *state = State::Failed("its text is too long".into());
                return;
            }
            *state = State::Compiling;
            self.queued += 1;
            self.compiler
                .compile(Caller::Network, Kind::Script, script.name, &script.text);
        }
    }

    pub(super) fn publish_script(&mut self, name: Sha1) {
        if !self.is_quiet() {
            self.waiting.push(name);
            return;
        }
        let Some(State::Loaded(loaded)) = self.scripts.get_mut(&name) else {
            return;
        };
        if !loaded.published.is_empty() {
            return;
        }
        let (Some(slot), Some(ready), Some(&number)) = (
            loaded.slot,
            loaded.unit.ready.first(),
            loaded.numbers.first(),
        ) else {
            return;
        };
        let flags = bpfdb_lua::flags(&loaded.text).unwrap_or_default();
        if flags.no_writes && !ready.reads {
            // It ends in an error.
            return;
        }
        let entry = Entry {
            slot,
            function: ready.number,
            reads: ready.reads,
            read_only_forms: ready.reads && flags.is_for_readers(),
            number,
        };
        loaded.publish(&self.kernel, Name::Script(name.to_string()), entry);
    }

    /// SCRIPT FLUSH.
    pub(crate) fn forget_scripts(&mut self) {
        self.interpreted.keep_scripts(|_| false);
        for state in std::mem::take(&mut self.scripts).into_values() {
            if let State::Loaded(loaded) = state {
                self.unload(*loaded);
            }
        }
    }
}
