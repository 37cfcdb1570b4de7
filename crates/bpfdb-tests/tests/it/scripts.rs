//! Every script of `tests/scripts` comes true, on the model and in the kernel.
//!
//! After a change of a script, `BPFDB_BLESS=1 cargo test -p bpfdb-tests --test
//! scripts` writes into it what the model answers: read the difference before
//! you believe it.

use std::collections::BTreeMap;

use bpfdb_tests::files::{File, scripts};
use bpfdb_tests::kernel::Kernel;
use bpfdb_tests::script::{Script, difference};
use bpfdb_tests::target::ModelTarget;

fn run_on_model(script: &Script) -> String {
    let rules = Kernel::rules(script.versions);
    script
        .run(&ModelTarget::new(rules))
        .expect("leaves nothing behind")
}

/// Panics with all differences, or blesses them.
fn report(runs: impl Iterator<Item = (File, String)>, bless: bool) {
    let mut differences = String::new();
    for (file, actual) in runs {
        let Some(difference) = difference(&file.text, &actual) else {
            continue;
        };
        if bless {
            std::fs::write(&file.path, &actual).expect("write the script");
        }
        differences += &format!("{}\n{difference}\n", file.name);
    }
    assert!(
        differences.is_empty() || bless,
        "expected -, actual +\n\n{differences}"
    );
    print!("{differences}");
}

#[test]
fn scripts_on_the_model() {
    let bless = std::env::var_os("BPFDB_BLESS").is_some();
    let run = |file: File| {
        let actual = run_on_model(&file.script);
        (file, actual)
    };
    report(scripts().into_iter().map(run), bless);
}

#[test]
fn scripts_in_the_kernel() {
    // Scripts leave the engine empty, so those that want the same share one.
    let mut kernels = BTreeMap::new();
    let run = |file: File| {
        let versions = file.script.versions;
        let new = || Kernel::with_versions(versions);
        let actual = match file.script.run(kernels.entry(versions).or_insert_with(new)) {
            Ok(actual) => actual,
            Err(left) => {
                kernels.remove(&versions);
                left
            }
        };
        (file, actual)
    };
    report(scripts().into_iter().map(run), false);
}

/// A test of the test: no outcome can be changed without being noticed.
#[test]
fn a_wrong_expectation_is_noticed() {
    let mut changed = 0;
    for file in scripts() {
        let actual = run_on_model(&file.script);
        let lines: Vec<&str> = file.text.lines().collect();
        for number in (0..lines.len()).filter(|number| is_expectation(lines[*number])) {
            let wrong = format!("{}!", lines[number]);
            let mut text = lines.clone();
            text[number] = &wrong;
            let script = Script::parse(&text.join("\n")).expect("still a script");
            assert_eq!(
                run_on_model(&script),
                actual,
                "an expectation has an effect"
            );
            let difference = difference(&text.join("\n"), &actual).expect("a difference");
            assert!(difference.contains(&format!("- {wrong}\n+ {}\n", lines[number])));
            changed += 1;
        }
    }
    assert!(changed > 200, "only {changed} expectations in all scripts");
}

fn is_expectation(line: &str) -> bool {
    !line.starts_with('#') && (line.contains(" -> ") || line.starts_with(' '))
}
