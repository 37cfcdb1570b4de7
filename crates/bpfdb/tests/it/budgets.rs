//! Verifier budgets: how many instructions the kernel's verifier processes for
//! each program (`verified_insns`), against the limits in `bpf/budgets.txt`.
//! The kernel gives up at a million; a change that makes a program much dearer
//! to verify shows here first.
//!
//! `make test` verifies the programs with most versions and a log; `make soak`, and `make vm` on another
//! kernel, with each of [`ENGINES`]. `BPFDB_UPDATE_BUDGETS=1` does that, too, and writes the file anew.

use crate::{common, units};

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use bpfdb::objects::{self, TESTS};
use bpfdb::{Engine, Options};
use common::Object;

/// Budgets are compared with what this compiler made.
const COMPILER: &str = "clang version 22.";
/// And with what this kernel's verifier processes: others prune less, or more.
const KERNEL: &str = "6.18.";
/// What another kernel's may process of each program: the kernel gives up at a million, and on Linux 6.12
/// no program of ours takes 300,000.
const MOST_ELSEWHERE: u64 = 400_000;
/// Versions per record, and bytes of a ring of the log: verified as constants, so each counts.
const ENGINES: [(u32, u32); 3] = [(8, RING), (1, RING), (4, 0)];
const RING: u32 = 1 << 20;
/// Larger maps of an object's own do not change what is verified.
const ENTRIES: u32 = 1 << 16;

/// (object, program) and a number of instructions.
type Figures = BTreeMap<(String, String), u64>;

#[derive(Default)]
struct Measured {
    figures: Figures,
    /// Objects that the verifier does not accept.
    refused: Vec<String>,
}

/// Loads an object as the product does; what each of its programs took. The
/// verifier's log of a program that it refuses is printed by libbpf.
fn verify(engine: &Engine, name: &str, bytes: &[u8]) -> Result<Figures, String> {
    let mut open = common::open(engine, bytes, name);
    for mut map in open.maps_mut() {
        if map.max_entries() > ENTRIES {
            map.set_max_entries(ENTRIES).expect("a smaller map");
        }
    }
    let object = open
        .load()
        .map_err(|error| format!("{name} does not load: {error}"))?;
    Ok(figures(name, &common::verified(&object)))
}

fn figures(object: &str, programs: &BTreeMap<String, u64>) -> Figures {
    let figure =
        |(program, figure): (&String, &u64)| ((object.to_owned(), program.clone()), *figure);
    programs.iter().map(figure).collect()
}

fn measure((versions, log_ring): (u32, u32), objects: Vec<Object>) -> Measured {
    let engine = Engine::create(&Options {
        versions,
        log_ring,
        ..common::options()
    })
    .expect("the engine starts");
    let mut measured = Measured::default();
    for (name, bytes) in objects {
        match verify(&engine, name, bytes) {
            Ok(figures) => measured.figures.extend(figures),
            Err(error) => measured.refused.push(error),
        }
    }
    measured
}

/// Programs of tests as they run, on the engine of `units`.
fn measure_tests() -> Measured {
    let mut measured = Measured::default();
    for object in TESTS {
        match &units::outcome(object).verified {
            Ok(programs) => measured.figures.extend(figures(object.name, programs)),
            Err(error) => measured.refused.push(error.clone()),
        }
    }
    measured
}

/// The most that each program took in any of these engines, and programs of tests.
fn measure_all(engines: &[(u32, u32)]) -> Measured {
    let mut all = measure_tests();
    for engine in engines {
        let measured = measure(*engine, common::products());
        for (program, figure) in measured.figures {
            let known = all.figures.entry(program).or_default();
            *known = figure.max(*known);
        }
        all.refused.extend(measured.refused);
    }
    all
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf/budgets.txt")
}

/// Today's figure and a tenth, rounded up to two digits or so.
fn budget_for(figure: u64) -> u64 {
    let unit = if figure < 10_000 { 100 } else { 1000 };
    (figure + figure / 10).next_multiple_of(unit)
}

fn table(figures: &Figures) -> String {
    let mut text = String::from(
        "# Instructions that the verifier processes per program, with the number of versions per\n\
         # record (1, 4 or 8) that takes the most, with a log and without (of tests: as they run),\n\
         # compiled by clang-22, on Linux 6.18. A test fails when a program exceeds its budget or\n\
         # has none; BPFDB_UPDATE_BUDGETS=1 writes this file anew.\n\
         #\n# object, program, instructions, budget\n",
    );
    for ((object, program), figure) in figures {
        let budget = budget_for(*figure);
        writeln!(text, "{object} {program} {figure} {budget}").expect("text");
    }
    text
}

