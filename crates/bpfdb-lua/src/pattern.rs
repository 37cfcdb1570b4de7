//! Patterns of Lua 5.1: what matches them, and which errors they are, as its own functions have it.
//! Those call themselves for parts of a pattern and look at no clock; these keep on a stack of
//! their own where another try is left, and are left themselves when the time slice is over.
//!
//! ```text
//!   pattern   a*%d-(b)         each part takes what it can, and notes what else it could do
//!   subject   aaa7b
//!                │
//!                ▼ fails      takes the last note back, and goes on from there
//!   choices   [Fewer 0..=3] [More from 3] [Opened]
//! ```
//!
//! A place in a pattern is noted once at most on the way through it, so there are never more
//! choices than the pattern has bytes.

use std::ffi::CStr;

use crate::reply::until_zero;
use crate::work::{Cut, Work};

/// Captures of a pattern, as Lua has them.
const CAPTURES_MAX: usize = 32;
/// Bytes that are compared at a time.
const BLOCK: usize = 1024;
/// Bytes of a pattern that are read as a piece of work.
const PATTERN_BLOCK: usize = 64;

/// What is wrong, as Lua words it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Problem(pub(crate) &'static CStr);

impl From<Cut> for Problem {
    fn from(cut: Cut) -> Self {
        Self(cut.text())
    }
}

/// What all matches use, one after the other.
#[derive(Debug)]
pub(crate) struct Scratch {
    pub(crate) work: Work,
    choices: Vec<Choice>,
}

impl Scratch {
    pub(crate) fn new(work: Work) -> Self {
        Self {
            work,
            choices: Vec::new(),
        }
    }
}

/// What a match could have done instead, and what is undone with it.
#[derive(Clone, Copy, Debug)]
enum Choice {
    /// `?`, `*` or `+` ended at `at`, and may end earlier: at `least`, and before `next`.
    Fewer {
        least: usize,
        at: usize,
        next: usize,
    },
    /// `-` ended at `at`, and may take one more.
    More { at: usize, item: Item },
    /// A capture was begun.
    Opened,
    /// This capture was ended.
    Closed { capture: usize, start: usize },
}

/// One character of a pattern, or a class, or a set.
#[derive(Clone, Copy, Debug)]
struct Item {
    start: usize,
    end: usize,
}

#[derive(Clone, Copy, Debug)]
enum Capture {
    /// Its end has not come yet.
    Open(usize),
    Position(usize),
    Text(Span),
}

/// Bytes of a subject.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Span {
    /// Where to look for the next match: after an empty one a byte later.
    pub(crate) fn after(self) -> usize {
        self.end + usize::from(self.start == self.end)
    }
}

/// What a capture has caught.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Caught<'a> {
    Text(&'a [u8]),
    /// The number of a byte, from 1 on.
    Position(usize),
}

/// Where a match stands: before a byte of the subject, and before one of the pattern.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: usize,
    next: usize,
}

enum Step {
    On(Place),
    Failed,
    Matched { end: usize },
}

/// Looks for a pattern in a subject.
#[derive(Debug)]
pub(crate) struct Matcher<'a> {
    subject: &'a [u8],
    /// Up to its first zero: it ends there for Lua 5.1.
    pattern: &'a [u8],
    /// It began with `^`.
    pub(crate) is_anchored: bool,
    count: usize,
    captures: [Capture; CAPTURES_MAX],
}

impl<'a> Matcher<'a> {
    pub(crate) fn new(subject: &'a [u8], pattern: &'a [u8]) -> Self {
        match pattern {
            [b'^', pattern @ ..] => Self::of(subject, pattern, true),
            _ => Self::of(subject, pattern, false),
        }
    }

    /// Where `^` is a character as others are.
    pub(crate) fn without_anchor(subject: &'a [u8], pattern: &'a [u8]) -> Self {
        Self::of(subject, pattern, false)
    }

    fn of(subject: &'a [u8], pattern: &'a [u8], is_anchored: bool) -> Self {
        Self {
            subject,
            pattern: until_zero(pattern),
            is_anchored,
            count: 0,
            captures: [Capture::Open(0); CAPTURES_MAX],
        }
    }

    /// The first match that begins at `from` or later.
    pub(crate) fn find(
        &mut self,
        scratch: &mut Scratch,
        from: usize,
    ) -> Result<Option<Span>, Problem> {
        scratch.work.pieces(self.pattern.len() / PATTERN_BLOCK, 0)?;
        let last = if self.is_anchored {
            from
        } else {
            self.subject.len()
        };
        for start in from..=last {
            if let Some(end) = self.end_of(scratch, start)? {
                return Ok(Some(Span { start, end }));
            }
        }
        Ok(None)
    }

