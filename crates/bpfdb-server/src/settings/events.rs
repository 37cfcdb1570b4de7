//! Which events of keys are published: `notify-keyspace-events`. Its letters, and the order in which they
//! are shown, are Redis's.

use super::value::Value;

/// A class of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventClass {
    Generic,
    String,
    List,
    Set,
    Hash,
    SortedSet,
    Expired,
    Evicted,
    Stream,
    /// A key without a value was read.
    Miss,
    /// A key has got its first value.
    New,
}

impl EventClass {
    const fn letter(self) -> char {
        match self {
            Self::Generic => 'g',
            Self::String => '$',
            Self::List => 'l',
            Self::Set => 's',
            Self::Hash => 'h',
            Self::SortedSet => 'z',
            Self::Expired => 'x',
            Self::Evicted => 'e',
            Self::Stream => 't',
            Self::Miss => 'm',
            Self::New => 'n',
        }
    }
}

/// All letters but A, in the order in which they are shown. Of types of modules (`d`) there are
/// no events.
const LETTERS: &str = "g$lshzxetdnKEm";
/// What A stands for.
const ALL: &str = "g$lshzxetd";
/// What is not shown beside A.
const BESIDE_ALL: &str = "KEm";

/// A set of the letters: bit n is the letter at n.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyspaceEvents(u16);

impl KeyspaceEvents {
    fn bits(letters: &str) -> u16 {
        let bit = |letter| LETTERS.find(letter).map_or(0, |at| 1 << at);
        letters.chars().fold(0, |bits, letter| bits | bit(letter))
    }

    fn has(self, letter: char) -> bool {
        let mut buffer = [0; 4];
        self.0 & Self::bits(letter.encode_utf8(&mut buffer)) != 0
    }

    /// Is anything published?
    pub fn is_any(self) -> bool {
        self.on_keyspace() || self.on_keyevent()
    }

    /// To channels that are called after the key.
    pub fn on_keyspace(self) -> bool {
        self.has('K')
    }

    /// To channels that are called after the event.
    pub fn on_keyevent(self) -> bool {
        self.has('E')
    }

    /// Are the events of this class published?
    pub fn publishes(self, class: EventClass) -> bool {
        self.is_any() && self.has(class.letter())
    }
}

impl Value for KeyspaceEvents {
    const HINT: &'static str = "LETTERS";

    fn parse(text: &str) -> Result<Self, String> {
        let mut bits = 0;
        for letter in text.chars() {
            bits |= match letter {
                'A' => Self::bits(ALL),
                letter if LETTERS.contains(letter) => {
                    let mut buffer = [0; 4];
                    Self::bits(letter.encode_utf8(&mut buffer))
                }
                _ => return Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".into()),
            };
        }
        Ok(Self(bits))
    }

    fn show(&self) -> String {
        let all = Self::bits(ALL);
        let (start, letters) = if self.0 & all == all {
            ("A", BESIDE_ALL)
        } else {
            ("", LETTERS)
        };
        let shown = letters.chars().filter(|&letter| self.has(letter));
        start.chars().chain(shown).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> KeyspaceEvents {
        KeyspaceEvents::parse(text).expect(text)
    }

    #[test]
    fn letters_are_shown_as_redis_shows_them() {
        for (text, shown) in [
            ("", ""),
            ("KEA", "AKE"),
            ("Kg", "gK"),
            ("g$lshzxetd", "A"),
            ("g$lshzxet", "g$lshzxet"),
            ("KEAn", "AKE"),
            ("mKEA", "AKEm"),
            ("mnKE", "nKEm"),
            ("nmdtezxhsl", "lshzxetdnm"),
            ("nmdtezxhsl$g", "Am"),
        ] {
            assert_eq!(parse(text).show(), shown, "{text}");
        }
        assert!(KeyspaceEvents::parse("KEq").is_err());
    }

    #[test]
    fn nothing_is_published_without_channels() {
        assert!(!parse("A").publishes(EventClass::List));
        assert!(parse("AK").publishes(EventClass::List));
        assert!(!parse("AK").publishes(EventClass::Miss));
        assert!(!parse("AK").publishes(EventClass::New));
        assert!(parse("nE").publishes(EventClass::New));
        assert!(!parse("KE").publishes(EventClass::Expired) && parse("KE").is_any());
    }
}
