//! The checksum of Redis's files: CRC-64 with the polynomial of Jones, reflected, from 0.

use crc::{CRC_64_REDIS, Crc, Digest, Table};

static CRC: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// The sum of the bytes so far.
#[derive(Clone)]
pub(crate) struct Crc64(Digest<'static, u64, Table<16>>);

impl Crc64 {
    pub(crate) fn new() -> Self {
        Self(CRC.digest())
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.clone().finalize()
    }
}

pub(crate) fn crc64(bytes: &[u8]) -> u64 {
    CRC.checksum(bytes)
}

#[cfg(test)]
mod tests {
    use super::{Crc64, crc64};

    #[test]
    fn check_value() {
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    #[test]
    fn parts_give_the_sum_of_the_whole() {
        let mut sum = Crc64::new();
        sum.add(b"1234");
        assert_eq!(sum.value(), crc64(b"1234"));
        sum.add(b"56789");
        assert_eq!(sum.value(), crc64(b"123456789"));
    }
}
