//! The Redis commands that the kernel answers, generated from the one list in
//! `include/bpfdb/commands.h`.

use crate::abi::*;

include!(concat!(env!("OUT_DIR"), "/commands.rs"));

/// A Redis command that the kernel answers, as long as the request has the form that
/// it knows; the daemon answers all other requests.
#[derive(Clone, Copy, Debug)]
pub struct KernelCommand {
    /// In small letters.
    pub name: &'static str,
    /// Where it stands in the kernel's counters.
    pub number: u32,
    flags: bpfdb_command_flag,
}

impl KernelCommand {
    /// It reads values and changes nothing.
    pub const fn reads(&self) -> bool {
        self.flags & BPFDB_READS != 0
    }

    pub const fn writes(&self) -> bool {
        self.flags & BPFDB_WRITES != 0
    }

    /// It may take memory, and is refused when there is none.
    pub const fn needs_room(&self) -> bool {
        self.flags & BPFDB_NEEDS_ROOM != 0
    }

    /// A program of its own answers it, which is loaded when the first such command has come.
    pub const fn is_apart(&self) -> bool {
        self.flags & BPFDB_APART != 0
    }

    /// It begins or ends a transaction.
    pub const fn is_transactional(&self) -> bool {
        self.flags & BPFDB_TRANSACTION != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counters are indexed by the number, and people look for names by the alphabet.
    #[test]
    fn commands_stand_in_the_order_of_their_numbers_and_names() {
        for (place, command) in KERNEL_COMMANDS.iter().enumerate() {
            assert_eq!(command.number as usize, place, "{}", command.name);
        }
        assert!(KERNEL_COMMANDS.is_sorted_by(|a, b| a.name < b.name));
    }

    #[test]
    fn a_command_reads_or_writes_or_neither() {
        for command in KERNEL_COMMANDS {
            assert!(!(command.reads() && command.writes()), "{}", command.name);
            assert!(
                command.writes() || !command.needs_room(),
                "{}",
                command.name
            );
        }
    }
}
