//! Figures in files: one for each table, a line for each row.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{files, write};
use crate::report::Table;

/// A table, and on what it was measured.
#[derive(Debug, Deserialize)]
struct Measured {
    measured: String,
    #[serde(flatten)]
    table: Table,
}

impl Measured {
    fn to_json(&self) -> Result<String> {
        let table = &self.table;
        let mut rows = String::new();
        for (number, row) in table.rows().iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(rows, "{comma}\n    {}", json(row)?)?;
        }
        Ok(format!(
            "{{\n  \"name\": {},\n  \"title\": {},\n  \"measured\": {},\n  \"columns\": {},\n  \
             \"rows\": [{rows}\n  ],\n  \"notes\": {}\n}}\n",
            json(table.name())?,
            json(table.title())?,
            json(&self.measured)?,
            json(table.columns())?,
            json(table.notes())?,
        ))
    }

    /// As it stands in a page.
    fn block(&self) -> String {
        format!("```text\n{}\n{}\n```", self.table.text(), self.measured)
    }
}

fn json(value: &(impl Serialize + ?Sized)) -> Result<String> {
    Ok(serde_json::to_string(value)?)
}

/// Writes the file of a table.
pub(super) fn save(folder: &Path, table: &Table, measured: &str) -> Result<()> {
    let measured = Measured {
        measured: measured.to_owned(),
        table: table.as_shown(),
    };
    let path = folder.join(format!("{}.json", table.name()));
    write(&path, &measured.to_json()?)
}

/// Every table there is a file of.
#[derive(Debug)]
pub(super) struct Data(Vec<Measured>);

impl Data {
    pub(super) fn load(folder: &Path) -> Result<Self> {
        let read = |path: &Path| -> Result<Measured> {
            Ok(serde_json::from_str(&fs::read_to_string(path)?)?)
        };
        files(folder, "json")?
            .iter()
            .map(|path| read(path).with_context(|| format!("read {}", path.display())))
            .collect::<Result<_>>()
            .map(Self)
    }

    pub(super) fn table(&self, name: &str) -> Result<&Table> {
        self.find(name)
            .with_context(|| format!("no file has the table {name}"))
    }

    pub(super) fn find(&self, name: &str) -> Option<&Table> {
        let mut all = self.0.iter().map(|measured| &measured.table);
        all.find(|table| table.name() == name)
    }

    /// Names of the tables, and what a page shows of each.
    pub(super) fn tables(&self) -> Vec<(String, String)> {
        let block = |measured: &Measured| (measured.table.name().to_owned(), measured.block());
        self.0.iter().map(block).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Cell;

    #[test]
    fn a_file_gives_the_table_that_was_saved() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut table = Table::new("name", "title", &["what", "figure"]);
        let sample = [1.25, 3.0, 2.0].into_iter().collect();
        table.row([Cell::from("GET"), Cell::figure(&sample, 1)]);
        table.row([Cell::from("SET"), "–".into()]);
        table.note("a note");
        save(folder.path(), &table, "here").expect("a file");

        let data = Data::load(folder.path()).expect("a file");
        let loaded = data.table("name").expect("a table");
        assert_eq!(loaded.text(), table.text());
        let expected = format!("```text\n{}\nhere\n```", table.text());
        assert_eq!(data.tables(), [("name".to_owned(), expected)]);
    }
}
