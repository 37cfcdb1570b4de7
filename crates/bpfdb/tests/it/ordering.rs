//! The order in which accesses become visible to other processors, which nothing but
//! the kind of each access ensures (`docs/decisions/0014-memory-order.md`).
//!
//! `bpf/ordering.txt` lists every ordered access of the engine's sources and what it
//! orders. `BPFDB_UPDATE_ORDERING=1` writes it anew, the reasons kept: a place that is
//! new has none, which fails, until it has one.

use crate::common;

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use bpfdb::objects::{self, WEAK};

/// What orders. `ADD` counts, `LOAD` and `STORE` are whole and no more.
const KINDS: [&str; 7] = [
    "LOAD_ACQUIRE",
    "LOAD_AFTER",
    "STORE_RELEASE",
    "CAS",
    "SWAP",
    "FETCH_ADD",
    "FETCH_OR",
];
/// From here on Linux knows load-acquire and store-release of BPF.
const WITH_ACQUIRE: (u32, u32) = (6, 15);
/// The compiler that every build of the product has.
const COMPILER: &[u8] = b"clang version 22.";

/// File, function, kind, what is accessed: and why it is ordered.
type Sites = BTreeMap<[String; 4], String>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The engine's sources below `folder`, without its tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the sources") {
        let path = entry.expect("a source").path();
        if path.is_dir() && !path.ends_with("tests") {
            sources(&path, found);
        } else if path.to_string_lossy().contains(".bpf.") {
            found.push(path);
        }
    }
}

/// The function that a line begins, by the house's style: at the first column.
fn function_begun(line: &str) -> Option<&str> {
    if !line.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        return None;
    }
    let name = line.split_once('(')?.0.rsplit([' ', '*']).next()?;
    (name != "SEC" && !name.starts_with("_Static") && !name.is_empty()).then_some(name)
}

/// The first argument of a call, from behind its parenthesis.
fn first_argument(text: &str) -> String {
    let mut depth = 0;
    let end = text.find(|c| {
        depth += i32::from(matches!(c, '(' | '[')) - i32::from(matches!(c, ')' | ']'));
        depth < 0 || (depth == 0 && c == ',')
    });
    let argument = &text[..end.unwrap_or(text.len())];
    let words: Vec<&str> = argument.split_whitespace().collect();
    words.join(" ").trim_start_matches('&').to_owned()
}

/// The calls of `kind` in `text`: what each accesses.
fn calls<'a>(text: &'a str, kind: &'a str) -> impl Iterator<Item = String> + 'a {
    text.match_indices(kind).filter_map(move |(at, _)| {
        let before = text[..at].chars().next_back();
        let whole = !before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
        let argument = text[at + kind.len()..].strip_prefix('(')?;
        whole.then(|| first_argument(argument))
    })
}

fn sites_of(file: &str, text: &str) -> Sites {
    let mut sites = Sites::new();
    let mut function = String::new();
    let mut body = String::new();
    let mut end = |function: &str, body: &str| {
        for kind in KINDS {
            for place in calls(body, kind) {
                let site = [file, function, kind, place.as_str()].map(str::to_owned);
                sites.insert(site, String::new());
            }
        }
    };
    for line in text.lines() {
        if let Some(name) = function_begun(line) {
            end(&function, &body);
            body.clear();
            name.clone_into(&mut function);
        }
        body.push_str(line);
        body.push('\n');
    }
    end(&function, &body);
    sites
}

fn sites() -> Sites {
    let root = root();
    let mut files = Vec::new();
    sources(&root.join("bpf"), &mut files);
    files
        .iter()
        .flat_map(|path| {
            let text = fs::read_to_string(path).expect("a source");
            let file = path.strip_prefix(root.join("bpf")).expect("below bpf");
            sites_of(&file.to_string_lossy(), &text)
        })
        .collect()
}

/// Rows of `file: function: KIND place: reason`.
fn listed(text: &str) -> Sites {
    let row = |line: &str| {
        let mut parts = line.splitn(4, ": ").map(str::to_owned);
        let (file, function) = (parts.next()?, parts.next()?);
        let (kind, place) = parts.next()?.split_once(' ').map(|(kind, place)| {
            let place = place.trim_end_matches(':');
            (kind.to_owned(), place.to_owned())
        })?;
        Some((
            [file, function, kind, place],
            parts.next().unwrap_or_default(),
        ))
    };
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| row(line).unwrap_or_else(|| panic!("bpf/ordering.txt: {line:?}")))
        .collect()
}

fn table(sites: &Sites) -> String {
    let mut text = String::from(
        "# Every access of the engine's programs that orders others, and what it orders.\n\
         # A test fails when one is missing here, has no reason, or is gone;\n\
         # BPFDB_UPDATE_ORDERING=1 writes this file anew and keeps the reasons.\n\
         #\n# file: function: kind place: reason\n",
    );
    for ([file, function, kind, place], reason) in sites {
        writeln!(text, "{file}: {function}: {kind} {place}: {reason}").expect("text");
    }
    text
}

