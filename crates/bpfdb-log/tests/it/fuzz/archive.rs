//! A data directory as one sequence of bytes, without the zeros at the ends of its files.

use crate::it::common::files::Files;

/// No file of a corpus is larger, in bytes.
const SIZE_MAX: usize = 1 << 18;

pub(crate) fn pack(files: &Files) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, contents) in files {
        let kept = contents
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last + 1);
        for len in [name.len(), contents.len(), kept] {
            bytes.extend((len as u32).to_le_bytes());
        }
        bytes.extend(name.as_bytes());
        bytes.extend(&contents[..kept]);
    }
    bytes
}

/// As much as is one.
pub(crate) fn unpack(mut bytes: &[u8]) -> Files {
    let mut files = Files::new();
    while let Some(file) = unpack_file(&mut bytes) {
        files.push(file);
    }
    files
}

fn unpack_file(bytes: &mut &[u8]) -> Option<(String, Vec<u8>)> {
    let mut number = || {
        let (number, rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        Some(u32::from_le_bytes(*number) as usize)
    };
    let (name, size, kept) = (number()?, number()?, number()?);
    let (name, rest) = bytes.split_at_checked(name)?;
    let (contents, rest) = rest.split_at_checked(kept)?;
    *bytes = rest;
    let mut contents = contents.to_vec();
    contents.resize(size.min(SIZE_MAX), 0);
    Some((String::from_utf8(name.to_vec()).ok()?, contents))
}
