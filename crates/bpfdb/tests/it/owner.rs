//! One process owns an engine, others attach to it; any of them may be killed at any time.
//!
//! The other process is this program again, which plays one of the roles below, says when
//! it has come to its step, and is killed there.

use crate::common;

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use bpfdb::{
    Access, Engine, Error, Options, Session, Shortage, Status, Tracking, abi, find_program, objects,
};
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, ProgramInput};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

const ROLE: &str = "BPFDB_TEST_ROLE";
const FOLDER: &str = "BPFDB_TEST_FOLDER";
/// What begins a line of a role.
const SAYS: &str = "role says ";
/// Within this time after a process was killed nothing of it is left: the owner looks
/// every second, and the kernel takes a moment to free programs.
const BOUND: Duration = Duration::from_secs(5);
/// Keys that are there from the beginning.
const KEPT: u32 = 2000;
const VALUE: usize = 3000;

/// What a process does until it is killed.
type Role = fn(&Path);

const OWNERS: [(&str, Role); 7] = [
    ("opened", |folder| hold(&own(folder))),
    ("session", |folder| with_session(&own(folder))),
    ("transaction", |folder| with_transaction(&own(folder))),
    ("growing", |folder| growing(&own(folder), "owner")),
    ("sweeping", |folder| sweeping(&own(folder))),
    ("retired", |folder| with_retired_pages(&own(folder))),
    ("embedded", |folder| with_packets(&own(folder))),
];

const ATTACHED: [(&str, Role); 5] = [
    ("attached opened", |folder| hold(&attach(folder))),
    ("attached session", |folder| with_session(&attach(folder))),
    ("attached transaction", |folder| {
        with_transaction(&attach(folder));
    }),
    ("attached growing", |folder| {
        growing(&attach(folder), "attached");
    }),
    ("attached embedded", |folder| with_packets(&attach(folder))),
];

const OTHERS: [(&str, Role); 3] = [
    ("pinning", pinning),
    ("forked", forked),
    ("writing", writing),
];

// ---- Roles -----------------------------------------------------------------------

/// Not a test: the other process.
#[test]
#[ignore = "run by the tests"]
fn process() {
    let Ok(name) = std::env::var(ROLE) else {
        return;
    };
    let folder = PathBuf::from(std::env::var_os(FOLDER).expect("a folder"));
    let roles = OWNERS.iter().chain(&ATTACHED).chain(&OTHERS);
    let role = roles.into_iter().find(|role| role.0 == name);
    role.expect("a role").1(&folder);
}

fn say(what: &str) {
    println!("{SAYS}{what}");
    std::io::stdout().flush().expect("somebody listens");
}

fn own(folder: &Path) -> Engine {
    open_soon(folder)
}

fn attach(folder: &Path) -> Engine {
    Engine::attach(folder).expect("the engine is there")
}

/// Until it is killed.
fn wait() -> ! {
    say("ready");
    loop {
        sleep(Duration::from_secs(60));
    }
}

fn hold(_engine: &Engine) {
    wait();
}

fn with_session(engine: &Engine) {
    let mut session = engine.session().expect("a session");
    assert_eq!(session.get(&key("kept", 1)), Ok(Some(value("kept", 1))));
    wait();
}

/// More locks than a session has room for, a large value half built, and a snapshot.
fn with_transaction(engine: &Engine) {
    let mut reader = engine.session().expect("a session");
    let mut writer = engine.session().expect("a session");
    reader.begin_read_only().expect("begin");
    writer.begin().expect("begin");
    for number in 0..200 {
        writer.set(&key("kept", number), b"lost").expect("set");
        writer.set(&key("new", number), b"lost").expect("set");
    }
    writer.begin_large(&vec![7; 4 * 65536], 1 << 20);
    wait();
}

const GROWN: u32 = 20_000;

/// Commits one key after the other, and says which.
fn growing(engine: &Engine, name: &str) {
    let mut session = engine.session().expect("a session");
    say("ready");
    for number in 0..GROWN {
        session
            .set(&key(name, number), &value(name, number))
            .unwrap_or_else(|status| panic!("key {number}: {status}"));
        if number % 100 == 99 {
            say(&format!("committed {number}"));
        }
    }
    wait();
}

fn sweeping(engine: &Engine) {
    let mut session = engine.session().expect("a session");
    say("ready");
    loop {
        for number in 0..20_000u32 {
            session.set(&number.to_ne_bytes(), b"passing").expect("set");
        }
        for number in 0..20_000u32 {
            session.delete(&number.to_ne_bytes()).expect("delete");
        }
        engine.sweep().expect("sweep");
    }
}

