//! Objects that join an engine, rightly or not: docs/joining.md. Its loaders (`examples/loaders`)
//! are built and run as the page says.

use crate::common;
use crate::contributing::Tree;
use crate::owner::{Place, unowned};

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb::objects::COMPILER;
use bpfdb::{Claim, Engine, Error, Joining, Options, Session, Status, abi};
use libbpf_rs::{MapHandle, MapInfo, OpenObject};
use nix::sched::{CloneFlags, unshare};

#[path = "../../../../examples/loaders/rust/src/main.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "a program, of which the test runs a part"
)]
mod loader;

/// The page that describes the protocol.
const PAGE: &str = include_str!("../../../../docs/joining.md");
/// The maps that an object shares, as the page lists them.
const SHARED: [&str; 12] = [
    "segments",
    "directory",
    "slabs",
    "sessions",
    "snapshots",
    "snapshot_groups",
    "removals",
    "log_state",
    "log_rings",
    "counters",
    "maintenance",
    ".data.bpfdb",
];
const CONFIG: &str = ".rodata.bpfdb";
/// What `open_and_set` of bpf/tests/joining.bpf.c writes.
const KEY: [u8; 8] = 7_u64.to_ne_bytes();
/// For what takes milliseconds, on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(120);

// ---- Objects -------------------------------------------------------------------------

fn pinned(folder: &Path) -> Engine {
    let engine = common::engine();
    engine.pin(folder).expect("pinned");
    engine
}

fn pin_name(map: &str) -> String {
    map.trim_start_matches('.').replace('.', "_")
}

fn open_pin(folder: &Path, map: &str) -> MapHandle {
    MapHandle::from_pinned_path(folder.join(pin_name(map))).expect("it is pinned")
}

fn object(bytes: &[u8]) -> OpenObject {
    bpfdb::open_object(bytes, "joining").expect("the object opens")
}

/// As a loader does it.
fn share(object: &mut OpenObject, folder: &Path) {
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if SHARED.contains(&name.as_str()) {
            let pin = open_pin(folder, &name);
            map.reuse_fd(pin.as_fd()).expect("the map is shared");
        }
    }
}

/// As a loader that compares nothing.
fn configure(object: &mut OpenObject, config: &abi::bpfdb_config) {
    let mut maps = object.maps_mut();
    let mut map = maps.find(|map| map.name() == CONFIG).expect("constants");
    // SAFETY: plain data, read as bytes.
    let bytes = unsafe {
        std::slice::from_raw_parts(
            std::ptr::from_ref(config).cast::<u8>(),
            size_of::<abi::bpfdb_config>(),
        )
    };
    let value = map.initial_value_mut().expect("they have values");
    value.copy_from_slice(bytes);
}

/// The engine's configuration, and a holder.
fn config(engine: &Engine, folder: &Path) -> abi::bpfdb_config {
    let holder = MapInfo::new(open_pin(folder, CONFIG).as_fd()).expect("about the map");
    abi::bpfdb_config {
        holder: holder.info.id,
        ..engine.config()
    }
}

/// What its program says.
fn outcome(object: OpenObject) -> Status {
    let object = object.load().expect("the object loads");
    let program = bpfdb::find_program(&object, "open_and_set").expect("the program");
    let code = program.run(&[]).expect("the program runs");
    Status::from_code(code).expect("a status")
}

fn not_joined(engine: &Engine) -> u64 {
    let stats = engine.stats().expect("figures");
    stats.counters.statuses[Status::NotJoined.code() as usize]
}

/// Nothing was written, and no session is open.
fn is_untouched(engine: &Engine) {
    let mut session = engine.session().expect("a session");
    assert_eq!(session.get(&KEY), Ok(None));
    drop(session);
    assert_eq!(engine.stats().expect("figures").sessions, 0);
}

