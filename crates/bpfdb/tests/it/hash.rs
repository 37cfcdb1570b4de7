//! The hash of keys, as the kernel computes it, against what bpf/storage/hash.bpf.h says it
//! is, written down a second time.

use crate::common;

use bpfdb::{Program, abi, find_program};

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The secrets: start, length and finish, two of each, and two words for each word of a key.
struct Secrets(Vec<u64>);

impl Secrets {
    /// As the program `known_secrets` writes them.
    fn from(first: u64) -> Self {
        let count = (size_of::<abi::bpfdb_hash_secrets>() / 8) as u64;
        let mut words: Vec<u64> = (first..first + count)
            .map(|i| i.wrapping_mul(FACTOR))
            .collect();
        words[4] |= 1;
        words[5] |= 1;
        Self(words)
    }

    /// One of the two sums.
    fn sum(&self, which: usize, key: &[u64], len: usize) -> u64 {
        let secret = &self.0[6 + 2 * which..];
        let begin = self.0[which].wrapping_add(self.0[2 + which].wrapping_mul(len as u64));
        key.iter().enumerate().fold(begin, |sum, (i, word)| {
            let low = secret[2 * i].wrapping_add(word & 0xffff_ffff);
            let high = secret[2 * i + 1].wrapping_add(word >> 32);
            sum.wrapping_add(low.wrapping_mul(high))
        })
    }

    fn hash(&self, key: &[u64], len: usize) -> u64 {
        let upper = |which| self.sum(which, key, len) >> 32;
        let mut hash = upper(0) << 32 | upper(1);
        hash = hash.wrapping_mul(self.0[4]);
        hash ^= hash >> 29;
        hash = hash.wrapping_mul(self.0[5]);
        hash ^ hash >> 32
    }
}

/// The words of the key that `key_long()` of the test programs makes, padded as operators
/// pad them: a short key is two words.
fn key(number: u64, len: usize) -> Vec<u64> {
    let mut words: Vec<u64> = (0..len.div_ceil(8) as u64).map(|i| number + i).collect();
    if !len.is_multiple_of(8) {
        *words.last_mut().expect("not empty") &= (1 << (8 * (len % 8))) - 1;
    }
    words.resize(words.len().max(2), 0);
    words
}

#[test]
fn the_kernel_computes_the_hash_that_is_written_down() {
    let engine = common::engine();
    let session = engine.session().expect("session");
    let object = common::load(&engine, "hash");
    let program = |name| -> Program { find_program(&object, name).expect("a program") };
    let (secrets, hash) = (program("known_secrets"), program("known_hash"));

    for first in [1, 0x0123_4567_89ab_cdef] {
        secrets.run(&[first]).expect("run");
        let known = Secrets::from(first);
        for len in 1..=abi::BPFDB_KEY_MAX as usize {
            let number = (len as u64).wrapping_mul(0xdead_beef_1234_5678) >> 1;
            let half = |shift| -> u64 {
                let arguments = [session.index().into(), number, len as u64, shift];
                hash.run(&arguments).expect("run").into()
            };
            let expected = known.hash(&key(number, len), len);
            assert_eq!(half(32) << 32 | half(0), expected, "{len} bytes");
        }
    }
}
