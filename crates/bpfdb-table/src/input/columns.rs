//! Which columns of a file become key and value.

use std::str::FromStr;

use crate::error::Error;
use crate::field::Type;

/// A column, and how a number of it is kept. Written `NAME` or `NAME:TYPE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    /// `None`: as the text that it is.
    pub kind: Option<Type>,
}

impl FromStr for Column {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let Some((name, kind)) = text.rsplit_once(':') else {
            return Ok(Self {
                name: text.into(),
                kind: None,
            });
        };
        Ok(Self {
            name: name.into(),
            kind: Some(kind.parse()?),
        })
    }
}

/// Key and value of an entry. The value is what the columns have, one behind the other, without anything between.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// `None`: the first column of CSV; the field `key` of JSON.
    pub key: Option<String>,
    /// None: the second column of CSV; the field `value` of JSON.
    pub values: Vec<Column>,
}

impl Column {
    /// Adds what the column has to a value.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub(crate) fn add(&self, text: &[u8], value: &mut Vec<u8>) -> Result<(), String> {
        let Some(kind) = self.kind else {
            value.extend_from_slice(text);
            return Ok(());
        };
        let number = str::from_utf8(text).ok().and_then(|text| kind.write(text));
        let number = number.ok_or_else(|| {
            let (text, name) = (text.escape_ascii(), &self.name);
            format!("\"{text}\" of {name} is no number of its type")
        })?;
        value.extend_from_slice(&number);
        Ok(())
    }
}