#[test]
fn the_page_names_every_map_and_pin() {
    let place = Place::new();
    let folder = place.folder();
    let _engine = pinned(&folder);
    let mut pins: Vec<String> = std::fs::read_dir(&folder)
        .expect("the folder")
        .map(|pin| pin.expect("a pin").file_name().into_string().expect("text"))
        .collect();
    pins.sort();
    let mut expected: Vec<String> = SHARED
        .iter()
        .chain([&CONFIG])
        .map(|n| pin_name(n))
        .collect();
    expected.sort();
    assert_eq!(pins, expected);
    for name in SHARED.iter().chain([&CONFIG]) {
        for named in [*name, &pin_name(name)] {
            assert!(PAGE.contains(&format!("`{named}`")), "{named}");
        }
    }
}

#[test]
fn an_object_that_has_joined_writes() {
    let place = Place::new();
    let folder = place.folder();
    let engine = pinned(&folder);
    let mut joined = object(common::bytes_of("joining"));
    share(&mut joined, &folder);
    configure(&mut joined, &config(&engine, &folder));
    assert_eq!(outcome(joined), Status::Ok);
    let mut session = engine.session().expect("a session");
    let one = 1_u64.to_ne_bytes().to_vec();
    assert_eq!(session.get(&KEY), Ok(Some(one)));
    assert_eq!(not_joined(&engine), 0);
}

/// Before the engine's own programs are there.
#[test]
fn an_object_joins_while_the_engine_is_created_or_opened() {
    let load = |joining: &Joining<'_>| {
        let mut joined = object(common::bytes_of("joining"));
        joining.adopt(&mut joined).expect("it joins");
        let joined = joined.load().expect("the object loads");
        bpfdb::find_program(&joined, "open_and_set").expect("the program")
    };
    let writes = |engine: &Engine, program: &bpfdb::Program| {
        let code = program.run(&[]).expect("the program runs");
        assert_eq!(Status::from_code(code), Some(Status::Ok));
        let mut session = engine.session().expect("a session");
        let value = 1_u64.to_ne_bytes().to_vec();
        assert_eq!(session.get(&KEY), Ok(Some(value)));
    };
    let place = Place::new();
    let folder = place.folder();
    let created = Engine::create_beside(&common::options(), load);
    let (engine, program) = created.expect("the engine starts");
    writes(&engine, &program);
    engine.pin(&folder).expect("pinned");
    drop((engine, program));

    let claim = Claim::take(&folder).expect("nobody has it");
    let opened = Engine::open_claimed_beside(&claim, 0, load);
    let (engine, program) = opened.expect("the engine is there");
    let mut session = engine.session().expect("a session");
    session.delete(&KEY).expect("deleted");
    drop(session);
    writes(&engine, &program);
}

#[test]
fn an_object_that_has_not_joined_opens_no_session() {
    let place = Place::new();
    let folder = place.folder();
    let options = Options {
        log_ring: 1 << 20,
        ..common::options()
    };
    let engine = Engine::create(&options).expect("the engine starts");
    engine.pin(&folder).expect("pinned");
    let other = common::engine();
    let right = config(&engine, &folder);
    let without_log = abi::bpfdb_config {
        log_ring: 0,
        ..right
    };
    let wrong = [
        ("no holder", abi::bpfdb_config { holder: 0, ..right }),
        (
            "another engine's",
            abi::bpfdb_config {
                identity: other.config().identity,
                ..right
            },
        ),
        ("no log", without_log),
        (
            "other versions",
            abi::bpfdb_config {
                versions: right.versions - 1,
                ..right
            },
        ),
    ];

    // Nothing shared: with its own configuration, and with the engine's.
    let bytes = common::bytes_of("joining");
    assert_eq!(outcome(object(bytes)), Status::NotJoined);
    let mut alone = object(bytes);
    configure(&mut alone, &without_log);
    assert_eq!(outcome(alone), Status::NotJoined);
    // The maps shared, and its own configuration.
    let mut unconfigured = object(bytes);
    share(&mut unconfigured, &folder);
    assert_eq!(outcome(unconfigured), Status::NotJoined);
    assert_eq!(not_joined(&engine), 1, "it is counted");
    for (what, config) in wrong {
        let mut joined = object(bytes);
        share(&mut joined, &folder);
        configure(&mut joined, &config);
        assert_eq!(outcome(joined), Status::NotJoined, "{what}");
    }
    is_untouched(&engine);
}

