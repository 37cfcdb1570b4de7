//! Clients of other languages: installed on first use below target/, as their
//! lock files say, and again only when these change.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};

use crate::process::this_program;
use crate::server::cgroup;

/// Seconds after which a program is ended: one that hangs must not take all the time of a run. Python prints
/// then where each of its threads stands. What takes longest, compiling for Java or Go on a busy machine, takes
/// a few minutes.
const PATIENCE: &str = "600";
/// How `timeout` ends where there is no such program.
const NOT_FOUND: i32 = 127;

/// A folder of `tests/it/clients` of a crate.
pub struct Source {
    name: &'static str,
    folder: PathBuf,
    /// What is installed depends on these.
    files: &'static [&'static str],
}

impl Source {
    /// `package`: the folder of the crate whose test this is.
    pub fn of(package: &str, name: &'static str, files: &'static [&'static str]) -> Self {
        let here = Path::new(package).join("tests/it/clients");
        Self {
            name,
            folder: here.join(name),
            files,
        }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The folder with everything installed, by `install` if it is not yet.
    pub fn installed(&self, install: impl Fn(&Path) -> Result<(), String>) -> PathBuf {
        let parent = target().join("tmp");
        fs::create_dir_all(&parent).expect("a folder");
        let folder = parent.join(self.name);
        // Another run of the tests may want the same.
        let _turn = turn(&parent.join(format!("{}.lock", self.name)));
        let stamp = folder.join("installed");
        let wanted = self.contents();
        if fs::read(&stamp).is_ok_and(|installed| installed == wanted) {
            return folder;
        }
        self.install(&folder, install);
        fs::write(&stamp, wanted).expect("written");
        folder
    }

    /// What comes from the network comes at the second or third attempt, too.
    fn install(&self, folder: &Path, install: impl Fn(&Path) -> Result<(), String>) {
        let mut failure = String::new();
        for pause in [0, 2, 10] {
            thread::sleep(Duration::from_secs(pause));
            let _ = fs::remove_dir_all(folder);
            fs::create_dir_all(folder).expect("a folder");
            for file in self.files {
                fs::copy(self.file(file), folder.join(file)).expect("copied");
            }
            match install(folder) {
                Ok(()) => return,
                Err(error) => failure = error,
            }
        }
        panic!("{failure}");
    }

    fn contents(&self) -> Vec<u8> {
        let contents = |file: &&str| fs::read(self.file(file)).expect("it is there");
        self.files.iter().flat_map(contents).collect()
    }
}

/// Makes an environment of Python in `venv`, with what `requirements.txt` in the folder says.
pub fn python(folder: &Path) -> Result<(), String> {
    let venv = folder.join("venv");
    let arguments = ["-m", "venv", venv.to_str().expect("a path")];
    try_run("python3", &arguments, folder)?;
    let pip = venv.join("bin/pip");
    let arguments = [
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--require-hashes",
        "--requirement",
        "requirements.txt",
    ];
    try_run(pip.to_str().expect("a path"), &arguments, folder).map(drop)
}

/// Installs the packages of Node that `package-lock.json` in the folder names. No package runs a script
/// of its own.
pub fn npm(folder: &Path) -> Result<(), String> {
    let arguments = ["ci", "--no-audit", "--no-fund", "--ignore-scripts"];
    try_run("npm", &arguments, folder).map(drop)
}

/// Compiles the program of Go in the folder, as `go.mod` and `go.sum` there say, to `run`.
pub fn go(folder: &Path) -> Result<(), String> {
    let build = "CGO_ENABLED=0 GOTOOLCHAIN=auto go build -mod=readonly -o run .";
    try_run("sh", &["-c", build], folder).map(drop)
}

/// Compiles the classes of Java in the folder, with what its `pom.xml` says; [`java`] runs them.
pub fn maven(folder: &Path) -> Result<(), String> {
    let build = [
        "--batch-mode",
        "--quiet",
        "compile",
        "dependency:build-classpath",
        "-Dmdep.outputFile=classpath",
    ];
    try_run("mvn", &build, folder).map(drop)
}

/// Runs the class `Main` of a folder that [`maven`] has compiled; what it printed.
pub fn java(folder: &Path, arguments: &[&str]) -> String {
    let libraries = fs::read_to_string(folder.join("classpath")).expect("read");
    let classes = folder.join("target/classes");
    let path = format!("{}:{libraries}", classes.display());
    run(
        "java",
        &[&["-cp", &path, "Main"], arguments].concat(),
        folder,
    )
}

/// Until it is dropped no other thread has it.
fn turn(path: &Path) -> Flock<File> {
    let file = File::create(path).expect("a lock file");
    Flock::lock(file, FlockArg::LockExclusive).expect("locked")
}

/// Cargo's folder, in which this program is: `target/PROFILE/deps/PROGRAM`.
fn target() -> PathBuf {
    let program = PathBuf::from(this_program());
    let folder = program.ancestors().nth(3);
    folder.expect("a program of cargo's").to_owned()
}

/// Where programs are looked for: first where `scripts/setup.sh` puts what the distribution has only
/// in a version that is too old.
fn path() -> String {
    let tools = target().join("tools/bin");
    let tools = tools.display();
    match env::var("PATH") {
        Ok(path) => format!("{tools}:{path}"),
        Err(_) => tools.to_string(),
    }
}

/// Runs a program to its end, or for [`PATIENCE`] seconds; what it printed.
pub fn run(program: &str, arguments: &[&str], folder: &Path) -> String {
    try_run(program, arguments, folder).unwrap_or_else(|failure| panic!("{failure}"))
}

pub fn try_run(program: &str, arguments: &[&str], folder: &Path) -> Result<String, String> {
    let mut command = Command::new("timeout");
    cgroup::keep(&mut command);
    let output = command
        .args(["--signal=ABRT", "--kill-after=5", PATIENCE, program])
        .args(arguments)
        .env("PATH", path())
        .env("PYTHONFAULTHANDLER", "1")
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("timeout: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let hint = match output.status.code() {
        Some(NOT_FOUND) => "; scripts/setup.sh installs it",
        _ => "",
    };
    Err(format!(
        "{program} {arguments:?}: {}{hint}\n{text}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    ))
}
