//! Where a stream of messages stands: a type of one byte, a length of four with itself, a body.

/// Type and length.
pub(crate) const HEADER: usize = 5;
/// PostgreSQL takes no longer message, bytes.
const LENGTH_MAX: u32 = 0x3fff_ffff;
/// What the type of ReadyForQuery is.
const READY: u8 = b'Z';

/// How far the bytes that were passed on have come within their message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Framing {
    /// Bytes of the message that are still to come, behind its header.
    left: usize,
    kind: u8,
    /// Bytes of a header that were passed on already, by the kernel only: here a header is
    /// awaited whole.
    head: [u8; HEADER],
    have: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Not even a header.
    Short,
    /// The next bytes belong to a message that has begun.
    Within(usize),
    /// A message begins: `size` bytes of it are to come, its body from `body` on.
    Begins { kind: u8, size: usize, body: usize },
    /// A length that no message has.
    Broken,
}

impl Framing {
    /// As the kernel has left a stream.
    pub(crate) fn resumed(left: usize, kind: u8, head: [u8; HEADER], have: usize) -> Self {
        let have = have.min(HEADER - 1);
        Self {
            left,
            kind,
            head,
            have,
        }
    }

    pub(crate) fn next(&self, bytes: &[u8]) -> Next {
        if bytes.is_empty() {
            return Next::Short;
        }
        if self.left > 0 && self.kind == READY {
            return Next::Begins {
                kind: self.kind,
                size: self.left,
                body: 0,
            };
        }
        if self.left > 0 {
            return Next::Within(self.left);
        }
        let body = HEADER - self.have;
        if bytes.len() < body {
            return Next::Short;
        }
        let mut head = self.head;
        head[self.have..].copy_from_slice(&bytes[..body]);
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        if !(4..=LENGTH_MAX).contains(&length) {
            return Next::Broken;
        }
        Next::Begins {
            kind: head[0],
            size: body + length as usize - 4,
            body,
        }
    }

    /// So many bytes of a message that begins were passed on.
    pub(crate) fn begun(&mut self, kind: u8, size: usize, passed: usize) {
        *self = Self {
            left: size - passed,
            kind,
            ..Self::default()
        };
    }

    pub(crate) fn passed(&mut self, bytes: usize) {
        self.left -= bytes;
    }

    /// Does a message begin here?
    pub(crate) fn is_between(&self) -> bool {
        self.left == 0 && self.have == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_awaited_whole_and_a_length_is_looked_at() {
        let framing = Framing::default();
        assert_eq!(framing.next(b"Q\0\0\0"), Next::Short);
        let begins = Next::Begins {
            kind: b'Q',
            size: 8,
            body: 5,
        };
        assert_eq!(framing.next(b"Q\0\0\0\x07abc"), begins);
        assert_eq!(framing.next(b"Q\0\0\0\x03"), Next::Broken);
        assert_eq!(framing.next(b"Q\xff\0\0\x03"), Next::Broken);
    }

    #[test]
    fn a_message_goes_on_where_it_stood() {
        let mut framing = Framing::default();
        framing.begun(b'D', 12, 7);
        assert_eq!(framing.next(b"abcdefgh"), Next::Within(5));
        framing.passed(5);
        assert!(framing.is_between());
    }

    #[test]
    fn the_kernel_may_have_passed_on_a_part_of_a_header() {
        let framing = Framing::resumed(0, 0, *b"Z\0\0\0\0", 4);
        let begins = Next::Begins {
            kind: b'Z',
            size: 2,
            body: 1,
        };
        assert_eq!(framing.next(b"\x05I"), begins);
        let framing = Framing::resumed(1, b'Z', [0; 5], 0);
        let begins = Next::Begins {
            kind: b'Z',
            size: 1,
            body: 0,
        };
        assert_eq!(framing.next(b"T"), begins);
    }
}
