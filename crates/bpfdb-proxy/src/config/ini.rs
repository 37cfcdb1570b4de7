//! Files in PgBouncer's form.
//!
//! ```text
//! ; a comment             # another
//! [section]
//! key = value             the value ends with its line; nothing in it is a comment
//! "any key" = value       a quote within is doubled
//! %include another.ini    relative to the folder of the process
//! ```
//!
//! Crates for such files know neither `%include` nor lines, take `;` behind a value for a comment, or
//! know escapes that PgBouncer does not.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::settings::until_quote;

/// As PgBouncer has it.
const INCLUDES_MAX: u32 = 10;

/// Where something stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) file: PathBuf,
    /// From 1 on.
    pub(crate) line: usize,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

impl Place {
    pub(crate) fn wrong(&self, what: impl std::fmt::Display) -> Error {
        Error::Settings(format!("{self}: {what}"))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) section: String,
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) place: Place,
}

/// All entries of a file, and of those that it includes, in their order.
///
/// # Errors
/// A file that cannot be read, or a line that is none of the above.
pub(crate) fn read(file: &Path) -> Result<Vec<Entry>> {
    let mut reader = Reader::default();
    reader.file(file, 0)?;
    Ok(reader.entries)
}

#[derive(Default)]
struct Reader {
    section: Option<String>,
    entries: Vec<Entry>,
}

impl Reader {
    fn file(&mut self, file: &Path, depth: u32) -> Result<()> {
        let text = fs::read_to_string(file)
            .map_err(|error| Error::Settings(format!("cannot read {}: {error}", file.display())))?;
        for (index, line) in text.lines().enumerate() {
            let place = Place {
                file: file.to_owned(),
                line: index + 1,
            };
            self.line(line.trim(), place, depth)?;
        }
        Ok(())
    }

    fn line(&mut self, line: &str, place: Place, depth: u32) -> Result<()> {
        if line.is_empty() || line.starts_with([';', '#']) {
            return Ok(());
        }
        if let Some(directive) = line.strip_prefix('%') {
            let file = directive.strip_prefix("include");
            let file = file.filter(|file| file.starts_with(char::is_whitespace));
            let file = file.ok_or_else(|| place.wrong("%include FILE is expected"))?;
            if depth >= INCLUDES_MAX {
                return Err(place.wrong("files include each other too deeply"));
            }
            let included = self.file(Path::new(file.trim()), depth + 1);
            return included.map_err(|error| place.wrong(error));
        }
        if let Some(section) = line.strip_prefix('[') {
            let name = section.strip_suffix(']');
            let name = name.ok_or_else(|| place.wrong("a section has no ]"))?;
            self.section = Some(name.trim().to_owned());
            return Ok(());
        }
        let (key, value) = pair(line).ok_or_else(|| place.wrong("KEY = VALUE is expected"))?;
        let section = self.section.clone();
        let section = section.ok_or_else(|| place.wrong("a setting stands before any section"))?;
        self.entries.push(Entry {
            section,
            key,
            value,
            place,
        });
        Ok(())
    }
}

fn pair(line: &str) -> Option<(String, String)> {
    let (key, rest) = match line.strip_prefix('"') {
        Some(quoted) => until_quote(quoted, '"')?,
        None => {
            let is_key = |letter: char| letter.is_alphanumeric() || "_.-*".contains(letter);
            let end = line.find(|letter| !is_key(letter))?;
            (line[..end].to_owned(), &line[end..])
        }
    };
    let value = rest.trim_start().strip_prefix('=')?;
    (!key.is_empty()).then(|| (key, value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a.ini");
        fs::write(&file, text).expect("written");
        (folder, file)
    }

    fn failure(text: &str) -> String {
        let (_folder, file) = written(text);
        let told = read(&file).expect_err("no such file").to_string();
        told.replace(&format!("{}", file.display()), "a.ini")
    }

    #[test]
    fn entries_are_read_with_their_places() {
        let (folder, file) = written("");
        let other = folder.path().join("b.ini");
        fs::write(&other, "c = d ; e\n[users]\nu=\n").expect("written");
        let text = format!(
            "; x\n[databases]\n* = host=a # b\n\"q \"\" r\"=s\n[pgbouncer]\n%include {}\nv = w\n",
            other.display()
        );
        fs::write(&file, text).expect("written");
        let entries = read(&file).expect("entries");
        let entries: Vec<_> = entries
            .iter()
            .map(|entry| {
                let Entry {
                    section,
                    key,
                    value,
                    place,
                } = entry;
                (section.as_str(), key.as_str(), value.as_str(), place.line)
            })
            .collect();
        let wanted = [
            ("databases", "*", "host=a # b", 3),
            ("databases", "q \" r", "s", 4),
            ("pgbouncer", "c", "d ; e", 1),
            ("users", "u", "", 3),
            // As PgBouncer: a section goes on behind the file in which it began.
            ("users", "v", "w", 7),
        ];
        assert_eq!(entries, wanted);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let unclosed = failure("\n[users\n");
        assert_eq!(unclosed, "a.ini:2: a section has no ]");
        let early = failure("a = b");
        assert_eq!(early, "a.ini:1: a setting stands before any section");
        let no_pair = failure("[users]\na b\n");
        assert_eq!(no_pair, "a.ini:2: KEY = VALUE is expected");
        assert!(failure("%include /nothing/there").starts_with("a.ini:1: cannot read"));
        assert_eq!(failure("%includes b"), "a.ini:1: %include FILE is expected");
    }

    #[test]
    fn a_file_that_includes_itself_is_refused() {
        let (_folder, file) = written("");
        fs::write(&file, format!("%include {}", file.display())).expect("written");
        let told = read(&file).expect_err("a circle").to_string();
        assert!(
            told.ends_with("files include each other too deeply"),
            "{told}"
        );
    }
}
