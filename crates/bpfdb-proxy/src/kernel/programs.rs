//! The programs: loaded, attached, and told which ends are whose.

use std::cell::RefCell;
use std::fs::File;
use std::io::Read;
use std::mem::offset_of;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use libbpf_rs::{
    Link, MapCore, MapFlags, MapHandle, Object, OpenObject, ProgramMut, RingBuffer,
    RingBufferBuilder,
};

use super::abi;
use super::objects;
use super::places::{Graces, Places};
use super::shared::{Shared, Word};
use crate::error::{Error, Result, bpf, system};
use crate::io::slab::Id;
use crate::io::socket;

/// The network namespace of this process: not in every version of `libc`.
const SO_NETNS_COOKIE: i32 = 71;

pub(crate) struct Kernel {
    pub(crate) shared: Rc<Shared>,
    /// Ports of databases.
    known: MapHandle,
    ends: MapHandle,
    places: MapHandle,
    take: bpfdb::Program,
    parked: MapHandle,
    pub(super) texts: MapHandle,
    pub(super) names: MapHandle,
    sink: TcpStream,
    /// The other end of that.
    _sink_peer: TcpStream,
    ring: RingBuffer<'static>,
    told: Kept<abi::bpfdb_proxy_event>,
    copies: RingBuffer<'static>,
    copied: Kept<Copied>,
    graces: Graces,
    free_clients: Places,
    free_servers: Places,
    /// By slot.
    clients: Vec<Option<Id>>,
    servers: Vec<Option<Id>>,
    /// `None`: connections that begin now are another proxy's.
    connections: Option<Link>,
    _object: Object,
}

/// What came of asking for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Server(u32),
    None,
    /// One is free in a moment.
    Busy,
}

impl Kernel {
    /// `port`: of the proxy. `ports`: of the databases.
    pub(crate) fn load(cgroup: &Path, port: u16, ports: &[u16]) -> Result<Self> {
        let mut object = bpfdb::open_object(objects::PG, "pg")?;
        set_constants(&mut object, port)?;
        let object = object
            .load()
            .map_err(bpf("load the programs of the proxy"))?;
        let shared = Rc::new(Shared::map(map(&object, ".bss.proxy")?.as_fd())?);
        let known = map(&object, "database_ports")?;
        let ends = map(&object, "ends")?;
        program(&object, "pg_send")?
            .attach_sockmap(ends.as_fd().as_raw_fd())
            .map_err(bpf("attach pg_send"))?;
        let (ring, told) = ring_of(&object, "events", event)?;
        let (copies, copied) = ring_of(&object, "copies", copied)?;
        let (sink, sink_peer) = sink(&ends)?;
        let folder =
            File::open(cgroup).map_err(system(format!("open cgroup {}", cgroup.display())))?;
        let connections = program(&object, "pg_connections")?
            .attach_cgroup(folder.as_raw_fd())
            .map_err(bpf("attach pg_connections"))?;
        let kernel = Self {
            shared,
            known,
            ends,
            places: map(&object, "places")?,
            take: bpfdb::find_program(&object, "pg_take")?,
            parked: map(&object, "parked")?,
            texts: map(&object, "texts")?,
            names: map(&object, "names")?,
            sink,
            _sink_peer: sink_peer,
            ring,
            told,
            copies,
            copied,
            graces: Graces::start()?,
            free_clients: Places::new(abi::BPFDB_PROXY_CLIENTS),
            free_servers: Places::new(abi::BPFDB_PROXY_SERVERS),
            clients: vec![None; abi::BPFDB_PROXY_CLIENTS as usize],
            servers: vec![None; abi::BPFDB_PROXY_SERVERS as usize],
            connections: Some(connections),
            _object: object,
        };
        kernel.know_ports(ports)?;
        Ok(kernel)
    }

    /// Looks at no connections any more that begin from now on.
    pub(crate) fn detach(&mut self) {
        self.connections = None;
    }

