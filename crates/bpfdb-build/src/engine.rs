//! Inputs of the crate `bpfdb`: its objects, and Rust that is generated from its headers.

use std::env;

use crate::clang::{BPF_FLAGS, Machine, find_compiler, has_acquire};
use crate::compile::compile_in_parallel;
use crate::objects::{self, Source, embed_list};
use crate::result::{Result, write};
use crate::tree::Tree;
use crate::{abi, headers, lists};

/// Objects that the crate names. Others in `bpf` are front ends, and those in `bpf/bench` the
/// benchmarks': the crates that load them have them.
const NAMED_OBJECTS: [&str; 4] = ["engine", "procedure", "procedure_embedded", "procedure_run"];

/// The whole build script of the crate `bpfdb`; in any other it finds no sources.
///
/// 1. Compiles `bpf/*.bpf.c` (and, for tests, `bpf/tests` and `examples`) to objects.
/// 2. Generates `abi.rs` from the structures in `include/bpfdb`.
/// 3. Generates `status.rs`, `conflict.rs`, `commands.rs` and so on from the lists there.
pub fn engine() -> Result<()> {
    let tree = Tree::of_engine()?;
    tree.declare_inputs(&["bpf", "include", "examples"]);
    headers::copy(&tree)?;
    tree.declare_to_users();
    let clang = find_compiler()?;

    compile_objects(&tree, &clang)?;
    abi::generate(&tree)?;
    lists::generate(&tree, &clang)
}

fn compile_objects(tree: &Tree, clang: &str) -> Result<()> {
    let own = objects::sources(tree, "bpf")?;
    let is_named = |source: &Source| NAMED_OBJECTS.contains(&source.name.as_str());
    let (engine, mut front_ends): (Vec<_>, Vec<_>) = own.into_iter().partition(is_named);
    let (mut tests, mut must_fail, mut examples) = (Vec::new(), Vec::new(), Vec::new());
    let with_tests = env::var_os("CARGO_FEATURE_TEST_OBJECTS").is_some();
    if with_tests {
        tests = objects::sources(tree, "bpf/tests")?;
        must_fail = objects::sources(tree, "bpf/tests/must_fail")?;
        examples = objects::sources(tree, "examples")?;
        front_ends.extend(objects::sources(tree, "bpf/bench")?);
    } else {
        front_ends.clear();
    }
    let all: Vec<&Source> = [&engine, &front_ends, &tests, &must_fail, &examples]
        .into_iter()
        .flatten()
        .collect();
    compile_in_parallel(tree, clang, &all, &Machine::of_build(tree)?)?;
    let mut weak = Vec::new();
    if with_tests && has_acquire(tree, clang)? {
        weak = objects::sources_into(tree, "bpf", "weak")?;
        weak.extend(objects::sources_into(tree, "bpf/bench", "weak")?);
        weak.sort_by(|a, b| a.name.cmp(&b.name));
        let all: Vec<&Source> = weak.iter().collect();
        compile_in_parallel(tree, clang, &all, &Machine::ARM64)?;
    }

    let mut text = String::new();
    for name in NAMED_OBJECTS {
        let source = engine.iter().find(|source| source.name == name);
        let source = source.ok_or(format!("there is no bpf/{name}.bpf.c"))?;
        text += &objects::named("pub", source);
    }
    if with_tests {
        text += &compiler_command(tree, clang, &Machine::of_build(tree)?);
        text += &embed_list(
            "FRONT_ENDS",
            "The programs that other crates load: the tests look at them, too.",
            &front_ends,
        );
        text += &embed_list("TESTS", "Programs that test the engine.", &tests);
        text += &embed_list(
            "MUST_FAIL",
            "Programs that the verifier must refuse.",
            &must_fail,
        );
        text += &embed_list("EXAMPLES", "The programs of `examples`.", &examples);
        text += &embed_list(
            "WEAK",
            "All of the product for arm64; none if the compiler has no load-acquire.",
            &weak,
        );
    }
    write(&tree.out.join("objects.rs"), &text)
}

/// For a test that compiles a changed copy of the sources.
fn compiler_command(tree: &Tree, clang: &str, machine: &Machine) -> String {
    let words: Vec<String> = [clang.to_owned()]
        .into_iter()
        .chain(
            BPF_FLAGS
                .split_whitespace()
                .chain(machine.flags())
                .map(String::from),
        )
        .chain(tree.include_flags())
        .collect();
    format!(
        "/// The compiler and its flags, to be run in a folder with `bpf` and `include`.\n\
         pub static COMPILER: &[&str] = &{words:?};\n"
    )
}
