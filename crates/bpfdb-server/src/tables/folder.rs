//! Which files clients may name: plain files directly in one folder.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open, openat};

/// Longest name of a file, in bytes.
const NAME_MAX: usize = 255;

/// The name of a file: no path, nothing that a message could not show.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name(String);

impl Name {
    /// `None`: a file that a client may name has no such name.
    pub(crate) fn new(name: &[u8]) -> Option<Self> {
        let name = str::from_utf8(name).ok()?;
        let is_plain = !name.is_empty()
            && name.len() <= NAME_MAX
            && !name.contains('/')
            && !name.chars().any(char::is_control)
            && name != "."
            && name != "..";
        is_plain.then(|| Self(name.into()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Opens the file of this name, for reading.
///
/// # Errors
/// There is none, it is a link or no plain file, or it may not be read.
pub(super) fn open_file(folder: &Path, name: &Name) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = open(folder, flags, Mode::empty())?;
    // A pipe that nobody writes to is not waited for.
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let name = OsStr::from_bytes(name.0.as_bytes());
    let file: File = openat(&folder, name, flags, Mode::empty())?.into();
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("not a plain file")),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn names_are_no_paths() {
        for name in ["a", "users.table", "...", "-", "ü", &"n".repeat(255)] {
            assert!(Name::new(name.as_bytes()).is_some(), "{name}");
        }
        let long = "n".repeat(256);
        for name in [
            "",
            ".",
            "..",
            "a/b",
            "/a",
            "../a",
            "a/",
            "a\0",
            "a\r\n-ERR",
            &long,
        ] {
            assert_eq!(Name::new(name.as_bytes()), None, "{name:?}");
        }
        assert_eq!(Name::new(b"\xff"), None);
    }

    #[test]
    fn only_plain_files_of_the_folder_are_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        let outside = tempfile::NamedTempFile::new().expect("a file");
        let name = |name: &str| Name::new(name.as_bytes()).expect("a name");
        let try_open = |file: &str| open_file(folder.path(), &name(file));
        std::fs::write(folder.path().join("plain"), b"x").expect("written");
        std::fs::create_dir(folder.path().join("folder")).expect("made");
        symlink(outside.path(), folder.path().join("link")).expect("made");
        symlink("plain", folder.path().join("inner")).expect("made");
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0,
        )
        .expect("made");
        assert!(try_open("plain").is_ok());
        for wrong in ["folder", "link", "inner", "pipe", "none"] {
            assert!(try_open(wrong).is_err(), "{wrong}");
        }
        assert!(open_file(&folder.path().join("none"), &name("plain")).is_err());
    }
}
