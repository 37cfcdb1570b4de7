//! The proxy logs in at a server, as a client of PostgreSQL does.

use bytes::{Bytes, BytesMut};
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;

use fallible_iterator::FallibleIterator;

use super::client::salted;
use super::scram::{ByKeys, Keys, MECHANISM, is_verifier};
use crate::parameters::Parameters;

#[derive(Debug)]
pub(crate) struct Login {
    user: String,
    password: Option<String>,
    /// Of the user, if it has logged in at the proxy by SCRAM.
    keys: Option<Keys>,
    scram: Option<Box<Scram>>,
    pub(crate) parameters: Parameters,
    pub(crate) key: (i32, i32),
}

/// `ScramSha256` cannot be shown.
enum Scram {
    ByPassword(ScramSha256),
    ByKeys(ByKeys),
}

impl std::fmt::Debug for Scram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scram")
    }
}

#[derive(Debug)]
pub(crate) enum Step {
    /// More is to come.
    Waits,
    /// Ready for queries.
    In,
    /// Refused by the server: its message as it is.
    Refused(Bytes),
    /// We cannot.
    Failed(String),
}

impl Login {
    /// `password`: as it is, or as PostgreSQL keeps it.
    pub(crate) fn new(user: String, password: Option<String>, keys: Option<Keys>) -> Self {
        Self {
            user,
            password,
            keys,
            scram: None,
            parameters: Parameters::default(),
            key: (0, 0),
        }
    }

    /// Goes on with what has arrived.
    pub(crate) fn go_on(&mut self, input: &mut BytesMut, out: &mut BytesMut) -> Step {
        loop {
            let before = input.clone();
            match Message::parse(input) {
                Ok(None) => return Step::Waits,
                Ok(Some(Message::ErrorResponse(_))) => {
                    let length = before.len() - input.len();
                    return Step::Refused(before.freeze().slice(..length));
                }
                Ok(Some(Message::ReadyForQuery(_))) => return Step::In,
                Ok(Some(message)) => {
                    if let Err(told) = self.answer(message, out) {
                        return Step::Failed(told);
                    }
                }
                Err(error) => return Step::Failed(error.to_string()),
            }
        }
    }

    fn answer(&mut self, message: Message, out: &mut BytesMut) -> Result<(), String> {
        let kept = self.password.as_deref();
        let password = || {
            let password = kept.filter(|kept| !kept.starts_with("md5") && !is_verifier(kept));
            password.ok_or("the server asks for a password, and none is known".to_owned())
        };
        let told = |error: std::io::Error| error.to_string();
        match message {
            Message::AuthenticationOk | Message::NoticeResponse(_) => Ok(()),
            Message::AuthenticationCleartextPassword => {
                frontend::password_message(password()?.as_bytes(), out).map_err(told)
            }
            Message::AuthenticationMd5Password(body) => {
                let hash = match kept.and_then(|kept| kept.strip_prefix("md5")) {
                    Some(kept) => salted(kept, body.salt()),
                    None => md5_hash(self.user.as_bytes(), password()?.as_bytes(), body.salt()),
                };
                frontend::password_message(hash.as_bytes(), out).map_err(told)
            }
            Message::AuthenticationSasl(body) => {
                let offered = body.mechanisms().any(|one| Ok(one == MECHANISM));
                if !offered.map_err(told)? {
                    return Err(format!("the server does not offer {MECHANISM}"));
                }
                let (scram, first) = match (password(), self.keys.take()) {
                    (Ok(password), _) => {
                        let binding = ChannelBinding::unsupported();
                        let scram = ScramSha256::new(password.as_bytes(), binding);
                        let first = scram.message().to_vec();
                        (Scram::ByPassword(scram), first)
                    }
                    (Err(_), Some(keys)) => {
                        let (scram, first) = ByKeys::begin(keys, super::nonce());
                        (Scram::ByKeys(scram), first.into_bytes())
                    }
                    (Err(told), None) => return Err(told),
                };
                frontend::sasl_initial_response(MECHANISM, &first, out).map_err(told)?;
                self.scram = Some(Box::new(scram));
                Ok(())
            }
            Message::AuthenticationSaslContinue(body) => {
                let scram = self.scram.as_deref_mut().ok_or("no SCRAM was begun")?;
                match scram {
                    Scram::ByPassword(scram) => {
                        scram.update(body.data()).map_err(told)?;
                        frontend::sasl_response(scram.message(), out).map_err(told)
                    }
                    Scram::ByKeys(scram) => {
                        let first = str::from_utf8(body.data()).ok();
                        let answer = first.and_then(|first| scram.answer(first));
                        let answer = answer.ok_or("the server's SCRAM is not valid")?;
                        frontend::sasl_response(answer.as_bytes(), out).map_err(told)
                    }
                }
            }
            Message::AuthenticationSaslFinal(body) => {
                match *self.scram.take().ok_or("no SCRAM was begun")? {
                    Scram::ByPassword(mut scram) => scram.finish(body.data()).map_err(told),
                    Scram::ByKeys(scram) => {
                        let last = str::from_utf8(body.data()).ok();
                        let is_proved = last.is_some_and(|last| scram.is_proved(last));
                        is_proved
                            .then_some(())
                            .ok_or_else(|| "the server does not know the password".to_owned())
                    }
                }
            }
            Message::ParameterStatus(body) => {
                let (name, value) = (body.name().map_err(told)?, body.value().map_err(told)?);
                self.parameters.set(name, value);
                Ok(())
            }
            Message::BackendKeyData(body) => {
                self.key = (body.process_id(), body.secret_key());
                Ok(())
            }
            _ => Err("the server asks for what the proxy does not know".to_owned()),
        }
    }
}
