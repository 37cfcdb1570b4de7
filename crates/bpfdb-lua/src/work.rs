//! For functions of ours that may take long: they are left when the time slice is over, as
//! instructions of Lua are, and make no more than fits into memory.

use std::rc::Rc;

use crate::call::Link;

/// Pieces of work between two looks at the clock.
const BETWEEN_LOOKS: usize = 1000;

#[derive(Debug)]
pub(crate) struct Work {
    link: Rc<Link>,
    done: usize,
    /// Bytes of the longest result.
    most: usize,
}

impl Work {
    pub(crate) fn new(link: &Rc<Link>, most: usize) -> Self {
        Self {
            link: Rc::clone(link),
            done: 0,
            most,
        }
    }

    /// One more piece, with a result of so many bytes by now.
    pub(crate) fn piece(&mut self, bytes: usize) -> mlua::Result<()> {
        self.done += 1;
        if bytes > self.most {
            return Err(mlua::Error::runtime("not enough memory"));
        }
        if self.done.is_multiple_of(BETWEEN_LOOKS) && self.link.look() {
            return Err(mlua::Error::runtime("the script was stopped"));
        }
        Ok(())
    }
}
