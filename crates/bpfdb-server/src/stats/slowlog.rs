//! The commands that the daemon executed and that took longest: SLOWLOG. What the kernel
//! answers does not appear: it takes microseconds.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Of one command, so many words are kept, and of a word so many bytes.
const WORDS_MAX: usize = 32;
const WORD_MAX: usize = 128;

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) id: u64,
    /// Seconds since 1970.
    pub(crate) time: u64,
    pub(crate) duration: Duration,
    pub(crate) words: Vec<Vec<u8>>,
    pub(crate) peer: String,
    pub(crate) name: Vec<u8>,
}

/// The newest entries, in constant memory.
#[derive(Debug, Default)]
pub(crate) struct Slowlog {
    entries: VecDeque<Entry>,
    next_id: u64,
}

impl Slowlog {
    pub(crate) fn add(
        &mut self,
        duration: Duration,
        words: &[Vec<u8>],
        peer: String,
        name: &[u8],
        most: usize,
    ) {
        self.entries.push_front(Entry {
            id: self.next_id,
            time: unix_seconds(),
            duration,
            words: shortened(words),
            peer,
            name: shortened_word(name),
        });
        self.next_id += 1;
        self.entries.truncate(most);
    }

    /// The newest first.
    pub(crate) fn newest(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.entries.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }
}

pub(crate) fn unix_seconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}

/// As Redis shortens them.
fn shortened(words: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let kept = if words.len() > WORDS_MAX {
        WORDS_MAX - 1
    } else {
        words.len()
    };
    let mut short: Vec<Vec<u8>> = words[..kept]
        .iter()
        .map(|word| shortened_word(word))
        .collect();
    if kept < words.len() {
        let left = words.len() - kept;
        short.push(format!("... ({left} more arguments)").into_bytes());
    }
    short
}

fn shortened_word(word: &[u8]) -> Vec<u8> {
    if word.len() <= WORD_MAX {
        return word.to_vec();
    }
    let more = format!("... ({} more bytes)", word.len() - WORD_MAX);
    [&word[..WORD_MAX], more.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(log: &mut Slowlog, words: &[Vec<u8>], most: usize) {
        let time = Duration::from_micros(5);
        log.add(time, words, String::new(), b"", most);
    }

    #[test]
    fn the_newest_are_kept() {
        let mut log = Slowlog::default();
        for word in [b"a", b"b", b"c"] {
            add(&mut log, &[word.to_vec()], 2);
        }
        let ids: Vec<u64> = log.newest().map(|entry| entry.id).collect();
        assert_eq!(ids, [2, 1]);
        log.clear();
        assert_eq!(log.len(), 0);
        add(&mut log, &[], 0);
        assert_eq!(log.len(), 0);
    }

    #[test]
    fn long_requests_are_shortened() {
        let mut log = Slowlog::default();
        let mut words = vec![b"x".to_vec(); 40];
        words[1] = vec![b'y'; 200];
        add(&mut log, &words, 1);
        let entry = log.newest().next().expect("one");
        assert_eq!(entry.words.len(), WORDS_MAX);
        assert!(entry.words[1].ends_with(b"y... (72 more bytes)"));
        assert_eq!(entry.words[31], b"... (9 more arguments)");
    }
}
