//! Files of CSV whose first line names the columns.

use std::path::Path;

use csv::{ByteRecord, ReaderBuilder};

use super::columns::{Column, Columns};
use super::loader::Loader;
use crate::error::{Error, Result};

/// Gives all entries of a file to `loader`; how many.
///
/// # Errors
/// [`Error::Input`], with the line: it is no CSV, has no such column, or a text is no number of the column's
/// type. Those of [`Loader::push`].
pub fn read_csv(path: &Path, columns: &Columns, loader: &mut Loader) -> Result<u64> {
    let wrong = |line, what: String| Error::Input {
        path: path.into(),
        line,
        what,
    };
    let reader = ReaderBuilder::new().from_path(path);
    let mut reader = reader.map_err(|error| wrong(0, error.to_string()))?;
    let names = reader.byte_headers();
    let names = names.map_err(|error| wrong(1, error.to_string()))?.clone();
    let key = match &columns.key {
        None => 0,
        Some(name) => find(&names, name).map_err(|what| wrong(1, what))?,
    };
    let values = places(&names, &columns.values).map_err(|what| wrong(1, what))?;
    let (mut record, mut value, mut entries) = (ByteRecord::new(), Vec::new(), 0);
    loop {
        let read = reader.read_byte_record(&mut record);
        let line = record.position().map_or(0, csv::Position::line);
        if !read.map_err(|error| wrong(line, error.to_string()))? {
            return Ok(entries);
        }
        value.clear();
        for (place, column) in &values {
            let added = column.add(record.get(*place).unwrap_or_default(), &mut value);
            added.map_err(|what| wrong(line, what))?;
        }
        loader.push(record.get(key).unwrap_or_default(), &value)?;
        entries += 1;
    }
}

fn find(names: &ByteRecord, name: &str) -> Result<usize, String> {
    let place = names.iter().position(|known| known == name.as_bytes());
    place.ok_or_else(|| format!("there is no column {name:?}"))
}

fn places(names: &ByteRecord, columns: &[Column]) -> Result<Vec<(usize, Column)>, String> {
    if columns.is_empty() {
        let second = names.get(1).ok_or("there is no second column")?;
        let column = Column {
            name: String::from_utf8_lossy(second).into_owned(),
            kind: None,
        };
        return Ok(vec![(1, column)]);
    }
    let place = |column: &Column| Ok((find(names, &column.name)?, column.clone()));
    columns.iter().map(place).collect()
}
