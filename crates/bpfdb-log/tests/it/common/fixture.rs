//! Directories below `tests/fixtures`: where they are, and how they are made.

use std::fs;
use std::path::{Path, PathBuf};

use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_log::{Directory, Disk};

/// That of a kind of directories, in this version.
pub(crate) fn folder(kind: &str, version: u32) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    fixtures.join(format!("{kind}-{version}"))
}

/// Writes the files that are not there yet.
pub(crate) fn make(folder: &Path, disk: &SimulatedDisk, expected: &str) {
    if folder.exists() {
        println!("{} is there, and stays as it is", folder.display());
        return;
    }
    for name in names(disk) {
        let path = folder.join(&name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, disk.contents(&name).unwrap()).unwrap();
    }
    fs::write(folder.join("expected.txt"), expected).unwrap();
}

pub(crate) fn expected(folder: &Path) -> String {
    fs::read_to_string(folder.join("expected.txt")).unwrap()
}

/// All files of a disk are in a folder, with the same contents.
pub(crate) fn is_in(disk: &SimulatedDisk, folder: &Path) {
    for name in names(disk) {
        let there = fs::read(folder.join(&name)).unwrap();
        assert!(disk.contents(&name).unwrap() == there, "{name}");
    }
}

/// How many spares a writer keeps is no matter of the format.
fn names(disk: &SimulatedDisk) -> impl Iterator<Item = String> {
    let names = disk.names().into_iter();
    names.filter(|name| !name.starts_with("log/spare-"))
}

/// Control file and segments of a folder.
pub(crate) fn load(folder: &Path) -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    let from = Directory::read_only(folder);
    let mut names = vec!["control".to_owned()];
    names.extend(
        from.list("log")
            .unwrap()
            .iter()
            .map(|name| format!("log/{name}")),
    );
    for name in names {
        disk.put(&name, &fs::read(folder.join(&name)).unwrap());
    }
    disk
}
