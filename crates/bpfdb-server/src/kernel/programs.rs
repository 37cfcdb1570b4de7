//! The programs of the front end: loaded with the engine's maps, attached to a
//! cgroup and to a map of sockets, for one port.

use std::cell::RefCell;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use bpfdb::{Joining, abi};
use libbpf_rs::btf::{Btf, types};
use libbpf_rs::{
    Link, MapCore, MapFlags, MapHandle, Object, OpenObject, OpenProgramMut, ProgramMut, RingBuffer,
    RingBufferBuilder,
};

use nix::sys::resource::{Resource, getrlimit};

use super::flags::KernelFlags;
use crate::error::{Error, Result, bpf, system};
use crate::kernel::cgroup::{self, Cgroup};
use crate::kernel::connections::KernelConnections;
use crate::kernel::workers::Workers;
use crate::settings::LocalClients;

/// A protocol that stands on the transport: the name that its programs begin with, and their
/// object (`NET_PROGRAMS` in `bpf/net/programs.bpf.h`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrontEnd {
    pub(crate) name: &'static str,
    pub(crate) object: &'static [u8],
    /// Programs that are not loaded with the others.
    pub(crate) later: &'static [&'static str],
}

impl FrontEnd {
    /// The front end's instance of a program of the transport.
    pub(super) fn program(&self, name: &str) -> String {
        format!("{}_{name}", self.name)
    }
}

/// A connection that the kernel hands over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handover {
    pub(crate) index: u32,
    pub(crate) cookie: u64,
}

pub(crate) struct Programs {
    pub(crate) connections: Rc<KernelConnections>,
    cookies: MapHandle,
    release: bpfdb::Program,
    ring: RingBuffer<'static>,
    received: Rc<RefCell<Vec<Handover>>>,
    /// Keeps the program attached until the last connection is gone: see
    /// [`first_and_last`].
    _accept_ends: [OwnedFd; 2],
    _accept: Link,
    /// The same for the program that sees the clients of this machine.
    _local_ends: Option<[OwnedFd; 2]>,
    _local: Option<Local>,
    loaded: LoadedPrograms,
}

/// The programs, loaded and not yet attached: no client is served by them. Clones share them and their
/// maps; only one of them may be attached at a time.
#[derive(Clone)]
pub(crate) struct LoadedPrograms {
    front_end: FrontEnd,
    object: Arc<Object>,
}

impl LoadedPrograms {
    /// `local`: cgroup of the clients that are answered in their own send().
    pub(crate) fn load(
        front_end: FrontEnd,
        joining: &Joining<'_>,
        local: &LocalClients,
        port: u16,
    ) -> Result<Self> {
        let mut object = bpfdb::open_object(front_end.object, front_end.name)?;

        size(&mut object, joining.config().sessions)?;
        leave_out(&mut object, front_end, front_end.later);
        if *local == LocalClients::Off || !knows_how_clients_read() {
            leave_out(&mut object, front_end, &READING.map(|(name, _)| name));
        }
        set_port(&mut object, port)?;
        joining.adopt(&mut object)?;
        let object = object.load().map_err(bpf("load the network programs"))?;
        Ok(Self {
            front_end,
            object: Arc::new(object),
        })
    }

    /// `local`: as they were loaded for.
    pub(crate) fn attach(self, cgroup: &Cgroup, local: &LocalClients) -> Result<Programs> {
        let (front_end, object) = (self.front_end, &*self.object);
        let connections = map(object, "connections")?;
        let sessions = connections.max_entries();
        let connections = Rc::new(KernelConnections::map(connections.as_fd(), sessions)?);
        let (ring, received) = ring(object)?;
        let accept = attach(front_end, object, cgroup)?;
        let accept_ends = first_and_last(&accept)?;
        let local = attach_local(front_end, object, local)?;
        let local_ends =
            (local.as_ref().map(|local| first_and_last(&local.clients))).transpose()?;

        Ok(Programs {
            connections,
            cookies: map(object, "cookies")?,
            release: bpfdb::find_program(object, &front_end.program("release"))?,
            ring,
            received,
            _accept_ends: accept_ends,
            _accept: accept,
            _local_ends: local_ends,
            _local: local,
            loaded: self,
        })
    }
}

