//! Reads a copy in the binary form.

use std::io::Read;

use super::blocks::Blocks;
use super::{EntryHead, Totals};
use crate::collection::{Content, checked, checked_stream};
use crate::error::{Result, damaged};
use crate::limits::{KEY_MAX, TIME_MAX, VALUE_MAX};
use crate::sink::{Contents, Key, Sink};
use crate::source::{Plain, Source};

/// Gives everything to `sink`. `source` stands at the beginning.
pub(crate) fn read<R: Read>(
    source: Source<Plain<R>>,
    sink: &mut dyn Sink,
    contents: &mut Contents,
) -> Result<()> {
    let (blocks, header) = Blocks::open(source)?;
    contents.time = Some(header.time);
    let mut source = Source::new(blocks);
    let mut name = Vec::with_capacity(KEY_MAX);
    let mut read = Totals::default();
    while !source.is_at_end()? {
        read.keys += 1;
        read.bytes += entry(&mut source, &mut name, sink, contents)?;
    }
    if source.input.totals() != Some(read) {
        return Err(damaged(
            source.offset(),
            "the last block counts other entries than there are",
        ));
    }
    Ok(())
}

/// Gives an entry: how many bytes its value has in the file.
fn entry<R: Read>(
    source: &mut Source<Blocks<R>>,
    name: &mut Vec<u8>,
    sink: &mut dyn Sink,
    contents: &mut Contents,
) -> Result<u64> {
    let at = source.offset();
    let head = EntryHead::decode(source.array()?).filter(|head| {
        (1..=KEY_MAX).contains(&head.key_len.into())
            && u64::from(head.value_len) <= VALUE_MAX
            && head.expires_at.is_none_or(|time| time <= TIME_MAX)
    });
    let Some(head) = head else {
        return Err(damaged(at, "an entry in this block cannot be"));
    };
    name.clear();
    source.parts(head.key_len.into(), |part| {
        name.extend_from_slice(part);
        Ok(())
    })?;
    let len = head.value_len.into();
    let mut key = Key {
        name,
        kind: head.kind,
        len,
        expires_at: head.expires_at,
    };
    let content = key.content()?;
    if content == Content::String {
        contents.count(&key);
        sink.key(&key)?;
        source.parts(len, |part| sink.part(part))?;
        return Ok(len);
    }
    let mut run = Vec::new();
    source.parts(len, |part| {
        run.extend_from_slice(part);
        Ok(())
    })?;
    let run = match content {
        Content::String => Ok(run),
        Content::Collection(kind) => checked(kind, &run),
        Content::Stream => checked_stream(&run).map(|()| run),
    };
    let run = run.map_err(|fault| fault.at(at))?;
    key.len = run.len() as u64;
    contents.count(&key);
    sink.key(&key)?;
    sink.part(&run)?;
    Ok(len)
}
