//! `deoptimisations.rs`: why calls of compiled procedures are given up.

use super::list::List;
use super::text::literal;
use crate::result::{Result, write};
use crate::tree::Tree;

pub(super) fn generate(tree: &Tree, clang: &str) -> Result<()> {
    let list = List {
        header: "bpfdb/procedure.h",
        name: "BPFDB_DEOPTIMISATION_LIST",
        fields: &["#name", "text"],
        arguments: "name, value, text",
    };
    let rows: String = list
        .rows(tree, clang)?
        .iter()
        .map(|fields| {
            let (name, text) = (literal(&fields[0]), literal(&fields[1]));
            let small = name.to_ascii_lowercase();
            format!("    Deoptimisation {{ name: {small:?}, text: {text:?} }},\n")
        })
        .collect();
    let text = format!(
        "/// Why calls of compiled procedures are given up, in the order of their counters.\n\
         pub const DEOPTIMISATIONS: [Deoptimisation; BPFDB_DEOPTIMISATION_COUNT as usize] = [\n{rows}];\n"
    );
    write(&tree.out.join("deoptimisations.rs"), &text)
}