impl Programs {
    /// Index of the connection whose socket has this cookie.
    pub(crate) fn connection(&self, cookie: u64) -> Result<Option<u32>> {
        let found = self
            .cookies
            .lookup(&cookie.to_ne_bytes(), MapFlags::ANY)
            .map_err(bpf("look a connection up"))?;
        let index = found.and_then(|bytes| Some(u32::from_ne_bytes(bytes.try_into().ok()?)));
        Ok(index.filter(|&index| index < self.connections.len()))
    }

    pub(crate) fn flags(&self) -> Result<KernelFlags> {
        let maps = (self.map(".data.net")?, self.map(".data.audience")?);
        Ok(KernelFlags::new(maps.0, maps.1))
    }

    /// A map of the front end's own.
    pub(super) fn map(&self, name: &str) -> Result<MapHandle> {
        map(&self.loaded.object, name)
    }

    /// Another descriptor for each map, by its name, for programs that share them.
    pub(crate) fn shared_maps(&self) -> Result<Vec<(String, OwnedFd)>> {
        let object = &self.loaded.object;
        object
            .maps()
            .map(|map| {
                let name = map.name().to_string_lossy().into_owned();
                let fd = map.as_fd().try_clone_to_owned();
                Ok((name, fd.map_err(system("share a map"))?))
            })
            .collect()
    }

    /// The kernel's workers that send for us.
    pub(crate) fn workers(&self) -> Result<Workers> {
        Ok(Workers::new(self.map("workers")?))
    }

    /// The same programs, for a server that comes after this one.
    pub(crate) fn loaded(&self) -> LoadedPrograms {
        self.loaded.clone()
    }

    /// Ends the connection's session, if it still has one.
    pub(crate) fn release(&self, index: u32, cookie: u64) {
        if let Err(error) = self.release.run(&[u64::from(index), cookie]) {
            tracing::error!(%error, index, "cannot end the session of a connection");
        }
    }

    /// Becomes readable when there are handovers.
    pub(crate) fn ring_fd(&self) -> i32 {
        self.ring.epoll_fd()
    }

    pub(crate) fn handovers(&self) -> Vec<Handover> {
        if let Err(error) = self.ring.consume() {
            tracing::error!(%error, "cannot read what the kernel hands over");
        }
        self.received.take()
    }
}

/// When a process is killed, the kernel releases its files in the order of
/// their descriptors, or in the opposite one, as it is. The program that ends
/// sessions should be detached after the connections were closed: so there is a
/// file for it below theirs, and one above.
fn first_and_last(link: &Link) -> Result<[OwnedFd; 2]> {
    const LAST: i32 = 60_000;
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).map_err(system("look at limits"))?;
    let last = i32::try_from(soft / 2).unwrap_or(LAST).min(LAST);
    Ok([
        duplicate(open_link(link)?.as_fd(), 0)?,
        duplicate(open_link(link)?.as_fd(), last)?,
    ])
}

/// Another file for a link: a duplicate of a descriptor would share its file.
fn open_link(link: &Link) -> Result<OwnedFd> {
    let id = link.info().map_err(bpf("look at the link"))?.id;
    // SAFETY: plain system call; the result is checked.
    let fd = unsafe { libbpf_sys::bpf_link_get_fd_by_id(id) };
    match descriptor(fd) {
        // By its id it is opened with CAP_SYS_ADMIN only.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => open_link_by_pin(link, id),
        opened => opened.map_err(system("open the link")),
    }
}