    /// The map of sockets. What was brought to one and is not read is there while a process has the map.
    pub(crate) fn ends(&self) -> BorrowedFd<'_> {
        self.ends.as_fd()
    }

    /// Databases are at these ports, too.
    pub(crate) fn know_ports(&self, ports: &[u16]) -> Result<()> {
        for port in ports {
            let key = u32::from(*port).to_ne_bytes();
            let known = self.known.update(&key, &key, MapFlags::ANY);
            known.map_err(bpf("name the port of a database"))?;
        }
        Ok(())
    }

    /// Becomes readable when the programs tell something.
    pub(crate) fn ring_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring has its descriptor for as long as it is there.
        unsafe { BorrowedFd::borrow_raw(self.ring.epoll_fd()) }
    }

    /// Becomes readable when there are copies of requests.
    pub(crate) fn copies_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: as above.
        unsafe { BorrowedFd::borrow_raw(self.copies.epoll_fd()) }
    }

    /// Requests that the kernel has brought, for mirrors.
    pub(crate) fn copied(&self) -> Vec<Copied> {
        if let Err(error) = self.copies.consume() {
            tracing::error!(%error, "cannot read what the programs have copied");
        }
        self.copied.take()
    }

    pub(crate) fn sink_fd(&self) -> BorrowedFd<'_> {
        self.sink.as_fd()
    }

    /// Throws away what is for no client.
    pub(crate) fn empty_sink(&mut self) {
        let mut bytes = [0; 4096];
        while matches!(self.sink.read(&mut bytes), Ok(1..)) {}
    }

    /// The request of a client that waits, which is the process's then.
    pub(crate) fn take_parked(&self, slot: u32) -> Vec<u8> {
        let length = self.shared.parked(slot).swap(0, Ordering::SeqCst) as usize;
        let found = self.parked.lookup(&slot.to_ne_bytes(), MapFlags::ANY);
        let mut bytes = found.ok().flatten().unwrap_or_default();
        bytes.truncate(length);
        bytes
    }

    pub(crate) fn told(&self) -> Vec<abi::bpfdb_proxy_event> {
        if let Err(error) = self.ring.consume() {
            tracing::error!(%error, "cannot read the events of the programs");
        }
        self.told.take()
    }

    pub(crate) fn client_at(&self, slot: u32) -> Option<Id> {
        *self.clients.get(slot as usize)?
    }

    pub(crate) fn server_at(&self, slot: u32) -> Option<Id> {
        *self.servers.get(slot as usize)?
    }

    /// Has the programs know a client, SLOW at first. `None`: its end is not on this machine, or not in
    /// the cgroup, or there is no place.
    pub(crate) fn add_client(&mut self, id: Id, fd: BorrowedFd<'_>, pool: u32) -> Option<u32> {
        let end = end_of(socket::peer(fd)?, abi::BPFDB_PROXY_CLIENT);
        if pool >= abi::BPFDB_PROXY_POOLS || !self.has_end(&end) {
            return None;
        }
        let slot = self.free_clients.take(&self.graces)?;
        let word = self.word(slot);
        let client = self.shared.client(slot);
        // SAFETY: no program uses a client that is CLOSED but for its word.
        unsafe {
            (&raw mut (*client).pool).write_volatile(pool);
            (&raw mut (*client).parked).write_volatile(0);
            (&raw mut (*client).unread).write_volatile(0);
            (&raw mut (*client).copies).write_volatile(0);
            (&raw mut (*client).lost).write_volatile(0);
            (&raw mut (*client).names).write_volatile(0);
            (&raw mut (*client).asked).write_volatile(0);
            (&raw mut (*client).end).write_volatile(end);
        }
        let generation = word.generation();
        let begins = Word::new(abi::BPFDB_PROXY_IDLE, 0, generation);
        self.set_word(slot, begins.with(abi::BPFDB_PROXY_SLOW, true));
        if !self.place(&end, slot, generation) {
            self.set_word(slot, Word::new(abi::BPFDB_PROXY_CLOSED, 0, generation));
            self.free_clients.put_back(slot);
            return None;
        }
        self.clients[slot as usize] = Some(id);
        Some(slot)
    }

    pub(crate) fn remove_client(&mut self, slot: u32) {
        let generation = (self.word(slot).generation() + 1) & 0xffff;
        self.set_word(slot, Word::new(abi::BPFDB_PROXY_CLOSED, 0, generation));
        // SAFETY: only the process writes it.
        let end = unsafe { (&raw const (*self.shared.client(slot)).end).read_volatile() };
        // It is gone by itself if its place is another's.
        let _ = self.places.delete(bytes(&end));
        self.clients[slot as usize] = None;
        self.free_clients.leave(slot, &mut self.graces);
    }

    /// The same for a server, which the process has at first.
    pub(crate) fn add_server(&mut self, id: Id, fd: BorrowedFd<'_>, pool: u32) -> Option<u32> {
        let end = end_of(socket::own(fd)?, abi::BPFDB_PROXY_BACKEND);
        if pool >= abi::BPFDB_PROXY_POOLS || !self.has_end(&end) {
            return None;
        }
        let slot = self.free_servers.take(&self.graces)?;
        let server = self.shared.server(slot);
        self.own(slot);
        self.shared.begin_server(slot);
        // SAFETY: no program uses a server that is not active.
        let generation = unsafe {
            (&raw mut (*server).pool).write_volatile(pool);
            (&raw mut (*server).socket).write_volatile(0);
            (&raw mut (*server).unread).write_volatile(0);
            (&raw mut (*server).stage).write_volatile(0);
            (&raw mut (*server).stream).write_volatile(abi::bpfdb_proxy_stream::default());
            (&raw mut (*server).end).write_volatile(end);
            (&raw mut (*server).asked).write_volatile(0);
            (&raw mut (*server).begun).write_volatile(0);
            let traffic = abi::bpfdb_proxy_traffic::default();
            (&raw mut (*server).traffic).write_volatile(traffic);
            (&raw mut (*server).active).write_volatile(1);
            (&raw const (*server).generation).read_volatile()
        };
        if !self.place(&end, slot, generation) {
            // SAFETY: as above.
            unsafe { (&raw mut (*server).active).write_volatile(0) };
            self.shared.end_server(slot);
            self.free_servers.put_back(slot);
            return None;
        }
        self.servers[slot as usize] = Some(id);
        Some(slot)
    }

    pub(crate) fn remove_server(&mut self, slot: u32, pool: u32) {
        let server = self.shared.server(slot);
        self.own(slot);
        // SAFETY: only the process writes these.
        let end = unsafe {
            (&raw mut (*server).active).write_volatile(0);
            let generation = (&raw const (*server).generation).read_volatile();
            (&raw mut (*server).generation).write_volatile(generation.wrapping_add(1));
            (&raw const (*server).end).read_volatile()
        };
        self.shared.list(pool, slot, false);
        let _ = self.places.delete(bytes(&end));
        self.shared.end_server(slot);
        self.servers[slot as usize] = None;
        self.free_servers.leave(slot, &mut self.graces);
    }

    pub(crate) fn word(&self, slot: u32) -> Word {
        Word(self.shared.word(slot).load(Ordering::SeqCst))
    }

    pub(crate) fn set_word(&self, slot: u32, word: Word) {
        self.shared.word(slot).store(word.0, Ordering::SeqCst);
    }

    /// Changes the word by `change`, at once; what it was.
    pub(crate) fn change_word(
        &self,
        slot: u32,
        change: impl Fn(Word) -> Option<Word>,
    ) -> Result<Word, Word> {
        let changed =
            self.shared
                .word(slot)
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |word| {
                    Some(change(Word(word))?.0)
                });
        changed.map(Word).map_err(Word)
    }

    /// A free server of the pool, which is the process's then.
    pub(crate) fn take(&self, pool: u32) -> Taken {
        match self.take.run(&[u64::from(pool), 0]) {
            Ok(abi::BPFDB_PROXY_NONE) => Taken::None,
            Ok(abi::BPFDB_PROXY_BUSY) => Taken::Busy,
            Ok(server) => Taken::Server(server - 1),
            Err(error) => {
                tracing::error!(%error, "cannot take a server");
                Taken::None
            }
        }
    }

    /// The same of one server; is it the process's?
    pub(crate) fn take_this(&self, pool: u32, place: u32) -> bool {
        let taken = self.take.run(&[u64::from(pool), u64::from(place) + 1]);
        matches!(taken, Ok(found) if found == place + 1)
    }

    /// The process uses a server.
    pub(crate) fn own(&self, place: u32) {
        let owner = self.shared.owner(place);
        owner.store(abi::BPFDB_PROXY_PROCESS, Ordering::SeqCst);
    }

    fn has_end(&self, end: &abi::bpfdb_proxy_end) -> bool {
        matches!(self.ends.lookup(bytes(end), MapFlags::ANY), Ok(Some(_)))
    }

    fn place(&self, end: &abi::bpfdb_proxy_end, index: u32, generation: u32) -> bool {
        let place = abi::bpfdb_proxy_place { index, generation };
        let placed = self.places.update(bytes(end), bytes(&place), MapFlags::ANY);
        if let Err(error) = &placed {
            tracing::warn!(%error, "the kernel cannot serve a connection");
        }
        placed.is_ok()
    }
}