fn violations(sites: &Sites, listed: &Sites) -> Vec<String> {
    let missing = sites.keys().filter_map(|site| match listed.get(site) {
        None => Some(format!("{}: not in the list", site.join(" "))),
        Some(reason) if reason.trim().is_empty() => Some(format!("{}: why?", site.join(" "))),
        Some(_) => None,
    });
    let gone = listed
        .keys()
        .filter(|site| !sites.contains_key(*site))
        .map(|site| format!("{}: listed, but no such access", site.join(" ")));
    missing.chain(gone).collect()
}

#[test]
fn every_ordered_access_is_listed_with_its_reason() {
    let path = root().join("bpf/ordering.txt");
    let mut sites = sites();
    let known = listed(&fs::read_to_string(&path).unwrap_or_default());
    assert!(sites.len() > 100, "only {} accesses found", sites.len());

    if env::var_os("BPFDB_UPDATE_ORDERING").is_some_and(|value| value == "1") {
        for (site, reason) in &mut sites {
            known.get(site).unwrap_or(&String::new()).clone_into(reason);
        }
        fs::write(&path, table(&sites)).expect("bpf/ordering.txt is written");
        return;
    }
    let wrong = violations(&sites, &known);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn accesses_and_their_functions_are_recognised() {
    let text = "static __always_inline void f(u64 *p,\n\t\t\t\t     u64 v)\n{\n\
                \tSTORE(*p, 1);\n\tSTORE_RELEASE(at(p, 1)->header,\n\t\t      v);\n}\n\n\
                SEC(\"raw_tp\")\nint *g(void *ctx)\n{\n\tif (CAS(&a.b, 0, 1) || NOT_CAS(&c, 0))\n\t\treturn 0;\n}\n";
    let site = |function: &str, kind: &str, place: &str| {
        (
            ["file", function, kind, place].map(str::to_owned),
            String::new(),
        )
    };

    assert_eq!(
        sites_of("file", text),
        Sites::from([
            site("f", "STORE_RELEASE", "at(p, 1)->header"),
            site("g", "CAS", "a.b"),
        ])
    );
}

#[test]
fn what_the_list_lacks_is_noticed() {
    let sites = sites_of(
        "f.h",
        "int f(void)\n{\n\tCAS(&a, 0, 1);\n\tCAS(&b, 0, 1);\n\tSWAP(&c, 1);\n}\n",
    );
    let list =
        listed("# list\nf.h: f: CAS a: a latch: taken\nf.h: f: CAS b: \nf.h: f: CAS old: x\n");

    assert_eq!(
        violations(&sites, &list),
        [
            "f.h f CAS b: why?",
            "f.h f SWAP c: not in the list",
            "f.h f CAS old: listed, but no such access",
        ]
    );
    assert_eq!(listed(&table(&list)), list);
}

fn linux() -> (u32, u32) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("the release");
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next()?.parse().ok();
    (next().expect("major"), next().expect("minor"))
}

/// An instruction of an atomic access (of 8, 16, 32, 64 bits), by its opcode, with the
/// operation in its immediate value.
fn has_atomic(object: &[u8], operation: u32) -> bool {
    object.chunks_exact(8).any(|instruction| {
        let immediate = u32::from_le_bytes(instruction[4..].try_into().expect("four bytes"));
        matches!(instruction[0], 0xd3 | 0xcb | 0xc3 | 0xdb) && immediate == operation
    })
}

/// As the kernel's `BPF_LOAD_ACQ` and `BPF_STORE_REL`.
const LOAD_ACQUIRE: u32 = 0x100;
const STORE_RELEASE: u32 = 0x110;

/// Every object compiles for arm64, with the instructions that order, and the
/// verifier takes it. Whether it is right there no test on x86-64 can show.
#[test]
fn objects_for_weak_order_compile_and_verify() {
    let newest = objects::ENGINE
        .windows(COMPILER.len())
        .any(|window| window == COMPILER);
    let names: Vec<&str> = WEAK.iter().map(|object| object.name).collect();
    if names.is_empty() && !newest {
        println!("this compiler has no load-acquire");
        return;
    }
    assert_eq!(
        names,
        [
            "bench",
            "compact",
            "engine",
            "pg",
            "procedure",
            "procedure_embedded",
            "procedure_run",
            "redis",
            "table",
            "voter"
        ]
    );
    // The words of the proxy change by compare-and-swap alone, which orders everything.
    for object in WEAK.iter().filter(|object| object.name != "pg") {
        assert!(has_atomic(object.bytes, LOAD_ACQUIRE), "{}", object.name);
        // That program reads records.
        if object.name != "compact" {
            assert!(has_atomic(object.bytes, STORE_RELEASE), "{}", object.name);
        }
    }
    assert!(!has_atomic(objects::ENGINE, LOAD_ACQUIRE));
    if linux() < WITH_ACQUIRE {
        println!("this kernel has no load-acquire");
        return;
    }
    let engine = common::engine();
    for object in WEAK {
        let loaded = common::open(&engine, object.bytes, object.name).load();
        assert!(loaded.is_ok(), "{}: {:?}", object.name, loaded.err());
    }
}
