//! What a server has before its engine runs.

use std::net::{SocketAddr, TcpListener};

use bpfdb::Joining;

use crate::error::{Result, system};
use crate::io::{descriptors, socket};
use crate::kernel::cgroup::Cgroup;
use crate::kernel::programs::LoadedPrograms;
use crate::settings::Settings;

/// The network programs, loaded with the maps of an engine, and the socket that clients will
/// connect to. It does not listen, and no program is attached: the engine's own programs may not be
/// there yet, so that both can be loaded at a time
/// ([`Engine::create_beside`](bpfdb::Engine::create_beside)).
pub struct FrontEnd {
    pub(super) programs: LoadedPrograms,
    pub(super) listener: TcpListener,
    pub(super) address: SocketAddr,
    pub(super) cgroup: Cgroup,
}

impl FrontEnd {
    /// # Errors
    /// If the address is in use; if this kernel lacks what the programs need.
    pub fn load(joining: &Joining<'_>, settings: &Settings) -> Result<Self> {
        descriptors::raise_limit();
        let cgroup = Cgroup::create()?;
        let wanted = SocketAddr::new(settings.bind, settings.port);
        let listener = cgroup.inside(|| socket::bound(wanted))?;
        let address = listener
            .local_addr()
            .map_err(system("look at the listener"))?;
        let programs = LoadedPrograms::load(joining, &settings.local_clients, address.port())?;
        Ok(Self {
            programs,
            listener,
            address,
            cgroup,
        })
    }
}
