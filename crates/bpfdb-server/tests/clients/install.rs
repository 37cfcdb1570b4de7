//! Clients of other languages: installed on first use below target/, as their
//! lock files say, and again only when these change.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A folder beside this file.
pub struct Source {
    name: &'static str,
    folder: PathBuf,
    /// What is installed depends on these.
    files: &'static [&'static str],
}

impl Source {
    pub fn of(name: &'static str, files: &'static [&'static str]) -> Self {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
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
    pub fn installed(&self, install: impl FnOnce(&Path)) -> PathBuf {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(self.name);
        let stamp = folder.join("installed");
        let wanted = self.contents();
        if fs::read(&stamp).is_ok_and(|installed| installed == wanted) {
            return folder;
        }
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        for file in self.files {
            fs::copy(self.file(file), folder.join(file)).expect("copied");
        }
        install(&folder);
        fs::write(&stamp, wanted).expect("written");
        folder
    }

    fn contents(&self) -> Vec<u8> {
        let contents = |file: &&str| fs::read(self.file(file)).expect("it is there");
        self.files.iter().flat_map(contents).collect()
    }
}

/// Runs a program to its end; what it printed.
pub fn run(program: &str, arguments: &[&str], folder: &Path) -> String {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}; scripts/setup.sh installs it"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}\n{text}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    text
}
