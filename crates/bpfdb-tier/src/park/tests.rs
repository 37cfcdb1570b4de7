use super::checksum_tables;

/// As the program computes it: `bpf/tier/checksum.bpf.h`.
fn checksum(bytes: &[u8]) -> u32 {
    let tables = checksum_tables();
    let part = |table: usize, byte: u64| tables[table][(byte & 0xff) as usize];
    let mut words = bytes.chunks_exact(8);
    let mut crc = !0u32;
    for word in &mut words {
        let word = u64::from_le_bytes(word.try_into().expect("eight")) ^ u64::from(crc);
        crc = (0..8).fold(0, |crc, byte| crc ^ part(7 - byte, word >> (8 * byte)));
    }
    for &byte in words.remainder() {
        crc = crc >> 8 ^ part(0, u64::from(crc) ^ u64::from(byte));
    }
    !crc
}

#[test]
fn the_tables_are_those_of_the_checksum_of_files() {
    let bytes: Vec<u8> = (0..300u32).map(|n| ((n * 7919) >> 3) as u8).collect();
    for len in 0..bytes.len() {
        assert_eq!(
            checksum(&bytes[..len]),
            crc32c::crc32c(&bytes[..len]),
            "{len}"
        );
    }
}