/// Merges pages of the index and does not come to give them back.
fn with_retired_pages(engine: &Engine) {
    // Before there is anything to sweep: while it loads, the engine would do that itself.
    let object = common::open(engine, objects::ENGINE, "engine");
    let object = object.load().expect("the object loads");
    let mut session = engine.session().expect("a session");
    for number in 0..20_000u32 {
        session.set(&number.to_ne_bytes(), b"passing").expect("set");
    }
    for number in 0..20_000u32 {
        session.delete(&number.to_ne_bytes()).expect("delete");
    }
    let taken = engine.stats().expect("figures").pages_taken;
    let program = find_program(&object, "bpfdb_run").expect("the program");
    let run = |call: u32| {
        let context = [call.into(), 1, taken - 1, 0, 0, 0];
        for _ in 0..8 {
            program.run(&context).expect("the program runs");
        }
    };
    run(abi::BPFDB_DRIVER_SWEEP);
    let before = engine.stats().expect("figures").index_pages;
    run(abi::BPFDB_DRIVER_MERGE);
    let after = engine.stats().expect("figures").index_pages;
    say(&format!("retired {}", before - after));
    wait();
}

/// An adopted program with a session of its own.
fn with_packets(engine: &Engine) {
    let object = packets(engine);
    send_packet(&object);
    wait();
}

fn pinning(folder: &Path) {
    let engine = Engine::create(&options()).expect("the engine starts");
    say("ready");
    engine.pin(folder).expect("pinned");
    wait();
}

/// Ends, and leaves a child behind.
fn forked(folder: &Path) {
    let _engine = own(folder);
    // SAFETY: the child makes system calls only.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: no pointers. If it is not ended, it ends by itself.
            unsafe { libc::alarm(60) };
            loop {
                // SAFETY: as above.
                unsafe { libc::pause() };
            }
        }
        child => say(&format!("child {child}")),
    }
    // SAFETY: as if it had crashed: nothing is dropped.
    unsafe { libc::_exit(0) };
}

/// An attached process with much to write, which ends by itself.
fn writing(folder: &Path) {
    let engine = attach(folder);
    let name = std::process::id().to_string();
    let mut session = engine.session().expect("a session");
    for number in 0..WRITTEN {
        session
            .set(&key(&name, number), &value(&name, number))
            .unwrap_or_else(|status| panic!("key {number}: {status}"));
    }
    let large: Vec<u8> = (0..3_000_000u32).map(|i| (i / 7) as u8).collect();
    session.set(&key(&name, WRITTEN), &large).expect("set");
    assert!(session.get(&key(&name, WRITTEN)) == Ok(Some(large)));
}

const WRITTEN: u32 = 6000;

// ---- The other side ----------------------------------------------------------------

fn options() -> Options {
    Options {
        memory_limit: 256 << 20,
        memory_ahead: 0,
        max_sessions: 64,
        user_sessions: 4,
        // On an emulated machine opening an engine takes half a minute; transactions wait for it.
        idle_limit: Duration::from_secs(600),
        ..Options::default()
    }
}

fn key(name: &str, number: u32) -> Vec<u8> {
    format!("{name} {number}").into_bytes()
}

/// Tells of whom it is at every place.
fn value(name: &str, number: u32) -> Vec<u8> {
    let mut bytes = format!("{number} of {name}, ")
        .into_bytes()
        .repeat(VALUE / 8);
    bytes.truncate(VALUE);
    bytes
}

fn packets(engine: &Engine) -> Object {
    let named = |object: &&objects::TestObject| object.name == "count_direct";
    let example = objects::EXAMPLES.iter().find(named).expect("embedded");
    let object = common::open(engine, example.bytes, "count_direct");
    object.load().expect("the object loads")
}

fn send_packet(object: &Object) {
    let mut packet = vec![0; 64];
    packet[12..14].copy_from_slice(&[0x08, 0x00]);
    packet[14] = 0x45;
    packet[26..30].copy_from_slice(&[192, 0, 2, 1]);
    let program = object.progs_mut().find(|p| p.name() == "count_direct");
    let input = ProgramInput {
        data_in: Some(&packet),
        ..Default::default()
    };
    program.expect("program").test_run(input).expect("run");
}

