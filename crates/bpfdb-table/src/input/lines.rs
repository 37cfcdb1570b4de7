//! Files of JSON lines: an object in each.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::{Map, Value};

use super::columns::{Column, Columns};
use super::loader::Loader;
use crate::error::{Error, Result, io};

/// Gives all entries of a file to `loader`; how many. Texts, numbers and truth values become the text that they
/// are in JSON, texts without quotation marks.
///
/// # Errors
/// [`Error::Input`], with the line: it is no object, has no such field, or a text is no number of the type that
/// was named. [`Error::Io`], and those of [`Loader::push`].
pub fn read_json_lines(path: &Path, columns: &Columns, loader: &mut Loader) -> Result<u64> {
    let action = || io(format!("read {}", path.display()));
    let file = File::open(path).map_err(action())?;
    let key = columns.key.as_deref().unwrap_or("key");
    let value = [Column {
        name: "value".into(),
        kind: None,
    }];
    let values = match columns.values.is_empty() {
        true => &value,
        false => &columns.values[..],
    };
    let mut entries = 0;
    for (line, text) in (1..).zip(BufReader::new(file).lines()) {
        let text = text.map_err(action())?;
        let (key, value) = entry(&text, key, values).map_err(|what| Error::Input {
            path: path.into(),
            line,
            what,
        })?;
        loader.push(&key, &value)?;
        entries += 1;
    }
    Ok(entries)
}

fn entry(line: &str, key: &str, values: &[Column]) -> Result<(Vec<u8>, Vec<u8>), String> {
    let object: Map<String, Value> =
        serde_json::from_str(line).map_err(|error| error.to_string())?;
    let mut value = Vec::new();
    for column in values {
        column.add(text(&object, &column.name)?.as_bytes(), &mut value)?;
    }
    let key = text(&object, key)?;
    Ok((key.into_owned().into_bytes(), value))
}

fn text<'a>(object: &'a Map<String, Value>, name: &str) -> Result<Cow<'a, str>, String> {
    match object.get(name) {
        Some(Value::String(text)) => Ok(text.into()),
        Some(other @ (Value::Number(_) | Value::Bool(_))) => Ok(other.to_string().into()),
        Some(_) => Err(format!("the field {name:?} is neither text nor number")),
        None => Err(format!("there is no field {name:?}")),
    }
}
