//! The headers and programs of `bpf/` and `include/`, and which of them includes which.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A file by its path from the root of the tree.
pub(super) type Name = String;

/// A line `#include`.
#[derive(Debug)]
pub(super) struct Include {
    pub(super) line: usize,
    /// As it is written.
    pub(super) text: String,
    /// The file of ours that it means; none if it is the system's.
    pub(super) file: Option<Name>,
    /// Does code come before it?
    pub(super) late: bool,
}

pub(super) struct Source {
    pub(super) includes: Vec<Include>,
    /// The word of its first `#ifndef`.
    pub(super) guard: Option<String>,
}

/// The folders of all headers and sources.
const FOLDERS: [&str; 2] = ["include", "bpf"];

/// Where `<…>` is looked for, as by the compiler's flags.
const LOOKED_IN: [&str; 3] = ["include", "bpf", "bpf/api"];

/// All `.c` and `.h` below `bpf` and `include`.
pub(super) fn read(root: &Path) -> BTreeMap<Name, Source> {
    let mut texts = BTreeMap::new();
    for folder in FOLDERS {
        collect(root, folder, &mut texts);
    }
    of_texts(&texts)
}

fn collect(root: &Path, folder: &str, texts: &mut BTreeMap<Name, String>) {
    for entry in fs::read_dir(root.join(folder)).expect("a folder of sources") {
        let entry = entry.expect("an entry of a folder");
        let name = format!("{folder}/{}", entry.file_name().display());
        if entry.path().is_dir() {
            collect(root, &name, texts);
        } else if name.ends_with(".h") || name.ends_with(".c") {
            texts.insert(name, fs::read_to_string(entry.path()).expect("a source"));
        }
    }
}

pub(super) fn of_texts(texts: &BTreeMap<Name, String>) -> BTreeMap<Name, Source> {
    let source = |(name, text): (&Name, &String)| (name.clone(), source(name, text, texts));
    texts.iter().map(source).collect()
}

fn source(name: &str, text: &str, all: &BTreeMap<Name, String>) -> Source {
    let (mut includes, mut guard, mut code) = (Vec::new(), None, false);
    let mut continued = false;
    for (line, text) in without_comments(text).lines().enumerate() {
        let text = text.trim();
        if let Some(rest) = text.strip_prefix('#').map(str::trim_start) {
            if let Some(file) = rest.strip_prefix("include") {
                includes.push(Include {
                    line: line + 1,
                    text: file.trim().to_owned(),
                    file: find(name, file.trim(), all),
                    late: code,
                });
            }
            guard = guard.or(rest.strip_prefix("ifndef ").map(str::to_owned));
        } else if !text.is_empty() && !continued {
            code = true;
        }
        continued = text.ends_with('\\');
    }
    Source { includes, guard }
}

/// With as many lines as before.
fn without_comments(text: &str) -> String {
    let mut parts = text.split("/*");
    let mut found = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (comment, code) = part.split_once("*/").unwrap_or((part, ""));
        found += &"\n".repeat(comment.matches('\n').count());
        found += code;
    }
    let lines = found
        .lines()
        .map(|line| line.split("//").next().unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}

/// `"name"` is looked for beside the file first.
fn find(file: &str, include: &str, all: &BTreeMap<Name, String>) -> Option<Name> {
    let name = include.get(1..include.len().checked_sub(1)?)?;
    let beside = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    let beside = include.starts_with('"').then_some(beside);
    beside
        .into_iter()
        .chain(LOOKED_IN)
        .map(|folder| normal(&format!("{folder}/{name}")))
        .find(|path| all.contains_key(path))
}

/// Without `..`.
fn normal(path: &str) -> Name {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            ".." if !parts.is_empty() => drop(parts.pop()),
            "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}