/// Of each: what is changed in the headers, and what `adopt` says.
fn other_headers() -> [(&'static str, String, String, &'static str); 3] {
    let version = |number: u32| format!("#define BPFDB_ABI_VERSION {number}");
    [
        (
            "include/bpfdb/abi.h",
            "\t__u32 key_len;\n\t__u32 value_len;\n\t__u64 value[2];".into(),
            "\t__u32 value_len;\n\t__u32 key_len;\n\t__u64 value[2];".into(),
            "struct bpfdb_session differs at key_len",
        ),
        (
            "include/bpfdb/abi.h",
            version(abi::BPFDB_ABI_VERSION),
            version(abi::BPFDB_ABI_VERSION + 1),
            "another version of bpfdb",
        ),
        (
            "include/bpfdb/limits.h",
            "#define BPFDB_READERS_MAX 1023".into(),
            "#define BPFDB_READERS_MAX 511".into(),
            "another version of bpfdb",
        ),
    ]
}

fn are_refused(headers: &[(&'static str, String, String, &'static str)]) {
    let place = Place::new();
    let folder = place.folder();
    let engine = pinned(&folder);
    for (file, old, new, told) in headers {
        let tree = Tree::copy();
        tree.replace(file, old, new);
        let bytes = tree.compile("tests/joining");
        // Before it is loaded,
        let refused = engine.adopt(&mut object(&bytes)).expect_err(new);
        assert!(matches!(refused, Error::Invalid(_)), "{refused}");
        assert!(refused.to_string().contains(told), "{refused}");
        // and by the kernel, if a loader compares nothing.
        let mut joined = object(&bytes);
        share(&mut joined, &folder);
        configure(&mut joined, &config(&engine, &folder));
        assert_eq!(outcome(joined), Status::NotJoined, "{new}");
    }
    is_untouched(&engine);
}

/// Of another layout, and of another version.
#[test]
fn an_object_of_other_headers_is_refused() {
    are_refused(&other_headers()[..2]);
}

#[test]
#[ignore = "compiles each: make soak"]
fn soak_objects_of_all_other_headers_are_refused() {
    are_refused(&other_headers());
}

fn unpin(folder: &Path) {
    unowned(|| Claim::take(folder))
        .and_then(|claim| claim.clear())
        .expect("unpinned");
}

#[test]
fn an_engine_that_was_replaced_is_noticed() {
    let place = Place::new();
    let folder = place.folder();
    let engine = pinned(&folder);
    let old = Engine::attach(&folder).expect("attached");
    let is_in = |engine: &Engine| engine.is_in(&folder).expect("the pins can be read");
    assert!(is_in(&old) && is_in(&engine));
    drop(engine);
    assert!(is_in(&old), "an engine without an owner is still there");
    unpin(&folder);
    assert!(!is_in(&old));
    let refused = Engine::attach(&folder).expect_err("none is there");
    assert!(matches!(refused, Error::NotPinned { .. }), "{refused}");

    let engine = pinned(&folder);
    assert!(!is_in(&old) && is_in(&engine));
    let new = Engine::attach(&folder).expect("attached");
    assert!(is_in(&new));
    let mut joined = object(common::bytes_of("joining"));
    new.adopt(&mut joined).expect("joined");
    assert_eq!(outcome(joined), Status::Ok);
    let mut session = engine.session().expect("a session");
    assert!(matches!(session.get(&KEY), Ok(Some(_))));
}

