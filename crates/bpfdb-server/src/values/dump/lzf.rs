//! LZF, in which Redis compresses: runs of bytes, and references to what was
//! written before.

/// The bytes, if they are exactly so many.
pub(super) fn decompress(mut input: &[u8], len: usize) -> Option<Vec<u8>> {
    // Three bytes of input give 264 at most: a promise alone takes no memory.
    let mut output = Vec::with_capacity(len.min(88 * input.len()));
    while let Some((&control, rest)) = input.split_first() {
        input = if control < 32 {
            let (run, rest) = rest.split_at_checked(usize::from(control) + 1)?;
            output.extend_from_slice(run);
            rest
        } else {
            refer(control, rest, &mut output)?
        };
        if output.len() > len {
            return None;
        }
    }
    (output.len() == len).then_some(output)
}

/// Copies what a reference means; what follows it. The copy may overlap itself.
fn refer<'a>(control: u8, mut input: &'a [u8], output: &mut Vec<u8>) -> Option<&'a [u8]> {
    const LONG: usize = 7;
    let mut count = usize::from(control >> 5);
    if count == LONG {
        let (&more, rest) = input.split_first()?;
        count += usize::from(more);
        input = rest;
    }
    let (&low, rest) = input.split_first()?;
    let back = (usize::from(control & 0x1f) << 8 | usize::from(low)) + 1;
    let start = output.len().checked_sub(back)?;
    for i in start..start + count + 2 {
        output.push(output[i]);
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::decompress;

    #[test]
    fn runs_and_references() {
        assert_eq!(decompress(&[1, b'a', b'b'], 2), Some(b"ab".to_vec()));
        // One byte, then eight times the byte before.
        assert_eq!(decompress(&[0, b'a', 6 << 5, 0], 9), Some(b"a".repeat(9)));
        assert_eq!(
            decompress(&[0, b'a', 7 << 5, 10, 0], 20),
            Some(b"a".repeat(20))
        );
    }

    #[test]
    fn what_is_not_whole() {
        for (bytes, len) in [
            (&[1, b'a'][..], 2),
            (&[0, b'a', 1 << 5], 4),
            (&[0, b'a', 7 << 5], 4),
            (&[0, b'a', 1 << 5, 1], 4),
            (&[0, b'a'], 2),
            (&[1, b'a', b'b'], 1),
        ] {
            assert_eq!(decompress(bytes, len), None, "{bytes:?}");
        }
    }
}
