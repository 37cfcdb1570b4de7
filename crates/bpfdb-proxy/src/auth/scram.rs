//! SCRAM-SHA-256 as a server, by RFC 5802 and 7677, without channel binding.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

pub(crate) const MECHANISM: &str = "SCRAM-SHA-256";

/// What PostgreSQL keeps of a password: `SCRAM-SHA-256$ROUNDS:SALT$STORED:SERVER`.
#[derive(Clone, Debug)]
pub(super) struct Verifier {
    rounds: u32,
    salt: String,
    stored: Vec<u8>,
    server: Vec<u8>,
}

impl Verifier {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (salted, keys) = text.strip_prefix("SCRAM-SHA-256$")?.split_once('$')?;
        let (rounds, salt) = salted.split_once(':')?;
        let (stored, server) = keys.split_once(':')?;
        Some(Self {
            rounds: rounds.parse().ok()?,
            salt: salt.to_owned(),
            stored: BASE64.decode(stored).ok()?,
            server: BASE64.decode(server).ok()?,
        })
    }

    /// Of a password as it is, or of what PostgreSQL keeps of one.
    pub(super) fn of(secret: &str) -> Option<Self> {
        if secret.starts_with("md5") {
            return None;
        }
        Self::parse(secret).or_else(|| {
            let made = postgres_protocol::password::scram_sha_256(secret.as_bytes());
            Self::parse(&made)
        })
    }
}

/// Those of passwords that are kept as they are. To make one takes the event loop about as long as a hundred requests:
/// clients that come again, or only begin to log in, get what was made before. Of each user one of its own: two with one
/// password do not show that by their salts.
#[derive(Debug, Default)]
pub(crate) struct Verifiers {
    made: HashMap<(String, String), Verifier>,
}

/// Others are made again.
const VERIFIERS_MAX: usize = 10_000;

impl Verifiers {
    pub(super) fn of(&mut self, user: &str, secret: &str) -> Option<Verifier> {
        if is_verifier(secret) {
            return Verifier::parse(secret);
        }
        let whose = (user.to_owned(), secret.to_owned());
        if let Some(made) = self.made.get(&whose) {
            return Some(made.clone());
        }
        let made = Verifier::of(secret)?;
        if self.made.len() >= VERIFIERS_MAX {
            self.made.clear();
        }
        self.made.insert(whose, made.clone());
        Some(made)
    }
}

/// Is this what PostgreSQL keeps of a password, and none itself?
pub(super) fn is_verifier(text: &str) -> bool {
    Verifier::parse(text).is_some()
}

/// An exchange after its first two messages.
#[derive(Debug)]
pub(crate) struct Exchange {
    verifier: Verifier,
    nonce: String,
    header: String,
    /// The client's first message without its header, and ours.
    heard: String,
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

impl Exchange {
    /// The client's first message; our answer, in which `own` is our part of the nonce.
    pub(super) fn begin(verifier: Verifier, first: &str, own: &str) -> Option<(Self, String)> {
        // "n,,": no channel binding; "y,,": the client has it and believes that we have not.
        let (flag, rest) = first.split_once(',')?;
        let (authorized, bare) = rest.split_once(',')?;
        if !matches!(flag, "n" | "y") || !authorized.is_empty() {
            return None;
        }
        let nonce = bare.split(',').find_map(|part| part.strip_prefix("r="))?;
        let nonce = format!("{nonce}{own}");
        let answer = format!("r={nonce},s={},i={}", verifier.salt, verifier.rounds);
        let exchange = Self {
            verifier,
            nonce,
            header: format!("{flag},,"),
            heard: format!("{bare},{answer}"),
        };
        Some((exchange, answer))
    }

    /// The client's last message; our proof and its keys, if its own is right.
    pub(super) fn finish(&self, last: &str) -> Option<(String, Keys)> {
        let (without_proof, proof) = last.rsplit_once(",p=")?;
        let mut parts = without_proof.split(',');
        let binding = BASE64.decode(parts.next()?.strip_prefix("c=")?).ok()?;
        let nonce = parts.next()?.strip_prefix("r=")?;
        if binding != self.header.as_bytes() || nonce != self.nonce {
            return None;
        }
        let heard = format!("{},{without_proof}", self.heard);
        let proof = BASE64.decode(proof).ok()?;
        let signature = mac(&self.verifier.stored, &heard);
        if proof.len() != signature.len() {
            return None;
        }
        let key: Vec<u8> = proof.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        let stored = Sha256::digest(&key);
        if !bool::from(stored.as_slice().ct_eq(&self.verifier.stored)) {
            return None;
        }
        let proof = BASE64.encode(mac(&self.verifier.server, &heard));
        let keys = Keys {
            client: key,
            server: self.verifier.server.clone(),
        };
        Some((format!("v={proof}"), keys))
    }
}

/// What a client knows that has logged in: as good as its password at a server that keeps the same of
/// it.
#[derive(Clone)]
pub(crate) struct Keys {
    client: Vec<u8>,
    server: Vec<u8>,
}

impl Keys {
    pub(crate) fn of(client: &[u8], server: &[u8]) -> Self {
        Self {
            client: client.to_vec(),
            server: server.to_vec(),
        }
    }

