//! What was taken out of the kernel's tables, and whether a call may still have found it.

use super::compiler::Compiler;

/// All of them are counts since the server began.
#[derive(Debug, Default)]
pub(super) struct Removals {
    removed: u64,
    /// For so many of them there is a wait until calls have ended that had begun by then.
    awaited: u64,
    /// For so many of them they have.
    over: u64,
}

impl Removals {
    /// Something was taken out.
    pub(super) fn note(&mut self) {
        self.removed += 1;
    }

    pub(super) fn count(&self) -> u64 {
        self.removed
    }

    /// All calls have ended that had begun when so many were removed.
    pub(super) fn end(&mut self, removed: u64) {
        self.over = removed;
    }

    pub(super) fn are_over(&self, removed: u64) -> bool {
        self.over >= removed
    }

    /// Have all calls ended that may have found what was removed since? Else they are waited
    /// for.
    pub(super) fn all_are_over(&mut self, compiler: &Compiler) -> bool {
        if self.over == self.removed {
            return true;
        }
        if self.awaited < self.removed {
            self.awaited = self.removed;
            compiler.grace(self.removed);
        }
        false
    }
}
