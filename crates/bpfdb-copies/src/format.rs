//! The forms of a copy, and how a file shows which one it has.

use std::io::{Read, Write};

use crate::binary::output::BinaryWriter;
use crate::error::{Error, Result};
use crate::header::Header;
use crate::jsonl::output::JsonlWriter;
use crate::rdb::output::RdbWriter;
use crate::sink::{Choice, Contents, Sink};
use crate::source::{Plain, Source};
use crate::writer::Writer;
use crate::{binary, jsonl, rdb};

/// The form of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON object in each line.
    Jsonl,
    /// Blocks with checksums.
    Binary,
    /// Redis's, of version 10.
    Rdb,
}

impl Format {
    /// Writes a copy of this form to `out`, to which it makes many small writes.
    pub fn writer<'a, W: Write + 'a>(
        self,
        out: W,
        header: &Header,
    ) -> Result<Box<dyn Writer + 'a>> {
        Ok(match self {
            Self::Jsonl => Box::new(JsonlWriter::new(out, header)?),
            Self::Binary => Box::new(BinaryWriter::new(out, header)?),
            Self::Rdb => Box::new(RdbWriter::new(out, header)?),
        })
    }

    /// By how a file begins.
    fn of(begin: &[u8]) -> Option<Self> {
        let forms = [
            (jsonl::MAGIC, Self::Jsonl),
            (&binary::MAGIC[..], Self::Binary),
            (&rdb::MAGIC[..], Self::Rdb),
            (&rdb::VALKEY_MAGIC[..], Self::Rdb),
        ];
        let found = forms
            .into_iter()
            .find(|(magic, _)| begin.starts_with(magic));
        found.map(|(_, form)| form)
    }
}

/// Reads all of a copy, whatever its form: its keys go to `sink`, and it must be whole.
/// What was given before an error was found need not be right.
pub fn read(input: impl Read, choice: Choice, sink: &mut dyn Sink) -> Result<(Format, Contents)> {
    let mut contents = Contents::default();
    let mut source = Source::plain(input);
    let form = Format::of(beginning(&mut source)?).ok_or(Error::Unknown)?;
    match form {
        Format::Jsonl => jsonl::input::read(source, sink, &mut contents)?,
        Format::Binary => binary::input::read(source, sink, &mut contents)?,
        Format::Rdb => rdb::input::read(&mut source, choice, sink, &mut contents)?,
    }
    Ok((form, contents))
}

/// Enough to tell the form by, or all there is.
fn beginning<R: Read>(source: &mut Source<Plain<R>>) -> Result<&[u8]> {
    source.peek_at_least(jsonl::MAGIC.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::Nowhere;

    #[test]
    fn what_is_no_copy() {
        for bytes in [&b""[..], b"R", b"REDI", b"BPFDBDM", b"{\"key\":1}\n"] {
            let outcome = read(bytes, Choice::default(), &mut Nowhere);
            assert!(matches!(outcome, Err(Error::Unknown)), "{outcome:?}");
        }
    }
}
