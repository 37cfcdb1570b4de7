//! The tables: small ones on the terminal, everything as JSON.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::commit::Commit;
use crate::machine::{self, Machine};
use crate::sample::Sample;

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    date: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<Commit>,
    command: Vec<String>,
    machine: Machine,
    rounds: usize,
    quick: bool,
    tables: Vec<Table>,
}

impl Report {
    pub(crate) fn new(rounds: usize, quick: bool) -> Self {
        Self {
            date: machine::now(),
            commit: Commit::checked_out(),
            command: env::args().collect(),
            machine: Machine::this(),
            rounds,
            quick,
            tables: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, table: Table) {
        self.tables.push(table);
    }

    /// What it was measured on, and how.
    pub(crate) fn circumstances(&self) -> String {
        let Machine {
            kernel,
            cpu,
            processors,
            memory_kib,
        } = &self.machine;
        let commit = self.commit.as_ref();
        let commit = commit.map(|commit| format!(", commit {commit}"));
        format!(
            "{}{}: Linux {kernel}, {processors} processors ({cpu}), {} GiB, {} rounds{}",
            self.date,
            commit.unwrap_or_default(),
            memory_kib >> 20,
            self.rounds,
            if self.quick { ", quick" } else { "" }
        )
    }

    pub(crate) fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// Writes `<date>.json` into `folder`.
    pub(crate) fn save(&self, folder: &Path) -> Result<PathBuf> {
        let path = folder.join(format!("{}.json", self.date));
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&path, serde_json::to_vec_pretty(self)?))
            .with_context(|| format!("write {}", path.display()))?;
        Ok(path)
    }
}

/// A table of the report. The rows of a table were measured in turns.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Table {
    name: String,
    title: String,
    columns: Vec<String>,
    rows: Vec<Vec<Cell>>,
    notes: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Cell {
    Text(String),
    Figure {
        median: f64,
        min: f64,
        max: f64,
        /// Left out where only the table is kept.
        #[serde(default, skip_serializing_if = "Sample::is_empty")]
        rounds: Sample,
        /// Behind the point, where the figure is shown.
        digits: usize,
    },
}

impl Cell {
    /// Median and spread of `sample`, with `digits` behind the point; "–" if it is empty.
    pub(crate) fn figure(sample: &Sample, digits: usize) -> Self {
        if sample.is_empty() {
            return "–".into();
        }
        Self::Figure {
            median: sample.median(),
            min: sample.min(),
            max: sample.max(),
            rounds: sample.clone(),
            digits,
        }
    }

    /// Operations per second, in thousands.
    pub(crate) fn thousands(sample: &Sample) -> Self {
        Self::figure(&sample.map(|rate| rate / 1e3), 0)
    }

    /// Whether the median is on the right side of `limit`.
    pub(crate) fn at_most(sample: &Sample, limit: f64) -> Self {
        Self::verdict(sample.median() <= limit, format!("≤ {limit}"))
    }

    pub(crate) fn at_least(sample: &Sample, limit: f64) -> Self {
        Self::verdict(sample.median() >= limit, format!("≥ {limit}"))
    }

    /// The same with the unit of `limit`.
    pub(crate) fn at_most_of(sample: &Sample, limit: f64, unit: &str) -> Self {
        Self::verdict(sample.median() <= limit, format!("≤ {limit} {unit}"))
    }

    /// A target in words, and whether it is met.
    pub(crate) fn verdict(met: bool, target: String) -> Self {
        Self::Text(format!("{target} {}", if met { "met" } else { "MISSED" }))
    }

    /// Median, lowest and highest, if it is a figure.
    pub(crate) fn spread(&self) -> Option<Spread> {
        match *self {
            Self::Text(_) => None,
            Self::Figure {
                median, min, max, ..
            } => Some(Spread { median, min, max }),
        }
    }

    /// What is shown of it, and no more.
    fn as_shown(&self) -> Self {
        match *self {
            Self::Text(ref text) => Self::Text(text.clone()),
            Self::Figure {
                median,
                min,
                max,
                digits,
                ..
            } => Self::Figure {
                median: rounded(median, digits),
                min: rounded(min, digits),
                max: rounded(max, digits),
                rounds: Sample::default(),
                digits,
            },
        }
    }

