//! Reads a copy in the binary form.

use std::io::Read;

use super::blocks::Blocks;
use super::{EntryHead, Totals};
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
    while !source.is_at_end()? {
        entry(&mut source, &mut name, sink, contents)?;
    }
    let read = Totals {
        keys: contents.keys,
        bytes: contents.bytes,
    };
    if source.input.totals() != Some(read) {
        return Err(damaged(
            source.offset(),
            "the last block counts other entries than there are",
        ));
    }
    Ok(())
}

fn entry<R: Read>(
    source: &mut Source<Blocks<R>>,
    name: &mut Vec<u8>,
    sink: &mut dyn Sink,
    contents: &mut Contents,
) -> Result<()> {
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
    let key = Key {
        name,
        len: head.value_len.into(),
        expires_at: head.expires_at,
    };
    contents.count(&key);
    sink.key(&key)?;
    source.parts(key.len, |part| sink.part(part))
}
