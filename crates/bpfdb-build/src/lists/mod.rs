//! Rust that is generated from the lists in the headers of `include/bpfdb`.

mod commands;
mod conflict;
mod deoptimisation;
mod list;
mod operators;
mod status;
mod text;

use crate::result::Result;
use crate::tree::Tree;

pub(crate) fn generate(tree: &Tree, clang: &str) -> Result<()> {
    status::generate(tree, clang)?;
    conflict::generate(tree, clang)?;
    deoptimisation::generate(tree, clang)?;
    commands::generate(tree, clang)?;
    operators::generate(tree, clang)
}