    pub(crate) fn show(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Figure {
                median,
                min,
                max,
                digits,
                ..
            } => format!("{median:.digits$} ({min:.digits$}–{max:.digits$})"),
        }
    }
}

/// Of the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

fn rounded(figure: f64, digits: usize) -> f64 {
    let shown = format!("{figure:.digits$}");
    shown.parse().unwrap_or(figure)
}

impl<T: ToString> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::Text(text.to_string())
    }
}

impl Table {
    pub(crate) fn new(
        name: impl Into<String>,
        title: impl Into<String>,
        columns: &[impl ToString],
    ) -> Self {
        Self {
            name: name.into(),
            title: title.into(),
            columns: columns.iter().map(ToString::to_string).collect(),
            rows: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// In the place of a table that was not measured: the title says of what, the note why.
    pub(crate) fn skipped(name: impl Into<String>, of: &str, reason: impl Into<String>) -> Self {
        let mut table = Self::new(name, format!("{of}: not measured"), &[""]);
        table.note(reason);
        table
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let cells: Vec<Cell> = cells.into_iter().collect();
        debug_assert_eq!(cells.len(), self.columns.len(), "{}", self.name);
        self.rows.push(cells);
    }

    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    pub(crate) fn columns(&self) -> &[String] {
        &self.columns
    }

    pub(crate) fn rows(&self) -> &[Vec<Cell>] {
        &self.rows
    }

    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The row that begins with these texts.
    pub(crate) fn find(&self, beginning: &[&str]) -> Option<&[Cell]> {
        let begins = |row: &&Vec<Cell>| {
            row.len() >= beginning.len()
                && (row.iter().zip(beginning)).all(|(cell, text)| cell.show() == *text)
        };
        self.rows.iter().find(begins).map(Vec::as_slice)
    }

    /// The same table with its figures as they are shown, without their rounds.
    pub(crate) fn as_shown(&self) -> Self {
        let row = |row: &Vec<Cell>| row.iter().map(Cell::as_shown).collect();
        Self {
            rows: self.rows.iter().map(row).collect(),
            ..self.clone()
        }
    }

    pub(crate) fn print(&self) {
        println!("\n{}: {}", self.name, self.text().replace('\n', "\n  "));
    }

    /// Title, columns and notes.
    pub(crate) fn text(&self) -> String {
        let mut lines = vec![self.title.clone()];
        lines.extend(self.lines());
        lines.extend(self.notes.iter().cloned());
        lines.join("\n")
    }

    /// The head and the rows, in columns.
    fn lines(&self) -> Vec<String> {
        let mut lines = vec![self.columns.clone()];
        lines.extend(
            self.rows
                .iter()
                .map(|row| row.iter().map(Cell::show).collect::<Vec<_>>()),
        );
        let width = |column: usize| {
            lines
                .iter()
                .map(|line: &Vec<String>| line[column].chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();

        lines
            .iter()
            .map(|line| {
                let padded: Vec<String> = line
                    .iter()
                    .zip(&widths)
                    .map(|(cell, &width)| format!("{cell:width$}"))
                    .collect();
                padded.join("  ").trim_end().to_owned()
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Sample {
        [1.0, 3.0, 2.0].into_iter().collect()
    }

    #[test]
    fn a_table_has_columns() {
        let mut table = Table::new("name", "title", &["what", "figure"]);
        table.row([Cell::from("GET"), Cell::figure(&sample(), 1)]);
        assert_eq!(table.lines(), ["what  figure", "GET   2.0 (1.0–3.0)"]);
    }

    #[test]
    fn targets_are_met_or_missed() {
        assert_eq!(Cell::at_most(&sample(), 2.0).show(), "≤ 2 met");
        assert_eq!(Cell::at_least(&sample(), 2.5).show(), "≥ 2.5 MISSED");
    }

    #[test]
    fn figures_keep_their_rounds_in_json() {
        let json = serde_json::to_value(Cell::figure(&sample(), 0)).expect("serializable");
        assert_eq!(json["median"], 2.0);
        assert_eq!(json["rounds"].as_array().map(Vec::len), Some(3));
    }
}
