//! SECURITY.md names a test for each threat: the tests are there.

use std::fs;
use std::path::{Path, PathBuf};

/// A file of tests, or of a library: the names of its modules, and its text.
struct Source {
    modules: Vec<String>,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(folder: &Path, modules: &[String], sources: &mut Vec<Source>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        let stem = path.file_stem().expect("a name").to_string_lossy();
        let mut modules = modules.to_vec();
        if !matches!(&*stem, "mod" | "lib" | "main") {
            modules.push(stem.into_owned());
        }
        if path.is_dir() {
            read(&path, &modules, sources);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).expect("it can be read");
            sources.push(Source { modules, text });
        }
    }
}

fn sources() -> Vec<Source> {
    let mut sources = Vec::new();
    for entry in fs::read_dir(root().join("crates")).expect("crates") {
        let folder = entry.expect("an entry").path();
        read(&folder.join("tests/it"), &[], &mut sources);
        read(&folder.join("src"), &[], &mut sources);
    }
    sources
}

/// Is this a module, or a function or module in a file?
fn is_there(name: &str, sources: &[Source]) -> bool {
    let names: Vec<&str> = name.trim_end_matches("::").split("::").collect();
    sources.iter().any(|source| {
        let mut rest = names.as_slice();
        for module in &source.modules {
            match rest.split_first() {
                Some((first, others)) if first == module => rest = others,
                // A folder of modules.
                None => return true,
                Some(_) => return false,
            }
        }
        match rest {
            [] => true,
            [last] => ["fn", "mod"]
                .iter()
                .any(|kind| source.text.contains(&format!("{kind} {last}"))),
            _ => false,
        }
    })
}

/// What the last column of the table of threats has between backticks, without names of crates.
fn named(text: &str) -> Vec<String> {
    let begin = text.find("## Threats").expect("a table of threats");
    let end = text.find("## What is not defended").expect("its end");
    let mut names = Vec::new();
    for row in text[begin..end]
        .lines()
        .filter(|line| line.starts_with('|'))
    {
        let column = row.trim_end_matches([' ', '|']).rsplit('|').next();
        let quoted = column.expect("a column").split('`').skip(1).step_by(2);
        names.extend(
            quoted
                .filter(|name| !name.starts_with("bpfdb-"))
                .map(str::to_owned),
        );
    }
    names
}

#[test]
fn have_tests() {
    let text = fs::read_to_string(root().join("SECURITY.md")).expect("it can be read");
    let (names, sources) = (named(&text), sources());
    assert!(names.len() > 20, "{names:?}");
    let is_missing = |name: &&String| match name.contains('/') {
        true => !root().join(name).exists(),
        false => !is_there(name, &sources),
    };
    let missing: Vec<&String> = names.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "no such tests: {missing:?}");
    assert!(!is_there("hostile::nothing_of_this_name", &sources));
}
