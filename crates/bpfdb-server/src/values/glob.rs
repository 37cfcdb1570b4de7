//! Patterns as Redis matches them: `*`, `?`, `[a-c]`, `[^a]`, and `\` before a
//! character that stands for itself.

/// Does all of `text` match the pattern?
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    Matcher { fold: false }.matches(pattern, text)
}

/// The same for letters of any size.
pub(crate) fn matches_any_case(pattern: &[u8], text: &[u8]) -> bool {
    Matcher { fold: true }.matches(pattern, text)
}

#[derive(Clone, Copy)]
struct Matcher {
    fold: bool,
}

impl Matcher {
    fn same(self, byte: u8) -> u8 {
        if self.fold {
            byte.to_ascii_lowercase()
        } else {
            byte
        }
    }

    /// Goes over the text once. At a mismatch the last `*` takes one byte more;
    /// an earlier one need not: what it left has matched as early as possible.
    /// So the time is bounded by the product of the lengths.
    fn matches(self, pattern: &[u8], text: &[u8]) -> bool {
        let (mut p, mut t) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        while t < text.len() {
            if pattern.get(p) == Some(&b'*') {
                p += 1;
                star = Some((p, t));
            } else if let Some(len) = self.one(&pattern[p..], text[t]) {
                p += len;
                t += 1;
            } else if let Some((behind, at)) = star {
                (p, t) = (behind, at + 1);
                star = Some((p, t));
            } else {
                return false;
            }
        }
        pattern[p..].iter().all(|&byte| byte == b'*')
    }

    /// Length of the pattern's first element, if it matches the byte.
    fn one(self, pattern: &[u8], byte: u8) -> Option<usize> {
        match *pattern.first()? {
            b'?' => Some(1),
            b'[' => self.class(pattern, byte),
            b'\\' if pattern.len() > 1 => (self.same(pattern[1]) == self.same(byte)).then_some(2),
            literal => (self.same(literal) == self.same(byte)).then_some(1),
        }
    }

    /// The same for `[...]`, which may lack its end.
    fn class(self, pattern: &[u8], byte: u8) -> Option<usize> {
        let byte = self.same(byte);
        let negated = pattern.get(1) == Some(&b'^');
        let mut at = 1 + usize::from(negated);
        let mut found = false;
        loop {
            match pattern[at..] {
                [] => break,
                [b']', ..] => {
                    at += 1;
                    break;
                }
                [b'\\', literal, ..] => {
                    found |= self.same(literal) == byte;
                    at += 2;
                }
                [first, b'-', last, ..] => {
                    let (low, high) = (first.min(last), first.max(last));
                    found |= (self.same(low)..=self.same(high)).contains(&byte);
                    at += 3;
                }
                [literal, ..] => {
                    found |= self.same(literal) == byte;
                    at += 1;
                }
            }
        }
        (found != negated).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, yes: &[&str], no: &[&str]) {
        for text in yes {
            assert!(
                matches(pattern.as_bytes(), text.as_bytes()),
                "{pattern} {text}"
            );
        }
        for text in no {
            assert!(
                !matches(pattern.as_bytes(), text.as_bytes()),
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn what_redis_matches() {
        check("", &[""], &["a"]);
        check("*", &["", "a", "abc"], &[]);
        check("a*", &["a", "abc"], &["", "ba"]);
        check("*a*b*", &["ab", "xaxbx", "aabb"], &["ba", "b"]);
        check("h?llo", &["hello", "hallo"], &["hllo", "heello"]);
        check("h[ae]llo", &["hello", "hallo"], &["hillo"]);
        check("h[^e]llo", &["hallo"], &["hello"]);
        check("h[a-c]llo", &["hbllo"], &["hdllo"]);
        check("h[c-a]llo", &["hbllo"], &["hdllo"]);
        check("h\\*llo", &["h*llo"], &["hello"]);
        check("[\\]]", &["]"], &["\\"]);
        check("[ab", &["a", "b"], &["c", "ab"]);
        check("a\\", &["a\\"], &["a"]);
        check("a", &["a"], &["A", "ab", ""]);
    }

    #[test]
    fn letters_of_any_size() {
        assert!(matches_any_case(b"A[B-C]*", b"abX"));
        assert!(!matches_any_case(b"a", b"b"));
    }

    #[test]
    fn many_stars_end_soon() {
        let pattern = b"*a".repeat(60);
        let text = [b"a".repeat(59), b"b".repeat(5000)].concat();
        assert!(!matches(&pattern, &text));
    }
}
