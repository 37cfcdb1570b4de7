//! The lock of a data directory: one process at a time writes to it.
//!
//! It is a lock on the file `owner` (`flock`), which the kernel gives up when the process is
//! gone, however it ended. The first line of the file is its number, for people. The second one, if it
//! is there, is a note of the owner for the next one, about what it has elsewhere.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};

use crate::disk::folders::Identity;
use crate::disk::is_full;
use crate::error::{LogError, Result};
use crate::format::checkpoint;
use crate::format::segment;

pub(crate) const NAME: &str = "owner";

/// The right to write to a data directory. It ends when this is dropped.
#[derive(Debug)]
pub struct Owner {
    /// Its lock ends when it is closed.
    file: File,
    identity: Identity,
    folder: File,
    /// The note that the owner before has left.
    left: Option<String>,
}

impl Owner {
    /// Makes the directory and its folders if need be, and takes the lock. Does not wait.
    ///
    /// # Errors
    /// [`LogError::Owned`] if another process, or another owner of this one, has it;
    /// [`LogError::Exposed`] if others than the user may use the directory; of an empty one that is
    /// the user's, and in which others cannot write, the mode is changed instead.
    pub fn take(directory: &Path) -> Result<Self> {
        make_folder(directory)?;
        let shown = || directory.to_string_lossy().into_owned();
        let folder = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::DIRECTORY.bits() as i32)
            .open(directory)
            .map_err(LogError::io("use", shown()))?;
        check_mode(directory, &folder)?;
        let here = path_of(&folder);
        // Without /proc nothing is found there.
        fs::metadata(&here).map_err(LogError::io("use", here.to_string_lossy()))?;
        let path = directory.join(NAME);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(here.join(NAME))
            .map_err(LogError::io("open", path.to_string_lossy()))?;
        lock(&mut file, directory)?;
        let failed = |error| LogError::io("write", path.to_string_lossy())(error);
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed)?;
        let left = text.lines().nth(1).map(str::to_owned);
        // Until this owner has a note of its own.
        write(&file, left.as_deref()).map_err(failed)?;
        for name in [segment::FOLDER, checkpoint::FOLDER] {
            make_folder_with(&here.join(name), &directory.join(name), flush_folder)?;
        }
        let identity = Identity::of(&file).map_err(failed)?;
        Ok(Self {
            file,
            identity,
            folder,
            left,
        })
    }

    /// The note that the owner before has left.
    pub(crate) fn left(&self) -> Option<&str> {
        self.left.as_deref()
    }

    /// Leaves a note of one line for the next owner, or none.
    pub(crate) fn leave(&self, note: Option<&str>) -> io::Result<()> {
        write(&self.file, note)
    }

    /// Whether another owner would find the file that this locks.
    pub(crate) fn has_name(&self) -> io::Result<bool> {
        Ok(self.find(NAME)? == self.identity)
    }

    /// Which file of the directory has this name. It is looked up from the open directory: by
    /// [`path`](Self::path) it would take three times as long, and this is done after each flush.
    pub(crate) fn find(&self, name: &str) -> io::Result<Identity> {
        Identity::find(&self.folder, name)
    }

    /// A path of the directory that this locks, for as long as it does. The path by which it was
    /// found may lead to another one by now, whose lock another process has: if it goes over a
    /// symbolic link that was changed, or the directory was moved away.
    pub(crate) fn path(&self) -> PathBuf {
        path_of(&self.folder)
    }
}

fn path_of(folder: &File) -> PathBuf {
    format!("/proc/self/fd/{}", folder.as_raw_fd()).into()
}

/// The holder of the lock of a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    pub pid: u32,
}

impl Holder {
    /// Finds the process that has the lock, without touching it: even a try would keep out an owner that
    /// comes at the same time. `None`: no process, or none in this namespace of processes.
    ///
    /// # Errors
    /// Those of reading the directory and `/proc/locks`.
    pub fn of(directory: &Path) -> io::Result<Option<Self>> {
        let path = directory.join(NAME);
        let metadata = match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            metadata => metadata?,
        };
        let named = named(&fs::read_to_string(&path)?);
        let locks = fs::read_to_string("/proc/locks")?;
        let pid = locks
            .lines()
            .find_map(|line| holder_in(line, &metadata, named));
        Ok(pid.map(|pid| Self { pid }))
    }
}

