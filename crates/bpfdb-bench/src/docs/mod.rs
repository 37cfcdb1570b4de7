//! The figures of the documents: kept in files, shown as tables and plots.
//!
//! ```text
//!  a run ──► data/NAME.json ──┬──► tables in the pages, between marks
//!            (data.rs)        ├──► overviews of some of them (overview.rs)
//!                             └──► plots/NAME-{light,dark}.svg (plots/)
//! ```
//!
//! Everything right of the files is made from them alone, always with the same bytes; so a
//! test, and `make lint`, find out whether pages and plots are up to date.
//!
//! A table stands between `<!-- begin NAME -->` and `<!-- end NAME -->`. A run writes the
//! files of what it measured; all others stay as they are.

mod data;
mod overview;
mod plots;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::report::Report;
use data::Data;

/// Below the folder of documents.
const PAGE: &str = "benchmarks.md";
const PAGES: &str = "benchmarks";
const DATA: &str = "benchmarks/data";
const PLOTS: &str = "benchmarks/plots";
const README: &str = "../README.md";

/// Keeps the figures of a run, and brings tables and plots up to date.
pub(crate) fn update(folder: &Path, report: &Report) -> Result<()> {
    let data = folder.join(DATA);
    for table in report.tables() {
        data::save(&data, table, &report.circumstances())?;
    }
    render(folder)
}

/// Writes tables and plots anew.
pub(crate) fn render(folder: &Path) -> Result<()> {
    for (path, text) in rendered(folder)? {
        write(&path, &text)?;
    }
    Ok(())
}

/// Fails if a table or a plot is not what the files give.
pub(crate) fn check(folder: &Path) -> Result<()> {
    let mut expected = Vec::new();
    for (path, text) in rendered(folder)? {
        // A plot that is not there is out of date as well.
        if fs::read_to_string(&path).unwrap_or_default() != text {
            bail!("{} is out of date: run make fmt", path.display());
        }
        expected.push(path);
    }
    for path in files(&folder.join(PLOTS), "svg")? {
        ensure!(expected.contains(&path), "{}: no plot", path.display());
    }
    Ok(())
}

/// Each page and plot with what it should hold.
fn rendered(folder: &Path) -> Result<Vec<(PathBuf, String)>> {
    let data = Data::load(&folder.join(DATA))?;
    let mut blocks: Vec<(String, String)> = data.tables();
    blocks.extend(overview::blocks(&data)?);

    let mut pages = vec![folder.join(README), folder.join(PAGE)];
    pages.extend(files(&folder.join(PAGES), "md")?);
    let mut texts = pages
        .iter()
        .map(|page| fs::read_to_string(page).with_context(|| format!("read {}", page.display())))
        .collect::<Result<Vec<_>>>()?;
    for (name, block) in &blocks {
        let mut found = false;
        for text in &mut texts {
            if let Some(new) = replaced(text, name, block) {
                (*text, found) = (new, true);
            }
        }
        ensure!(found, "no page has a mark for the table {name}");
    }
    let mut rendered: Vec<_> = pages.into_iter().zip(texts).collect();
    let plots = folder.join(PLOTS);
    for (name, svg) in plots::all(&data)? {
        rendered.push((plots.join(name), svg));
    }
    Ok(rendered)
}

/// The files of a folder that end so, by name.
fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let action = || format!("list {}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(action)? {
        files.push(entry.with_context(action)?.path());
    }
    files.retain(|path| path.extension().is_some_and(|other| other == extension));
    files.sort();
    Ok(files)
}

fn write(path: &Path, text: &str) -> Result<()> {
    let action = || format!("write {}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(action)?;
    }
    fs::write(path, text).with_context(action)
}

/// `text` with `content` between the marks of `name`, if it has them.
fn replaced(text: &str, name: &str, content: &str) -> Option<String> {
    let (begin, end) = (
        format!("<!-- begin {name} -->\n"),
        format!("<!-- end {name} -->"),
    );
    let (before, rest) = text.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}{content}\n{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "a\n<!-- begin x -->\nold\n<!-- end x -->\nb\n";

    #[test]
    fn what_is_between_the_marks_is_replaced() {
        let once = replaced(TEXT, "x", "new").expect("the marks are there");
        assert_eq!(once, "a\n<!-- begin x -->\nnew\n<!-- end x -->\nb\n");
        assert_eq!(replaced(&once, "x", "new"), Some(once));
    }

    #[test]
    fn other_text_is_left_alone() {
        assert_eq!(replaced(TEXT, "y", "new"), None);
    }

    #[test]
    fn the_pages_are_what_the_files_give() {
        let documents = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"));
        check(documents).expect("tables and plots are up to date");
    }

    #[test]
    fn a_changed_figure_is_noticed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (documents, original) = (
            folder.path().join("docs"),
            Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")),
        );
        for path in [DATA, PLOTS, PAGES] {
            copy(&original.join("docs").join(path), &documents.join(path));
        }
        let page = Path::new("docs").join(PAGE);
        for path in [page.as_path(), Path::new("README.md")] {
            fs::copy(original.join(path), folder.path().join(path)).expect("a copy");
        }
        check(&documents).expect("a copy is up to date too");

        let file = documents.join(DATA).join("tcp.json");
        let text = fs::read_to_string(&file).expect("the figures of tcp");
        let (before, after) = text.split_once("\"median\":").expect("a figure");
        fs::write(&file, format!("{before}\"median\":9{after}")).expect("a change");
        check(&documents).expect_err("a table or a plot is out of date");
    }

    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).expect("a folder");
        for entry in fs::read_dir(from).expect("a folder") {
            let entry = entry.expect("an entry");
            if entry.path().is_file() {
                fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
            }
        }
    }
}
