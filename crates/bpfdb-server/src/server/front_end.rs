//! The part of a server that is loaded before its engine runs.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use bpfdb::Joining;

use crate::error::{Error, Result, system};
use crate::io::{descriptors, socket};
use crate::kernel::cgroup::Cgroup;
use crate::kernel::programs::{LoadedPrograms, Programs};
use crate::kernel::redis;
use crate::settings::{LocalClients, Settings};

/// The network programs, loaded with the maps of an engine. No program is attached, and no socket
/// listens: the engine's own programs may not be there yet, so that both can be loaded at a time
/// ([`Engine::create_beside`](bpfdb::Engine::create_beside)).
///
/// They are for that engine: [`Server::start_loaded`](crate::Server::start_loaded) must be given the same. It goes on
/// with the address of the settings that they were loaded for, and refuses settings with other clients of this
/// machine.
pub struct FrontEnd {
    pub(super) programs: LoadedPrograms,
    /// For a port that the kernel chooses, which the programs have to know.
    listener: Option<TcpListener>,
    pub(super) address: SocketAddr,
    local_clients: LocalClients,
    pub(super) cgroup: Arc<Cgroup>,
}

impl FrontEnd {
    /// # Errors
    /// If this kernel lacks what the programs need.
    pub fn load(joining: &Joining<'_>, settings: &Settings) -> Result<Self> {
        descriptors::raise_limit();
        let cgroup = Arc::new(Cgroup::create()?);
        let wanted = SocketAddr::new(settings.bind, settings.port);
        let (listener, address) = match settings.port {
            0 => {
                let listener = cgroup.inside(|| socket::bound(wanted))?;
                let address = listener.local_addr();
                (
                    Some(listener),
                    address.map_err(system("look at the listener"))?,
                )
            }
            _ => (None, wanted),
        };
        let programs = LoadedPrograms::load(
            redis::front_end(),
            joining,
            &settings.local_clients,
            address.port(),
        )?;
        Ok(Self {
            programs,
            listener,
            address,
            local_clients: settings.local_clients.clone(),
            cgroup,
        })
    }

    /// For another server on the same engine, in the place of the one that has `programs` at this address:
    /// nothing is loaded for it.
    pub(super) fn after(
        programs: &Programs,
        address: SocketAddr,
        local_clients: LocalClients,
        cgroup: &Arc<Cgroup>,
    ) -> Self {
        Self {
            programs: programs.loaded(),
            listener: None,
            address,
            local_clients,
            cgroup: Arc::clone(cgroup),
        }
    }

    /// # Errors
    /// The programs are loaded for other clients of this machine.
    pub(super) fn check(&self, settings: &Settings) -> Result<()> {
        match self.local_clients == settings.local_clients {
            true => Ok(()),
            false => Err(Error::Unsupported(
                "the network programs are loaded for other clients of this machine".into(),
            )),
        }
    }

    /// The socket that clients will connect to, which does not listen yet. A port of the settings is
    /// taken only now: other servers could bind it, too, as long as there is no listener, and it would be
    /// missed after the recovery.
    ///
    /// # Errors
    /// If the address is in use.
    pub(super) fn bind(&mut self) -> Result<TcpListener> {
        match self.listener.take() {
            Some(listener) => Ok(listener),
            None => self.cgroup.inside(|| socket::bound(self.address)),
        }
    }
}
