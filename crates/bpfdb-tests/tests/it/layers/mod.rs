//! Which file may use which: the layers of ARCHITECTURE.md, for all sources in C and for all crates.
//!
//! 1. A layer uses only those below it ([`rules`]).
//! 2. There are no circles: neither of headers that include each other, nor of modules of one
//!    folder that use each other. (A folder's `mod.rs` and its files are one thing for that.)
//! 3. A header can be included anywhere, twice, and first.
//! 4. A crate depends only on those before it in the list.

mod circles;
mod includes;
mod modules;
mod rules;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use circles::{Graph, circles};
use includes::Source;
use modules::{Modules, Use};
use rules::Crate;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn none(violations: &[String]) {
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

// ---- C ---------------------------------------------------------------------

#[test]
fn headers_include_only_what_is_below_them() {
    let sources = includes::read(&root());
    assert!(sources.len() > 100, "only {} files", sources.len());
    none(&include_violations(&sources));
}

fn include_violations(sources: &BTreeMap<String, Source>) -> Vec<String> {
    let mut found = Vec::new();
    let mut graph = Graph::new();
    let mut guards = BTreeMap::new();
    for (name, source) in sources {
        found.extend(layer_violations(name, source));
        if name.ends_with(".h") {
            found.extend(header_violations(name, source));
            if let Some(other) = guards.insert(&source.guard, name) {
                found.push(format!("{name} has the guard of {other}"));
            }
        }
        for include in &source.includes {
            let place = format!("line {}", include.line);
            if let Some(file) = &include.file {
                graph
                    .entry(name.clone())
                    .or_default()
                    .insert(file.clone(), place);
            }
        }
    }
    found.extend(
        circles(&graph)
            .into_iter()
            .map(|circle| format!("a circle: {circle}")),
    );
    found
}

fn layer_violations(name: &str, source: &Source) -> Vec<String> {
    let Some((layer, may)) = c_layer(name) else {
        return vec![format!("{name}: rules.rs does not know its layer")];
    };
    let wrong = |include: &&includes::Include| match &include.file {
        Some(file) => c_layer(file).is_some_and(|(of, _)| of != layer && !may.contains(&of)),
        None => include.text.starts_with('"'),
    };
    let wrong = source.includes.iter().filter(wrong);
    wrong
        .map(|include| {
            let (line, text) = (include.line, &include.text);
            let of = include.file.as_deref().and_then(c_layer);
            let of = of.map_or("what is nowhere", |(of, _)| of);
            format!("{name}:{line} includes {text}, but {layer} must not know {of}")
        })
        .collect()
}

/// The layer of a file, and what that may include.
fn c_layer(name: &str) -> Option<(&'static str, &'static [&'static str])> {
    let begins = |pattern: &str| match pattern.split_once('*') {
        // Of this folder, and of none below it.
        Some((folder, end)) => name
            .strip_prefix(folder)
            .is_some_and(|rest| rest.ends_with(end) && !rest.contains('/')),
        None => name.starts_with(pattern),
    };
    let (_, layer) = rules::FOLDERS.iter().find(|(pattern, _)| begins(pattern))?;
    rules::INCLUDES
        .iter()
        .find(|(name, _)| name == layer)
        .copied()
}

fn header_violations(name: &str, source: &Source) -> Vec<String> {
    let guard = source.guard.as_deref().unwrap_or_default();
    let mut found = Vec::new();
    if !(guard.starts_with("BPFDB_") && guard.ends_with("_H")) {
        found.push(format!("{name} has no guard"));
    }
    for include in source.includes.iter().filter(|include| include.late) {
        let (line, text) = (include.line, &include.text);
        found.push(format!(
            "{name}:{line} includes {text} in the middle of its code"
        ));
    }
    found
}

/// Each compiles alone: what it uses it includes.
#[test]
fn headers_stand_alone() {
    let sources = includes::read(&root());
    let headers: Vec<&String> = sources.keys().filter(|name| name.ends_with(".h")).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut found = Vec::new();
        while let Some(header) = headers.get(next.fetch_add(1, Ordering::Relaxed)) {
            found.extend(compile_alone(header));
        }
        found
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let found: Vec<String> = thread::scope(|scope| {
        let handles: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let ended = handles
            .into_iter()
            .map(|handle| handle.join().expect("a compile thread"));
        ended.flatten().collect()
    });
    none(&found);
}

fn compile_alone(header: &str) -> Option<String> {
    let needs = rules::NEEDS
        .iter()
        .find(|(name, _)| header.starts_with(name));
    let (compiler, flags) = bpfdb::objects::COMPILER.split_first().expect("a compiler");
    let output = Command::new(compiler)
        .current_dir(root())
        .args(flags)
        .args(needs.into_iter().flat_map(|(_, needs)| *needs))
        .args([
            "-Wno-unused-function",
            "-fsyntax-only",
            "-include",
            header,
            "-x",
            "c",
            "/dev/null",
        ])
        .output()
        .expect("the compiler is run");
    let text = String::from_utf8_lossy(&output.stderr);
    let error = text
        .lines()
        .find(|line| line.contains("error"))
        .unwrap_or("?");
    (!output.status.success()).then(|| format!("{header} does not stand alone: {error}"))
}

// ---- Rust ------------------------------------------------------------------

#[test]
fn modules_use_only_what_is_below_them() {
    let mut found = Vec::new();
    let mut used = BTreeSet::new();
    for rule in rules::CRATES {
        let modules = Modules::read(&root().join("crates").join(rule.name).join("src"));
        found.extend(unknown(rule, &modules));
        found.extend(use_violations(rule, &modules.uses(), &mut used));
    }
    let unused = rules::CIRCLES
        .iter()
        .enumerate()
        .filter(|(row, _)| !used.contains(row));
    found.extend(unused.map(|(_, row)| format!("rules.rs allows {row:?}, which nothing needs")));
    none(&found);
}

/// Modules of no layer.
fn unknown(rule: &Crate, modules: &Modules) -> Vec<String> {
    let of_none = |module: &str| layer(rule, module).is_none();
    modules
        .with_code()
        .filter(|(module, _)| of_none(module))
        .map(|(module, file)| {
            format!(
                "{}: rules.rs does not know the layer of {module}",
                shown(file)
            )
        })
        .collect()
}

/// The place in the list, and the layer.
fn layer(rule: &Crate, module: &str) -> Option<(usize, &'static str)> {
    let mut at = module;
    loop {
        if let Some(place) = rule.layers.iter().position(|layer| *layer == at) {
            // What is apart from its folder leaves the folder its mod.rs only.
            return (at == module || !is_divided(rule, at)).then_some((place, rule.layers[place]));
        }
        if is_divided(rule, at) {
            return None;
        }
        at = at.rsplit_once('/')?.0;
    }
}

fn is_divided(rule: &Crate, folder: &str) -> bool {
    let below = format!("{folder}/");
    rule.layers.iter().any(|layer| layer.starts_with(&below))
}

fn use_violations(rule: &Crate, uses: &[Use], used: &mut BTreeSet<usize>) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders: BTreeMap<String, Graph> = BTreeMap::new();
    for one in uses {
        let place = format!("{}:{}", shown(&one.file), one.line);
        if let Some(row) = allowed(rule, one) {
            used.insert(row);
            continue;
        }
        if one.of.is_empty() {
            found.push(format!(
                "{place} uses what lib.rs or main.rs has, which is above all"
            ));
            continue;
        }
        let (Some(by), Some(of)) = (layer(rule, &one.by), layer(rule, &one.of)) else {
            continue;
        };
        if by.0 < of.0 {
            let (by, of) = (by.1, of.1);
            found.push(format!(
                "{place} uses {}, but {by} must not know {of}",
                one.of
            ));
        } else if by.0 == of.0
            && let Some((folder, by, of)) = siblings(&one.by, &one.of)
        {
            let uses = folders.entry(folder).or_default().entry(by).or_default();
            uses.entry(of).or_insert(place);
        }
    }
    let circles = folders.values().flat_map(circles);
    found.extend(circles.map(|circle| format!("a circle: {circle}")));
    found
}

/// The folder that has both, and the two modules of it that they belong to; none if one is the
/// folder of the other.
fn siblings(by: &str, of: &str) -> Option<(String, String, String)> {
    let (by, of): (Vec<_>, Vec<_>) = (by.split('/').collect(), of.split('/').collect());
    let same = by.iter().zip(&of).take_while(|(a, b)| a == b).count();
    if same == by.len() || same == of.len() {
        return None;
    }
    let path = |words: &[&str], count| words[..count].join("/");
    Some((path(&by, same), path(&by, same + 1), path(&of, same + 1)))
}

/// The row of `CIRCLES` that allows a use.
fn allowed(rule: &Crate, one: &Use) -> Option<usize> {
    let is = |module: &str, row: &str| match row.strip_suffix('*') {
        Some(folder) => module.starts_with(folder),
        None => module == row || module.strip_prefix(row).is_some_and(|r| r.starts_with('/')),
    };
    rules::CIRCLES
        .iter()
        .position(|(name, by, of)| *name == rule.name && is(&one.by, by) && is(&one.of, of))
}

fn shown(file: &Path) -> String {
    let root = root();
    let file = file.strip_prefix(&root).unwrap_or(file);
    file.display().to_string()
}

// ---- Crates ----------------------------------------------------------------

#[test]
fn crates_depend_only_on_those_before_them() {
    let names: Vec<&str> = rules::CRATES.iter().map(|rule| rule.name).collect();
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join("crates")).expect("the folder of crates") {
        let name = entry.expect("an entry").file_name().display().to_string();
        let manifest = root().join("crates").join(&name).join("Cargo.toml");
        let text = fs::read_to_string(&manifest).expect("a manifest");
        let Some(place) = names.iter().position(|known| *known == name) else {
            found.push(format!("rules.rs does not know the crate {name}"));
            continue;
        };
        let above = |other: &&str| names[place..].contains(other);
        found.extend(
            dependencies(&text)
                .filter(above)
                .map(|other| format!("crates/{name}/Cargo.toml: {name} must not know {other}")),
        );
    }
    none(&found);
}

