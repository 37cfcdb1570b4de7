//! Why the proxy cannot run.

use std::io;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {action}: {source}")]
    Bpf {
        action: String,
        source: libbpf_rs::Error,
    },
    #[error("cannot {action}: {source}")]
    System { action: String, source: io::Error },
    #[error(transparent)]
    Object(#[from] bpfdb::Error),
    #[error("{0}")]
    Settings(String),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

pub(crate) fn bpf(action: impl Into<String>) -> impl FnOnce(libbpf_rs::Error) -> Error {
    let action = action.into();
    move |source| Error::Bpf { action, source }
}

pub(crate) fn system<E: Into<io::Error>>(action: impl Into<String>) -> impl FnOnce(E) -> Error {
    let action = action.into();
    move |source| Error::System {
        action,
        source: source.into(),
    }
}