    /// The client's, and the server's.
    pub(crate) fn parts(&self) -> [&[u8]; 2] {
        [&self.client, &self.server]
    }
}

/// Not to be shown: as good as a password.
impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys")
    }
}

/// SCRAM-SHA-256 as a client, by keys instead of a password.
#[derive(Debug)]
pub(super) struct ByKeys {
    keys: Keys,
    nonce: String,
    /// What both have said, as far as it is signed.
    said: String,
}

impl ByKeys {
    /// With the first message.
    pub(super) fn begin(keys: Keys, nonce: String) -> (Self, String) {
        let bare = format!("n=,r={nonce}");
        let first = format!("n,,{bare}");
        let said = bare;
        (Self { keys, nonce, said }, first)
    }

    /// The server's first message; the answer.
    pub(super) fn answer(&mut self, first: &str) -> Option<String> {
        let nonce = first.split(',').next()?.strip_prefix("r=")?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return None;
        }
        // `biws`: "n,,", no channel binding.
        let last = format!("c=biws,r={nonce}");
        self.said = format!("{},{first},{last}", self.said);
        let stored = Sha256::digest(&self.keys.client);
        let signature = mac(stored.as_slice(), &self.said);
        let proof: Vec<u8> = (self.keys.client.iter().zip(&signature))
            .map(|(a, b)| a ^ b)
            .collect();
        Some(format!("{last},p={}", BASE64.encode(proof)))
    }

    /// Does the server's last message prove that it knows the password, too?
    pub(super) fn is_proved(&self, last: &str) -> bool {
        let proof = last
            .strip_prefix("v=")
            .and_then(|proof| BASE64.decode(proof).ok());
        proof.is_some_and(|proof| mac(&self.keys.server, &self.said).ct_eq(&proof).into())
    }
}

#[cfg(test)]
mod tests {
    use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};

    use super::*;

    fn exchange(kept: &str, password: &str) -> bool {
        let mut client = ScramSha256::new(password.as_bytes(), ChannelBinding::unsupported());
        let first = String::from_utf8(client.message().to_vec()).expect("a text");
        let verifier = Verifier::of(kept).expect("a verifier");
        let (exchange, answer) =
            Exchange::begin(verifier, &first, "ours").expect("a first message");
        client.update(answer.as_bytes()).expect("our answer");
        let last = String::from_utf8(client.message().to_vec()).expect("a text");
        match exchange.finish(&last) {
            Some((proof, _)) => client.finish(proof.as_bytes()).is_ok(),
            None => false,
        }
    }

    #[test]
    fn keys_are_as_good_as_the_password_where_the_same_is_kept() {
        let kept = postgres_protocol::password::scram_sha_256(b"secret");
        let log_in = |verifier: Verifier, keys: Keys| {
            let (mut client, first) = ByKeys::begin(keys, "theirs".into());
            let (exchange, answer) = Exchange::begin(verifier, &first, "ours").expect("begun");
            let last = client.answer(&answer).expect("an answer");
            let (proof, _) = exchange.finish(&last)?;
            client.is_proved(&proof).then_some(())
        };
        let mut client = ScramSha256::new(b"secret", ChannelBinding::unsupported());
        let first = String::from_utf8(client.message().to_vec()).expect("a text");
        let verifier = Verifier::of(&kept).expect("a verifier");
        let (exchange, answer) = Exchange::begin(verifier.clone(), &first, "x").expect("begun");
        client.update(answer.as_bytes()).expect("our answer");
        let last = String::from_utf8(client.message().to_vec()).expect("a text");
        let (_, keys) = exchange.finish(&last).expect("keys");
        assert!(log_in(verifier, keys.clone()).is_some());
        let other = Verifier::of("secret").expect("with another salt");
        assert!(log_in(other, keys).is_none());
    }

    #[test]
    fn a_verifier_is_made_once_for_each_user() {
        let mut verifiers = Verifiers::default();
        let mut salt = |user: &str, secret: &str| verifiers.of(user, secret).map(|made| made.salt);
        let first = salt("one", "secret");
        assert!(first.is_some() && salt("one", "secret") == first);
        assert_ne!(salt("two", "secret"), first);
        assert_ne!(salt("one", "other"), first);
        let kept = postgres_protocol::password::scram_sha_256(b"secret");
        assert_eq!(
            salt("one", &kept),
            Verifier::parse(&kept).map(|kept| kept.salt)
        );
        assert_eq!(salt("one", "md5"), None);
    }

    #[test]
    fn the_right_password_is_taken_and_no_other() {
        let kept = postgres_protocol::password::scram_sha_256(b"secret");
        assert!(exchange(&kept, "secret"));
        assert!(exchange("secret", "secret"));
        assert!(!exchange(&kept, "other"));
    }
}
