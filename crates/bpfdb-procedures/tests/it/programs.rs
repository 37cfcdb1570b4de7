//! Random programs: the verifier takes whatever is compiled of them. What they mean is compared in the
//! server's tests.

use crate::it::common;
use bpfdb_tests::programs;

use std::ops::Range;

use bpfdb_procedures::Unit;
use bpfdb_procedures::inside::Compiler;

use common::{engine, template};

/// Functions of one library, which are one program.
const EACH: u64 = 25;

/// Of so many libraries one is verified in the template of calls from inside, too: what is
/// generated is the same.
const INSIDE_ONE_IN: u64 = 4;

/// How many functions of these libraries are compiled; `library` makes one of such numbers.
fn verify(libraries: Range<u64>, library: fn(Range<u64>) -> String) -> usize {
    let engine = engine();
    let template = template(&engine);
    let inside = Compiler::new(&engine).unwrap_or_else(|error| panic!("{error}"));
    let compiled = libraries.map(|number| {
        let text = library(number * EACH..(number + 1) * EACH);
        let unit = Unit::library(&template, text.as_bytes());
        let unit = unit.unwrap_or_else(|error| panic!("{error}: {text}"));
        check_reasons(&unit, &text);
        if number % INSIDE_ONE_IN == 0 {
            let library = inside.library(text.as_bytes());
            let library = library.unwrap_or_else(|error| panic!("{error}: {text}"));
            check_reasons(library.unit(), &text);
            assert_eq!(library.unit().ready.len(), unit.ready.len(), "{text}");
        }
        unit.ready.len()
    });
    compiled.sum()
}

fn check_reasons(unit: &Unit, text: &str) {
    for reason in unit.left.iter().flat_map(|left| &left.reasons) {
        assert!(!is_of_the_kernel(&reason.to_string()), "{reason}: {text}");
    }
}

/// Is this reason what the verifier said, and not that the function has no meaning there?
fn is_of_the_kernel(reason: &str) -> bool {
    [
        "the kernel refused",
        "too many ways",
        "too long for the kernel",
    ]
    .iter()
    .any(|words| reason.contains(words))
}

fn verify_all(libraries: Range<u64>, library: fn(Range<u64>) -> String) {
    let functions = (libraries.end - libraries.start) * EACH;
    let compiled = verify(libraries, library) as u64;
    println!("{compiled} of {functions} functions are compiled, and verified");
    assert!(compiled * 2 > functions, "{compiled} of {functions}");
}

#[test]
fn random_programs_are_verified() {
    verify_all(500..504, programs::library);
}

#[test]
fn random_programs_on_collections_are_verified() {
    verify_all(0..4, programs::collections::library);
}

/// `make vm-programs` has another kernel do it.
#[test]
#[ignore = "ten thousand programs take a minute"]
fn soak_random_programs_are_verified() {
    verify_all(0..400, programs::library);
    verify_all(4..100, programs::collections::library);
}
