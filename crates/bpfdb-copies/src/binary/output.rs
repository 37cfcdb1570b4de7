//! Writes a copy in the binary form.

use std::io::Write;

use super::blocks::BlockWriter;
use super::{EntryHead, Totals};
use crate::error::{Error, Result};
use crate::header::Header;
use crate::sink::{Key, Sink};
use crate::writer::Writer;

pub(crate) struct BinaryWriter<W> {
    blocks: BlockWriter<W>,
    totals: Totals,
}

impl<W: Write> BinaryWriter<W> {
    pub(crate) fn new(out: W, header: &Header) -> Result<Self> {
        Ok(Self {
            blocks: BlockWriter::new(out, header)?,
            totals: Totals::default(),
        })
    }
}

impl<W: Write> Sink for BinaryWriter<W> {
    fn key(&mut self, key: &Key<'_>) -> Result<()> {
        let too_long = || Error::Refused("a key or value is longer than any may be".into());
        let head = EntryHead {
            key_len: key.name.len().try_into().map_err(|_| too_long())?,
            kind: key.kind,
            value_len: key.len.try_into().map_err(|_| too_long())?,
            expires_at: key.expires_at,
        };
        self.totals.keys += 1;
        self.totals.bytes += key.len;
        self.blocks.write(&head.encode())?;
        self.blocks.write(key.name)
    }

    fn part(&mut self, bytes: &[u8]) -> Result<()> {
        self.blocks.write(bytes)
    }
}

impl<W: Write> Writer for BinaryWriter<W> {
    fn finish(mut self: Box<Self>) -> Result<()> {
        self.blocks.finish(self.totals)
    }
}
