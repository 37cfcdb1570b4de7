//! The scripts of `tests/scripts`.

use std::path::PathBuf;

use crate::script::Script;

pub struct File {
    pub name: String,
    pub path: PathBuf,
    pub text: String,
    pub script: Script,
}

/// All of them, by name.
pub fn scripts() -> Vec<File> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/scripts");
    let entries = std::fs::read_dir(directory).expect("list tests/scripts");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    paths.sort();
    let read = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("read a script");
        let script = Script::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        File {
            name,
            path,
            text,
            script,
        }
    };
    paths.into_iter().map(read).collect()
}