    /// Captures of the last match.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// What a capture of the last match has, from 0 on. The first one is all of the match if there
    /// are none.
    pub(crate) fn caught(&self, index: usize, whole: Span) -> Result<Caught<'a>, Problem> {
        let capture = match self.captures[..self.count].get(index) {
            Some(&capture) => capture,
            None if index == 0 => Capture::Text(whole),
            None => return Err(Problem(c"invalid capture index")),
        };
        match capture {
            Capture::Open(_) => Err(Problem(c"unfinished capture")),
            Capture::Position(start) => Ok(Caught::Position(start + 1)),
            Capture::Text(span) => Ok(Caught::Text(self.text(span))),
        }
    }

    pub(crate) fn text(&self, span: Span) -> &'a [u8] {
        &self.subject[span.start..span.end]
    }

    /// Where a match that begins there ends.
    fn end_of(&mut self, scratch: &mut Scratch, start: usize) -> Result<Option<usize>, Problem> {
        self.count = 0;
        scratch.choices.clear();
        let mut place = Place { at: start, next: 0 };
        loop {
            scratch.work.piece(0)?;
            place = match self.step(scratch, place)? {
                Step::On(place) => place,
                Step::Matched { end } => return Ok(Some(end)),
                Step::Failed => match self.back(scratch)? {
                    Some(place) => place,
                    None => return Ok(None),
                },
            };
        }
    }

    /// Matches the next part of the pattern.
    #[inline]
    fn step(&mut self, scratch: &mut Scratch, place: Place) -> Result<Step, Problem> {
        let Place { at, next } = place;
        let rest = &self.pattern[next..];
        match rest {
            [] => Ok(Step::Matched { end: at }),
            [b'(', ..] => self.open(scratch, place),
            [b')', ..] => self.close(scratch, place),
            [b'$'] if at == self.subject.len() => Ok(Step::Matched { end: at }),
            [b'$'] => Ok(Step::Failed),
            [b'%', b'b', ..] => self.balanced(scratch, place),
            [b'%', b'f', ..] => self.frontier(scratch, place),
            [b'%', digit @ b'0'..=b'9', ..] => self.again(scratch, place, *digit),
            _ => self.item(scratch, place),
        }
    }

    /// The last choice that is left, taken.
    fn back(&mut self, scratch: &mut Scratch) -> Result<Option<Place>, Problem> {
        while let Some(choice) = scratch.choices.pop() {
            match choice {
                Choice::Opened => self.count -= 1,
                Choice::Closed { capture, start } => {
                    self.captures[capture] = Capture::Open(start);
                }
                Choice::Fewer { least, at, next } => {
                    let at = at - 1;
                    if at > least {
                        scratch.choices.push(Choice::Fewer { least, at, next });
                    }
                    return Ok(Some(Place { at, next }));
                }
                Choice::More { at, item } => {
                    scratch.work.pieces(weight(item), 0)?;
                    if self.fits(item, at) {
                        let at = at + 1;
                        scratch.choices.push(Choice::More { at, item });
                        let next = item.end + 1;
                        return Ok(Some(Place { at, next }));
                    }
                }
            }
        }
        Ok(None)
    }

    // ---- Parts of a pattern -------------------------------------------------------

    /// An item, as often as what follows it says.
    #[inline]
    fn item(&mut self, scratch: &mut Scratch, place: Place) -> Result<Step, Problem> {
        let Place { at, next: start } = place;
        let end = self.end_of_item(start)?;
        let item = Item { start, end };
        scratch.work.pieces(weight(item) - 1, 0)?;
        let next = end + 1;
        let (least, most) = match self.pattern.get(end) {
            Some(b'*') => (0, usize::MAX),
            Some(b'+') => (1, usize::MAX),
            Some(b'?') => (0, 1),
            Some(b'-') => {
                scratch.choices.push(Choice::More { at, item });
                return Ok(Step::On(Place { at, next }));
            }
            _ if self.fits(item, at) => {
                let at = at + 1;
                return Ok(Step::On(Place { at, next: end }));
            }
            _ => return Ok(Step::Failed),
        };
        let count = self.run(scratch, item, at, most)?;
        if count < least {
            return Ok(Step::Failed);
        }
        let (least, at) = (at + least, at + count);
        if at > least {
            scratch.choices.push(Choice::Fewer { least, at, next });
        }
        Ok(Step::On(Place { at, next }))
    }

    /// `(` or `()`.
    fn open(&mut self, scratch: &mut Scratch, place: Place) -> Result<Step, Problem> {
        let Place { at: start, next } = place;
        if self.count == CAPTURES_MAX {
            return Err(Problem(c"too many captures"));
        }
        let is_position = self.pattern.get(next + 1) == Some(&b')');
        self.captures[self.count] = if is_position {
            Capture::Position(start)
        } else {
            Capture::Open(start)
        };
        self.count += 1;
        scratch.choices.push(Choice::Opened);
        Ok(Step::On(Place {
            at: start,
            next: next + if is_position { 2 } else { 1 },
        }))
    }

    /// `)`: the capture that was begun last ends.
    fn close(&mut self, scratch: &mut Scratch, place: Place) -> Result<Step, Problem> {
        let Place { at: end, next } = place;
        let all = self.captures[..self.count].iter().enumerate().rev();
        let mut open = all.filter_map(|(index, capture)| match *capture {
            Capture::Open(start) => Some((index, start)),
            _ => None,
        });
        let Some((capture, start)) = open.next() else {
            return Err(Problem(c"invalid pattern capture"));
        };
        self.captures[capture] = Capture::Text(Span { start, end });
        scratch.choices.push(Choice::Closed { capture, start });
        Ok(Step::On(Place {
            at: end,
            next: next + 1,
        }))
    }

    /// `%bxy`: from `x` up to the `y` that belongs to it.
    fn balanced(&self, scratch: &mut Scratch, place: Place) -> Result<Step, Problem> {
        let Place { at, next } = place;
        let Some(&[open, close]) = self.pattern.get(next + 2..next + 4) else {
            return Err(Problem(c"unbalanced pattern"));
        };
        let [first, rest @ ..] = &self.subject[at..] else {
            return Ok(Step::Failed);
        };
        if *first != open {
            return Ok(Step::Failed);
        }
        let mut depth = 1usize;
        for (index, &byte) in rest.iter().enumerate() {
            scratch.work.piece(0)?;
            if byte == close {
                depth -= 1;
            } else if byte == open {
                depth += 1;
            }
            if depth == 0 {
                return Ok(Step::On(Place {
                    at: at + 1 + index + 1,
                    next: next + 4,
                }));
            }
        }
        Ok(Step::Failed)
    }

    /// `%f[…]`: between a byte that is not in the set and one that is. There are zeros around the
    /// subject.
    fn frontier(&self, scratch: &mut Scratch, place: Place) -> Result<Step, Problem> {
        let Place { at, next } = place;
        let start = next + 2;
        if self.pattern.get(start) != Some(&b'[') {
            return Err(Problem(c"missing '[' after '%f' in pattern"));
        }
        let end = self.end_of_item(start)?;
        scratch.work.pieces(weight(Item { start, end }), 0)?;
        let set = &self.pattern[start + 1..end - 1];
        let before = at.checked_sub(1).map_or(0, |before| self.subject[before]);
        let after = self.subject.get(at).copied().unwrap_or(0);
        if set_has(set, before) || !set_has(set, after) {
            return Ok(Step::Failed);
        }
        Ok(Step::On(Place { at, next: end }))
    }

    /// `%1`: what that capture has, once more.
    fn again(&self, scratch: &mut Scratch, place: Place, digit: u8) -> Result<Step, Problem> {
        let Place { at, next } = place;
        let index = usize::from(digit).checked_sub(usize::from(b'1'));
        let capture = index.and_then(|index| self.captures[..self.count].get(index));
        let Span { start, end } = match capture {
            Some(&Capture::Text(span)) => span,
            Some(Capture::Position(_)) => return Ok(Step::Failed),
            Some(Capture::Open(_)) | None => return Err(Problem(c"invalid capture index")),
        };
        let caught = &self.subject[start..end];
        if !starts_with(&mut scratch.work, &self.subject[at..], caught)? {
            return Ok(Step::Failed);
        }
        Ok(Step::On(Place {
            at: at + caught.len(),
            next: next + 2,
        }))
    }

    /// How many bytes from there on are what the item says, of so many.
    #[inline]
    fn run(
        &self,
        scratch: &mut Scratch,
        item: Item,
        at: usize,
        most: usize,
    ) -> Result<usize, Problem> {
        if self.pattern[item.start] == b'.' {
            return Ok(most.min(self.subject.len() - at));
        }
        let mut count = 0;
        while count < most && self.fits(item, at + count) {
            scratch.work.pieces(weight(item), 0)?;
            count += 1;
        }
        Ok(count)
    }

    // ---- Items --------------------------------------------------------------------

    /// Where the item that begins there ends.
    #[inline]
    fn end_of_item(&self, start: usize) -> Result<usize, Problem> {
        match &self.pattern[start..] {
            [b'%'] => Err(Problem(c"malformed pattern (ends with '%')")),
            [b'%', _, ..] => Ok(start + 2),
            [b'[', set @ ..] => match len_of_set(set) {
                Some(len) => Ok(start + 1 + len),
                None => Err(Problem(c"malformed pattern (missing ']')")),
            },
            _ => Ok(start + 1),
        }
    }

    /// Is that byte of the subject what the item says?
    #[inline]
    fn fits(&self, item: Item, at: usize) -> bool {
        let Some(&byte) = self.subject.get(at) else {
            return false;
        };
        match &self.pattern[item.start..item.end] {
            [b'.'] => true,
            [b'%', class] => class_has(*class, byte),
            [b'[', set @ .., _] => set_has(set, byte),
            [one] => *one == byte,
            _ => false,
        }
    }
}

