//! Does what CONTRIBUTING.md says, with the code that stands there: adds a command to the
//! kernel and an operator to a copy of the sources, compiles, loads and executes them.

use crate::common;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::time::Duration;

use bpfdb::objects::COMPILER;
use bpfdb::{abi, mounts};
use libbpf_rs::{Link, MapCore, MapFlags, Object, OpenObject};

const PATIENCE: Duration = Duration::from_secs(60);

// ---- The walk --------------------------------------------------------------

/// A block of code in CONTRIBUTING.md, and the file that it is for.
struct Block {
    file: String,
    text: String,
}

/// The blocks of the section with this title.
fn blocks(title: &str) -> Vec<Block> {
    let page = include_str!("../../../../CONTRIBUTING.md");
    let section = page
        .split("\n## ")
        .find_map(|section| section.strip_prefix(title)?.strip_prefix('\n'))
        .unwrap_or_else(|| panic!("CONTRIBUTING.md has no section {title:?}"));
    let block = |text: &str| {
        let (file, text) = text.split_once('\n')?;
        let text = text.split("   ```").next()?;
        let lines = text
            .lines()
            .map(|line| line.strip_prefix("   ").unwrap_or(line));
        Some(Block {
            file: file.trim().to_owned(),
            text: lines.map(|line| format!("{line}\n")).collect(),
        })
    };
    section.split("```c ").skip(1).filter_map(block).collect()
}

/// A copy of the sources, removed in the end.
pub(crate) struct Tree(tempfile::TempDir);

impl Tree {
    pub(crate) fn copy() -> Self {
        let tree = Self(tempfile::tempdir().expect("a folder"));
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for folder in ["bpf", "include"] {
            copy_folder(&root.join(folder), &tree.0.path().join(folder));
        }
        tree
    }

    /// Follows a section of CONTRIBUTING.md.
    fn follow(&self, title: &str) {
        let blocks = blocks(title);
        assert!(blocks.len() >= 3, "{title}: {} blocks", blocks.len());
        for Block { file, text } in blocks {
            let path = self.0.path().join(&file);
            let new = match fs::read_to_string(&path) {
                Ok(old) => insert(&old, &text).unwrap_or_else(|| panic!("{file}: no place")),
                Err(_) => text,
            };
            self.write(&file, &new);
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.0.path().join(file), text).expect("written");
    }

    /// The file has the text `old`, which becomes `new`.
    pub(crate) fn replace(&self, file: &str, old: &str, new: &str) {
        let text = fs::read_to_string(self.0.path().join(file)).expect("a source");
        assert!(text.contains(old), "{file} has no {old:?}");
        self.write(file, &text.replace(old, new));
    }

    /// The object made of `bpf/NAME.bpf.c`.
    pub(crate) fn compile(&self, name: &str) -> Vec<u8> {
        let object = self.0.path().join(format!("bpf/{name}.o"));
        let output = Command::new(COMPILER[0])
            .current_dir(self.0.path())
            .args(&COMPILER[1..])
            .args(["-c", &format!("bpf/{name}.bpf.c"), "-o"])
            .arg(&object)
            .output()
            .expect("the compiler runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        fs::read(object).expect("the object")
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy_folder(&path, &target);
        } else {
            fs::copy(&path, target).expect("copied");
        }
    }
}

/// Where a block belongs in a file that there is: the row of a list by the alphabet if it
/// goes on behind it, else at the end; an #include before the others; all else before the
/// last #endif.
fn insert(old: &str, text: &str) -> Option<String> {
    let name = |line: &str| {
        Some(
            line.trim_start()
                .strip_prefix("X(")?
                .split(',')
                .next()?
                .to_owned(),
        )
    };
    let Some(new) = name(text) else {
        let at = if text.starts_with("#include") {
            old.find("#include")?
        } else {
            old.rfind("\n#endif")? + 1
        };
        return Some(format!("{}{text}{}", &old[..at], &old[at..]));
    };
    let goes_on = text.trim_end().ends_with('\\');
    let rows: Vec<(usize, &str)> = old
        .lines()
        .enumerate()
        .filter(|(_, line)| name(line).is_some())
        .collect();
    let mut lines: Vec<String> = old.lines().map(String::from).collect();
    if goes_on {
        let (at, _) = rows
            .iter()
            .find(|(_, row)| name(row).is_some_and(|row| row > new))?;
        lines.insert(*at, text.trim_end().to_owned());
    } else {
        let (last, _) = rows.last()?;
        lines[*last].push_str(" \\");
        lines.insert(last + 1, text.trim_end().to_owned());
    }
    Some(lines.join("\n") + "\n")
}

