//! `conflict.rs`: causes of CONFLICT.

use super::list::List;
use super::text::{camel, literal, method, sentence};
use crate::result::{Result, write};
use crate::tree::Tree;

pub(super) fn generate(tree: &Tree, clang: &str) -> Result<()> {
    let list = List {
        header: "bpfdb/conflict.h",
        name: "BPFDB_CONFLICT_LIST",
        fields: &["#name", "#value", "text"],
        arguments: "name, value, text",
    };
    let [mut variants, mut all, mut names, mut texts] = [const { String::new() }; 4];
    for fields in list.rows(tree, clang)? {
        let [name, value, text] = [0, 1, 2].map(|field| literal(&fields[field]));
        let variant = camel(&name);
        variants += &format!("    /// {}\n    {variant} = {value},\n", sentence(&text));
        all += &format!("        Self::{variant},\n");
        names += &format!(
            "            Self::{variant} => {:?},\n",
            name.to_ascii_lowercase()
        );
        texts += &format!("            Self::{variant} => {text:?},\n");
    }
    let text = format!(
        "/// Why an operator said CONFLICT.\n\
         #[derive(Clone, Copy, Debug, PartialEq, Eq)]\n\
         #[repr(u32)]\npub enum ConflictCause {{\n{variants}}}\n\n\
         impl ConflictCause {{\n    /// All of them, by code.\n    \
         pub const ALL: &[Self] = &[\n{all}    ];\n\n{}{}}}\n",
        method(
            "name",
            "In small letters, as counters and metrics call it.",
            &names
        ),
        method("text", "What happened.", &texts),
    );
    write(&tree.out.join("conflict.rs"), &text)
}