/// With the frame that docs/embedding.md promises; its size is that of bpf/tests/joining.bpf.c.
#[test]
fn a_program_has_a_frame_of_its_own() {
    let page = include_str!("../../../../docs/embedding.md");
    assert!(page.contains("104 bytes"));
    let source = include_str!("../../../../bpf/tests/joining.bpf.c");
    assert!(source.contains("#define FRAME 104\n"));
    let engine = common::engine();
    let object = common::load(&engine, "joining");
    let program = bpfdb::find_program(&object, "from_a_frame").expect("the program");
    assert_eq!(program.run(&[]).expect("the program runs"), 0);
}

// ---- Loaders -------------------------------------------------------------------------

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/loaders")
}

/// Runs make in the folder of the loaders, with the headers in `tree`.
fn make(tree: &Tree, target: &str) {
    let output = Command::new("make")
        .current_dir(examples())
        // Of a make that runs the tests.
        .env_remove("MAKEFLAGS")
        .arg(format!("BPFDB={}", tree.path().display()))
        .arg(format!("OUT={}", tree.path().display()))
        .arg(format!("CLANG={}", COMPILER[0]))
        .arg(concat!("LIBBPF=-I", env!("OUT_DIR"), "/libbpf-headers"))
        .arg(concat!("LIBS=", env!("OUT_DIR"), "/libbpf.a -lelf -lz"))
        .arg(target)
        .output()
        .expect("make runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "make {target}: {errors}");
}

/// What `count_direct.bpf.c` becomes with the headers that there are, and with those of another
/// version. Each loader has both: they are compiled once, which takes seconds.
struct Objects {
    right: Vec<u8>,
    other: Vec<u8>,
}

impl Objects {
    fn get() -> &'static Self {
        static OBJECTS: LazyLock<Objects> = LazyLock::new(|| {
            let tree = Tree::copy();
            let compile = || {
                make(&tree, "count_direct.o");
                fs::read(tree.path().join("count_direct.o")).expect("the object")
            };
            let right = compile();
            let (file, old, new, _) = &other_headers()[1];
            tree.replace(file, old, new);
            Objects {
                right,
                other: compile(),
            }
        });
        &OBJECTS
    }
}

/// A loader that runs, and the lines that it prints.
struct Loader {
    child: Child,
    lines: Receiver<String>,
}

impl Loader {
    fn start(mut command: Command) -> Self {
        common::end_with_this_thread(&mut command);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("started");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let (say, lines) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // The test may have ended.
                let _ = say.send(line);
            }
        });
        Self { child, lines }
    }

    fn has_joined(&self) {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).expect("it joins");
            if line.ends_with("joined") {
                return;
            }
        }
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn count(session: &mut Session, key: &[u8]) -> u64 {
    let value = session.get(key).expect("get");
    value.map_or(0, |value| {
        u64::from_ne_bytes(value.try_into().expect("eight bytes"))
    })
}

/// Sends packets until some are counted.
fn packets_are_counted(engine: &Engine) {
    let receiver = UdpSocket::bind("127.0.0.1:0").expect("an address");
    let to = receiver.local_addr().expect("an address");
    let mut session = engine.session().expect("a session");
    let start = Instant::now();
    while count(&mut session, b"packets") < 10 {
        assert!(start.elapsed() < PATIENCE, "packets are counted");
        receiver.send_to(b"packet", to).expect("sent");
    }
    session.begin_read_only().expect("begin");
    let all = count(&mut session, b"packets");
    assert_eq!(count(&mut session, &[127, 0, 0, 1]), all);
    session.commit().expect("commit");
}

/// A loader with FOLDER, OBJECT, PROGRAM and INTERFACE.
type Start = fn(&Tree, [&str; 4]) -> Command;

