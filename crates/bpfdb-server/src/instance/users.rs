//! Users. There is one user, `default`, with the password of
//! `requirepass` or without one; more users, with rights of their own, would
//! be more entries here.

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::settings::Secret;

const PASSWORD_MAX: usize = Secret::LEN_MAX;
pub(crate) const DEFAULT: &[u8] = b"default";

#[derive(Debug)]
pub(crate) struct Users {
    password: Option<Password>,
}

impl Users {
    /// An empty password is none.
    pub(crate) fn new(password: &str) -> Self {
        Self {
            password: Password::new(password.as_bytes()).filter(|_| !password.is_empty()),
        }
    }

    /// Must a client authenticate before it may do anything else?
    pub(crate) fn must_authenticate(&self) -> bool {
        self.password.is_some()
    }

    /// The SHA-256 of the password, in hexadecimal digits: what ACL shows of it.
    pub(crate) fn password_digest(&self) -> Option<String> {
        self.password.as_ref().map(Password::digest)
    }

    /// May a client with this password be this user? Without a password for the
    /// user, any will do.
    pub(crate) fn admit(&self, user: &[u8], password: &[u8]) -> bool {
        let right = match &self.password {
            None => true,
            Some(right) => Password::new(password).is_some_and(|given| right.equals(&given)),
        };
        right && user == DEFAULT
    }
}

/// A password with its length, padded: comparing takes the same time whatever
/// is compared.
struct Password {
    bytes: [u8; PASSWORD_MAX],
    len: u64,
}

impl Password {
    fn new(text: &[u8]) -> Option<Self> {
        let mut bytes = [0; PASSWORD_MAX];
        bytes.get_mut(..text.len())?.copy_from_slice(text);
        Some(Self {
            bytes,
            len: text.len() as u64,
        })
    }

    fn digest(&self) -> String {
        let digest = Sha256::digest(&self.bytes[..self.len as usize]);
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn equals(&self, other: &Self) -> bool {
        (self.bytes.ct_eq(&other.bytes) & self.len.ct_eq(&other.len)).into()
    }
}

/// Never in a log.
impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Password(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_password_everybody_is_in() {
        let users = Users::new("");
        assert!(!users.must_authenticate());
        assert!(users.admit(b"default", b"any"));
        assert!(!users.admit(b"other", b""));
    }

    #[test]
    fn the_password_and_no_other() {
        let users = Users::new("secret");
        assert!(users.must_authenticate());
        assert!(users.admit(b"default", b"secret"));
        for wrong in [
            &b""[..],
            b"secre",
            b"secret\0",
            b"secrets",
            b"Secret",
            &[b's'; 600],
        ] {
            assert!(!users.admit(b"default", wrong));
        }
        assert!(!users.admit(b"admin", b"secret"));
        let digest = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
        assert_eq!(users.password_digest().as_deref(), Some(digest));
        assert!(!format!("{users:?}").contains("secret"));
    }
}
