//! Code that the writers of all forms share.

use crate::error::Result;
use crate::sink::Sink;

/// Takes keys and values, and writes a copy of them.
pub trait Writer: Sink {
    /// Writes the end, without which the copy counts as cut, and hands all of it on.
    fn finish(self: Box<Self>) -> Result<()>;
}