fn attaches_and_joins_again(tree: &Tree, start: Start) {
    let place = Place::new();
    let folder = place.folder();
    unshare(CloneFlags::CLONE_NEWNET).expect("a network of our own");
    let up = Command::new("ip")
        .args(["link", "set", "lo", "up"])
        .status();
    assert!(up.expect("ip runs").success());
    let objects = Objects::get();
    let object = tree.path().join("count_direct.o");
    fs::write(&object, &objects.right).expect("written");
    let folder_text = folder.to_str().expect("text");
    let object_text = object.to_str().expect("text");
    let command = || start(tree, [folder_text, object_text, "count_direct", "lo"]);

    let engine = pinned(&folder);
    let loader = Loader::start(command());
    loader.has_joined();
    packets_are_counted(&engine);
    // A server that is started anew without its data.
    drop(engine);
    unpin(&folder);
    let engine = pinned(&folder);
    loader.has_joined();
    packets_are_counted(&engine);
    // The owner closes the sessions of a loader that was killed.
    drop(loader);
    let began = Instant::now();
    while engine.stats().expect("figures").sessions > 0 {
        assert!(began.elapsed() < PATIENCE, "the sessions are closed");
        thread::sleep(Duration::from_millis(10));
    }

    fs::write(&object, &objects.other).expect("written");
    let output = command().output().expect("it runs");
    assert!(!output.status.success());
    let mut said = String::from_utf8_lossy(&output.stderr).into_owned();
    said += &String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("another version of bpfdb"), "{said}");
}

#[test]
fn a_loader_in_c() {
    let tree = Tree::copy();
    make(&tree, "c");
    attaches_and_joins_again(&tree, |tree, arguments| {
        let mut command = Command::new(tree.path().join("join_c"));
        command.args(arguments);
        command
    });
}

/// What comes from the network comes at the second or third attempt, too.
fn download_modules() -> Result<(), String> {
    let folder = examples().join("go");
    let mut failure = String::new();
    for pause in [0, 2, 10] {
        thread::sleep(Duration::from_secs(pause));
        let download = Command::new("go")
            .current_dir(&folder)
            .env("GOTOOLCHAIN", "auto")
            .args(["mod", "download"])
            .output()
            .map_err(|error| {
                format!("go, which scripts/setup.sh installs, does not run: {error}")
            })?;
        if download.status.success() {
            return Ok(());
        }
        failure = String::from_utf8_lossy(&download.stderr).into_owned();
    }
    Err(format!("the modules cannot be had: {failure}"))
}

#[test]
fn a_loader_in_go() {
    if let Err(failure) = download_modules() {
        // The machine of `make vm` has no network. Elsewhere the compiler is a tool as any other.
        let is_emulated = std::env::var_os("BPFDB_TEST_EMULATED").is_some();
        assert!(is_emulated, "{failure}");
        println!("skipped: {failure}");
        return;
    }
    let tree = Tree::copy();
    make(&tree, "go");
    attaches_and_joins_again(&tree, |tree, arguments| {
        let mut command = Command::new(tree.path().join("join_go"));
        command.args(arguments);
        command
    });
}

const ARGUMENTS: [&str; 4] = [
    "BPFDB_TEST_FOLDER",
    "BPFDB_TEST_OBJECT",
    "BPFDB_TEST_PROGRAM",
    "BPFDB_TEST_DEVICE",
];

/// Not a test: the loader, as a process of its own.
#[test]
#[ignore = "run by the test"]
fn loader_process() {
    let [folder, object, program, device] = ARGUMENTS.map(|name| std::env::var(name).ok());
    let (Some(folder), Some(object), Some(program), Some(device)) =
        (folder, object, program, device)
    else {
        return;
    };
    let ended = loader::run(folder.as_ref(), object.as_ref(), &program, &device);
    panic!("{:#}", ended.expect_err("it runs until it is killed"));
}

#[test]
fn a_loader_in_rust() {
    let tree = Tree::copy();
    attaches_and_joins_again(&tree, |_, arguments| {
        let mut command = common::this_program("joining::loader_process");
        command.envs(ARGUMENTS.into_iter().zip(arguments));
        command
    });
}
