//! The configuration file: TOML, one key for each setting, comments wherever
//! they are wanted. CONFIG REWRITE changes values and leaves the rest of the
//! file as it is.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use toml_edit::{Document, DocumentMut, Item};

use super::{SETTINGS, Setting, Settings};

/// Why a file cannot be used. One line.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("{path}, line {line}: {message}", path = path.display())]
    Content {
        path: PathBuf,
        line: usize,
        message: String,
    },
}

/// A file that settings were read from.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    path: PathBuf,
    /// Settings that were not changed, though the server has another value.
    left: Vec<&'static str>,
}

impl ConfigFile {
    /// Absolute, because it may be needed when the folder is another.
    pub fn at(path: &Path) -> Result<Self, FileError> {
        let path = path.canonicalize().map_err(|source| FileError::Io {
            action: "find",
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            path,
            left: Vec::new(),
        })
    }

    /// [`rewrite`](Self::rewrite) is to leave this setting as it is in the file: the value that the
    /// server has follows from others.
    pub fn leave(&mut self, name: &'static str) {
        self.left.push(name);
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Puts what the file says into `settings`.
    pub fn apply(&self, settings: &mut Settings) -> Result<(), FileError> {
        let text = self.text()?;
        let document = Document::parse(text.as_str()).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            self.wrong(&text, at, error.message())
        })?;
        for (name, item) in document.as_table() {
            let key = document.as_table().key(name);
            let at = key.and_then(toml_edit::Key::span).map_or(0, |s| s.start);
            set(settings, name, item).map_err(|message| self.wrong(&text, at, &message))?;
        }
        Ok(())
    }

    /// Makes the file say what `settings` are. A setting that it does not name
    /// gets a line only if it is not what it would be without.
    pub fn rewrite(&self, settings: &Settings) -> Result<(), FileError> {
        let mut text = self.text()?;
        let mut before = Settings::default();
        self.apply(&mut before)?;
        let mut document: DocumentMut = text
            .parse()
            .map_err(|error: toml_edit::TomlError| self.wrong(&text, 0, error.message()))?;

        for setting in SETTINGS {
            if setting.show(settings) != setting.show(&before) && !self.left.contains(&setting.name)
            {
                replace(&mut document, setting, settings);
            }
        }
        text = document.to_string();
        self.write(&text).map_err(|source| FileError::Io {
            action: "write",
            path: self.path.clone(),
            source,
        })
    }

    fn text(&self) -> Result<String, FileError> {
        fs::read_to_string(&self.path).map_err(|source| FileError::Io {
            action: "read",
            path: self.path.clone(),
            source,
        })
    }

    fn wrong(&self, text: &str, at: usize, message: &str) -> FileError {
        let lines = text.as_bytes()[..at.min(text.len())].iter();
        FileError::Content {
            path: self.path.clone(),
            line: 1 + lines.filter(|&&byte| byte == b'\n').count(),
            message: message.replace('\n', " "),
        }
    }

    /// Whatever happens, there is a whole file, the old one or the new one.
    fn write(&self, text: &str) -> io::Result<()> {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{}", std::process::id()));
        let new = PathBuf::from(name);
        let written = File::create(&new).and_then(|mut file| {
            file.set_permissions(fs::metadata(&self.path)?.permissions())?;
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        let renamed = written.and_then(|()| fs::rename(&new, &self.path));
        if renamed.is_err() {
            // It may not be there; what is reported is the first error.
            let _ = fs::remove_file(&new);
        }
        renamed
    }
}

fn set(settings: &mut Settings, name: &str, item: &Item) -> Result<(), String> {
    let setting = Setting::find(name).ok_or_else(|| unknown(name))?;
    let text = text_of(item).ok_or_else(|| format!("{name}: not a text, a number or a switch"))?;
    setting
        .set(settings, &text)
        .map_err(|error| format!("{name}: {error}"))
}

fn text_of(item: &Item) -> Option<String> {
    item.as_str()
        .map(str::to_owned)
        .or_else(|| item.as_integer().map(|number| number.to_string()))
        .or_else(|| item.as_bool().map(|yes| yes.to_string()))
}

fn unknown(name: &str) -> String {
    let near = SETTINGS
        .iter()
        .map(|setting| (distance(setting.name, name), setting.name))
        .min()
        .filter(|(distance, _)| *distance <= 3)
        .map(|(_, name)| format!("; did you mean {name}?"))
        .unwrap_or_default();
    format!("there is no setting {name}{near}")
}

/// Letters to insert, to leave out or to change to make one word of the other.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// Changes the value, and keeps blanks and the comment around it.
fn replace(document: &mut DocumentMut, setting: &Setting, settings: &Settings) {
    let mut value = (setting.to_toml)(settings);
    let old = document.get(setting.name).and_then(Item::as_value);
    if let Some(old) = old {
        *value.decor_mut() = old.decor().clone();
    }
    document[setting.name] = Item::Value(value);
}

#[cfg(test)]
mod tests {
    use super::super::Size;
    use super::*;

    fn file(text: &str) -> (tempfile::TempDir, ConfigFile) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("bpfdb.toml");
        fs::write(&path, text).expect("written");
        let file = ConfigFile::at(&path).expect("there");
        (folder, file)
    }

    fn error(text: &str) -> String {
        let (_folder, file) = file(text);
        let error = file
            .apply(&mut Settings::default())
            .expect_err("an error")
            .to_string();
        assert_eq!(error.lines().count(), 1, "{error}");
        error
    }

    #[test]
    fn every_form_of_value() {
        let (_folder, file) =
            file("# a\nport = 7000 # b\nmaxmemory = \"2G\"\nkeep-data = true\ntimeout = \"5\"\n");
        let mut settings = Settings::default();
        file.apply(&mut settings).expect("good");
        assert_eq!(
            (settings.port, settings.max_memory, settings.keep_data),
            (7000, Size(2 << 30), true)
        );
        assert_eq!(settings.timeout, 5);
    }

    #[test]
    fn errors_name_line_and_key() {
        let told = error("port = 1\n\nmaxmemroy = 1\n");
        assert!(
            told.ends_with("line 3: there is no setting maxmemroy; did you mean maxmemory?"),
            "{told}"
        );
        let told = error("port = 70000\n");
        assert!(told.contains("line 1: port: argument"), "{told}");
        let told = error("bind = [1]\n");
        assert!(told.contains("line 1: bind: not a text"), "{told}");
        assert!(error("a = 1\nport =\n").contains("line 2: "));
    }

    #[test]
    fn rewriting_keeps_everything_else() {
        let (_folder, file) = file(
            "# of the house\nport = 7000   # keep\nmaxmemory = \"1G\"\n\n# slow\nslowlog-max-len = 1\n",
        );
        let mut settings = Settings::default();
        file.apply(&mut settings).expect("good");
        settings.slowlog_len = 5;
        settings.require_pass.0 = "a \"b\"".into();
        file.rewrite(&settings).expect("written");

        let text = file.text().expect("there");
        assert!(
            text.starts_with(
                "# of the house\nport = 7000   # keep\nmaxmemory = \"1G\"\n\n\
                 # slow\nslowlog-max-len = 5\n"
            ),
            "{text}"
        );
        let mut again = Settings::default();
        file.apply(&mut again).expect("good");
        assert_eq!(again, settings);
        // Nothing to change: nothing changes.
        file.rewrite(&settings).expect("written");
        assert_eq!(file.text().expect("there"), text);
    }
}