/// What a crate is built of: not of what only its tests use.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let mut counts = false;
    manifest.lines().filter_map(move |line| {
        if line.starts_with('[') {
            counts = line.ends_with("dependencies]") && !line.contains("dev-dependencies");
        }
        let name = line.split(['.', ' ', '=']).next()?;
        (counts && name.starts_with("bpfdb")).then_some(name)
    })
}

// ---- That it finds what is wrong -------------------------------------------

fn c_sources(files: &[(&str, &str)]) -> Vec<String> {
    let texts = files
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    include_violations(&includes::of_texts(&texts.collect()))
}

#[test]
fn a_wrong_include_is_found() {
    let wrong = [
        ("bpf/net/a.h", "#ifndef BPFDB_A_H\n#endif\n"),
        (
            "bpf/storage/b.h",
            "/* b */\n#ifndef BPFDB_B_H\n#include \"../net/a.h\"\n#endif\n",
        ),
    ];
    assert_eq!(
        c_sources(&wrong),
        ["bpf/storage/b.h:3 includes \"../net/a.h\", but storage must not know net"]
    );
}

#[test]
fn headers_that_include_each_other_late_and_without_a_guard_are_found() {
    let wrong = [
        (
            "bpf/txn/a.h",
            "#ifndef BPFDB_A_H\nint a;\n#include \"b.h\"\n#endif\n",
        ),
        (
            "bpf/txn/b.h",
            "#include <txn/a.h>\n/* #include \"c.h\" */\n",
        ),
    ];
    assert_eq!(
        c_sources(&wrong),
        [
            "bpf/txn/a.h:3 includes \"b.h\" in the middle of its code",
            "bpf/txn/b.h has no guard",
            "a circle: bpf/txn/a.h uses bpf/txn/b.h (line 3), bpf/txn/b.h uses bpf/txn/a.h (line 1)",
        ]
    );
}

