//! Gives copies that were changed the checksums that they would have, so that readers go on to what
//! stands behind them. Where docs/formats/dump.md has the checksums, byte by byte.

/// Of the header of the binary form, and where its checksum is.
const HEADER: usize = 64;
const HEADER_SUM: usize = 12;
/// In front of each payload.
const BLOCK_HEAD: usize = 8;
const LAST: u32 = 1 << 31;

/// A file of Redis gets the mark that it has no checksum. What is no copy stays as it is.
pub fn seal(bytes: &mut Vec<u8>) {
    if bytes.starts_with(b"REDIS") && bytes.len() > 17 {
        let end = bytes.len() - 8;
        bytes[end..].fill(0);
    } else if bytes.starts_with(b"BPFDBDMP") {
        seal_blocks(bytes);
    } else if bytes.starts_with(b"{") {
        *bytes = with_sealed_lines(bytes);
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let word: [u8; 4] = bytes[at..at + 4].try_into().expect("four bytes");
    u32::from_le_bytes(word)
}

/// As far as there are whole blocks.
fn seal_blocks(bytes: &mut [u8]) {
    if bytes.len() < HEADER {
        return;
    }
    let version = word(bytes, 8);
    let mut sum = crc32c::crc32c_append(version, &bytes[HEADER_SUM + 4..HEADER]);
    bytes[HEADER_SUM..HEADER_SUM + 4].copy_from_slice(&sum.to_le_bytes());
    let mut at = HEADER;
    while at + BLOCK_HEAD <= bytes.len() {
        let end = at + BLOCK_HEAD + (word(bytes, at + 4) & !LAST) as usize;
        if end > bytes.len() {
            return;
        }
        sum = crc32c::crc32c_append(sum, &bytes[at + 4..end]);
        bytes[at..at + 4].copy_from_slice(&sum.to_le_bytes());
        at = end;
    }
}

fn with_sealed_lines(bytes: &[u8]) -> Vec<u8> {
    let mut sealed = Vec::new();
    let mut keys = 0;
    for line in bytes.split_inclusive(|&byte| byte == b'\n') {
        let word = ["check", "end"].into_iter().find(|word| {
            let begin = format!("{{\"{word}\":");
            line.starts_with(begin.as_bytes()) && line.ends_with(b"\n")
        });
        let Some(word) = word else {
            keys += u64::from(line.starts_with(b"{\"key"));
            sealed.extend_from_slice(line);
            continue;
        };
        let sum = crc32c::crc32c(&sealed);
        let line = format!("{{\"{word}\":{{\"keys\":{keys},\"checksum\":\"{sum:08x}\"}}}}\n");
        sealed.extend_from_slice(line.as_bytes());
    }
    sealed
}
