//! Where pages are: their names.

/// Bits of the number of a page; the others say what it is.
const NUMBER_BITS: u32 = 56;

/// Where a page is in its collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(u64);

impl Place {
    /// Names the key of the head.
    pub const ANCHOR: Self = Self::of(0, 0);
    /// The root of the tree.
    pub const ROOT: Self = Self::of(2, 0);

    /// The groups of a stream.
    pub(super) const GROUPS: Self = Self::of(5, 0);

    const fn of(what: u8, number: u64) -> Self {
        Self((what as u64) << NUMBER_BITS | number)
    }

    /// A bucket of the table.
    pub const fn bucket(number: u64) -> Self {
        Self::of(1, number)
    }

    pub(super) const fn leaf(number: u64) -> Self {
        Self::of(3, number)
    }

    pub(super) const fn inner(number: u64) -> Self {
        Self::of(4, number)
    }

    pub(super) const fn is_leaf(self) -> bool {
        self.0 >> NUMBER_BITS == 3
    }

    pub(super) fn code(self) -> u64 {
        self.0
    }

    pub(super) fn from_code(code: u64) -> Self {
        Self(code)
    }
}

/// The key of a page among all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageKey {
    /// The collection's.
    pub identity: u64,
    pub place: Place,
}

impl PageKey {
    /// Its bytes: as many as the engine keeps beside a record's lock.
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.identity.to_be_bytes());
        bytes[8..].copy_from_slice(&self.place.0.to_be_bytes());
        bytes
    }

    /// The key of its record, in the keyspace that has this prefix.
    pub fn stored(self, prefix: [u8; 8]) -> [u8; 24] {
        let mut key = [0; 24];
        key[..8].copy_from_slice(&prefix);
        key[8..].copy_from_slice(&self.to_bytes());
        key
    }

    /// The page whose record has this key; `None`: no page has.
    pub fn from_stored(prefix: [u8; 8], key: &[u8]) -> Option<Self> {
        Self::from_bytes(key.strip_prefix(&prefix)?)
    }

    /// The page with these bytes; `None`: they are none of a page.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: [u8; 16] = bytes.try_into().ok()?;
        let all = u128::from_be_bytes(bytes);
        Some(Self {
            identity: (all >> 64) as u64,
            place: Place(all as u64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_as_documented() {
        let page = PageKey {
            identity: 0x0102_0304_0506_0708,
            place: Place::bucket(9),
        };
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 1, 0, 0, 0, 0, 0, 0, 9];
        assert_eq!(page.to_bytes(), bytes);
        assert_eq!(PageKey::from_bytes(&bytes), Some(page));
        assert_eq!(PageKey::from_bytes(&bytes[1..]), None);
        let stored = page.stored(*b"a prefix");
        assert_eq!(stored[..], [&b"a prefix"[..], &bytes].concat());
        assert_eq!(PageKey::from_stored(*b"a prefix", &stored), Some(page));
        assert_eq!(PageKey::from_stored(*b"another!", &stored), None);
    }
}