/// A bpf file system that only this thread and its children see, and that vanishes with
/// them.
pub(crate) struct Place {
    root: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().expect("a folder");
        let none = None::<&str>;
        unshare(CloneFlags::CLONE_NEWNS).expect("mounts of our own");
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).expect("private");
        mount(
            Some("bpfdb-test"),
            root.path(),
            Some("bpf"),
            MsFlags::empty(),
            none,
        )
        .expect("a bpf file system");
        Self { root }
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.root.path().join("engine")
    }

    /// An engine with data, whose owner has ended.
    fn with_data() -> Self {
        let place = Self::new();
        let engine = Engine::create(&options()).expect("the engine starts");
        engine.pin(&place.folder()).expect("pinned");
        let mut session = engine.session().expect("a session");
        for number in 0..KEPT {
            let (key, value) = (key("kept", number), value("kept", number));
            session.set(&key, &value).expect("set");
        }
        place
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = nix::mount::umount2(self.root.path(), nix::mount::MntFlags::MNT_DETACH);
    }
}

/// A process in one of the roles.
struct Other {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Other {
    fn start(role: &str, folder: &Path) -> Self {
        let mut command = common::this_program("owner::process");
        command
            .env(ROLE, role)
            .env(FOLDER, folder)
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("started");
        let output = child.stdout.take().expect("piped");
        Self {
            child,
            lines: BufReader::new(output).lines(),
        }
    }

    /// The next thing it says; None when it has ended.
    fn hear(&mut self) -> Option<String> {
        let mut lines = self.lines.by_ref().map_while(Result::ok);
        lines.find_map(|line| Some(line.split(SAYS).nth(1)?.to_owned()))
    }

    fn until_ready(role: &str, folder: &Path) -> (Self, Vec<String>) {
        let mut other = Self::start(role, folder);
        let mut said = Vec::new();
        loop {
            let line = other.hear().unwrap_or_else(|| panic!("{role} has ended"));
            if line == "ready" {
                return (other, said);
            }
            said.push(line);
        }
    }

    /// What it had said, too.
    fn kill(mut self) -> Vec<String> {
        self.child.kill().expect("killed");
        self.child.wait().expect("gone");
        std::iter::from_fn(|| self.hear()).collect()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < BOUND, "{what}: not within {BOUND:?}");
        sleep(Duration::from_millis(10));
    }
}

/// Sessions, transactions, snapshots, locks.
fn open_things(engine: &Engine) -> (u64, u64, u64, u64) {
    let stats = engine.stats().expect("figures");
    (
        stats.sessions,
        stats.transactions,
        stats.snapshots,
        stats.locks,
    )
}

fn holds(session: &mut Session, name: &str, numbers: u32) {
    for number in 0..numbers {
        let found = session.get(&key(name, number));
        assert!(
            found == Ok(Some(value(name, number))),
            "{name} {number}: {found:?}"
        );
    }
}

/// The data is right, whichever process was killed; what is written now disturbs nothing of it.
fn data_is_right(engine: &Engine, name: &str, said: &[String]) {
    let last = said.iter().rev().find_map(|line| {
        let number = line.strip_prefix("committed ")?;
        number.parse::<u32>().ok()
    });
    let committed = last.map_or(0, |last| last + 1);
    let mut session = engine.session().expect("a session");
    for number in 0..1000 {
        let (key, value) = (key("after", number), value("after", number));
        session.set(&key, &value).expect("set");
    }
    holds(&mut session, "kept", KEPT);
    holds(&mut session, name, committed);
    holds(&mut session, "after", 1000);
    assert_eq!(session.get(&key("new", 0)), Ok(None));
    // Nobody's locks are in the way.
    for number in 0..KEPT {
        let (key, value) = (key("kept", number), value("kept", number));
        session.set(&key, &value).expect("set");
    }
}

/// It is killed in the middle of its work.
fn let_it_work(role: &str) {
    if role.ends_with("growing") {
        sleep(Duration::from_millis(60));
    } else if role == "sweeping" {
        sleep(Duration::from_millis(400));
    }
}

/// Waits until the engine has no owner. A process that another test begins has all files of this one,
/// and with them the lock, until it executes its program.
pub(crate) fn unowned<T>(mut attempt: impl FnMut() -> bpfdb::Result<T>) -> bpfdb::Result<T> {
    let start = Instant::now();
    loop {
        match attempt() {
            Err(Error::Owned { .. }) if start.elapsed() < BOUND => {
                sleep(Duration::from_millis(1));
            }
            result => return result,
        }
    }
}

fn try_open(folder: &Path) -> bpfdb::Result<Engine> {
    unowned(|| Engine::open(folder, 0))
}

