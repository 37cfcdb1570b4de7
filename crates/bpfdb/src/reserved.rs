//! Keys of bpfdb itself, which clients of the server never meet. For programs that embed the
//! engine they are keys as any other.

use crate::abi;

/// What they begin with.
pub const RESERVED_PREFIX: [u8; 8] = abi::BPFDB_RESERVED_KEYS.to_le_bytes();

/// Its value has the server's libraries of functions, in the form of FUNCTION DUMP.
pub const FUNCTIONS_KEY: &[u8] = b"\0bpfdb\0\0functions";

/// Is it a key of bpfdb itself?
pub fn is_reserved(key: &[u8]) -> bool {
    key.starts_with(&RESERVED_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reserved() {
        assert_eq!(&RESERVED_PREFIX, b"\0bpfdb\0\0");
        assert!(is_reserved(FUNCTIONS_KEY));
        assert!(is_reserved(b"\0bpfdb\0\0"));
        assert!(!is_reserved(b"\0bpfdb\0"));
        assert!(!is_reserved(b"bpfdb"));
    }
}
