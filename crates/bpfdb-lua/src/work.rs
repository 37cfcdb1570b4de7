//! For functions of ours that may take long: they are left when the time slice is over, as
//! instructions of Lua are, and make no more than fits into memory.

use std::ffi::CStr;
use std::rc::Rc;

use crate::call::Link;

/// Pieces of work between two looks at the clock.
const BETWEEN_LOOKS: usize = 1000;
/// Bytes of a string that are a piece of work: these are copied in a few nanoseconds.
pub(crate) const PIECE_BYTES: usize = 64;

#[derive(Debug)]
pub(crate) struct Work {
    link: Rc<Link>,
    /// Pieces up to the next look.
    left: usize,
    /// Bytes of the longest result.
    most: usize,
}

/// Why work ends before it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    Memory,
    Stopped,
}

impl Cut {
    /// As a script reads it.
    pub(crate) fn text(self) -> &'static CStr {
        match self {
            Self::Memory => c"not enough memory",
            Self::Stopped => c"the script was stopped",
        }
    }
}

impl From<Cut> for mlua::Error {
    fn from(cut: Cut) -> Self {
        Self::runtime(cut.text().to_string_lossy())
    }
}

impl Work {
    pub(crate) fn new(link: &Rc<Link>, most: usize) -> Self {
        Self {
            link: Rc::clone(link),
            left: BETWEEN_LOOKS,
            most,
        }
    }

    /// Bytes of the longest result.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// One more piece, with a result of so many bytes by now.
    #[inline]
    pub(crate) fn piece(&mut self, bytes: usize) -> Result<(), Cut> {
        self.pieces(1, bytes)
    }

    /// That many more pieces, with a result of so many bytes by now.
    #[inline]
    pub(crate) fn pieces(&mut self, count: usize, bytes: usize) -> Result<(), Cut> {
        if bytes > self.most {
            return Err(Cut::Memory);
        }
        if count >= self.left {
            return self.look();
        }
        self.left -= count;
        Ok(())
    }

    /// One more piece, which is the copy of a string of so many bytes.
    #[inline]
    pub(crate) fn bytes(&mut self, len: usize) -> Result<(), Cut> {
        self.pieces(1 + len / PIECE_BYTES, 0)
    }

    #[cold]
    fn look(&mut self) -> Result<(), Cut> {
        if self.link.look() {
            // A script may have caught it: so each piece that follows looks, too.
            self.left = 0;
            return Err(Cut::Stopped);
        }
        self.left = BETWEEN_LOOKS;
        Ok(())
    }
}
