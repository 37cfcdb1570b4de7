//! The data directory of a server, and the log in it.

use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::{self, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use bpfdb::{Claim, Engine, PinnedLog};
use bpfdb_durability::{
    CheckpointOptions, Durability, Error, Lack, Options, Restored, State, lack_of_files,
};
use bpfdb_log::checkpoint::CheckpointReader;
use bpfdb_log::control::Control;
use bpfdb_log::reader::read_control;
use bpfdb_log::{Directory, Disk, LogError, make_folders};
use bpfdb_server::settings::{Settings, memory};
use bpfdb_tier::{Runs, Tier};

use crate::interrupts::Interrupts;
use crate::left;
use crate::recovering::Recovering;

const SYSTEM_DIRECTORY: &str = "/var/lib/bpfdb";

/// Where the log is, if one is to be written: `said` so, or the default. Absolute, since CONFIG REWRITE
/// may write it into a file that is read in another folder.
pub(crate) fn directory(said: Option<&Path>, settings: &Settings) -> Result<Option<PathBuf>> {
    if !settings.append_only {
        return Ok(None);
    }
    let directory = match said {
        Some(directory) => path::absolute(directory).context("cannot find the folder of --dir")?,
        None => default_directory(settings.port)?,
    };
    Ok(Some(directory))
}

/// Whether a server could start from the directory, or begin one there; and with keys, perhaps.
pub(crate) fn check(directory: &Path) -> Result<bool> {
    let told = || format!("cannot use the data directory {}", directory.display());
    let disk = Directory::own(directory).with_context(told)?;
    has_data(&disk).with_context(told)
}

/// A server without a log does not read a directory. If there is data in that which it would have
/// with a log, it says so.
pub(crate) fn tell_of_unread(said: Option<&Path>, settings: &Settings) {
    let default = || Some(data_directory().ok()?.join(settings.port.to_string()));
    let Some(directory) = said.map(Path::to_owned).or_else(default) else {
        return;
    };
    let control = read_control(&Directory::read_only(&directory));
    let is_log = |control: Control| control.newest_segment > 0 || control.checkpoint.is_some();
    if control.is_ok_and(|control| control.is_some_and(is_log)) {
        let directory = directory.display();
        tracing::warn!(
            %directory,
            "the data directory has data that this server does not read: --appendonly yes recovers it"
        );
    }
}

/// Reads all that recovery would read.
fn has_data(disk: &Directory) -> Result<bool, LogError> {
    let control = read_control(disk)?;
    let mark = control.and_then(|control| Some((control.log, control.checkpoint?)));
    let mut entries = 0;
    if let Some((log, mark)) = mark {
        let mut checkpoint = CheckpointReader::open(disk, log, mark)?;
        entries = checkpoint.footer().entries;
        checkpoint.verify()?;
    }
    let after = mark.map_or(0, |(_, mark)| mark.start);
    let report = bpfdb_log::check(disk, after)?;
    match report.fault {
        Some(corrupt) => Err(LogError::Corrupt(corrupt)),
        None => Ok(entries > 0 || report.runs.iter().any(|run| run.commits > 0)),
    }
}

/// One for each port, as the data in the kernel.
fn default_directory(port: u16) -> Result<PathBuf> {
    if port == 0 {
        bail!("a server on any port has no data directory of its own: name one by --dir");
    }
    let directory = data_directory()?;
    let made = make_folders(&directory);
    made.with_context(|| format!("cannot make {}", directory.display()))?;
    Ok(directory.join(port.to_string()))
}

fn data_directory() -> Result<PathBuf> {
    let is_root = nix::unistd::geteuid().is_root();
    data_directory_of(is_root, |name| env::var_os(name))
}

/// That of a user with this environment.
fn data_directory_of(
    is_root: bool,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<PathBuf> {
    if is_root {
        return Ok(SYSTEM_DIRECTORY.into());
    }
    let path = |name| {
        variable(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let home = || Some(path("HOME")?.join(".local/state"));
    let Some(state) = path("XDG_STATE_HOME").or_else(home) else {
        bail!("there is no HOME to keep the data in: name a directory by --dir");
    };
    Ok(state.join("bpfdb"))
}

/// What the last server of the directory had in the kernel is given up, whatever becomes of this
/// start.
pub(crate) fn forget_engine(directory: &Path) -> Result<()> {
    let disk = Directory::own(directory)
        .with_context(|| format!("cannot use the data directory {}", directory.display()))?;
    left::clear(&disk);
    Ok(())
}

/// An engine's log, and what it gave to the engine.
pub(crate) struct Log {
    pub(crate) durability: Arc<Durability>,
    /// Cold values, if there may be any.
    pub(crate) tier: Option<Arc<Tier>>,
    restored: Restored,
    directory: PathBuf,
    disk: Directory,
}

impl Log {
    /// Recovers the engine from the directory, unless it has all that already, and writes its
    /// log there from now on. A signal ends recovery: the directory stays as it is. It is refused
    /// if one of the engines that are pinned in `others` may have more than the directory, or the one
    /// that its last server had still exists. `None`: what else there is does not matter.
    pub(crate) fn start(
        engine: &Engine,
        directory: &Path,
        settings: &Settings,
        others: Option<&[PathBuf]>,
    ) -> Result<Self> {
        let told = || format!("cannot use the data directory {}", directory.display());
        let disk = Directory::own(directory).with_context(told)?;
        if let Some(others) = others {
            refuse_less_than_there_is(&disk, others).with_context(told)?;
            left::refuse_what_exists(&disk, others).with_context(told)?;
        }
        // Recovery may need it.
        let tier = start_tier(engine, &disk, settings).with_context(told)?;
        let (mut recovering, interrupts) = (None, Interrupts::hold()?);
        let started =
            Durability::start_telling(engine, disk.clone(), options(settings), |progress| {
                let recovering = recovering.get_or_insert_with(Recovering::new);
                recovering.at(&progress);
                match interrupts.check() {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                }
            });
        drop(recovering);
        let (durability, restored) = started
            .map_err(|error| explained(error, settings.port))
            .with_context(told)?;
        // Before, it might have been another engine's directory.
        match &tier {
            Some(tier) => {
                tier.set_memory(tier_memory(engine, settings));
                tier.remove_foreign();
            }
            None => remove_runs(engine, &disk),
        }
        Ok(Self {
            durability: Arc::new(durability),
            tier,
            restored,
            directory: directory.into(),
            disk,
        })
    }

    /// Before the end of an engine that is not kept: no process that is attached is told that
    /// it has written what is in no log.
    pub(crate) fn seal(&self, engine: &Engine) -> Result<()> {
        let sealed = self.durability.seal(engine);
        sealed.context("programs that write may not have ended")
    }

    /// The engine outlives this process from now on, if it is killed.
    pub(crate) fn note_pins(&self, engine: &Engine, folder: &Path) {
        left::leave(&self.disk, engine, folder);
    }

    /// The end of the log, which has everything then, or the error says why not. `keeps`: the engine
    /// stays; if not, and `gives_up`, it goes even if the log lacks some of it.
    pub(crate) fn end(self, keeps: bool, gives_up: bool) -> Result<()> {
        let Some(durability) = Arc::into_inner(self.durability) else {
            bail!("the log is still in use");
        };
        let closed = durability.close();
        if !keeps && (closed.is_ok() || gives_up) {
            left::clear(&self.disk);
        }
        closed.map_err(not_written)
    }

    /// For the greeting.
    pub(crate) fn about(&self) -> String {
        let directory = self.directory.display();
        format!("  log in {directory}{}\n", recovered(&self.restored))
    }
}

/// Cold values in the data directory: when they are wanted, and also when an engine that outlived its
/// server still has some. No value goes before the directory is known to be the engine's, unless
/// recovery is to fill it.
fn start_tier(engine: &Engine, disk: &Directory, settings: &Settings) -> Result<Option<Arc<Tier>>> {
    let has_some = engine.run_uses().iter().any(|run| run.values > 0);
    if !settings.tier && !has_some {
        // Another server may have been killed that had the setting.
        engine.forget_demoter()?;
        return Ok(None);
    }
    let memory = match has_nothing(engine)? {
        true => tier_memory(engine, settings),
        false => bpfdb_tier::Options::NOTHING_GOES,
    };
    let options = bpfdb_tier::Options {
        memory,
        ..bpfdb_tier::Options::default()
    };
    Ok(Some(Arc::new(Tier::start(engine, disk.clone(), options)?)))
}

/// Bytes of memory above which values go to files.
fn tier_memory(engine: &Engine, settings: &Settings) -> u64 {
    match settings.tier {
        true => memory::tier_memory(settings, engine.memory_limit()),
        // What is read comes back.
        false => bpfdb_tier::Options::NOTHING_GOES,
    }
}

/// Removes files of cold values, of which the engine of this directory has none.
fn remove_runs(engine: &Engine, disk: &Directory) {
    let removed = match disk.open(bpfdb_tier::MANIFEST) {
        Ok(None) => return,
        Ok(Some(_)) => Runs::open(disk.clone(), engine.identity()),
        Err(error) => Err(error),
    };
    if let Err(error) = removed.and_then(|runs| runs.remove_foreign()) {
        tracing::warn!(%error, "files of cold values that no engine needs are still there");
    }
}

/// What recovery did, if there was anything to do; behind the name of the directory.
fn recovered(restored: &Restored) -> String {
    let Restored {
        checkpoint_entries,
        commits,
        dropped,
        torn_bytes,
        ..
    } = *restored;
    let mut text = String::new();
    if checkpoint_entries > 0 || commits > 0 {
        let _ = write!(
            text,
            ", recovered: {checkpoint_entries} keys of the checkpoint, {commits} commits after it"
        );
    }
    if torn_bytes > 0 || dropped > 0 {
        let _ = write!(
            text,
            "; cut off: {dropped} commits and {torn_bytes} bytes that were never durable"
        );
    }
    text
}

fn options(settings: &Settings) -> Options {
    let every = settings.checkpoint_every;
    let log_size = settings.checkpoint_log_size.bytes();
    Options {
        flushes: settings.log_flushes as usize,
        checkpoints: CheckpointOptions {
            every: (every > 0).then(|| Duration::from_secs(every)),
            log_bytes: (log_size > 0).then_some(log_size),
            ..CheckpointOptions::default()
        },
        retention: settings.retention(),
        ..Options::default()
    }
}

/// A server that was killed leaves in the kernel what its directory lacks. A server on another port
/// that recovered the directory would go on without it.
fn refuse_less_than_there_is(disk: &Directory, others: &[PathBuf]) -> Result<()> {
    for folder in others {
        let pinned = match PinnedLog::of(folder) {
            Ok(Some(pinned)) => pinned,
            Ok(None) => continue,
            // No reason not to start: it may belong to another directory.
            Err(error) => {
                let folder = folder.display();
                tracing::warn!(%folder, %error, "what the kernel has there is not known");
                continue;
            }
        };
        let is_less = match lack_of_files(&pinned, disk) {
            Ok(Lack::Nothing) => false,
            Ok(Lack::Commits) => true,
            // A copy, beside the server of which it is one.
            Ok(Lack::Batches) => Claim::take(folder).is_ok(),
            Err(Error::Log(error @ LogError::Io { .. })) => return Err(error.into()),
            // What is wrong with the files is told by recovery.
            Err(_) => false,
        };
        if is_less {
            let port = folder.file_name().unwrap_or_default().to_string_lossy();
            bail!(
                "the server on port {port}, if it runs or not, has commits in the kernel that this \
                 directory lacks: start with --port {port} to go on with them; if they are to be \
                 given up, or the directory is a copy, start with --fresh"
            );
        }
    }
    Ok(())
}

/// What to do about it.
fn explained(error: Error, port: u16) -> anyhow::Error {
    let action = match error {
        Error::NoLog => "--appendonly no goes on with it as it is, --fresh drops it",
        Error::Stranger(_) => {
            return anyhow::Error::from(error).context(format!(
                "--dir with its own directory goes on with it; if that is gone, `bpfdb dump --port \
                 {port}` saves all that is in the kernel; --fresh drops the data in the kernel, and \
                 what the directory has is recovered"
            ));
        }
        Error::Refused(_) => "a higher --maxmemory may help",
        _ => return error.into(),
    };
    anyhow::Error::from(error).context(action)
}

/// The engine of an earlier server, which found no space for its log, so that nothing was written:
/// the directory has all of it.
pub(crate) fn has_nothing(engine: &Engine) -> Result<bool> {
    Ok(Durability::is_unbegun(engine)?)
}

/// The engine of an earlier server has a log, and this one is to have none.
pub(crate) fn check_unlogged(engine: &Engine) -> Result<()> {
    if engine.config().log_ring == 0 {
        return Ok(());
    }
    bail!(
        "the data of an earlier server in the kernel has a log: start with --appendonly yes and \
         its --dir, or drop what is in the kernel by --fresh"
    )
}

/// Why the log does not have everything.
pub(crate) fn not_written(state: State) -> anyhow::Error {
    match state {
        State::Full(why) | State::Failed(why) => anyhow!(why),
        state => anyhow!("the log is {}", state.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greeting_tells_what_was_recovered_and_cut_off() {
        assert_eq!(recovered(&Restored::default()), "");
        let whole = Restored {
            checkpoint_entries: 7,
            commits: 3,
            writes: 4,
            ..Restored::default()
        };
        let told = ", recovered: 7 keys of the checkpoint, 3 commits after it";
        assert_eq!(recovered(&whole), told);
        let torn = Restored {
            dropped: 2,
            torn_bytes: 4096,
            ..whole
        };
        let cut = "; cut off: 2 commits and 4096 bytes that were never durable";
        assert_eq!(recovered(&torn), format!("{told}{cut}"));
    }

    fn of_user(variables: &[(&str, &str)]) -> Result<PathBuf> {
        data_directory_of(false, |wanted| {
            let (_, value) = variables.iter().find(|(name, _)| *name == wanted)?;
            Some(value.into())
        })
    }

    #[test]
    fn a_user_who_is_not_root_has_a_state_directory() {
        let home = ("HOME", "/home/u");
        for (variables, directory) in [
            (&[home][..], "/home/u/.local/state/bpfdb"),
            (&[home, ("XDG_STATE_HOME", "/state")], "/state/bpfdb"),
            (&[("XDG_STATE_HOME", "/state")], "/state/bpfdb"),
            // The XDG specification has paths that are relative, or empty, ignored.
            (
                &[home, ("XDG_STATE_HOME", "state")],
                "/home/u/.local/state/bpfdb",
            ),
            (
                &[home, ("XDG_STATE_HOME", "")],
                "/home/u/.local/state/bpfdb",
            ),
        ] {
            let found = of_user(variables).expect("there is one");
            assert_eq!(found, Path::new(directory), "{variables:?}");
        }
    }

    /// Data is never kept below whatever folder the server was started in.
    #[test]
    fn a_user_without_a_home_must_name_a_directory() {
        for variables in [&[][..], &[("HOME", "")], &[("HOME", "home")]] {
            let refused = of_user(variables).expect_err("no place").to_string();
            assert!(refused.contains("--dir"), "{refused}");
        }
    }

    #[test]
    fn root_has_the_directory_of_the_system() {
        let found = data_directory_of(true, |_| Some("/elsewhere".into()));
        assert_eq!(found.expect("there is one"), Path::new("/var/lib/bpfdb"));
    }
}
