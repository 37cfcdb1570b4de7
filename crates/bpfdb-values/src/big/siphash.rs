//! SipHash-1-3, the hash of elements: keyed, so that a client cannot choose many for one bucket. What it
//! makes is part of the form in which collections are kept.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

pub(super) fn hash([k0, k1]: [u64; 2], bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(k0, k1);
    hasher.write(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by the code that wrote the first collections: of the bytes from 0 on, so many.
    #[test]
    fn stored_collections_stay_readable() {
        let bytes: Vec<u8> = (0..40).collect();
        let keys = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        for (len, expected) in [
            (0, 0xabac_0158_050f_c4dc),
            (1, 0xc9f4_9bf3_7d57_ca93),
            (7, 0xd392_7d98_9bb1_1140),
            (8, 0x3690_9511_8d29_9a8e),
            (15, 0xd320_d86d_2a51_9956),
            (39, 0x626b_5754_7b10_8392),
        ] {
            assert_eq!(hash(keys, &bytes[..len]), expected, "{len}");
        }
    }

    #[test]
    fn the_key_matters() {
        assert_eq!(hash([1, 2], b"element"), hash([1, 2], b"element"));
        assert_ne!(hash([1, 2], b"element"), hash([1, 3], b"element"));
        assert_ne!(hash([1, 2], b"element"), hash([0, 2], b"element"));
    }
}
