//! Namespaces of threads: what a test does in them is not seen outside, and
//! goes with the last thread and process in them, however they end. So nothing
//! is left behind, and several runs on one machine do not meet.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// Puts this thread, and what it starts from now on, into a network namespace
/// of its own, with loopback: every port is free.
pub fn network() {
    unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
    ip("link set lo up");
}

/// Configures the network of this thread's namespace.
pub fn ip(arguments: &str) {
    let status = Command::new("ip")
        .args(arguments.split(' '))
        .status()
        .expect("iproute2 is installed by scripts/setup.sh");
    assert!(status.success(), "ip {arguments}");
}

/// Folders of a mount namespace, both empty at first.
pub struct Files {
    /// The BPF file system.
    pub pins: PathBuf,
    /// For anything else.
    pub folder: PathBuf,
}

/// Puts this thread, and what it starts from now on, into a mount namespace of
/// its own.
pub fn files() -> Files {
    unshare(CloneFlags::CLONE_NEWNS).expect("a mount namespace");
    let none: Option<&str> = None;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(none, "/", none, private, none).expect("nothing is seen elsewhere");
    let pins = bpfdb::mounts::bpffs().expect("a mount table");
    let pins = pins.unwrap_or_else(|| "/sys/fs/bpf".into());
    mount_new("bpf", &pins);
    // Hides nothing that may be needed.
    let folder = pins.join("files");
    fs::create_dir(&folder).expect("a folder");
    mount_new("tmpfs", &folder);
    Files { pins, folder }
}

fn mount_new(file_system: &str, at: &Path) {
    let none: Option<&str> = None;
    mount(none, at, Some(file_system), MsFlags::empty(), none)
        .unwrap_or_else(|error| panic!("{file_system} at {}: {error}", at.display()));
}