fn end_of(address: SocketAddr, role: u32) -> abi::bpfdb_proxy_end {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut words = [0; 4];
    for (word, four) in words.iter_mut().zip(ip.octets().chunks_exact(4)) {
        *word = u32::from_ne_bytes(four.try_into().expect("four bytes"));
    }
    abi::bpfdb_proxy_end {
        address: words,
        port: u32::from(address.port()),
        role,
    }
}

/// The bytes of a structure without gaps.
pub(super) fn bytes<T: Copy>(value: &T) -> &[u8] {
    // SAFETY: plain data; the structures of proxy.h have no padding that is not a field.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// A connection to ourselves, whose one end takes what is for no client.
fn sink(ends: &MapHandle) -> Result<(TcpStream, TcpStream)> {
    let failed = || system("make a sink");
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed())?;
    let address = listener.local_addr().map_err(failed())?;
    let sink = TcpStream::connect(address).map_err(failed())?;
    let (peer, _) = listener.accept().map_err(failed())?;
    sink.set_nonblocking(true).map_err(failed())?;
    let end = abi::bpfdb_proxy_end {
        role: abi::BPFDB_PROXY_SINK,
        ..Default::default()
    };
    let fd = (sink.as_raw_fd() as u64).to_ne_bytes();
    ends.update(bytes(&end), &fd, MapFlags::ANY)
        .map_err(bpf("make a sink"))?;
    Ok((sink, peer))
}

