//! `operators.rs`: operators that sessions count.

use super::list::List;
use super::text::literal;
use crate::result::{Result, write};
use crate::tree::Tree;

pub(super) fn generate(tree: &Tree, clang: &str) -> Result<()> {
    let list = List {
        header: "bpfdb/operators.h",
        name: "BPFDB_COUNTED_OPERATOR_LIST",
        fields: &["#name"],
        arguments: "name, call",
    };
    let rows: String = list
        .rows(tree, clang)?
        .iter()
        .map(|fields| {
            let name = literal(&fields[0]);
            format!("    ({:?}, BPFDB_OP_{name}),\n", name.to_ascii_lowercase())
        })
        .collect();
    let text = format!(
        "/// The operators that sessions count.\n\
         pub(crate) const COUNTED_OPERATORS: [(&str, u32); BPFDB_COUNTED_OPERATIONS as usize] = \
         [\n{rows}];\n"
    );
    write(&tree.out.join("operators.rs"), &text)
}
