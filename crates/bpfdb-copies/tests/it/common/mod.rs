//! Copies in memory.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

pub mod engine;
pub mod redis;
pub mod seal;

use std::collections::BTreeMap;

use bpfdb::ValueType;
use bpfdb_copies::{Choice, Contents, Error, Format, Header, Key, Result, Sink, read};
use bpfdb_values::run::Run;

pub const FORMS: [Format; 3] = [Format::Jsonl, Format::Binary, Format::Rdb];

pub const HEADER: Header = Header {
    time: 1_764_000_000_000,
    timestamp: 77,
    keys: 3,
    expiring: 1,
};

/// A value and when it expires.
pub type Value = (Vec<u8>, Option<u64>);

/// Takes keys, and sees to it that every value is whole and no key comes twice.
#[derive(Debug, Default)]
pub struct Collected {
    pub data: BTreeMap<Vec<u8>, Value>,
    /// The types of those that are no strings.
    pub kinds: BTreeMap<Vec<u8>, ValueType>,
    current: Vec<u8>,
    left: u64,
}

impl Collected {
    /// Of all values, so far.
    pub fn bytes(&self) -> usize {
        self.data.values().map(|(value, _)| value.len()).sum()
    }
}

impl Sink for Collected {
    fn key(&mut self, key: &Key<'_>) -> Result<()> {
        assert_eq!(self.left, 0, "the value before is whole");
        self.left = key.len;
        self.current = key.name.to_vec();
        let old = (self.data).insert(key.name.to_vec(), (Vec::new(), key.expires_at));
        if old.is_some() {
            // In a damaged file two lengths of keys may be 0.
            return Err(Error::Damaged {
                offset: 0,
                what: format!("{} comes twice", key.name.escape_ascii()).into(),
            });
        }
        if key.kind != ValueType::STRING {
            self.kinds.insert(key.name.to_vec(), key.kind);
        }
        Ok(())
    }

    fn part(&mut self, bytes: &[u8]) -> Result<()> {
        assert!(!bytes.is_empty());
        self.left = self
            .left
            .checked_sub(bytes.len() as u64)
            .expect("no more than it said");
        let value = self.data.get_mut(&self.current).expect("a key");
        value.0.extend_from_slice(bytes);
        Ok(())
    }
}

impl Collected {
    pub fn whole(self) -> BTreeMap<Vec<u8>, Value> {
        assert_eq!(self.left, 0, "the last value is whole");
        self.data
    }
}

/// The bytes of a copy; values are handed over in parts of at most `part` bytes.
pub fn written(form: Format, data: &BTreeMap<Vec<u8>, Value>, part: usize) -> Vec<u8> {
    let entries = data.iter();
    let entries = entries
        .map(|(name, (value, expires_at))| (&name[..], ValueType::STRING, &value[..], *expires_at));
    written_in_order(form, entries, part)
}

/// The same of names, types, values and times in this order.
pub fn written_in_order<'a>(
    form: Format,
    entries: impl Iterator<Item = (&'a [u8], ValueType, &'a [u8], Option<u64>)>,
    part: usize,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = form.writer(&mut bytes, &HEADER).expect("a writer");
    for (name, kind, value, expires_at) in entries {
        let key = Key {
            name,
            kind,
            len: value.len() as u64,
            expires_at,
        };
        writer.key(&key).expect("written");
        for part in value.chunks(part) {
            writer.part(part).expect("written");
        }
    }
    writer.finish().expect("written");
    bytes
}

/// What a copy has, if it is right.
pub fn collect(bytes: &[u8]) -> Result<(BTreeMap<Vec<u8>, Value>, Contents), Error> {
    let mut collected = Collected::default();
    let (_, contents) = read(bytes, Choice::default(), &mut collected)?;
    Ok((collected.whole(), contents))
}

/// A type, the bytes of a value and when it expires.
pub type Typed = (ValueType, Vec<u8>, Option<u64>);

impl Collected {
    pub fn typed(mut self) -> BTreeMap<Vec<u8>, Typed> {
        let kinds = std::mem::take(&mut self.kinds);
        let data = self.whole().into_iter();
        data.map(|(name, (value, expires_at))| {
            let kind = kinds.get(&name).copied().unwrap_or_default();
            (name, (kind, value, expires_at))
        })
        .collect()
    }
}

/// What a copy has of every type, if it is right.
pub fn collect_typed(bytes: &[u8]) -> Result<(BTreeMap<Vec<u8>, Typed>, Contents), Error> {
    let mut collected = Collected::default();
    let (_, contents) = read(bytes, Choice::default(), &mut collected)?;
    Ok((collected.typed(), contents))
}

/// The bytes of a copy of values of every type.
pub fn written_typed(form: Format, data: &BTreeMap<Vec<u8>, Typed>, part: usize) -> Vec<u8> {
    let entries = data.iter();
    let entries = entries.map(|(name, (kind, value, time))| (&name[..], *kind, &value[..], *time));
    written_in_order(form, entries, part)
}

/// Keys and values of a packed run.
pub fn entries(run: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let run = Run::parse(run).expect("a run");
    let entries = run.iter().map(|entry| entry.expect("sound"));
    let entries = entries.map(|(key, value)| (key.to_vec(), value.to_vec()));
    entries.collect()
}

/// Bytes that no compression, and no text, makes of themselves.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Keys and values at every boundary that a form or the engine has.
pub fn boundaries() -> BTreeMap<Vec<u8>, Value> {
    let lens = [
        0, 1, 8, 9, 10, 11, 12, 15, 16, 17, 20, 21, 63, 64, 65, 255, 256, 16383, 16384, 16385,
        32767, 32768, 32769, 65535, 65536, 65537, 262_143, 262_144, 262_145, 1_048_575, 1_048_577,
    ];
    let far = 4_000_000_000_000;
    let mut data = BTreeMap::new();
    for (number, len) in lens.into_iter().enumerate() {
        let expires_at = (number % 3 == 0).then_some(far + number as u64);
        let text = "abcdefghij".repeat(len / 10 + 1).into_bytes();
        data.insert(
            format!("text {len}").into_bytes(),
            (text[..len].to_vec(), expires_at),
        );
        data.insert(
            format!("noise {len}").into_bytes(),
            (noise(len, 3), expires_at),
        );
    }
    for number in [
        "0",
        "-1",
        "127",
        "128",
        "-128",
        "-129",
        "32767",
        "32768",
        "-32769",
        "2147483647",
        "2147483648",
        "-2147483648",
        "-2147483649",
        "9223372036854775807",
        "007",
        "-0",
        "+1",
        "1.0",
    ] {
        data.insert(number.into(), (number.into(), None));
    }
    data.insert(vec![0], (vec![0], Some(far)));
    data.insert(
        vec![0xff; 512],
        (vec![0xff, 0xfe, b'\n', b'"', b'\\'], None),
    );
    data.insert(
        b"k".repeat(511),
        ("line\nline\r\n\u{2028}\u{1f980}".into(), None),
    );
    data.insert(
        "schl\u{fc}ssel".into(),
        ("{\"end\":{\"keys\":1}}\n".into(), None),
    );
    data
}