fn open_soon(folder: &Path) -> Engine {
    try_open(folder).expect("it has no owner")
}

/// Without those who have less than a transaction: it has a session, and an engine.
fn with_most(roles: &[(&'static str, Role)]) -> Vec<&'static str> {
    let has_less = |name: &str| name.ends_with("opened") || name.ends_with("session");
    let names = roles.iter().map(|role| role.0);
    names.filter(|name| !has_less(name)).collect()
}

#[test]
fn an_owner_is_killed_at_every_step() {
    owners_are_killed(&with_most(&OWNERS));
}

#[test]
#[ignore = "an engine or two for each: make soak"]
fn soak_an_owner_is_killed_at_every_step() {
    owners_are_killed(&OWNERS.map(|role| role.0));
}

fn owners_are_killed(roles: &[&str]) {
    let place = Place::with_data();
    let folder = place.folder();
    for &role in roles {
        let (other, mut said) = Other::until_ready(role, &folder);
        let refused = Engine::open(&folder, 0).expect_err("it has an owner");
        assert!(matches!(refused, Error::Owned { .. }), "{role}: {refused}");
        let_it_work(role);
        said.extend(other.kill());
        println!("{role}: {:?}", said.last());

        let engine = open_soon(&folder);
        // Those of other programs when the kernel has taken these away.
        if role != "embedded" {
            assert_eq!(open_things(&engine), (0, 0, 0, 0), "{role}");
        }
        wait_until(role, || open_things(&engine) == (0, 0, 0, 0));
        data_is_right(&engine, "owner", &said);
    }
}

#[test]
fn an_attached_process_is_killed_at_every_step() {
    attached_are_killed(&with_most(&ATTACHED));
}

#[test]
#[ignore = "an engine or two for each: make soak"]
fn soak_an_attached_process_is_killed_at_every_step() {
    attached_are_killed(&ATTACHED.map(|role| role.0));
}

fn attached_are_killed(roles: &[&str]) {
    let place = Place::with_data();
    let folder = place.folder();
    let engine = open_soon(&folder);
    for &role in roles {
        let (other, mut said) = Other::until_ready(role, &folder);
        let_it_work(role);
        said.extend(other.kill());
        println!("{role}: {:?}", said.last());
        wait_until(role, || open_things(&engine) == (0, 0, 0, 0));
        data_is_right(&engine, "attached", &said);
    }
}

#[test]
fn what_a_dead_owner_retired_is_given_back() {
    let place = Place::with_data();
    let folder = place.folder();
    let (other, said) = Other::until_ready("retired", &folder);
    let retired: u64 = said
        .iter()
        .find_map(|line| line.strip_prefix("retired ")?.parse().ok())
        .expect("a number");
    assert!(retired > 4, "{retired} pages");
    let observer = bpfdb::Observer::open(&folder).expect("it is pinned");
    let free = || observer.stats().expect("figures").pages_free;
    let before = free();
    other.kill();
    let _engine = open_soon(&folder);
    assert!(free() >= before + retired, "{before}, then {}", free());
}

/// After each of these delays, microseconds. The last is enough for an emulated machine.
fn kill_while_it_pins(delays: &[u64]) {
    let place = Place::new();
    let folder = place.folder();
    let mut whole = 0;
    for &delay in delays {
        let (other, _) = Other::until_ready("pinning", &folder);
        sleep(Duration::from_micros(delay));
        other.kill();
        let engine = if Engine::is_pinned(&folder) {
            whole += 1;
            open_soon(&folder)
        } else {
            let engine = Engine::create(&options()).expect("the engine starts");
            engine.pin(&folder).expect("what is left is no obstacle");
            engine
        };
        let mut session = engine.session().expect("a session");
        session.set(b"a", b"1").expect("set");
        drop((session, engine));
        unowned(|| bpfdb::Claim::take(&folder))
            .and_then(|claim| claim.clear())
            .expect("cleared");
    }
    println!("{whole} were pinned");
    assert!(whole > 0);
}

#[test]
fn an_owner_is_killed_while_it_pins() {
    kill_while_it_pins(&[0, 200, 400, 1_000_000]);
}

#[test]
#[ignore = "an engine or two for each: make soak"]
fn soak_an_owner_is_killed_while_it_pins() {
    kill_while_it_pins(&[0, 100, 200, 300, 400, 600, 1000, 20_000, 1_000_000]);
}

/// Without luck: what is left when the last pin is missing.
#[test]
fn pins_that_are_not_all_there_are_replaced() {
    let place = Place::new();
    let folder = place.folder();
    let engine = Engine::create(&options()).expect("the engine starts");
    engine.pin(&folder).expect("pinned");
    std::fs::remove_file(folder.join("rodata_bpfdb")).expect("the last pin");
    drop(engine);
    let engine = Engine::create(&options()).expect("the engine starts");
    engine.pin(&folder).expect("pinned");
    drop(engine);
    drop(open_soon(&folder));
    // A whole engine is not replaced.
    let other = Engine::create(&options()).expect("the engine starts");
    let refused = other.pin(&folder).expect_err("another engine's");
    assert!(matches!(refused, Error::Invalid(_)), "{refused}");
}

/// As if an older or a newer bpfdb had pinned it: the layout version is the first word of the
/// engine's state.
fn pin_with_version(folder: &Path, change: impl Fn(u32) -> u32) -> u32 {
    let state = folder.join("data_bpfdb");
    let state = MapHandle::from_pinned_path(state).expect("the state is pinned");
    let key = 0_u32.to_ne_bytes();
    let bytes = state.lookup(&key, MapFlags::ANY).expect("read");
    let mut bytes = bytes.expect("it has a value");
    let word = bytes.first_chunk_mut().expect("a word");
    let version = change(u32::from_ne_bytes(*word));
    *word = version.to_ne_bytes();
    state.update(&key, &bytes, MapFlags::ANY).expect("written");
    version
}

#[test]
fn an_engine_of_another_layout_is_refused() {
    let place = Place::with_data();
    let folder = place.folder();
    let refused = |version: u32| {
        let told = format!("the pinned engine has layout version {version}, this program ");
        let refusals = [
            ("open", try_open(&folder).map(drop)),
            ("attach", Engine::attach(&folder).map(drop)),
            ("observe", bpfdb::Observer::open(&folder).map(drop)),
        ];
        for (who, result) in refusals {
            let refusal = result.expect_err(who).to_string();
            assert!(refusal.contains(&told), "{who}: {refusal}");
        }
    };
    refused(pin_with_version(&folder, |version| version + 1));
    refused(pin_with_version(&folder, |version| version - 2));
    // Nothing was changed by the attempts.
    pin_with_version(&folder, |version| version + 1);
    holds(
        &mut open_soon(&folder).session().expect("a session"),
        "kept",
        KEPT,
    );
    // One that has other maps is refused for the same reason.
    let version = pin_with_version(&folder, |version| version - 1);
    std::fs::remove_file(folder.join("removals")).expect("it was pinned");
    refused(version);
}

#[test]
fn an_engine_has_one_owner() {
    let place = Place::new();
    let folder = place.folder();
    let missing = try_open(&folder).expect_err("nothing is pinned");
    assert!(matches!(missing, Error::NotPinned { .. }), "{missing}");

    let engine = Engine::create(&options()).expect("the engine starts");
    engine.pin(&folder).expect("pinned");
    let again = engine.pin(&place.root.path().join("other"));
    assert!(matches!(again, Err(Error::Invalid(_))), "{again:?}");
    let started = Instant::now();
    let refused = Engine::open(&folder, 0).expect_err("it has an owner");
    assert!(started.elapsed() < Duration::from_secs(1));
    assert!(refused.to_string().contains("Engine::attach"), "{refused}");

    // The engine has its owner until the last session is gone.
    let session = engine.session().expect("a session");
    drop(engine);
    Engine::open(&folder, 0).expect_err("it has an owner");
    drop(session);
    drop(open_soon(&folder));
}

#[test]
fn who_is_attached_is_no_owner() {
    let place = Place::new();
    let folder = place.folder();
    let engine = Engine::create(&options()).expect("the engine starts");
    engine.pin(&folder).expect("pinned");
    let attached = attach(&folder);
    assert!(engine.is_owned() && !attached.is_owned());

    let refused = [
        attached.pin(&place.root.path().join("other")),
        attached.set_memory_limit(64 << 20),
        attached.sweep(),
        attached.reap(),
    ];
    for result in refused {
        assert!(matches!(result, Err(Error::Attached { .. })), "{result:?}");
    }
    // Buffers and sessions are each one's own, and all see the same data.
    let mut ours: Vec<Session> = (0..4)
        .map(|_| engine.session().expect("a session"))
        .collect();
    let mut theirs: Vec<Session> = (0..4)
        .map(|_| attached.session().expect("a session"))
        .collect();
    let wrong = attached.close_session(ours[0].index());
    wrong.expect("it does nothing");
    ours[0].begin().expect("begin");
    ours[0].set(b"a", b"1").expect("set");
    assert_eq!(theirs[0].set(b"a", b"2"), Err(Status::Conflict));
    ours[0].commit().expect("commit");
    for (ours, theirs) in ours.iter_mut().zip(&mut theirs) {
        assert_eq!(theirs.get(b"a"), Ok(Some(b"1".to_vec())));
        assert_eq!(ours.get(b"a"), Ok(Some(b"1".to_vec())));
    }
    drop((ours, theirs, attached));
    assert_eq!(open_things(&engine), (0, 0, 0, 0));
}

/// They share what opens them, not more: each goes on when the other is gone.
#[test]
fn an_attached_process_outlives_the_owner() {
    let place = Place::with_data();
    let folder = place.folder();
    let attached = attach(&folder);
    let mut session = attached.session().expect("a session");
    session.begin().expect("begin");
    session.set(b"a", b"1").expect("set");
    // A new owner ends nothing that is not its own.
    let engine = open_soon(&folder);
    sleep(Duration::from_millis(2500));
    session.commit().expect("commit");
    drop(engine);
    holds(&mut session, "kept", KEPT);
    assert_eq!(session.get(b"a"), Ok(Some(b"1".to_vec())));
}

#[test]
fn a_forked_child_keeps_the_engine() {
    let place = Place::with_data();
    let folder = place.folder();
    let mut other = Other::start("forked", &folder);
    let child: i32 = std::iter::from_fn(|| other.hear())
        .find_map(|line| line.strip_prefix("child ")?.parse().ok())
        .expect("it has forked");
    other.child.wait().expect("it ends");
    let refused = Engine::open(&folder, 0);
    // SAFETY: no pointers. It is the process that was named, and it is not waited for.
    assert_eq!(unsafe { libc::kill(child, libc::SIGKILL) }, 0);
    assert!(matches!(refused, Err(Error::Owned { .. })), "{refused:?}");
    wait_until("the child is gone", || Engine::open(&folder, 0).is_ok());
}

#[test]
fn memory_grows_for_those_who_are_attached() {
    let place = Place::with_data();
    let folder = place.folder();
    let engine = open_soon(&folder);
    let mut others = [0, 1].map(|_| Other::start("writing", &folder));
    let mut session = engine.session().expect("a session");
    for number in 0..WRITTEN {
        let (key, value) = (key("beside", number), value("beside", number));
        session.set(&key, &value).expect("set");
    }
    for other in &mut others {
        assert!(other.child.wait().expect("it ends").success());
        let name = other.child.id().to_string();
        holds(&mut session, &name, WRITTEN);
    }
    holds(&mut session, "beside", WRITTEN);
    holds(&mut session, "kept", KEPT);
    assert!(engine.stats().expect("figures").segments > 4);
}

/// Sessions that a program opened are its as long as it is there.
#[test]
fn sessions_of_programs_that_are_gone_are_freed() {
    let engine = Engine::create(&options()).expect("the engine starts");
    let object = packets(&engine);
    send_packet(&object);
    assert_eq!(open_things(&engine), (1, 0, 0, 0));
    sleep(Duration::from_millis(2500));
    assert_eq!(open_things(&engine), (1, 0, 0, 0));
    drop(object);
    wait_until("its session is free", || {
        open_things(&engine) == (0, 0, 0, 0)
    });
}

/// What was noted of accesses, and that memory that is full is waited for, ends with the owner.
#[test]
fn a_new_owner_evicts_nothing() {
    let place = Place::new();
    let folder = place.folder();
    let engine = Engine::create(&Options {
        memory_limit: 16 << 20,
        ..options()
    });
    let engine = engine.expect("the engine starts");
    engine.pin(&folder).expect("pinned");
    engine.set_access_tracking(Tracking::Lru).expect("set");
    engine.set_shortage(Shortage::Passes).expect("set");
    drop(engine);

    let engine = open_soon(&folder);
    let mut session = engine.session().expect("session");
    session.set(b"key", b"value").expect("set");
    assert_eq!(session.access_of(b"key"), Ok(Some(Access::Unknown)));
    let fill = |number: u32| session.set(&number.to_le_bytes(), &[1; 4000]);
    let full = (0..100_000).map(fill).find_map(Result::err);
    assert_eq!(full, Some(Status::OutOfMemory));
}
