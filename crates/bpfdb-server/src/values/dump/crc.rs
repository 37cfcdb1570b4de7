//! CRC-64 of Redis: the polynomial of Jones, reflected, from 0.

const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

/// What each byte does to the sum.
static TABLE: [u64; 256] = table();

const fn table() -> [u64; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let (mut sum, mut bit) = (byte as u64, 0);
        while bit < 8 {
            let carry = sum & 1;
            sum >>= 1;
            if carry == 1 {
                sum ^= POLYNOMIAL;
            }
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
}

pub(super) fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, &byte| {
        TABLE[usize::from(sum as u8 ^ byte)] ^ (sum >> 8)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn check_value() {
        assert_eq!(super::crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }
}
