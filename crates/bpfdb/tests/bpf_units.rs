//! Runs the unit tests that are written in BPF: every program `test_*` of the
//! objects in `bpf/tests`, each object on an engine of its own. A program
//! returns 0 or the line of the expectation that failed.
//!
//! Prints a line per program, as the test runner of Rust does per test, and
//! understands its arguments as far as they make sense here.

#[path = "it/common/mod.rs"]
mod common;

use std::env;
use std::process::ExitCode;

use bpfdb::objects::{TESTS, TestObject};
use bpfdb::{Engine, Options, Program};
use libbpf_rs::OpenObject;

const PREFIX: &str = "test_";
/// Where `bpf/tests/expectation.bpf.c` keeps programs that must fail, by line.
const EXPECTATION: &str = "expectation";
const FAILS: &str = "fails_in_line_";
/// Objects that test what an engine with a log does.
const WITH_LOG: [&str; 1] = ["record"];
/// Bytes of each of its rings: more than these tests write.
const RING: u32 = 1 << 20;

fn main() -> ExitCode {
    let chosen = Chosen::from_arguments();
    let mut results = Results::default();

    for object in TESTS {
        run_object(object, &chosen, &mut results);
    }
    let name = format!("{EXPECTATION}::a_failing_expectation_is_noticed");
    if chosen.includes(&name) {
        results.add(&name, chosen.only_list, failing_expectations_are_noticed);
    }
    results.report(chosen.only_list)
}

/// Which tests the command line asks for.
struct Chosen {
    filters: Vec<String>,
    skipped: Vec<String>,
    exact: bool,
    none: bool,
    only_list: bool,
}

impl Chosen {
    fn from_arguments() -> Self {
        let mut chosen = Self {
            filters: Vec::new(),
            skipped: Vec::new(),
            exact: false,
            none: false,
            only_list: false,
        };
        let mut arguments = env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--exact" => chosen.exact = true,
                "--list" => chosen.only_list = true,
                // None of these tests is marked so.
                "--ignored" => chosen.none = true,
                "--skip" => chosen.skipped.extend(arguments.next()),
                "--test-threads" | "--format" | "--color" => drop(arguments.next()),
                option if option.starts_with('-') => {}
                filter => chosen.filters.push(filter.to_owned()),
            }
        }
        chosen
    }

    fn includes(&self, name: &str) -> bool {
        let fits = |filter: &String| {
            if self.exact {
                name == filter
            } else {
                name.contains(filter.as_str())
            }
        };
        !self.none
            && (self.filters.is_empty() || self.filters.iter().any(fits))
            && !self.skipped.iter().any(|skip| name.contains(skip.as_str()))
    }
}

#[derive(Default)]
struct Results {
    listed: usize,
    passed: usize,
    failed: Vec<String>,
}

impl Results {
    fn add(&mut self, name: &str, only_list: bool, test: impl FnOnce() -> Result<(), String>) {
        self.listed += 1;
        if only_list {
            println!("{name}: test");
            return;
        }
        match test() {
            Ok(()) => {
                println!("test {name} ... ok");
                self.passed += 1;
            }
            Err(reason) => {
                println!("test {name} ... FAILED: {reason}");
                self.failed.push(format!("{name}: {reason}"));
            }
        }
    }

    fn report(&self, only_list: bool) -> ExitCode {
        if only_list {
            println!("\n{} tests, 0 benchmarks", self.listed);
            return ExitCode::SUCCESS;
        }
        let result = if self.failed.is_empty() {
            "ok"
        } else {
            println!("\nfailures:\n    {}", self.failed.join("\n    "));
            "FAILED"
        };
        println!(
            "\ntest result: {result}. {} passed; {} failed",
            self.passed,
            self.failed.len()
        );
        ExitCode::from(u8::from(!self.failed.is_empty()))
    }
}

/// Keeps only the programs that are to run: libbpf verifies each one with all
/// the operators it calls.
fn keep(object: &mut OpenObject, names: &[String]) {
    for mut program in object.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        program.set_autoload(names.contains(&name));
    }
}

fn programs_of(object: &OpenObject, prefix: &str) -> Vec<String> {
    object
        .progs()
        .map(|program| program.name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with(prefix))
        .collect()
}

fn test_name(object: &TestObject, program: &str) -> String {
    let name = program.strip_prefix(PREFIX).unwrap_or(program);
    format!("{}::{name}", object.name)
}

fn run_object(object: &TestObject, chosen: &Chosen, results: &mut Results) {
    let open = bpfdb::open_object(object.bytes, object.name).expect("the object opens");
    let names: Vec<String> = programs_of(&open, PREFIX)
        .into_iter()
        .filter(|program| chosen.includes(&test_name(object, program)))
        .collect();
    drop(open);
    if names.is_empty() {
        return;
    }
    let loaded = (!chosen.only_list).then(|| load(object, &names));
    for program in &names {
        results.add(
            &test_name(object, program),
            chosen.only_list,
            || match &loaded {
                Some(Ok((_engine, loaded))) => run(object, loaded, program),
                Some(Err(error)) => Err(error.clone()),
                None => Ok(()),
            },
        );
    }
}

fn load(object: &TestObject, names: &[String]) -> Result<(Engine, libbpf_rs::Object), String> {
    let options = Options {
        log_ring: if WITH_LOG.contains(&object.name) {
            RING
        } else {
            0
        },
        ..common::options()
    };
    let engine = Engine::create(&options).expect("the engine starts");
    let mut open = common::open(&engine, object.bytes, object.name);
    keep(&mut open, names);
    let loaded = open
        .load()
        .map_err(|error| format!("does not load: {error}"))?;
    Ok((engine, loaded))
}

fn run(object: &TestObject, loaded: &libbpf_rs::Object, program: &str) -> Result<(), String> {
    let program: Program =
        bpfdb::find_program(loaded, program).map_err(|error| error.to_string())?;
    match program.run(&[]).map_err(|error| error.to_string())? {
        0 => Ok(()),
        line => Err(format!("bpf/tests/{}.bpf.c:{line}", object.name)),
    }
}

fn failing_expectations_are_noticed() -> Result<(), String> {
    let object = TESTS
        .iter()
        .find(|object| object.name == EXPECTATION)
        .ok_or("the object is missing")?;
    let open = bpfdb::open_object(object.bytes, object.name).map_err(|error| error.to_string())?;
    let names = programs_of(&open, FAILS);
    drop(open);
    let (_engine, loaded) = load(object, &names)?;

    if names.len() != 2 {
        return Err(format!("{} programs, not 2", names.len()));
    }
    for name in names {
        let line = name.trim_start_matches(FAILS);
        let expected = format!("bpf/tests/{EXPECTATION}.bpf.c:{line}");
        let found = run(object, &loaded, &name);
        if found != Err(expected) {
            return Err(format!("{name} gave {found:?}"));
        }
    }
    Ok(())
}