// ---- A command of the kernel -----------------------------------------------

/// A cgroup of this test's own, in which this process is for a moment: sockets that it
/// creates then are seen by programs that are attached to it.
struct Cgroup(PathBuf);

impl Cgroup {
    fn create() -> Self {
        let own = current().join(format!("bpfdb-contributing-{}", process::id()));
        fs::create_dir(&own).expect("a cgroup");
        Self(own)
    }

    fn inside<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = current();
        enter(&self.0);
        let result = work();
        enter(&before);
        result
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Nothing else can be done about it.
        let _ = fs::remove_dir(&self.0);
    }
}

fn current() -> PathBuf {
    let root = mounts::cgroup2().expect("mounts").expect("cgroup v2");
    let table = fs::read_to_string("/proc/self/cgroup").expect("cgroups");
    let path = table.lines().find_map(|line| line.strip_prefix("0::/"));
    root.join(path.expect("a cgroup of v2"))
}

fn enter(path: &Path) {
    fs::write(path.join("cgroup.procs"), process::id().to_string()).expect("entered");
}

fn set_port(object: &mut OpenObject, port: u16) {
    let mut maps = object.maps_mut();
    let mut map = maps
        .find(|map| map.name() == ".rodata.net")
        .expect("constants");
    let value = map.initial_value_mut().expect("a value");
    value[..4].copy_from_slice(&u32::from(port).to_ne_bytes());
}

/// Attaches the programs of the front end, as the daemon does, to one cgroup.
fn attach(object: &Object, cgroup: &Cgroup) -> Link {
    let program = |name: &str| {
        let found = object.progs_mut().find(|program| program.name() == name);
        found.unwrap_or_else(|| panic!("no program {name}"))
    };
    let sockets = object.maps().find(|map| map.name() == "sockets");
    let sockets = sockets.expect("a map of sockets").as_fd().as_raw_fd();
    for name in ["redis_verdict", "redis_answer"] {
        program(name).attach_sockmap(sockets).expect("attached");
    }
    let folder = File::open(&cgroup.0).expect("the cgroup");
    program("redis_accept")
        .attach_cgroup(folder.as_raw_fd())
        .expect("attached")
}

fn ask(client: &mut TcpStream, request: &str, reply: &str) {
    let words: Vec<&str> = request.split(' ').collect();
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        bytes += &format!("${}\r\n{word}\r\n", word.len());
    }
    client.write_all(bytes.as_bytes()).expect("sent");
    let mut got = vec![0; reply.len()];
    client.read_exact(&mut got).expect("a reply");
    assert_eq!(String::from_utf8_lossy(&got), reply, "{request}");
}

/// The process enters a cgroup for a moment, and takes no other test along.
#[test]
fn a_command_of_the_kernel_is_added_as_contributing_says() {
    let mut alone = common::this_program("contributing::a_process_adds_a_command_of_the_kernel");
    let output = alone.output().expect("this program starts again");
    let told = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}{errors}");
    assert!(told.contains("1 passed"), "no such test: {told}");
}

