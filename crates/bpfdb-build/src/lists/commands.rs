//! `commands.rs`: commands that the kernel answers.

use super::list::List;
use super::text::literal;
use crate::result::{Result, write};
use crate::tree::Tree;

/// The flags are an expression of constants, which is the same in C and in Rust.
pub(super) fn generate(tree: &Tree, clang: &str) -> Result<()> {
    let list = List {
        header: "bpfdb/commands.h",
        name: "BPFDB_COMMAND_LIST",
        fields: &["#name", "flags"],
        arguments: "name, flags, call",
    };
    let rows: String = list
        .rows(tree, clang)?
        .iter()
        .map(|fields| {
            let (name, flags) = (literal(&fields[0]), &fields[1]);
            let small = name.to_ascii_lowercase();
            format!("    KernelCommand {{ name: {small:?}, number: BPFDB_COMMAND_{name}, flags: {flags} }},\n")
        })
        .collect();
    let text = format!(
        "/// The commands that the kernel answers, by name.\n\
         pub const KERNEL_COMMANDS: [KernelCommand; BPFDB_COMMAND_COUNT as usize] = [\n{rows}];\n"
    );
    write(&tree.out.join("commands.rs"), &text)
}
