//! A listpack, Redis's packed form from 7.0 on: [`bpfdb_values::listpack`] has the form.

use bpfdb_values::listpack::elements;

use super::{Each, give};
use crate::collection::Fault;

/// Gives every string of a listpack.
pub(crate) fn read(bytes: &[u8], each: Each<'_>) -> Result<(), Fault> {
    for element in elements(bytes)? {
        give(element?, each)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bpfdb_values::listpack::{HEADER, Listpack};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::tests::{read_by, survives};
    use super::*;

    #[test]
    fn strings_are_given_in_their_order() {
        let strings = ["a", "1", "300", "-5", "70000", "abc"].map(Vec::from);
        let mut listpack = Listpack::new();
        strings.iter().for_each(|string| listpack.push(string));
        let bytes = listpack.finish();
        assert_eq!(read_by(read, &bytes), Ok(strings.to_vec()));
        for len in 0..bytes.len() {
            let cut = read_by(read, &bytes[..len]);
            assert!(matches!(cut, Err(Fault::Damaged(_))), "{len}: {cut:?}");
        }
    }

    proptest! {
        #[test]
        fn noise_is_no_harm(noise in vec(any::<u8>(), 0..100)) {
            let size = (HEADER + noise.len() + 1) as u32;
            survives(read, &[&size.to_le_bytes()[..], &[0xff; 2], &noise, &[0xff]].concat());
            survives(read, &noise);
        }
    }
}