/// Pieces of work that a look at the item takes.
#[inline]
fn weight(item: Item) -> usize {
    1 + (item.end - item.start) / PATTERN_BLOCK
}

/// Bytes of a set up to its end, with the `]`. One that stands first is a character of the set.
fn len_of_set(set: &[u8]) -> Option<usize> {
    let mut at = usize::from(set.first() == Some(&b'^'));
    loop {
        at += match set.get(at..)? {
            [] => return None,
            [b'%', _, ..] => 2,
            _ => 1,
        };
        if set.get(at) == Some(&b']') {
            return Some(at + 1);
        }
    }
}

/// Is the byte in the set, given without its brackets?
fn set_has(set: &[u8], byte: u8) -> bool {
    let (mut rest, is_inverted) = match set {
        [b'^', rest @ ..] => (rest, true),
        _ => (set, false),
    };
    loop {
        let (has, more) = match rest {
            [] => return is_inverted,
            // Only after a range that ended with another one: Lua looks at the bracket then.
            [b'%'] => (byte == b']', &rest[1..]),
            [b'%', class, more @ ..] => (class_has(*class, byte), more),
            [low, b'-', high, more @ ..] => ((*low..=*high).contains(&byte), more),
            [one, more @ ..] => (*one == byte, more),
        };
        if has {
            return !is_inverted;
        }
        rest = more;
    }
}

