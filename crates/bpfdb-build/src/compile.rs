//! Compiles BPF programs: those that are out of date, as many at a time as there are processors.
//!
//! An object is up to date if its compiler, its command and all files that it was made from are
//! what they were. Cargo only says that something below `bpf` has changed, and all objects take
//! minutes. One that the crate `bpfdb` has compiled for its tests, the same way, is taken from there.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::SystemTime;

use crate::clang::{BPF_FLAGS, Machine};
use crate::objects::Source;
use crate::result::{Result, write};
use crate::tree::Tree;

pub(crate) fn compile_in_parallel(
    tree: &Tree,
    clang: &str,
    sources: &[&Source],
    machine: &Machine,
) -> Result<()> {
    let version = version(clang)?;
    let next = AtomicUsize::new(0);
    // One after the other from a common list: some take ten times as long as others.
    let work = || {
        while let Some(source) = sources.get(next.fetch_add(1, Ordering::Relaxed)) {
            compile(tree, clang, &version, source, machine)?;
        }
        Ok(())
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let handles: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        handles
            .into_iter()
            .try_for_each(|handle| handle.join().expect("a compile thread panicked"))
    })
}

fn version(clang: &str) -> Result<String> {
    let output = Command::new(clang)
        .arg("--version")
        .output()
        .map_err(|error| format!("{clang}: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn compile(
    tree: &Tree,
    clang: &str,
    version: &str,
    source: &Source,
    machine: &Machine,
) -> Result<()> {
    let mut job = Job::new(tree, clang, version, machine, &source.path, &source.object);
    if job.is_up_to_date(tree) {
        return Ok(());
    }
    // Else an object that is half written, or another compiler's, would be taken for what is
    // described there.
    match fs::remove_file(&job.made_by) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(format!("{}: {error}", job.made_by.display()));
        }
        _ => {}
    }
    let mark = source.object.with_extension("mark");
    write(&mark, "")?;
    let known = known(tree, clang, version, machine, source);
    if !known.is_some_and(|known| job.take(&known)) {
        job.run(clang, source)?;
    }
    match description(tree, &job.text, &job.inputs, changed(&mark)) {
        Some(description) => write(&job.made_by, &description),
        None => Ok(()),
    }
}

/// The same object where the crate `bpfdb` has it, if it is there and up to date.
fn known(
    tree: &Tree,
    clang: &str,
    version: &str,
    machine: &Machine,
    source: &Source,
) -> Option<Job> {
    // bpfdb's own programs, `bpf/…`, have their places there.
    let folder = source.path.parent().filter(|path| path.is_relative())?;
    let object = tree.known.as_ref()?.join(folder);
    let object = object.join(source.object.file_name()?);
    let job = Job::new(tree, clang, version, machine, &source.path, &object);
    job.is_up_to_date(tree).then_some(job)
}

/// How an object is made.
struct Job {
    command: Command,
    /// The compiler and the command.
    text: String,
    object: PathBuf,
    /// What the compiler says that it has read.
    inputs: PathBuf,
    /// Describes what the object was made from.
    made_by: PathBuf,
}

impl Job {
    /// Runs in the root, so that line information names files as `bpf/…`.
    fn new(
        tree: &Tree,
        clang: &str,
        version: &str,
        machine: &Machine,
        source: &Path,
        object: &Path,
    ) -> Self {
        let inputs = object.with_extension("d");
        let mut command = Command::new(clang);
        command
            .current_dir(&tree.root)
            .args(BPF_FLAGS.split_whitespace())
            .arg("-fdebug-compilation-dir=.")
            .args(machine.flags())
            .args(tree.include_flags())
            .arg("-MD")
            .arg("-MF")
            .arg(&inputs)
            .arg("-c")
            .arg(source)
            .arg("-o")
            .arg(object);
        Self {
            text: format!("{version}{command:?}"),
            command,
            object: object.to_owned(),
            inputs,
            made_by: object.with_extension("made-by"),
        }
    }

    fn is_up_to_date(&self, tree: &Tree) -> bool {
        self.object.is_file() && is_up_to_date(tree, &self.made_by, &self.text, &self.inputs)
    }

    fn run(&mut self, clang: &str, source: &Source) -> Result<()> {
        let status = self.command.status();
        let status = status.map_err(|error| format!("{clang}: {error}"))?;
        if !status.success() {
            return Err(format!(
                "{clang} could not compile {}",
                source.path.display()
            ));
        }
        Ok(())
    }

    /// Copies the other's object. False: it has to be compiled.
    fn take(&self, other: &Self) -> bool {
        fs::copy(&other.object, &self.object).is_ok()
            && fs::copy(&other.inputs, &self.inputs).is_ok()
    }
}

fn is_up_to_date(tree: &Tree, made_by: &Path, command: &str, inputs: &Path) -> bool {
    let described = description(tree, command, inputs, None);
    fs::read_to_string(made_by).is_ok_and(|made_by| Some(made_by) == described)
}

/// The command, and size and time of change of each input: an older file in the place of another is
/// a change, too. `None`: an input is gone, or has changed since `begun`, when the compiler may have
/// read it already.
fn description(
    tree: &Tree,
    command: &str,
    inputs: &Path,
    begun: Option<SystemTime>,
) -> Option<String> {
    let rule = fs::read_to_string(inputs).ok()?;
    let mut text = format!("{command}\n");
    for input in inputs_of(&rule) {
        let metadata = fs::metadata(tree.root.join(&input)).ok()?;
        let changed = metadata.modified().ok()?;
        if begun.is_some_and(|begun| changed >= begun) {
            return None;
        }
        text += &format!("{} {} {changed:?}\n", input.display(), metadata.len());
    }
    Some(text)
}

/// The files of a rule as `make` reads it: `object: input input \`, and so on.
fn inputs_of(rule: &str) -> impl Iterator<Item = PathBuf> {
    let inputs = rule.split_once(':').map_or("", |(_, inputs)| inputs);
    let words = inputs.split_whitespace().filter(|word| *word != "\\");
    words.map(PathBuf::from)
}

fn changed(file: &Path) -> Option<SystemTime> {
    fs::metadata(file).ok()?.modified().ok()
}
