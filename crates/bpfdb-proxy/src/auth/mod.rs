//! Authentication of clients, and of the proxy at servers.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;

pub(crate) mod certificate;
pub(crate) mod client;
pub(crate) mod login;
pub(crate) mod scram;
pub(crate) mod secrets;

/// Bytes of our part of a nonce.
const NONCE: usize = 18;

pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    assert_eq!(got, Ok(N), "the kernel gives so few random bytes at once");
    bytes
}

pub(crate) fn nonce() -> String {
    BASE64.encode(random::<NONCE>())
}