/// The same by a pin, which is removed at once.
fn open_link_by_pin(link: &Link, id: u32) -> Result<OwnedFd> {
    let told = || system("open the link by a pin");
    let root = bpfdb::mounts::bpffs().map_err(told())?;
    let root = root.ok_or_else(|| told()(io::ErrorKind::NotFound.into()))?;
    let path = root.join("bpfdb").join(format!("link-{id}"));
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| told()(error.into()))?;
    // SAFETY: the name lives until the call is over; the result is checked.
    let pinned = unsafe { libbpf_sys::bpf_obj_pin(link.as_fd().as_raw_fd(), name.as_ptr()) };
    if pinned < 0 {
        return Err(told()(io::Error::from_raw_os_error(-pinned)));
    }
    // SAFETY: as above.
    let opened = descriptor(unsafe { libbpf_sys::bpf_obj_get(name.as_ptr()) });
    fs::remove_file(&path).map_err(told())?;
    opened.map_err(told())
}

/// What a system call returned that makes a descriptor.
fn descriptor(fd: i32) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: a new descriptor that is not shared.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A descriptor for the same, with the first free number from `least` on.
fn duplicate(fd: BorrowedFd<'_>, least: i32) -> Result<OwnedFd> {
    // SAFETY: plain system call; the result is checked.
    let new = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, least) };
    if new < 0 {
        return Err(system("keep the link")(std::io::Error::last_os_error()));
    }
    // SAFETY: a new descriptor that is not shared.
    Ok(unsafe { OwnedFd::from_raw_fd(new) })
}

fn map(object: &Object, name: &str) -> Result<MapHandle> {
    let map = object
        .maps()
        .find(|map| map.name() == name)
        .ok_or_else(|| Error::Unsupported(format!("the BPF object has no map {name}")))?;
    MapHandle::try_from(&map).map_err(bpf(format!("open map {name}")))
}

/// These programs are not loaded with the object.
fn leave_out(object: &mut OpenObject, front_end: FrontEnd, programs: &[&str]) {
    let names: Vec<String> = programs
        .iter()
        .map(|name| front_end.program(name))
        .collect();
    let is_left_out =
        |program: &OpenProgramMut<'_>| names.iter().any(|name| program.name() == name.as_str());
    for mut program in object.progs_mut().filter(is_left_out) {
        program.set_autoload(false);
    }
}

fn size(object: &mut OpenObject, sessions: u32) -> Result<()> {
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        let entries = match name.as_str() {
            "connections" | "cookies" | "flows" | "clients" => sessions,
            // Sockets of connections that have ended are there until they are closed.
            "sockets" => sessions + sessions / 2,
            "workers" => processors()?,
            // 4 KiB and 100 KiB each. Clients' threads that lose the processor in a message, or a
            // call, keep theirs.
            "contexts" => abi::BPFDB_CONTEXTS.max(2 * processors()?),
            "frames" => abi::BPFDB_FRAMES.max(2 * processors()?),
            // Two records of 32 bytes with header for each connection.
            "handovers" => (sessions * 64).next_power_of_two().max(page_size()),
            _ => continue,
        };
        map.set_max_entries(entries)
            .map_err(bpf(format!("size map {name}")))?;
    }
    Ok(())
}

fn processors() -> Result<u32> {
    let processors = libbpf_rs::num_possible_cpus().map_err(bpf("count the processors"))?;
    Ok(u32::try_from(processors).unwrap_or(u32::MAX))
}

fn page_size() -> u32 {
    // SAFETY: no preconditions.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u32::try_from(size).unwrap_or(4096)
}

fn set_port(object: &mut OpenObject, port: u16) -> Result<()> {
    for mut map in object.maps_mut() {
        if map.name() == ".rodata.net"
            && let Some(value) = map.initial_value_mut()
        {
            value[..4].copy_from_slice(&u32::from(port).to_ne_bytes());
            return Ok(());
        }
    }
    Err(Error::Unsupported("the BPF object has no port".into()))
}

