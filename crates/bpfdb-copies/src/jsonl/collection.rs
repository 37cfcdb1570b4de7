//! A collection in a line: its entries, as text or in base64.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bpfdb_values::limits::Kind;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::collection::score_bytes;

pub(super) type Text<'a> = Cow<'a, str>;

/// Integers up to this one, and down to its negative, are all scores.
const INTEGER_MAX: f64 = (1_u64 << 52) as f64;

/// A score: a number, or "inf" or "-inf", which JSON has no numbers for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Score(pub(super) f64);

impl Serialize for Score {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            f64::INFINITY => out.serialize_str("inf"),
            f64::NEG_INFINITY => out.serialize_str("-inf"),
            // Without a fraction of zero.
            score if score.fract() == 0.0 && score.abs() < INTEGER_MAX => {
                out.serialize_i64(score as i64)
            }
            score => out.serialize_f64(score),
        }
    }
}

impl<'de> Deserialize<'de> for Score {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Stored {
            Number(f64),
            Text(String),
        }
        match Stored::deserialize(input)? {
            Stored::Number(score) => Ok(Self(score)),
            Stored::Text(text) if text == "inf" => Ok(Self(f64::INFINITY)),
            Stored::Text(text) if text == "-inf" => Ok(Self(f64::NEG_INFINITY)),
            Stored::Text(_) => Err(D::Error::custom("no score")),
        }
    }
}

/// Elements, fields with their values, or members with their scores, as they stand in a line.
pub(super) type Elements<'a> = Vec<Text<'a>>;
pub(super) type Pairs<'a> = Vec<(Text<'a>, Text<'a>)>;
pub(super) type Members<'a> = Vec<(Text<'a>, Score)>;

/// Entries of a line that was read: keys and values, as runs have them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entries {
    pub(super) kind: Kind,
    /// They are the words of a stream, which stand there as a list.
    pub(super) is_stream: bool,
    pub(super) all: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The word for a type, as TYPE replies it.
pub(super) fn name_of(kind: Kind) -> &'static str {
    crate::collection::type_of(kind).name()
}

pub(super) fn kind_named(name: &str) -> Option<Kind> {
    let kinds = [Kind::Hash, Kind::List, Kind::Set, Kind::SortedSet];
    kinds.into_iter().find(|&kind| name_of(kind) == name)
}

pub(super) fn encode(bytes: &[u8]) -> Text<'_> {
    STANDARD.encode(bytes).into()
}

/// Turns a string of a line into bytes.
type Decode = fn(Text<'_>) -> Option<Vec<u8>>;

fn plain(text: Text<'_>) -> Option<Vec<u8>> {
    Some(text.into_owned().into_bytes())
}

fn decoded(text: Text<'_>) -> Option<Vec<u8>> {
    STANDARD.decode(&*text).ok()
}

/// An entry of a run.
type Entry = (Vec<u8>, Vec<u8>);

pub(super) fn element(element: Text<'_>, decode: Decode) -> Option<Entry> {
    Some((decode(element)?, Vec::new()))
}

pub(super) fn pair((field, value): (Text<'_>, Text<'_>), decode: Decode) -> Option<Entry> {
    Some((decode(field)?, decode(value)?))
}

pub(super) fn member((member, Score(score)): (Text<'_>, Score), decode: Decode) -> Option<Entry> {
    Some((decode(member)?, score_bytes(score).to_vec()))
}

/// What one of two fields has; `Ok(None)`: there is none.
///
/// # Errors
/// There are both, or what should be base64 is none.
pub(super) fn read<T>(
    text: Option<Vec<T>>,
    base64: Option<Vec<T>>,
    one: impl Fn(T, Decode) -> Option<Entry>,
) -> Result<Option<Vec<Entry>>, ()> {
    let (all, decode): (Vec<T>, Decode) = match (text, base64) {
        (None, None) => return Ok(None),
        (Some(all), None) => (all, plain),
        (None, Some(all)) => (all, decoded),
        _ => return Err(()),
    };
    let all = all.into_iter().map(|stored| one(stored, decode));
    all.collect::<Option<_>>().map(Some).ok_or(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Score;

    fn written(score: f64) -> String {
        serde_json::to_string(&Score(score)).expect("a score")
    }

    #[test]
    fn scores_are_readable() {
        for (score, text) in [
            (1.0, "1"),
            (-0.5, "-0.5"),
            (1e300, "1e+300"),
            (f64::INFINITY, "\"inf\""),
            (f64::NEG_INFINITY, "\"-inf\""),
        ] {
            assert_eq!(written(score), text);
        }
        for text in ["\"nan\"", "\"1\"", "null", "1e999", "[1]"] {
            assert!(serde_json::from_str::<Score>(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn scores_come_back_to_the_last_bit(score: f64) {
            prop_assume!(!score.is_nan());
            let Score(read) = serde_json::from_str(&written(score)).expect("a score");
            prop_assert_eq!((read + 0.0).to_bits(), (score + 0.0).to_bits());
        }
    }
}
