//! What the programs know of prepared statements, and keep of those without a name.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::mem::offset_of;

use libbpf_rs::{MapCore, MapFlags};

use super::abi;
use super::programs::{Kernel, bytes};

impl Kernel {
    /// The unnamed statement of a client whose last batch has that many answers, of its Parse behind the name.
    pub(crate) fn text(&self, slot: u32, answers: usize) -> Option<Vec<u8>> {
        let found = self.texts.lookup(&slot.to_ne_bytes(), MapFlags::ANY);
        let text = found.ok().flatten()?;
        let (length, bytes) = text.split_at_checked(offset_of!(abi::bpfdb_proxy_text, bytes))?;
        let length = u32::from_ne_bytes(length.try_into().ok()?) as usize;
        last_text(bytes.get(..length)?, answers).map(<[u8]>::to_vec)
    }

    /// What a client's name means: the number of a statement; `None`: nothing. `false`: it was not told.
    pub(crate) fn name(&self, slot: u32, name: &[u8], number: Option<u32>) -> bool {
        let mut key = abi::bpfdb_proxy_name {
            client: slot,
            generation: self.word(slot).generation(),
            ..Default::default()
        };
        let Some(room) = key.bytes.get_mut(..name.len()) else {
            return false;
        };
        room.copy_from_slice(name);
        let told = match number {
            Some(number) => self
                .names
                .update(bytes(&key), &number.to_ne_bytes(), MapFlags::ANY),
            None => self.names.delete(bytes(&key)),
        };
        told.is_ok()
    }
}

/// Of Parse messages as they are kept: the last one that was done in front of message `failed`. A Parse that fails
/// ends the one before.
fn last_text(mut kept: &[u8], failed: usize) -> Option<&[u8]> {
    let mut last = None;
    while let Some((head, rest)) = kept.split_at_checked(size_of::<abi::bpfdb_proxy_kept>()) {
        let number = |at| {
            let two = head.get(at..)?.first_chunk()?;
            Some(usize::from(u16::from_ne_bytes(*two)))
        };
        let message = number(offset_of!(abi::bpfdb_proxy_kept, message))?;
        let length = number(offset_of!(abi::bpfdb_proxy_kept, length))?;
        let (text, rest) = rest.split_at_checked(length)?;
        match message.cmp(&failed) {
            Less => last = Some(text),
            Equal => return None,
            Greater => break,
        }
        kept = rest;
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unnamed_statement_is_the_last_that_was_done() {
        let mut kept = Vec::new();
        for (message, text) in [(0u16, "one"), (3, ""), (4, "three")] {
            let head = abi::bpfdb_proxy_kept {
                message,
                length: text.len() as u16,
            };
            kept.extend_from_slice(bytes(&head));
            kept.extend_from_slice(text.as_bytes());
        }
        let last = |failed| last_text(&kept, failed);
        assert_eq!([0, 3, 4].map(last), [None; 3]);
        assert_eq!([1, 2].map(last), [Some(&b"one"[..]); 2]);
        assert_eq!([5, 9].map(last), [Some(&b"three"[..]); 2]);
    }
}