fn budgets(text: &str) -> Figures {
    let row = |line: &str| {
        let [object, program, _, budget] = line
            .split_whitespace()
            .collect::<Vec<_>>()
            .try_into()
            .ok()?;
        let budget: u64 = budget.parse().ok()?;
        Some(((object.to_owned(), program.to_owned()), budget))
    };
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| row(line).unwrap_or_else(|| panic!("bpf/budgets.txt: {line:?}")))
        .collect()
}

fn violations(figures: &Figures, budgets: &Figures) -> Vec<String> {
    let name = |(object, program): &(String, String)| format!("{object} {program}");
    let over = figures
        .iter()
        .filter_map(|(key, figure)| match budgets.get(key) {
            None => Some(format!("{}: no budget", name(key))),
            Some(budget) if figure > budget => Some(format!(
                "{}: {figure} instructions, budget {budget}",
                name(key)
            )),
            Some(_) => None,
        });
    let gone = budgets
        .keys()
        .filter(|key| !figures.contains_key(*key))
        .map(|key| format!("{}: a budget, but no such program", name(key)));
    over.chain(gone).collect()
}

#[test]
fn programs_stay_within_their_budgets() {
    // On this kernel other tests start engines of each kind, too; on another one perhaps none does.
    let all = updates() || !runs_on(KERNEL);
    stay_within_budgets(if all { &ENGINES } else { &ENGINES[..1] });
}

#[test]
#[ignore = "long: make soak"]
fn soak_programs_stay_within_their_budgets_in_every_engine() {
    stay_within_budgets(&ENGINES);
}

fn updates() -> bool {
    env::var_os("BPFDB_UPDATE_BUDGETS").is_some_and(|value| value == "1")
}

fn stay_within_budgets(engines: &[(u32, u32)]) {
    let Measured { figures, refused } = measure_all(engines);
    print!("{}", table(&figures));

    assert!(refused.is_empty(), "{}", refused.join("\n"));
    if !compiled_by(COMPILER) {
        println!("every object loads; figures of another compiler are not compared");
        return;
    }
    if updates() {
        fs::write(path(), table(&figures)).expect("bpf/budgets.txt is written");
        return;
    }
    if !runs_on(KERNEL) {
        let greatest = figures.values().max().expect("some program");
        assert!(*greatest <= MOST_ELSEWHERE, "{greatest} instructions");
        println!("every object loads; figures of another kernel are not compared");
        return;
    }
    let text = fs::read_to_string(path()).expect("bpf/budgets.txt");
    let wrong = violations(&figures, &budgets(&text));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn runs_on(kernel: &str) -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("a kernel");
    release.starts_with(kernel)
}

/// The debug information of an object names its compiler.
fn compiled_by(compiler: &str) -> bool {
    let name = compiler.as_bytes();
    objects::ENGINE
        .windows(name.len())
        .any(|window| window == name)
}

/// Programs of tests in the other engines: they run in one only.
#[test]
#[ignore = "takes minutes"]
fn soak_programs_of_tests_load_with_every_number_of_versions() {
    for engine in ENGINES {
        let tests = TESTS.iter().map(|object| (object.name, object.bytes));
        let Measured { figures, refused } = measure(engine, tests.collect());
        assert!(refused.is_empty(), "{engine:?}: {}", refused.join("\n"));
        let greatest = figures.values().max().expect("some program");
        assert!(
            *greatest <= MOST_ELSEWHERE,
            "{engine:?}: {greatest} instructions"
        );
    }
}

#[test]
fn violations_are_noticed() {
    let key = |program: &str| ("engine".to_owned(), program.to_owned());
    let figures = Figures::from([(key("a"), 1000), (key("b"), 101), (key("new"), 1)]);
    let budgets = budgets("# object\nengine a 900 1000\nengine b 90 100\nengine old 1 100\n");

    assert_eq!(
        violations(&figures, &budgets),
        [
            "engine b: 101 instructions, budget 100",
            "engine new: no budget",
            "engine old: a budget, but no such program",
        ]
    );
}