/// Is the byte in the class of that letter, as the locale of C has them? A capital: is it not? What
/// is no class stands for itself.
#[inline]
fn class_has(letter: u8, byte: u8) -> bool {
    let has = match letter.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b' ' | 9..=13),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return letter == byte,
    };
    has == letter.is_ascii_lowercase()
}

// ---- Texts that are no patterns ---------------------------------------------------

/// Does no byte of it mean anything else? Lua looks up to the first zero only.
pub(crate) fn is_text(pattern: &[u8]) -> bool {
    let is_special = |byte: &u8| b"^$*+?.([%-".contains(byte);
    !until_zero(pattern).iter().any(is_special)
}

/// Where the text stands in the subject first, at `from` or later.
pub(crate) fn find_text(
    work: &mut Work,
    subject: &[u8],
    text: &[u8],
    from: usize,
) -> Result<Option<usize>, Cut> {
    work.pieces(text.len() / PATTERN_BLOCK, 0)?;
    let Some((&first, others)) = text.split_first() else {
        return Ok(Some(from));
    };
    let Some(end) = subject.len().checked_sub(others.len()) else {
        return Ok(None);
    };
    let mut at = from;
    while at < end {
        work.piece(0)?;
        let block = &subject[at..end.min(at + BLOCK)];
        let Some(index) = position(block, first) else {
            at += block.len();
            continue;
        };
        at += index;
        if starts_with(work, &subject[at + 1..], others)? {
            return Ok(Some(at));
        }
        at += 1;
    }
    Ok(None)
}

/// As memchr of C, which looks at many bytes at a time.
fn position(bytes: &[u8], wanted: u8) -> Option<usize> {
    // SAFETY: reads within the bytes.
    let found = unsafe { libc::memchr(bytes.as_ptr().cast(), wanted.into(), bytes.len()) };
    (!found.is_null()).then(|| found.addr() - bytes.as_ptr().addr())
}

fn starts_with(work: &mut Work, bytes: &[u8], start: &[u8]) -> Result<bool, Cut> {
    let Some(bytes) = bytes.get(..start.len()) else {
        return Ok(false);
    };
    for (some, wanted) in bytes.chunks(BLOCK).zip(start.chunks(BLOCK)) {
        work.piece(0)?;
        if some != wanted {
            return Ok(false);
        }
    }
    Ok(true)
}
