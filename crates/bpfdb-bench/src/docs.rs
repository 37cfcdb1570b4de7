//! Figures in a document are put there by the program that measured them.
//!
//! A table stands between `<!-- begin NAME -->` and `<!-- end NAME -->`, what it
//! was measured on between those of `machine`. Marks of what was not measured
//! this time keep what they have.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::report::Report;

pub(crate) fn update(path: &Path, report: &Report) -> Result<()> {
    let action = || format!("update {}", path.display());
    let mut text = fs::read_to_string(path).with_context(action)?;

    text = replaced(&text, "machine", &report.circumstances());
    for table in report.tables() {
        text = replaced(&text, table.name(), &table.text());
    }
    fs::write(path, text).with_context(action)
}

/// `text` with `content` between the marks of `name`, if it has them.
fn replaced(text: &str, name: &str, content: &str) -> String {
    let (begin, end) = (
        format!("<!-- begin {name} -->\n"),
        format!("<!-- end {name} -->"),
    );
    let Some((before, rest)) = text.split_once(&begin) else {
        return text.to_owned();
    };
    let Some((_, after)) = rest.split_once(&end) else {
        return text.to_owned();
    };
    format!("{before}{begin}```text\n{content}\n```\n{end}{after}")
}

#[cfg(test)]
mod tests {
    use super::replaced;

    const TEXT: &str = "a\n<!-- begin x -->\nold\n<!-- end x -->\nb\n";

    #[test]
    fn what_is_between_the_marks_is_replaced() {
        let once = replaced(TEXT, "x", "new");
        assert_eq!(
            once,
            "a\n<!-- begin x -->\n```text\nnew\n```\n<!-- end x -->\nb\n"
        );
        assert_eq!(replaced(&once, "x", "new"), once);
    }

    #[test]
    fn other_text_is_left_alone() {
        assert_eq!(replaced(TEXT, "y", "new"), TEXT);
    }
}
