//! The transport of the kernel (`bpf/net`) without Redis: a front end that sends back what comes
//! (`bpf/tests/echo.bpf.c`), and this program in the place of the daemon. It answers what is handed
//! over in capitals, so that a reply says where it was made, and hands the connection back as
//! `bpf/net/connection.bpf.h` describes.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use bpfdb::{Engine, Options, abi, objects, open_object};
use bpfdb_tests::process::alone_in_a_process;
use bpfdb_tests::server::{cgroup, patience};
use libbpf_rs::{Link, Map, MapCore, MapFlags, Object, OpenObject};

/// What the kernel answers at most, `ECHO_MAX` in `bpf/tests/echo.bpf.c`, bytes.
const ECHO_MAX: usize = 512;

/// A message of the protocol.
fn frame(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).expect("a short message");
    [&length.to_be_bytes(), bytes].concat()
}

fn small(length: usize) -> Vec<u8> {
    (0..length).map(|i| b'a' + (i % 26) as u8).collect()
}

// ---- Programs ----------------------------------------------------------------

fn map<'a>(object: &'a Object, name: &str) -> Map<'a> {
    let found = object.maps().find(|map| map.name() == name);
    found.unwrap_or_else(|| panic!("no map {name}"))
}

fn size_and_set_port(object: &mut OpenObject, sessions: u32, port: u16) {
    for mut map in object.maps_mut() {
        match &*map.name().to_string_lossy() {
            "connections" | "cookies" | "sockets" | "flows" | "clients" => {
                map.set_max_entries(sessions).expect("a size");
            }
            ".rodata.net" => {
                let value = map.initial_value_mut().expect("constants");
                value[..4].copy_from_slice(&u32::from(port).to_ne_bytes());
            }
            _ => {}
        }
    }
}

/// As the daemon does. Our end first: a client's end is looked for among ours.
fn attach(object: &Object, cgroup: &File) -> Vec<Link> {
    let program = |name: &str| {
        let found = object.progs_mut().find(|program| program.name() == name);
        found.unwrap_or_else(|| panic!("no program {name}"))
    };
    for (name, sockets) in [
        ("echo_verdict", "sockets"),
        ("echo_answer", "sockets"),
        ("echo_answer", "clients"),
    ] {
        let sockets = map(object, sockets).as_fd().as_raw_fd();
        program(name).attach_sockmap(sockets).expect("attached");
    }
    let reading = ["echo_received", "echo_adjusted"]
        .map(|name| program(name).attach().expect("attached to a tracepoint"));
    let ends = ["echo_accept", "echo_local"].map(|name| {
        program(name)
            .attach_cgroup(cgroup.as_raw_fd())
            .expect("attached to the cgroup")
    });
    reading.into_iter().chain(ends).collect()
}

// ---- In the place of the daemon ------------------------------------------------

/// The connection that both sides share.
struct Shared(*mut abi::bpfdb_connection);

