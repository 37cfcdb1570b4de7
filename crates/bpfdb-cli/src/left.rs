//! The note that a server leaves in its data directory about its engine in the kernel.
//!
//! A server that is killed leaves commits in the kernel that the directory lacks. The next one finds them
//! where they are pinned, unless it looks elsewhere: in another mount namespace, or in the BPF file system
//! of a container. Then recovery from the files would go on without them. So the note says which engine
//! it was, and a start asks the kernel whether that still exists.
//!
//! ```text
//! BOOT ENGINE PLACE FOLDER    boot_id, the engine's number of that boot, device and inode of the data
//!                             directory, where the engine is pinned
//! ```
//!
//! A copy of the directory has another place: the engine is none of it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use bpfdb::{Engine, engine_exists};
use bpfdb_log::Directory;

/// The note of the server whose engine this is. `None`: the kernel does not tell what it needs.
fn note(disk: &Directory, engine: &Engine, folder: &Path) -> Option<String> {
    let (boot, id, place) = (boot()?, engine.id().ok()?, place(disk)?);
    Some(format!("{boot} {id} {place} {}", folder.display()))
}

fn place(disk: &Directory) -> Option<String> {
    let metadata = fs::metadata(disk.path()).ok()?;
    Some(format!("{}:{}", metadata.dev(), metadata.ino()))
}

fn boot() -> Option<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}

/// The engine of the note, if it is of this boot and this directory: its number, and where it is
/// or was pinned.
fn parse<'a>(note: &'a str, boot: &str, place: &str) -> Option<(u32, &'a str)> {
    let rest = note.strip_prefix(boot)?.strip_prefix(' ')?;
    let (id, rest) = rest.split_once(' ')?;
    let folder = rest.strip_prefix(place)?.strip_prefix(' ')?;
    Some((id.parse().ok()?, folder))
}

pub(crate) fn leave(disk: &Directory, engine: &Engine, folder: &Path) {
    told(disk.leave_note(note(disk, engine, folder).as_deref()));
}

pub(crate) fn clear(disk: &Directory) {
    told(disk.leave_note(None));
}

/// Without it a start is as safe as before there were notes.
fn told(written: std::io::Result<()>) {
    if let Err(error) = written {
        tracing::warn!(%error, "cannot write the note about what is in the kernel");
    }
}

/// Before a recovery from the files: refuses it if the engine of the last server still exists, and is
/// none of the `others`: those are seen from here, and were compared with the directory.
pub(crate) fn refuse_what_exists(disk: &Directory, others: &[PathBuf]) -> Result<()> {
    let (Some(boot), Some(place)) = (boot(), place(disk)) else {
        return Ok(());
    };
    let Some((id, folder)) = disk.note().and_then(|note| parse(note, &boot, &place)) else {
        return Ok(());
    };
    if others.iter().any(|other| other == Path::new(folder)) {
        return Ok(());
    }
    match engine_exists(id) {
        Ok(true) => bail!(
            "the last server of this directory did not end in order, and what it had in the kernel is still \
             there, pinned in {folder} of its own mount namespace: start there, with that port, to go on \
             with it; or give up what the directory lacks of it, with --fresh"
        ),
        Ok(false) => tracing::warn!(
            folder,
            "the last server did not end in order, and what it had in the kernel is gone: commits that \
             were not durable are lost"
        ),
        Err(error) => tracing::warn!(
            folder,
            %error,
            "the last server did not end in order, and it is not known whether what it had in the kernel \
             is still there: commits that were not durable are lost"
        ),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_counts_in_its_boot_and_directory_only() {
        let note = "b-1 42 8:1 /sys/fs/bpf/bpfdb/63 79";
        let found = Some((42, "/sys/fs/bpf/bpfdb/63 79"));
        assert_eq!(parse(note, "b-1", "8:1"), found);
        for boot in ["b-2", "b", ""] {
            assert_eq!(parse(note, boot, "8:1"), None);
        }
        // A copy of the directory.
        assert_eq!(parse(note, "b-1", "8:2"), None);
        assert_eq!(parse("b-1 x 8:1 /f", "b-1", "8:1"), None);
    }
}
