//! The name of a script: SHA-1 of its text.

use std::fmt;

/// 20 bytes, written as 40 small hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sha1([u8; 20]);

impl Sha1 {
    /// Of its name.
    pub const DIGITS: usize = 40;

    pub fn of(bytes: &[u8]) -> Self {
        Self(sha1_smol::Sha1::from(bytes).digest().bytes())
    }

    /// Reads 40 hexadecimal digits, of either case.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut bytes = [0; 20];
        if text.len() != Self::DIGITS {
            return None;
        }
        for (byte, digits) in bytes.iter_mut().zip(text.chunks(2)) {
            let digits = std::str::from_utf8(digits).ok()?;
            // Which takes a sign.
            if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return None;
            }
            *byte = u8::from_str_radix(digits, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for Sha1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_text() {
        let name = Sha1::of(b"return 1");
        assert_eq!(name.to_string(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        assert_eq!(Sha1::parse(name.to_string().as_bytes()), Some(name));
        let upper = name.to_string().to_ascii_uppercase();
        assert_eq!(Sha1::parse(upper.as_bytes()), Some(name));
        assert_eq!(
            Sha1::parse(b"+0e1f9fabfc9d4800c877a703b823ac0578ff8db"),
            None
        );
        assert_eq!(Sha1::parse(b"e0"), None);
    }
}