/// The process in a line of `/proc/locks`, if it locks this file. Some file systems show another
/// device there than `stat` does; then the process must be the one that the file names.
fn holder_in(line: &str, file: &fs::Metadata, named: Option<u32>) -> Option<u32> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [_, "FLOCK", _, "WRITE", pid, place, ..] = fields[..] else {
        return None;
    };
    let pid = pid.parse().ok()?;
    let (device, inode) = place.rsplit_once(':')?;
    let dev = file.dev();
    let shown = format!(
        "{:02x}:{:02x}",
        rustix::fs::major(dev),
        rustix::fs::minor(dev)
    );
    let is_here = inode.parse() == Ok(file.ino()) && (device == shown || named == Some(pid));
    is_here.then_some(pid)
}

fn lock(file: &mut File, directory: &Path) -> Result<()> {
    loop {
        match flock(&*file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut text = String::new();
                let pid = file.read_to_string(&mut text).ok();
                return Err(LogError::Owned {
                    path: directory.to_owned(),
                    pid: pid.and_then(|_| named(&text)),
                });
            }
            Err(error) => return Err(LogError::io("lock", NAME)(error.into())),
        }
    }
}

/// The process that the file names.
fn named(text: &str) -> Option<u32> {
    text.lines().next()?.trim().parse().ok()
}

/// A disk that is full is no reason to do without the lock.
fn write(mut file: &File, note: Option<&str>) -> io::Result<()> {
    let mut text = format!("{}\n", std::process::id());
    if let Some(note) = note {
        text += &format!("{note}\n");
    }
    let written = file
        .set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| file.write_all(text.as_bytes()));
    match written {
        Err(error) if is_full(&error) => Ok(()),
        written => written,
    }
}

/// Makes a folder that only its user may use, and those above it. The names of all that were made
/// are durable afterwards, even if an earlier attempt ended before they were.
///
/// # Errors
/// [`LogError::Io`].
pub fn make_folders(path: &Path) -> Result<()> {
    make_folders_with(path, flush_folder)
}

fn make_folders_with(path: &Path, flush: impl Fn(&Path) -> io::Result<()>) -> Result<()> {
    for folder in folders_to_make(path).into_iter().rev() {
        make_folder_with(folder, folder, &flush)?;
    }
    Ok(())
}

/// The folder, and each above it, up to the first that is there: its maker was perhaps
/// killed before its name was durable.
fn folders_to_make(path: &Path) -> Vec<&Path> {
    let mut folders = Vec::new();
    for folder in path.ancestors().filter(|folder| folder.parent().is_some()) {
        folders.push(folder);
        if folder.exists() {
            break;
        }
    }
    folders
}

fn make_folder(path: &Path) -> Result<()> {
    make_folder_with(path, path, flush_folder)
}

/// Makes a folder that only its user may use. Its name is durable afterwards, even if an
/// earlier attempt ended before it was. `shown`: what errors call it.
fn make_folder_with(
    path: &Path,
    shown: &Path,
    flush: impl Fn(&Path) -> io::Result<()>,
) -> Result<()> {
    let shown = || shown.to_string_lossy().into_owned();
    let made = match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(LogError::io("make", shown())(error)),
    };
    match flush(&parent(path)) {
        // In a directory that we may not read, its maker has seen to that.
        Err(error) if !made && error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        flushed => flushed.map_err(LogError::io("flush the directory of", shown())),
    }
}

fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn flush_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Only its user may use the directory. The mode of one in which something is says what that
/// user wants, and is not changed; nor is that of a directory in which others may write, as /tmp is.
fn check_mode(directory: &Path, folder: &File) -> Result<()> {
    let failed = |error| LogError::io("use", directory.to_string_lossy())(error);
    let metadata = folder.metadata().map_err(failed)?;
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & OTHERS == 0 {
        return Ok(());
    }
    // Of the user that this process acts as.
    let own = fs::metadata("/proc/self").map_err(failed)?;
    let is_own = metadata.uid() == own.uid();
    if is_own && mode & WRITTEN_BY_OTHERS == 0 && is_empty(folder).map_err(failed)? {
        let private = fs::Permissions::from_mode(mode & !OTHERS);
        return folder.set_permissions(private).map_err(failed);
    }
    Err(LogError::Exposed {
        path: directory.to_owned(),
        mode,
    })
}

/// Bits of a mode: what others than the user may do, and that they may write.
const OTHERS: u32 = 0o077;
const WRITTEN_BY_OTHERS: u32 = 0o022;

fn is_empty(folder: &File) -> io::Result<bool> {
    Ok(fs::read_dir(path_of(folder))?.next().is_none())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn an_empty_directory_is_put_right_and_others_are_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("data");
        fs::create_dir(&path).expect("made");
        let set = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode));
        let mode = || fs::metadata(&path).expect("there").permissions().mode() & 0o7777;
        for (before, is_put_right) in [
            (0o755, true),
            (0o750, true),
            (0o775, false),
            (0o1777, false),
        ] {
            set(before).expect("set");
            assert_eq!(Owner::take(&path).is_ok(), is_put_right, "{before:o}");
            assert_eq!(mode(), if is_put_right { 0o700 } else { before });
            fs::remove_dir_all(&path).expect("removed");
            fs::create_dir(&path).expect("made");
        }
        fs::write(path.join("file"), "").expect("written");
        set(0o755).expect("set");
        assert!(matches!(Owner::take(&path), Err(LogError::Exposed { .. })));
        assert_eq!(mode(), 0o755);
    }

    /// Makes the folders, and says which were flushed, each with what was in it then.
    fn flushed(path: &Path) -> Vec<(PathBuf, Vec<PathBuf>)> {
        let flushed = RefCell::new(Vec::new());
        let flush = |folder: &Path| {
            let names = fs::read_dir(folder)?.map(|file| Ok(file?.path()));
            let names = names.collect::<io::Result<_>>()?;
            flushed.borrow_mut().push((folder.to_owned(), names));
            flush_folder(folder)
        };
        make_folders_with(path, flush).expect("made");
        flushed.into_inner()
    }

    #[test]
    fn a_note_is_there_until_another_one_is_left() {
        let home = tempfile::tempdir().expect("made");
        let path = home.path().join("data");
        let take = || Owner::take(&path).expect("taken");
        let owner = take();
        assert_eq!(owner.left(), None);
        owner.leave(Some("a note")).expect("written");
        drop(owner);
        // This one ends before it leaves a note.
        assert_eq!(take().left(), Some("a note"));
        let owner = take();
        assert_eq!(owner.left(), Some("a note"));
        let holder = Holder::of(&path).expect("known").expect("there is one");
        assert_eq!(holder.pid, std::process::id());
        owner.leave(None).expect("written");
        drop(owner);
        assert_eq!(take().left(), None);
    }

    #[test]
    fn the_name_of_each_folder_is_durable_before_the_next_is_made() {
        let home = tempfile::tempdir().expect("made");
        let home = home.path();
        let [a, b, c] = ["a", "a/b", "a/b/c"].map(|name| home.join(name));
        let flushes = flushed(&c);
        // The first may have been made by a process that was killed.
        assert_eq!(flushes[0].0, home.parent().expect("there is one"));
        let expected = [(home, &a), (&a, &b), (&b, &c)];
        let expected = expected.map(|(parent, name)| (parent.to_owned(), vec![name.clone()]));
        assert_eq!(flushes[1..], expected);
        for folder in [&a, &b, &c] {
            let mode = fs::metadata(folder).expect("made").permissions().mode();
            assert_eq!(mode & 0o777, 0o700);
        }
        // It is there, and perhaps not durable.
        assert_eq!(flushed(&c), [(b, vec![c])]);
    }
}