impl Shared {
    /// The entry of the connection whose socket has this cookie, mapped into this process for good.
    fn of(object: &Object, socket: &TcpStream) -> Shared {
        let cookie = cookie_of(socket).to_ne_bytes();
        let found = map(object, "cookies").lookup(&cookie, MapFlags::ANY);
        let index = found.expect("a lookup").expect("the connection is known");
        let index = u32::from_ne_bytes(index.try_into().expect("an index")) as usize;
        let connections = map(object, "connections");
        let entry = size_of::<abi::bpfdb_connection>();
        let length = (connections.max_entries() as usize * entry).next_multiple_of(4096);
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                connections.as_fd().as_raw_fd(),
                0,
            )
        };
        assert_ne!(start, libc::MAP_FAILED, "the connections are mapped");
        // SAFETY: inside the mapping: the map has an entry for each index.
        Shared(unsafe { start.cast::<abi::bpfdb_connection>().add(index) })
    }

    fn word(&self, word: impl Fn(*mut abi::bpfdb_connection) -> *mut u64) -> &AtomicU64 {
        // SAFETY: an aligned word of the mapping, which stays.
        unsafe { AtomicU64::from_ptr(word(self.0)) }
    }

    fn arrived(&self) -> &AtomicU64 {
        // SAFETY: a place in the mapping.
        self.word(|c| unsafe { &raw mut (*c).arrived })
    }

    fn answered(&self) -> u64 {
        // SAFETY: a place in the mapping.
        self.word(|c| unsafe { &raw mut (*c).answered })
            .load(Ordering::Acquire)
    }

    fn local(&self) -> u64 {
        // SAFETY: a place in the mapping.
        self.word(|c| unsafe { &raw mut (*c).local })
            .load(Ordering::Acquire)
    }

    fn is_handed_over(&self) -> bool {
        self.arrived().load(Ordering::Acquire) & abi::BPFDB_CONNECTION_DAEMON != 0
    }

    /// Gives the connection back; so many bytes were consumed and sent here, ever. False: more has
    /// arrived.
    fn hand_back(&self, consumed: u64, sent: u64) -> bool {
        let all = self.answered() + consumed;
        // SAFETY: places in the mapping.
        unsafe {
            AtomicU64::from_ptr(&raw mut (*self.0).consumed).store(consumed, Ordering::Release);
            AtomicU64::from_ptr(&raw mut (*self.0).sent).store(sent, Ordering::Release);
            AtomicU32::from_ptr(&raw mut (*self.0).rebase).store(1, Ordering::Release);
        }
        self.arrived()
            .compare_exchange(
                abi::BPFDB_CONNECTION_DAEMON | all,
                all,
                Ordering::SeqCst,
                Ordering::Relaxed,
            )
            .is_ok()
    }
}

fn cookie_of(socket: &TcpStream) -> u64 {
    let mut cookie = 0u64;
    let mut length = size_of_val(&cookie) as libc::socklen_t;
    // SAFETY: the option is eight bytes long.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    assert_eq!(result, 0, "a socket has a cookie");
    cookie
}

/// Reads one message and answers it in capitals: its bytes, header included.
fn serve(socket: &mut TcpStream) -> u64 {
    let mut header = [0; 4];
    socket.read_exact(&mut header).expect("a header");
    let mut bytes = vec![0; u32::from_be_bytes(header) as usize];
    socket.read_exact(&mut bytes).expect("a message");
    bytes.make_ascii_uppercase();
    let reply = frame(&bytes);
    socket.write_all(&reply).expect("sent");
    reply.len() as u64
}

// ---- The test ------------------------------------------------------------------

fn ask(client: &mut TcpStream, request: &[u8], reply: &[u8]) {
    client.write_all(request).expect("sent");
    receive(client, reply);
}

fn receive(client: &mut TcpStream, reply: &[u8]) {
    let mut got = vec![0; reply.len()];
    client.read_exact(&mut got).expect("a reply");
    assert_eq!(got, reply);
}

fn nothing_to_read(socket: &TcpStream) -> bool {
    let error = socket.set_nonblocking(true).and_then(|()| {
        let peeked = socket.peek(&mut [0]);
        socket.set_nonblocking(false)?;
        peeked
    });
    error.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < patience(), "waiting until {what}");
        sleep(Duration::from_millis(1));
    }
}

/// The process enters a cgroup of its own, which the programs are attached to.
#[test]
fn a_protocol_without_resp_stands_on_the_transport() {
    alone_in_a_process(
        "transport::a_protocol_without_resp_stands_on_the_transport",
        echo,
    );
}

fn echo() {
    let group = File::open(cgroup::own()).expect("the cgroup");
    let engine = Engine::create(&Options {
        memory_limit: 64 << 20,
        max_sessions: 80,
        ..Options::default()
    })
    .expect("the engine starts");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    let test = objects::TESTS.iter().find(|object| object.name == "echo");
    let bytes = test.expect("the object").bytes;
    let mut object = open_object(bytes, "echo").expect("the object opens");
    size_and_set_port(
        &mut object,
        engine.joining().config().sessions,
        address.port(),
    );
    engine.adopt(&mut object).expect("the object is adopted");
    let object = object.load().expect("the programs load");
    let _attached = attach(&object, &group);

    let mut client = TcpStream::connect(address).expect("a connection");
    client
        .set_read_timeout(Some(patience()))
        .expect("a timeout");
    client.set_nodelay(true).expect("an option");
    let (mut ours, _) = listener.accept().expect("a connection");
    ours.set_read_timeout(Some(patience())).expect("a timeout");
    let shared = Shared::of(&object, &ours);

    answered_in_the_kernel(&mut client, &ours, &shared);
    let consumed = handed_over_and_back(&mut client, &mut ours, &shared);
    handed_over_while_contexts_are_taken(&object, &mut client, &mut ours, &shared, consumed);

    drop((client, ours));
    wait_until("the session is free again", || {
        map(&object, "cookies").keys().next().is_none()
    });
}

