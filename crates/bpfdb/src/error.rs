//! Errors around the engine. The outcome of an operator is a [`Status`].

use std::io;
use std::path::PathBuf;

use crate::Status;

/// Failure to create, open or drive an engine.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {action}: {source}")]
    Bpf {
        action: String,
        source: libbpf_rs::Error,
    },
    #[error("cannot {action}: {source}")]
    System { action: String, source: io::Error },
    #[error("the BPF object has no {kind} {name:?}")]
    Missing { kind: &'static str, name: String },
    #[error("{0}")]
    Invalid(String),
    /// The engine was shown to be right on x86-64 only: [`crate::architecture`].
    #[error(
        "bpfdb runs on x86-64 only, this is {architecture}: that its programs are right under another memory order was never shown"
    )]
    Architecture { architecture: String },
    #[error("{path}: no engine is pinned here")]
    NotPinned { path: PathBuf },
    /// The engine of this folder has a living owner.
    #[error(
        "{path}: another process owns this engine; attach to it (Engine::attach), or end that process"
    )]
    Owned { path: PathBuf },
    /// The engine is merely attached; `action` is its owner's.
    #[error("cannot {action}: only the process that owns the engine can")]
    Attached { action: &'static str },
    #[error("engine: {0}")]
    Engine(#[from] Status),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

pub(crate) fn bpf(action: impl Into<String>) -> impl FnOnce(libbpf_rs::Error) -> Error {
    let action = action.into();
    move |source| Error::Bpf { action, source }
}

pub(crate) fn system(action: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let action = action.into();
    move |source| Error::System { action, source }
}