/// There is no daemon here: what replies is the kernel.
#[test]
#[ignore = "run by the test above"]
fn a_process_adds_a_command_of_the_kernel() {
    let tree = Tree::copy();
    tree.follow("Add a command to the kernel");
    let engine = common::engine();
    let cgroup = Cgroup::create();
    let listener = cgroup
        .inside(|| TcpListener::bind("127.0.0.1:0"))
        .expect("a listener");
    let address = listener.local_addr().expect("an address");
    let bytes = tree.compile("redis");
    let mut object = common::open(&engine, &bytes, "redis");
    set_port(&mut object, address.port());
    let object = object.load().expect("the programs load");
    let _attached = attach(&object, &cgroup);

    let mut client = TcpStream::connect(address).expect("a connection");
    client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    // The kernel sends for sockets that belong to a process. Nobody reads from this one.
    let _ours = listener.accept().expect("a connection");
    ask(&mut client, "SET k v", "+OK\r\n");
    ask(&mut client, "HASKEY k", ":1\r\n");
    ask(&mut client, "haskey other", ":0\r\n");
    ask(&mut client, "GET k", "$1\r\nv\r\n");
}

// ---- An operator -----------------------------------------------------------

/// Executes an operator on a key through `bpfdb_run`: its status, and the length of the
/// value.
fn run(object: &Object, session: u32, operation: u32, key: &[u8]) -> (u32, u32) {
    let io = object
        .maps()
        .find(|map| map.name() == "io")
        .expect("buffers");
    let mut buffer = vec![0u8; io.value_size() as usize];
    let mut request = abi::bpfdb_request {
        operation,
        key_len: key.len() as u32,
        ..Default::default()
    };
    let header = size_of_val(&request);
    // SAFETY: plain data on both sides, and the buffer is longer.
    unsafe {
        buffer
            .as_mut_ptr()
            .cast::<abi::bpfdb_request>()
            .write_unaligned(request)
    };
    buffer[header..header + key.len()].copy_from_slice(key);
    let first = 0u32.to_ne_bytes();
    io.update(&first, &buffer, MapFlags::ANY)
        .expect("the request is there");

    let program = bpfdb::find_program(object, "bpfdb_run").expect("the driver");
    let mut context = [0; abi::BPFDB_DRIVER_WORDS as usize];
    context[..2].copy_from_slice(&[abi::BPFDB_DRIVER_REQUESTS.into(), session.into()]);
    let done = program.run(&context).expect("it runs");
    assert_eq!(done, 1, "requests executed");
    let buffer = io
        .lookup(&first, MapFlags::ANY)
        .expect("read")
        .expect("a buffer");
    // SAFETY: as above.
    request = unsafe {
        buffer
            .as_ptr()
            .cast::<abi::bpfdb_request>()
            .read_unaligned()
    };
    (request.status, request.value_len)
}

/// A program of an application that uses the operator so.
const BY_TAIL_CALL: &str = "
#define BPFDB_CPS_SECTION \"raw_tp\"
#define BPFDB_CPS_CONTEXT struct bpf_raw_tracepoint_args
#define BPFDB_CPS_SESSION(ctx) bpfdb_session((ctx)->args[0])
#include <bpfdb/continuation.bpf.h>
BPFDB_PROGRAMS();
BPFDB_DEFINE_LENGTH(length, bpfdb_then_ok, bpfdb_then_error)
";

#[test]
fn an_operator_is_added_as_contributing_says() {
    const LENGTH: u32 = abi::BPFDB_OPERATIONS_END;
    let tree = Tree::copy();
    tree.follow("Add an operator");
    let engine = common::engine();
    let mut session = engine.session().expect("a session");
    session.set(b"k", b"hello").expect("set");
    // Not two operators at a time in a session.
    let other = engine.session().expect("another session");
    let object = common::open(&engine, &tree.compile("engine"), "engine")
        .load()
        .expect("the programs load");

    let ask = |operation, key: &[u8]| run(&object, other.index(), operation, key);
    assert_eq!(ask(LENGTH, b"k"), (abi::BPFDB_OK, 5));
    assert_eq!(ask(LENGTH, b"other"), (abi::BPFDB_OK, 0));
    assert_eq!(ask(LENGTH + 1, b"k").0, abi::BPFDB_BAD_REQUEST);
    tree.write("bpf/by_tail_call.bpf.c", BY_TAIL_CALL);
    tree.compile("by_tail_call");
}