/// Alone, in parts, many in one message, and one that needs a gap for its reply; at first through
/// TCP, and in the client's own send() when it is known how that reads.
fn answered_in_the_kernel(client: &mut TcpStream, ours: &TcpStream, shared: &Shared) {
    for length in [5, 0, 1, 3, 4, 100, ECHO_MAX] {
        let message = frame(&small(length));
        ask(client, &message, &message);
    }
    let message = frame(&small(300));
    for part in [&message[..2], &message[2..4], &message[4..100]] {
        client.write_all(part).expect("sent");
        sleep(Duration::from_millis(2));
    }
    ask(client, &message[100..], &message);
    let many: Vec<u8> = (0..200).flat_map(|i| frame(&small(i))).collect();
    ask(client, &many, &many);
    let message = frame(b"local");
    wait_until("it is answered in its own send()", || {
        ask(client, &message, &message);
        shared.local() > 0
    });
    assert!(!shared.is_handed_over());
    assert!(nothing_to_read(ours), "all was answered in the kernel");
}

/// What is too long for the kernel is handed over with all that comes behind it, in order, and the
/// kernel answers again when it was handed back.
/// The bytes that were consumed here.
fn handed_over_and_back(client: &mut TcpStream, ours: &mut TcpStream, shared: &Shared) -> u64 {
    let (before, long, behind) = (small(7), small(ECHO_MAX + 1), small(9));
    let all = [frame(&before), frame(&long), frame(&behind)].concat();
    client.write_all(&all).expect("sent");
    receive(client, &frame(&before));
    let mut consumed = 0;
    for message in [&long, &behind] {
        consumed += serve(ours);
        receive(client, &frame(&message.to_ascii_uppercase()));
    }
    assert!(shared.is_handed_over());
    assert!(!shared.hand_back(consumed - 1, consumed), "bytes are left");
    assert!(shared.hand_back(consumed, consumed));
    let before = (shared.answered(), shared.local());
    let message = frame(&small(8));
    ask(client, &message, &message);
    assert_ne!((shared.answered(), shared.local()), before);
    assert!(!shared.is_handed_over());
    assert!(nothing_to_read(ours), "the kernel answers again");
    // Once more, now from the client's own send().
    wait_until("it is answered in its own send() again", || {
        let local = shared.local();
        ask(client, &message, &message);
        shared.local() > local
    });
    client.write_all(&frame(&long)).expect("sent");
    let all = consumed + serve(ours);
    receive(client, &frame(&long.to_ascii_uppercase()));
    assert!(shared.hand_back(all, all));
    ask(client, &message, &message);
    all
}

/// While other programs have all contexts a message goes through TCP and to the daemon.
fn handed_over_while_contexts_are_taken(
    object: &Object,
    client: &mut TcpStream,
    ours: &mut TcpStream,
    shared: &Shared,
    consumed: u64,
) {
    let message = frame(b"taken");
    set_contexts_taken(object, true);
    client.write_all(&message).expect("sent");
    let all = consumed + serve(ours);
    receive(client, &frame(b"TAKEN"));
    assert!(shared.is_handed_over());
    set_contexts_taken(object, false);
    assert!(shared.hand_back(all, all));
    ask(client, &message, &message);
    assert!(!shared.is_handed_over());
}

/// As if programs had them: `busy`, the first word of each (`bpf/net/context_words.bpf.h`).
fn set_contexts_taken(object: &Object, taken: bool) {
    let contexts = map(object, "contexts");
    let mut context = vec![0; contexts.value_size() as usize];
    context[0] = taken.into();
    for number in 0..contexts.max_entries() {
        contexts
            .update(&number.to_ne_bytes(), &context, MapFlags::ANY)
            .expect("a context");
    }
}
