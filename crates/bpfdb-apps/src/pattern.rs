//! Requests of one form, written with little work: a client should cost less than its server.

/// A request in which numbers are still missing.
///
/// Words are separated by blanks. `####` stands for a number with so many digits, the first of
/// them zeros if need be; `@` for a number as it is.
#[derive(Clone, Debug)]
pub struct Pattern(Vec<Part>);

#[derive(Clone, Debug)]
enum Part {
    Bytes(Vec<u8>),
    /// So many digits.
    Digits(usize),
    /// A word with a number somewhere in it: what is before it, and behind.
    Word(Vec<u8>, Vec<u8>),
}

/// Digits of any i64, with a sign.
const NUMBER_MAX: usize = 20;

impl Pattern {
    /// # Panics
    /// A word has two `@`, or `@` and `#`.
    pub fn new(text: &str) -> Self {
        let words: Vec<&str> = text.split(' ').collect();
        let mut pattern = Self(Vec::new());
        pattern.add(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            match word.split_once('@') {
                Some((before, after)) => {
                    assert!(!after.contains('@') && !word.contains('#'), "{word}");
                    pattern.0.push(Part::Word(before.into(), after.into()));
                }
                None => pattern.add_digits(word),
            }
        }
        pattern
    }

    fn add_digits(&mut self, word: &str) {
        self.add(format!("${}\r\n", word.len()).as_bytes());
        let mut rest = word;
        while let Some(start) = rest.find('#') {
            let behind = rest[start..].trim_start_matches('#');
            self.add(&rest.as_bytes()[..start]);
            self.0.push(Part::Digits(rest.len() - start - behind.len()));
            rest = behind;
        }
        self.add(rest.as_bytes());
        self.add(b"\r\n");
    }

    fn add(&mut self, bytes: &[u8]) {
        match self.0.last_mut() {
            Some(Part::Bytes(last)) => last.extend_from_slice(bytes),
            _ => self.0.push(Part::Bytes(bytes.into())),
        }
    }

    /// Adds the request with these numbers.
    ///
    /// # Panics
    /// There are fewer than the pattern has places.
    pub fn write(&self, to: &mut Vec<u8>, numbers: &[i64]) {
        let mut numbers = numbers.iter();
        let mut next = || *numbers.next().expect("a number for each place");
        for part in &self.0 {
            match part {
                Part::Bytes(bytes) => to.extend_from_slice(bytes),
                Part::Digits(count) => digits(to, next().unsigned_abs(), *count),
                Part::Word(before, after) => {
                    let mut text = [0; NUMBER_MAX];
                    let text = number(&mut text, next());
                    let length = before.len() + text.len() + after.len();
                    to.push(b'$');
                    let mut place = [0; NUMBER_MAX];
                    to.extend_from_slice(number(&mut place, length as i64));
                    for bytes in [b"\r\n", &before[..], text, after, b"\r\n"] {
                        to.extend_from_slice(bytes);
                    }
                }
            }
        }
    }
}

/// The last `count` digits.
fn digits(to: &mut Vec<u8>, mut value: u64, count: usize) {
    let start = to.len();
    to.resize(start + count, b'0');
    for place in to[start..].iter_mut().rev() {
        *place = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

fn number(place: &mut [u8; NUMBER_MAX], value: i64) -> &[u8] {
    let mut left = value.unsigned_abs();
    let mut start = NUMBER_MAX;
    loop {
        start -= 1;
        place[start] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    if value < 0 {
        start -= 1;
        place[start] = b'-';
    }
    &place[start..]
}
