//! SipHash-1-3, the hash of elements: keyed, so that nobody can choose many for one bucket. Written out,
//! because what it makes is part of the form in which collections are kept.

pub(super) fn hash([k0, k1]: [u64; 2], bytes: &[u8]) -> u64 {
    let mut state = State([
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ]);
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        state.take(u64::from_le_bytes(word.try_into().expect("8 bytes")));
    }
    let mut last = [0; 8];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    last[7] = bytes.len() as u8;
    state.take(u64::from_le_bytes(last));
    state.finish()
}

struct State([u64; 4]);

impl State {
    fn take(&mut self, word: u64) {
        self.0[3] ^= word;
        self.round();
        self.0[0] ^= word;
    }

    fn finish(mut self) -> u64 {
        self.0[2] ^= 0xff;
        (0..3).for_each(|_| self.round());
        self.0.into_iter().fold(0, |hash, word| hash ^ word)
    }

    fn round(&mut self) {
        let [a, b, c, d] = &mut self.0;
        *a = a.wrapping_add(*b);
        *c = c.wrapping_add(*d);
        *b = b.rotate_left(13) ^ *a;
        *d = d.rotate_left(16) ^ *c;
        *a = a.rotate_left(32);
        *c = c.wrapping_add(*b);
        *a = a.wrapping_add(*d);
        *b = b.rotate_left(17) ^ *c;
        *d = d.rotate_left(21) ^ *a;
        *c = c.rotate_left(32);
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{DefaultHasher, Hasher};

    use super::*;

    /// That of the standard library is SipHash-1-3 with zeros as key, today.
    #[test]
    fn it_is_siphash() {
        let bytes: Vec<u8> = (0..40).collect();
        for len in 0..bytes.len() {
            let mut hasher = DefaultHasher::new();
            hasher.write(&bytes[..len]);
            assert_eq!(hash([0, 0], &bytes[..len]), hasher.finish(), "{len}");
        }
    }

    #[test]
    fn the_key_matters() {
        assert_eq!(hash([1, 2], b"element"), hash([1, 2], b"element"));
        assert_ne!(hash([1, 2], b"element"), hash([1, 3], b"element"));
        assert_ne!(hash([1, 2], b"element"), hash([0, 2], b"element"));
    }
}
