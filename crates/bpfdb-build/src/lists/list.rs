//! Lists in headers, read by the preprocessor.

use std::process::Command;

use crate::result::{Result, write};
use crate::tree::Tree;

/// A list in a header: `#define LIST(X) X(…) X(…) …`.
pub(super) struct List {
    /// As C includes it.
    pub(super) header: &'static str,
    pub(super) name: &'static str,
    /// Names for what each row gives to X.
    pub(super) arguments: &'static str,
    /// What is wanted of a row: of these, with a `#` before what is not a string.
    pub(super) fields: &'static [&'static str],
}

impl List {
    /// Lets the preprocessor walk the list, so that C is not parsed by hand.
    pub(super) fn rows(&self, tree: &Tree, clang: &str) -> Result<Vec<Vec<String>>> {
        let Self {
            header,
            name,
            arguments,
            ..
        } = self;
        let source = tree.out.join(format!("{name}.c"));
        let fields = self.fields.join(" BPFDB_THEN ");
        write(
            &source,
            &format!(
                "#include <{header}>\n#define ROW({arguments}) BPFDB_NEXT {fields}\n{name}(ROW)\n"
            ),
        )?;
        let output = Command::new(clang)
            .current_dir(&tree.root)
            .args(["-E", "-P", "-Iinclude"])
            .arg(&source)
            .output()
            .map_err(|error| format!("{clang}: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let row = |row: &str| {
            row.split("BPFDB_THEN")
                .map(|field| field.trim().to_owned())
                .collect()
        };
        let rows: Vec<Vec<String>> = text.split("BPFDB_NEXT").skip(1).map(row).collect();
        if !output.status.success() || rows.iter().any(|row| row.len() != self.fields.len()) {
            return Err(format!(
                "the list {name} of include/{header} could not be read"
            ));
        }
        if rows.is_empty() {
            return Err(format!("the list {name} of include/{header} is empty"));
        }
        Ok(rows)
    }
}
