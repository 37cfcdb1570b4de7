//! HyperLogLogs, which are strings.

mod pfadd;
mod pfcount;
mod pfmerge;

use bpfdb_values::hyperloglog::Invalid;

use super::Failure;
use super::definition::Command;

pub(super) static COMMANDS: &[&Command] = &[&pfadd::COMMAND, &pfcount::COMMAND, &pfmerge::COMMAND];

impl From<Invalid> for Failure {
    fn from(invalid: Invalid) -> Self {
        match invalid {
            Invalid::NotOne => "WRONGTYPE Key is not a valid HyperLogLog string value.".into(),
            Invalid::Corrupt => "INVALIDOBJ Corrupted HLL object detected".into(),
        }
    }
}
