//! Files that are there when they are whole, and not before.

use std::fs::File;
use std::io::{self as std_io, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::{Error, Result, io};

/// Bytes that are written at once.
const BUFFER: usize = 1 << 20;

/// A new file under a temporary name in the folder where it is to be, with mode 0600. If it is
/// dropped before [`NewFile::keep`], it is gone.
#[derive(Debug)]
pub struct NewFile {
    file: BufWriter<NamedTempFile>,
    path: PathBuf,
}

impl NewFile {
    /// If `path` is a link to a file, that file is meant.
    ///
    /// # Errors
    /// [`Error::Refused`] if it is there and no file: a device, say, would be replaced.
    pub fn create(path: &Path) -> Result<Self> {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if path.exists() && !path.is_file() {
            let text = format!("{} is there, and no file", path.display());
            return Err(Error::Refused(text));
        }
        let file = tempfile::Builder::new()
            .prefix(".bpfdb-copy-")
            .tempfile_in(folder_of(&path))
            .map_err(io(format!("create {}", path.display())))?;
        Ok(Self {
            file: BufWriter::with_capacity(BUFFER, file),
            path,
        })
    }

    /// Gives it its name, in the place of an older file, when all of it is on the disk.
    ///
    /// # Errors
    /// [`Error::Io`]: the name may be there, or not.
    pub fn keep(self) -> Result<()> {
        let action = || io(format!("write {}", self.path.display()));
        let mut file = self.file;
        file.flush().map_err(action())?;
        let file = file
            .into_inner()
            .map_err(|error| action()(error.into_error()))?;
        file.as_file().sync_all().map_err(action())?;
        file.persist(&self.path)
            .map_err(|error| action()(error.error))?;
        let folder = File::open(folder_of(&self.path)).map_err(action())?;
        folder.sync_all().map_err(action())
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> std_io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> std_io::Result<()> {
        self.file.flush()
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn nothing_is_left_of_what_is_not_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("copy");
        std::fs::write(&path, "old").expect("written");
        let mut file = NewFile::create(&path).expect("created");
        file.write_all(b"new").expect("written");
        drop(file);
        assert_eq!(std::fs::read(&path).expect("read"), b"old");
        assert_eq!(std::fs::read_dir(&folder).expect("listed").count(), 1);
    }

    #[test]
    fn what_is_no_file_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/dev/null", &link).expect("linked");
        for path in [folder.path(), Path::new("/dev/null"), &link] {
            let outcome = NewFile::create(path).map(drop);
            assert!(matches!(outcome, Err(Error::Refused(_))), "{outcome:?}");
        }
    }

    #[test]
    fn a_link_stays_a_link() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, link) = (folder.path().join("copy"), folder.path().join("link"));
        std::fs::write(&path, "old").expect("written");
        std::os::unix::fs::symlink(&path, &link).expect("linked");
        NewFile::create(&link)
            .and_then(NewFile::keep)
            .expect("kept");
        assert_eq!(std::fs::read(&path).expect("read"), b"");
        assert!(link.is_symlink());
    }

    #[test]
    fn what_is_kept_replaces_the_old_file_and_is_for_its_owner() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("copy");
        std::fs::write(&path, "old").expect("written");
        let mut file = NewFile::create(&path).expect("created");
        file.write_all(b"new").expect("written");
        file.keep().expect("kept");
        assert_eq!(std::fs::read(&path).expect("read"), b"new");
        let mode = std::fs::metadata(&path)
            .expect("there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(&folder).expect("listed").count(), 1);
    }
}
