//! Patterns as Redis matches them: `*`, `?`, `[a-c]`, `[^a]`, and `\` before a
//! character that stands for itself.
//!
//! A match takes a bounded number of steps.

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
    /// So the steps are bounded by the product of the lengths, and by [`steps`].
    fn matches(self, pattern: &[u8], text: &[u8]) -> bool {
        let mut left = steps(pattern, text);
        let (mut p, mut t) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        while t < text.len() {
            if pattern.get(p) == Some(&b'*') {
                p += 1;
                star = Some((p, t));
                continue;
            }
            let first = self.first(&pattern[p..], text[t]);
            let Some(rest) = left.checked_sub(1 + first.len / CLASS) else {
                return false;
            };
            left = rest;
            if first.matches {
                p += first.len;
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

    /// The first element of a pattern, and whether it matches the byte.
    fn first(self, pattern: &[u8], byte: u8) -> Element {
        let is = |literal: u8| self.same(literal) == self.same(byte);
        let (len, matches) = match *pattern {
            [] => (0, false),
            [b'?', ..] => (1, true),
            [b'[', ..] => return self.class(pattern, byte),
            [b'\\', literal, ..] => (2, is(literal)),
            [literal, ..] => (1, is(literal)),
        };
        Element { len, matches }
    }

    /// The same for `[...]`, which may lack its end.
    fn class(self, pattern: &[u8], byte: u8) -> Element {
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
        Element {
            len: at,
            matches: found != negated,
        }
    }
}

/// An element of a pattern: a byte, `?`, or a class.
struct Element {
    /// Bytes of the pattern.
    len: usize,
    matches: bool,
}

/// Bytes of a class that take as long as another element of a pattern, about.
const CLASS: usize = 16;

/// Elements of the pattern that are compared with bytes of one text: a few milliseconds. Clients choose both, and
/// a server that matches does nothing else meanwhile.
const STEPS: usize = 1 << 20;
/// And so many more for each byte, as long as there are not many: a text of 100,000 bytes is gone through for
/// a pattern of any usual length. The longest takes some hundredths of a second more.
const STEPS_OF_BYTE: usize = 64;
const BYTES: usize = 1 << 18;
/// For each of the others: they are gone through some times.
const STEPS_OF_OTHERS: usize = 8;

/// A pattern that takes more does not match: both are long then.
fn steps(pattern: &[u8], text: &[u8]) -> usize {
    let all = pattern.len() + text.len();
    let first = all.min(BYTES);
    STEPS + STEPS_OF_BYTE * first + STEPS_OF_OTHERS * (all - first)
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
    fn long_names_match_and_long_work_ends() {
        let long = b"a".repeat(10 << 20);
        for pattern in [&b"*"[..], b"a*", b"*a", b"*a*a*a", b"a*[b-z]*"] {
            assert_eq!(matches(pattern, &long), !pattern.contains(&b'b'));
        }
        assert!(matches(&long, &long));
        let begun = std::time::Instant::now();
        let class = [b"*[".to_vec(), b"x".repeat(10 << 20)].concat();
        for pattern in [
            [b"*".to_vec(), long[1..].to_vec(), b"b".to_vec()].concat(),
            class,
        ] {
            assert!(!matches(&pattern, &long));
        }
        assert!(
            begun.elapsed().as_secs() < 600,
            "without a bound it takes days"
        );
    }

    #[test]
    fn usual_patterns_match_long_texts() {
        let text = [b"a".repeat(100_000), b"b".to_vec()].concat();
        let long = [b"*".to_vec(), b"a".repeat(60), b"b".to_vec()].concat();
        let class = format!("*[{}]b", "a-z0-9".repeat(40)).into_bytes();
        let classes = format!("*{}b", "[abcdefgh]".repeat(50)).into_bytes();
        for pattern in [long, class, classes] {
            assert!(matches(&pattern, &text), "{}", pattern.escape_ascii());
        }
    }

    #[test]
    fn many_stars_end_soon() {
        let pattern = b"*a".repeat(60);
        let text = [b"a".repeat(59), b"b".repeat(5000)].concat();
        assert!(!matches(&pattern, &text));
    }
}
