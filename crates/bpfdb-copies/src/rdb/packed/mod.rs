//! Redis's packed forms: all strings of a small collection in one string. A file, or an argument of
//! RESTORE, may have any bytes in place of one.
//!
//! Invariants
//!  1. Every length is compared with the bytes that there are before they are looked at.
//!  2. Each entry takes at least a byte, so what is read ends.
//!  3. What a form says twice (bytes, entries, the length of an entry before and behind it) is the
//!     same both times.

pub(super) mod intset;
pub(super) mod listpack;
pub(super) mod ziplist;
pub(super) mod zipmap;

use std::io::Write;

use bpfdb_values::listpack::Element;

use crate::collection::Fault;

/// Takes the strings of a packed form, one by one.
pub(super) type Each<'a> = &'a mut dyn FnMut(&[u8]) -> Result<(), Fault>;

/// Bytes of the longest integer as text.
const DECIMAL: usize = 20;

/// Gives an element as a string.
fn give(element: Element<'_>, each: Each<'_>) -> Result<(), Fault> {
    let number = match element {
        Element::Integer(number) => number,
        Element::Text(text) => return each(text),
    };
    let mut text = [0; DECIMAL];
    let mut rest = &mut text[..];
    let written = write!(rest, "{number}");
    written.expect("there is room for every integer");
    let left = rest.len();
    each(&text[..DECIMAL - left])
}

/// The next so many bytes.
fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}

/// A number with its lowest byte first.
fn little(bytes: &[u8]) -> u64 {
    let bytes = bytes.iter().rev();
    bytes.fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// A number with its highest byte first.
fn big(bytes: &[u8]) -> u64 {
    let bytes = bytes.iter();
    bytes.fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// A number of 1 to 8 bytes with a sign, its lowest byte first.
fn signed(bytes: &[u8]) -> i64 {
    let unused = 64 - 8 * bytes.len() as u32;
    (little(bytes) << unused) as i64 >> unused
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// What a form is read as.
    pub(crate) fn read_by(
        read: impl Fn(&[u8], Each<'_>) -> Result<(), Fault>,
        bytes: &[u8],
    ) -> Result<Vec<Vec<u8>>, Fault> {
        let mut strings = Vec::new();
        read(bytes, &mut |string| {
            strings.push(string.to_vec());
            Ok(())
        })?;
        Ok(strings)
    }

    /// Whatever was changed is read as something, or refused; more than there can be is never given.
    pub(crate) fn survives(read: impl Fn(&[u8], Each<'_>) -> Result<(), Fault>, bytes: &[u8]) {
        let (mut count, mut size) = (0, 0);
        let outcome = read(bytes, &mut |string| {
            count += 1;
            size += string.len();
            Ok(())
        });
        assert!(count <= bytes.len() && size <= DECIMAL * bytes.len());
        assert!(
            matches!(outcome, Ok(()) | Err(Fault::Damaged(_))),
            "{outcome:?}"
        );
    }

    #[test]
    fn numbers() {
        assert_eq!(little(&[1, 2]), 0x0201);
        assert_eq!(big(&[1, 2]), 0x0102);
        assert_eq!(signed(&[0xff]), -1);
        assert_eq!(signed(&[0, 0, 0x80]), -(1 << 23));
        assert_eq!(signed(&i64::MIN.to_le_bytes()), i64::MIN);
    }

    #[test]
    fn integers_are_given_as_text() {
        for number in [0, -1, i64::MAX, i64::MIN] {
            let mut text = Vec::new();
            let given = give(Element::Integer(number), &mut |string| {
                text.extend_from_slice(string);
                Ok(())
            });
            assert_eq!((given, text), (Ok(()), number.to_string().into_bytes()));
        }
    }
}