fn ring(object: &Object) -> Result<(RingBuffer<'static>, Rc<RefCell<Vec<Handover>>>)> {
    let received = Rc::new(RefCell::new(Vec::new()));
    let sink = Rc::clone(&received);
    let handovers = map(object, "handovers")?;
    let mut builder = RingBufferBuilder::new();

    builder
        .add(&handovers, move |bytes| {
            if bytes.len() >= size_of::<abi::bpfdb_handover>() {
                // SAFETY: long enough; plain data written by our program.
                let record: abi::bpfdb_handover =
                    unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) };
                sink.borrow_mut().push(Handover {
                    index: record.connection,
                    cookie: record.cookie,
                });
            }
            0
        })
        .map_err(bpf("read what the kernel hands over"))?;
    let ring = builder
        .build()
        .map_err(bpf("read what the kernel hands over"))?;
    Ok((ring, received))
}

/// Sockets first: a connection that is accepted finds the programs in place.
fn attach(front_end: FrontEnd, object: &Object, cgroup: &Cgroup) -> Result<Link> {
    attach_sockets(object, &front_end.program("verdict"), "sockets")?;
    attach_sockets(object, &front_end.program("answer"), "sockets")?;
    attach_cgroup(object, &front_end.program("accept"), cgroup.fd())
}

/// What finds the clients of this machine, and finds how they read.
struct Local {
    clients: Link,
    _reading: [Link; 2],
}

/// The programs that see how a client reads, each on a tracepoint of the kernel.
const READING: [(&str, &str); 2] = [
    ("received", "sock_recv_length"),
    ("adjusted", "tcp_rcv_space_adjust"),
];

/// Has this kernel the tracepoints? Without them no client of this machine is answered
/// in its own send(): one that reads by splice() would wait for ever.
fn knows_how_clients_read() -> bool {
    Btf::from_vmlinux().is_ok_and(|btf| {
        READING.iter().all(|(_, point)| {
            let name = format!("btf_trace_{point}");
            btf.type_by_name::<types::Typedef<'_>>(&name).is_some()
        })
    })
}

fn attach_local(
    front_end: FrontEnd,
    object: &Object,
    local: &LocalClients,
) -> Result<Option<Local>> {
    match local {
        LocalClients::Off => Ok(None),
        LocalClients::In(path) => attach_clients(front_end, object, path).map(Some),
        // In a container, say, that sees no root.
        LocalClients::Auto => Ok(cgroup::root()
            .and_then(|root| attach_clients(front_end, object, &root))
            .inspect_err(|error| {
                tracing::warn!(%error, "clients of this machine are served through TCP");
            })
            .ok()),
    }
}

fn attach_clients(front_end: FrontEnd, object: &Object, path: &Path) -> Result<Local> {
    let [received, adjusted] = READING;
    let reading = [
        attach_reading(front_end, object, received)?,
        attach_reading(front_end, object, adjusted)?,
    ];
    let folder = File::open(path).map_err(system(format!("open cgroup {}", path.display())))?;
    attach_sockets(object, &front_end.program("answer"), "clients")?;
    Ok(Local {
        clients: attach_cgroup(object, &front_end.program("local"), folder.as_raw_fd())?,
        _reading: reading,
    })
}

fn attach_reading(
    front_end: FrontEnd,
    object: &Object,
    (name, point): (&str, &str),
) -> Result<Link> {
    let name = front_end.program(name);
    program(object, &name)?
        .attach()
        .map_err(bpf(format!("attach {name} to the tracepoint {point}")))
}

fn attach_sockets(object: &Object, name: &str, sockets: &str) -> Result<()> {
    let sockets = map(object, sockets)?;
    program(object, name)?
        .attach_sockmap(sockets.as_fd().as_raw_fd())
        .map_err(bpf(format!("attach {name}")))
}

/// By a link: programs of others in the same place go on running.
fn attach_cgroup(object: &Object, name: &str, cgroup: i32) -> Result<Link> {
    program(object, name)?
        .attach_cgroup(cgroup)
        .map_err(bpf(format!("attach {name} to the cgroup")))
}

fn program<'a>(object: &'a Object, name: &str) -> Result<ProgramMut<'a>> {
    object
        .progs_mut()
        .find(|program| program.name() == name)
        .ok_or_else(|| Error::Unsupported(format!("the BPF object has no program {name}")))
}
