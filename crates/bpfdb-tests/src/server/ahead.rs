//! The kernel's program of commands on collections, which a server loads when the first of them has come
//! ([`ProgramLoader`]): a client of a server of this process has it loaded before it sends such a command,
//! and waits for it. So tests of these commands begin with the kernel's answers, and others do without the
//! program.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpStream};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use bpfdb::commands::KERNEL_COMMANDS;
use bpfdb_server::ProgramLoader;

/// Names of the program's commands, in small letters.
static NAMES: LazyLock<BTreeSet<&[u8]>> = LazyLock::new(|| {
    let apart = KERNEL_COMMANDS.iter().filter(|command| command.is_apart());
    apart.map(|command| command.name.as_bytes()).collect()
});

/// Of the servers of this process, by their addresses.
static LOADERS: Mutex<BTreeMap<SocketAddr, ProgramLoader>> = Mutex::new(BTreeMap::new());

fn loaders() -> MutexGuard<'static, BTreeMap<SocketAddr, ProgramLoader>> {
    LOADERS.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn register(address: SocketAddr, loader: ProgramLoader) {
    loaders().insert(address, loader);
}

/// Before another server may have the address.
pub(super) fn forget(address: SocketAddr) {
    loaders().remove(&address);
}

/// What a client does before it sends something.
pub(super) struct Ahead {
    /// Until the program is loaded.
    loader: Option<ProgramLoader>,
}

impl Ahead {
    pub(super) fn at_other_end(stream: &TcpStream) -> Self {
        // Else the daemon answers everything, as it does at a Unix-domain socket.
        let address = stream.peer_addr().ok().filter(|_| super::kernel_answers());
        let loader = address.and_then(|address| loaders().get(&address).cloned());
        Self { loader }
    }

    /// A word of a value may be the name of a command, too: then the program is loaded in vain.
    pub(super) fn of(&mut self, bytes: &[u8]) {
        let Some(loader) = &self.loader else {
            return;
        };
        let mut words = bytes.split(u8::is_ascii_whitespace);
        if words.any(|word| NAMES.contains(&*word.to_ascii_lowercase())) {
            loader.wait();
            self.loader = None;
        }
    }
}
