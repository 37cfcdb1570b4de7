//! Replies of Redis's protocol of any form: lines, texts, and lists of those.

use anyhow::{Context, Result, ensure};

use super::block::Replies;

/// Bytes of a line that are kept: enough for each number.
const HEAD: usize = 24;

/// Counts replies. An error is an error in a list as well.
#[derive(Default)]
pub(crate) struct Values {
    /// How the line begins that has not ended yet.
    head: [u8; HEAD],
    length: usize,
    /// Bytes of a text that have not come yet, with its end of line.
    text: usize,
    /// Values that a reply which has begun still lacks.
    missing: usize,
}

impl Values {
    /// A line has ended.
    fn end(&mut self) -> Result<usize> {
        let length = std::mem::take(&mut self.length).min(HEAD);
        let line = std::str::from_utf8(&self.head[..length])?.trim_end();
        let (kind, rest) = line.split_at_checked(1).context("an empty line")?;
        ensure!(kind != "-", "an error");
        if !["$", "*"].contains(&kind) || rest == "-1" {
            return Ok(self.value());
        }
        let number: usize = rest.parse().context("a length")?;
        if kind == "$" {
            self.text = number + 2;
            return Ok(0);
        }
        // The list stands in the place of one value.
        self.missing = self.missing.max(1) + number;
        Ok(self.value())
    }

    /// A value is there: 1 if a reply ends with it.
    fn value(&mut self) -> usize {
        self.missing = self.missing.max(1) - 1;
        usize::from(self.missing == 0)
    }

    /// Takes in what comes next of `bytes`: what is left of them, and the replies that have ended.
    fn part<'a>(&mut self, bytes: &'a [u8]) -> Result<(&'a [u8], usize)> {
        if self.text > 0 {
            let (now, rest) = bytes.split_at(self.text.min(bytes.len()));
            self.text -= now.len();
            let ended = if self.text == 0 { self.value() } else { 0 };
            return Ok((rest, ended));
        }
        let end = bytes.iter().position(|&byte| byte == b'\n');
        let (line, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
        for &byte in line {
            if let Some(place) = self.head.get_mut(self.length) {
                *place = byte;
                self.length += 1;
            }
        }
        match rest.split_first() {
            Some((_, rest)) => Ok((rest, self.end()?)),
            None => Ok((rest, 0)),
        }
    }
}

impl Replies for Values {
    fn count(&mut self, bytes: &[u8]) -> Result<usize> {
        let (mut left, mut replies) = (bytes, 0);
        while !left.is_empty() {
            let part = self.part(left);
            let context = || format!("a reply: {}", String::from_utf8_lossy(bytes));
            let (rest, ended) = part.with_context(context)?;
            (left, replies) = (rest, replies + ended);
        }
        Ok(replies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The replies in these bytes, in whatever pieces they come.
    fn counted(bytes: &[u8]) -> Vec<usize> {
        let count = |size| {
            let mut values = Values::default();
            let pieces = bytes.chunks(size).map(|piece| values.count(piece));
            pieces.map(|count| count.expect("no error")).sum()
        };
        (1..=bytes.len()).map(count).collect()
    }

    #[test]
    fn replies_of_each_kind_are_counted_however_they_come() {
        let replies = b":1\r\n$-1\r\n+OK\r\n$5\r\n-a\r\nb\r\n:-5\r\n$0\r\n\r\n";
        assert!(counted(replies).iter().all(|&count| count == 6));
    }

    #[test]
    fn a_list_is_one_reply() {
        let replies = b"*0\r\n*3\r\n$1\r\na\r\n*2\r\n:1\r\n$-1\r\n*0\r\n*-1\r\n:7\r\n";
        assert!(counted(replies).iter().all(|&count| count == 4));
    }

    #[test]
    fn an_error_is_told() {
        for bytes in [&b":1\r\n-ERR oops\r\n"[..], b"*2\r\n:1\r\n-ERR oops\r\n"] {
            let error = Values::default().count(bytes);
            let error = format!("{:#}", error.expect_err("an error"));
            assert!(error.contains("ERR oops"), "{error}");
        }
    }
}
