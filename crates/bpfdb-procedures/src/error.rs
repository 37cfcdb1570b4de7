//! Why a procedure has no program.

use std::io;

/// What can go wrong between a function that was read and its program in the kernel.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A jump of the generated code leads too far.
    #[error("the function is too long for the kernel")]
    TooLong,
    /// The verifier follows so many jumps and instructions.
    #[error("the function has too many ways through it for the kernel's verifier")]
    TooMuch,
    /// More literals than a call has room for.
    #[error("the texts of the function have more than {0} bytes together")]
    Literals(usize),
    /// Operations want more places than a call has.
    #[error("the function has too many values")]
    Values,
    /// The embedded template is not what this crate expects.
    #[error("the template of procedures is damaged: {0}")]
    Template(String),
    /// A program that may sleep cannot call procedures, nor operators.
    #[error("a program that may sleep cannot call procedures")]
    Sleeps,
    /// A program that is for one function of the kernel: there are no procedures of its type.
    #[error("programs for one function of the kernel, as fentry and LSM, cannot call procedures")]
    Caller,
    /// The object has no such program or map.
    #[error("the object has no {kind} {name:?}")]
    Missing { kind: &'static str, name: String },
    /// The kernel's verifier refused the program: the end of its log.
    #[error("the kernel refused the program ({error}): {log}")]
    Refused { error: io::Error, log: String },
    #[error("{what}: {error}")]
    System {
        what: &'static str,
        error: io::Error,
    },
    #[error(transparent)]
    Engine(#[from] bpfdb::Error),
    #[error("{what}: {error}")]
    Bpf {
        what: &'static str,
        error: libbpf_rs::Error,
    },
}

/// What the verifier says of a program that has too many ways through, or is too long: "The sequence
/// of 8193 jumps is too complex", "BPF program is too large".
const TOO_MUCH: [&str; 2] = ["is too complex", "is too large"];

impl Error {
    /// Of a program that the verifier did not take: the end of what it said.
    pub(crate) fn refused(error: io::Error, log: &str) -> Self {
        let is_told = TOO_MUCH.iter().any(|what| log.contains(what));
        match is_told || error.raw_os_error() == Some(libc::E2BIG) {
            true => Self::TooMuch,
            false => Self::Refused {
                error,
                log: log.to_owned(),
            },
        }
    }

    /// May it be otherwise for other functions?
    pub(crate) fn is_of_functions(&self) -> bool {
        match self {
            Self::TooLong | Self::TooMuch | Self::Literals(_) | Self::Values => true,
            // Other errors are the kernel's, and pass: that there is no memory, say.
            Self::Refused { error, .. } => matches!(
                error.raw_os_error(),
                Some(libc::EINVAL | libc::EACCES | libc::EPERM)
            ),
            _ => false,
        }
    }
}

pub type Result<T, E = Error> = std::result::Result<T, E>;
