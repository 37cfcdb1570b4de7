//! Authentication of a client.

use std::fmt::Write;

use bytes::BytesMut;
use md5::{Digest, Md5};
use postgres_protocol::authentication::md5_hash;
use subtle::ConstantTimeEq;

use super::scram::{Exchange, Keys, MECHANISM, Verifier, Verifiers};
use crate::hba::AuthType;
use crate::wire::{reply, text};

/// Kinds of the message `R`.
const OK: u32 = 0;
const PLAIN: u32 = 3;
const MD5: u32 = 5;
const SASL: u32 = 10;
const SASL_CONTINUE: u32 = 11;
const SASL_FINAL: u32 = 12;

/// What the client was asked for.
#[derive(Debug)]
pub(crate) enum Asked {
    Plain,
    Md5([u8; 4]),
    Scram,
    ScramProof(Box<Exchange>),
}

/// What a message of the client means.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// With what the proxy can log in as the client, if that is known now.
    Admitted(Option<Keys>),
    Asked(Asked),
    Refused,
}

/// As PostgreSQL: what is kept for SCRAM is asked for so, where MD5 was to be used.
pub(crate) fn fitting(auth: AuthType, secret: Option<&str>) -> AuthType {
    match auth {
        AuthType::Md5 if secret.and_then(Verifier::parse).is_some() => AuthType::Scram,
        auth => auth,
    }
}

/// Begins: asks for something, or admits at once.
pub(crate) fn begin(
    auth: AuthType,
    random: impl FnOnce() -> [u8; 4],
    out: &mut BytesMut,
) -> Verdict {
    match auth {
        AuthType::Trust => {
            reply::authentication(out, OK, b"");
            Verdict::Admitted(None)
        }
        AuthType::Plain => {
            reply::authentication(out, PLAIN, b"");
            Verdict::Asked(Asked::Plain)
        }
        AuthType::Md5 => {
            let salt = random();
            reply::authentication(out, MD5, &salt);
            Verdict::Asked(Asked::Md5(salt))
        }
        AuthType::Scram => {
            let mechanisms = format!("{MECHANISM}\0\0");
            reply::authentication(out, SASL, mechanisms.as_bytes());
            Verdict::Asked(Asked::Scram)
        }
    }
}

/// Goes on with the body of a password message. `secret`: what is known of the user's password;
/// without it the answer is as to a wrong one.
pub(crate) fn go_on(
    asked: Asked,
    user: &str,
    secret: Option<&str>,
    body: &[u8],
    nonce: impl FnOnce() -> String,
    verifiers: &mut Verifiers,
    out: &mut BytesMut,
) -> Verdict {
    let verdict = match asked {
        Asked::Plain => admitted(plain(user, secret, body)),
        Asked::Md5(salt) => admitted(md5(user, secret, salt, body)),
        Asked::Scram => match secret
            .and_then(|secret| verifiers.of(user, secret))
            .and_then(|verifier| scram_first(verifier, body, nonce))
        {
            Some((exchange, answer)) => {
                reply::authentication(out, SASL_CONTINUE, answer.as_bytes());
                return Verdict::Asked(Asked::ScramProof(Box::new(exchange)));
            }
            None => Verdict::Refused,
        },
        Asked::ScramProof(exchange) => match str::from_utf8(body)
            .ok()
            .and_then(|last| exchange.finish(last))
        {
            Some((proof, keys)) => {
                reply::authentication(out, SASL_FINAL, proof.as_bytes());
                Verdict::Admitted(Some(keys))
            }
            None => Verdict::Refused,
        },
    };
    if matches!(verdict, Verdict::Admitted(_)) {
        reply::authentication(out, OK, b"");
    }
    verdict
}

fn admitted(right: Option<bool>) -> Verdict {
    match right {
        Some(true) => Verdict::Admitted(None),
        _ => Verdict::Refused,
    }
}

fn plain(user: &str, secret: Option<&str>, body: &[u8]) -> Option<bool> {
    let (given, secret) = (text::split(body)?.0, secret?);
    if secret.starts_with("md5") {
        let given = postgres_protocol::password::md5(given, user);
        return Some(given.as_bytes().ct_eq(secret.as_bytes()).into());
    }
    // What is kept of a password for SCRAM cannot be compared so.
    let is_plain = Verifier::parse(secret).is_none();
    Some(is_plain && bool::from(given.ct_eq(secret.as_bytes())))
}

fn md5(user: &str, secret: Option<&str>, salt: [u8; 4], body: &[u8]) -> Option<bool> {
    let (given, secret) = (text::split(body)?.0, secret?);
    // What is kept for SCRAM is no password: its text must not be as good as one.
    if Verifier::parse(secret).is_some() {
        return Some(false);
    }
    let wanted = match secret.strip_prefix("md5") {
        Some(kept) => salted(kept, salt),
        None => md5_hash(user.as_bytes(), secret.as_bytes(), salt),
    };
    Some(wanted.as_bytes().ct_eq(given).into())
}

/// What a client sends whose password is kept as this hash.
pub(super) fn salted(kept: &str, salt: [u8; 4]) -> String {
    let mut hash = Md5::new();
    hash.update(kept.as_bytes());
    hash.update(salt);
    let mut text = String::from("md5");
    for byte in hash.finalize() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn scram_first(
    verifier: Verifier,
    body: &[u8],
    nonce: impl FnOnce() -> String,
) -> Option<(Exchange, String)> {
    let (mechanism, rest) = text::split(body)?;
    // The length of the message comes first.
    let first = str::from_utf8(rest.get(4..)?).ok()?;
    if mechanism != MECHANISM.as_bytes() {
        return None;
    }
    Exchange::begin(verifier, first, &nonce())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_that_is_kept_is_as_good_as_the_password() {
        let salt = *b"salt";
        let answer = md5_hash(b"user", b"secret", salt) + "\0";
        let kept = postgres_protocol::password::md5(b"secret", "user");
        for (secret, right) in [("secret", true), (kept.as_str(), true), ("other", false)] {
            assert_eq!(
                md5("user", Some(secret), salt, answer.as_bytes()),
                Some(right)
            );
        }
        assert_eq!(plain("user", Some(&kept), b"secret\0"), Some(true));
        assert_eq!(plain("user", Some("secret"), b"secre\0"), Some(false));
        assert_eq!(plain("user", None, b"secret\0"), None);
    }
}
