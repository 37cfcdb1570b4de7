//! `status.rs`: outcomes of operators.

use super::list::List;
use super::text::{camel, literal, method, sentence};
use crate::result::{Result, write};
use crate::tree::Tree;

/// One row of `BPFDB_STATUS_LIST`.
struct Row {
    name: String,
    code: String,
    text: String,
    action: String,
}

pub(super) fn generate(tree: &Tree, clang: &str) -> Result<()> {
    let list = List {
        header: "bpfdb/status.h",
        name: "BPFDB_STATUS_LIST",
        fields: &["#name", "#code", "text", "action"],
        arguments: "name, code, text, action",
    };
    let rows: Vec<Row> = list
        .rows(tree, clang)?
        .into_iter()
        .filter_map(row)
        .collect();
    let each = |row: fn(&Row) -> String| rows.iter().map(row).collect::<String>();

    let variants = each(|r| {
        format!(
            "    /// {}\n    {} = {},\n",
            sentence(&r.text),
            camel(&r.name),
            r.code
        )
    });
    let all = each(|r| format!("        Self::{},\n", camel(&r.name)));
    let names = each(|r| format!("            Self::{} => {:?},\n", camel(&r.name), r.name));
    let texts = each(|r| format!("            Self::{} => {:?},\n", camel(&r.name), r.text));
    let actions = each(|r| format!("            Self::{} => {:?},\n", camel(&r.name), r.action));

    let text = format!(
        "/// The outcome of an operator.\n\
         #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]\n\
         #[repr(u32)]\npub enum Status {{\n{variants}}}\n\n\
         impl Status {{\n    /// All of them, by code.\n    pub const ALL: &[Self] = &[\n{all}    ];\n\n\
         {}{}{}}}\n",
        method("name", "Its name in C, without prefix.", &names),
        method("text", "What happened.", &texts),
        method("action", "What the caller should do.", &actions),
    );
    write(&tree.out.join("status.rs"), &text)
}

fn row(fields: Vec<String>) -> Option<Row> {
    let mut fields = fields.iter().map(|field| literal(field));
    Some(Row {
        name: fields.next()?,
        code: fields.next()?,
        text: fields.next()?,
        action: fields.next()?,
    })
}
