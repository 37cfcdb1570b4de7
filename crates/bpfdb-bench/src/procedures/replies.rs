//! Replies of Redis's protocol, of which some are a line and others a text or nil.

use anyhow::{Result, ensure};

use crate::tcp::Replies;

/// Counts replies. None of them is a list, and no text has several lines.
#[derive(Default)]
pub(super) struct Values {
    /// How the line begins that has not ended yet.
    head: [u8; 2],
    length: usize,
    /// The line is a text, whose length came before.
    is_text: bool,
}

impl Values {
    /// Whether a reply ends with the line.
    fn end(&mut self) -> Result<bool> {
        let head = std::mem::take(&mut self.head);
        self.length = 0;
        if std::mem::take(&mut self.is_text) {
            return Ok(true);
        }
        ensure!(head[0] != b'-', "an error");
        self.is_text = head[0] == b'$' && head[1] != b'-';
        Ok(!self.is_text)
    }
}

impl Replies for Values {
    fn count(&mut self, bytes: &[u8]) -> Result<usize> {
        let mut replies = 0;
        for &byte in bytes {
            if byte == b'\n' {
                let ends = self.end();
                let ends = ends.map_err(|error| {
                    error.context(format!("a reply: {}", String::from_utf8_lossy(bytes)))
                })?;
                replies += usize::from(ends);
            } else if self.length < self.head.len() {
                self.head[self.length] = byte;
                self.length += 1;
            }
        }
        Ok(replies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_of_each_kind_are_counted_however_they_come() {
        let replies = b":1\r\n$-1\r\n+OK\r\n$3\r\n-ab\r\n:-5\r\n$0\r\n\r\n";
        for size in 1..=replies.len() {
            let mut values = Values::default();
            let pieces = replies.chunks(size).map(|piece| values.count(piece));
            assert_eq!(
                pieces.map(|count| count.expect("no error")).sum::<usize>(),
                6
            );
        }
    }

    #[test]
    fn an_error_is_told() {
        let error = Values::default().count(b":1\r\n-ERR oops\r\n");
        let error = format!("{:#}", error.expect_err("an error"));
        assert!(error.contains("ERR oops"), "{error}");
    }
}