fn rust_sources(layers: &'static [&'static str], files: &[(&str, &str)]) -> Vec<String> {
    let rule = Crate {
        name: "a crate",
        layers,
    };
    let texts = files.iter().map(|(module, text)| {
        let module = (*module).to_owned();
        (module.clone(), PathBuf::from(&module), (*text).to_owned())
    });
    let modules = Modules::of_texts(texts);
    let mut found = unknown(&rule, &modules);
    found.extend(use_violations(&rule, &modules.uses(), &mut BTreeSet::new()));
    found
}

#[test]
fn a_wrong_use_is_found_however_it_is_written() {
    let uses = [
        "use crate::high::A;",
        "use crate::{\n    low::B, high::{self as h}};",
        "fn f() { crate::Given::new() }",
        "fn f() -> super::high::A {}",
        "mod tests { use super::super::high::A; }",
        "fn f(c: char) -> bool { c == '\"' || crate::high::is(c) } // \"",
    ];
    for text in uses {
        let files = [
            ("", "pub use high::A as Given; pub mod high; mod low;"),
            ("high", "pub struct A;"),
            ("low", text),
        ];
        let found = rust_sources(&["low", "high"], &files);
        assert!(
            matches!(&found[..], [one] if one.starts_with("low:")
                && one.ends_with(" uses high, but low must not know high")),
            "{text}: {found:?}"
        );
    }
}

#[test]
fn what_is_no_use_is_not_taken_for_one() {
    let low = "// crate::high::A\n/* use crate::high::A; */\nconst A: &str = r#\"crate::high::A\"#;\n\
               fn f<'a>(x: &'a X) { x.high::<A>(); $crate::high::A; other::high::A }";
    let files = [
        ("", "mod high; mod low;"),
        ("high", "struct A;"),
        ("low", low),
    ];
    assert_eq!(rust_sources(&["low", "high"], &files), [""; 0]);
}

#[test]
fn circles_of_a_folder_and_modules_of_no_layer_are_found() {
    let files = [
        ("", "mod a;"),
        ("a", "mod b; mod c;"),
        ("a/b", "use super::c::C;"),
        ("a/c", "mod d; pub use d::C;"),
        ("a/c/d", "use crate::a::b::B;"),
        ("new", "fn f() {}"),
    ];
    assert_eq!(
        rust_sources(&["a"], &files),
        [
            "new: rules.rs does not know the layer of new",
            "a circle: a/b uses a/c (a/b:1), a/c uses a/b (a/c/d:1)",
        ]
    );
}

#[test]
fn dependencies_of_tests_do_not_count() {
    let manifest = "[dependencies]\nbpfdb.workspace = true\nlibc = \"1\"\n[build-dependencies]\n\
                    bpfdb-build = { path = \"x\" }\n[dev-dependencies]\nbpfdb-tests.workspace = true\n";
    assert_eq!(
        dependencies(manifest).collect::<Vec<_>>(),
        ["bpfdb", "bpfdb-build"]
    );
}