fn set_constants(object: &mut OpenObject, port: u16) -> Result<()> {
    let constants = abi::bpfdb_proxy_constants {
        network: network()?,
        port: u32::from(port),
        pad: 0,
    };
    for mut map in object.maps_mut() {
        if map.name() == ".rodata.proxy"
            && let Some(value) = map.initial_value_mut()
        {
            let bytes = bytes(&constants);
            value[..bytes.len()].copy_from_slice(bytes);
            return Ok(());
        }
    }
    Err(Error::Settings("the BPF object has no constants".into()))
}

fn network() -> Result<u64> {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").map_err(system("make a socket"))?;
    let mut cookie = 0u64;
    let mut len = size_of_val(&cookie) as libc::socklen_t;
    // SAFETY: the value is as long as len says.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut len,
        )
    };
    match result {
        0 => Ok(cookie),
        _ => Err(system("ask for the network namespace")(
            std::io::Error::last_os_error(),
        )),
    }
}

/// A request that the kernel has brought.
#[derive(Debug)]
pub(crate) struct Copied {
    /// The slot of its client.
    pub(crate) client: u32,
    pub(crate) generation: u32,
    /// A transaction begins with it.
    pub(crate) begins: bool,
    /// So many of its client's transactions had found no room, ever.
    pub(crate) lost: u32,
    pub(crate) bytes: Vec<u8>,
}

fn event(bytes: &[u8]) -> Option<abi::bpfdb_proxy_event> {
    let is_whole = bytes.len() >= size_of::<abi::bpfdb_proxy_event>();
    // SAFETY: long enough; plain data written by our program.
    is_whole.then(|| unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
}

fn copied(record: &[u8]) -> Option<Copied> {
    let at = offset_of!(abi::bpfdb_proxy_copy, bytes);
    let (head, bytes) = record.split_at_checked(at)?;
    let mut numbers = head.chunks_exact(4).map(|four| {
        let four = four.try_into().expect("four bytes");
        u32::from_ne_bytes(four)
    });
    let (client, generation) = (numbers.next()?, numbers.next()?);
    let (length, begins) = (numbers.next()? as usize, numbers.next()? != 0);
    let lost = numbers.next()?;
    Some(Copied {
        client,
        generation,
        begins,
        lost,
        bytes: bytes.get(..length)?.to_vec(),
    })
}

/// What was read of a ring, and is not taken yet.
type Kept<T> = Rc<RefCell<Vec<T>>>;

fn ring_of<T: 'static>(
    object: &Object,
    name: &str,
    read: fn(&[u8]) -> Option<T>,
) -> Result<(RingBuffer<'static>, Kept<T>)> {
    let kept = Kept::default();
    let keeps = Rc::clone(&kept);
    let records = map(object, name)?;
    let failed = || bpf("read the events of the programs");
    let mut builder = RingBufferBuilder::new();
    builder
        .add(&records, move |bytes| {
            keeps.borrow_mut().extend(read(bytes));
            0
        })
        .map_err(failed())?;
    let ring = builder.build().map_err(failed())?;
    Ok((ring, kept))
}

fn map(object: &Object, name: &str) -> Result<MapHandle> {
    let map = object
        .maps()
        .find(|map| map.name() == name)
        .ok_or_else(|| Error::Settings(format!("the BPF object has no map {name}")))?;
    MapHandle::try_from(&map).map_err(bpf(format!("open map {name}")))
}

fn program<'a>(object: &'a Object, name: &str) -> Result<ProgramMut<'a>> {
    object
        .progs_mut()
        .find(|program| program.name() == name)
        .ok_or_else(|| Error::Settings(format!("the BPF object has no program {name}")))
}
