//! HyperLogLogs: strings that estimate how many different elements were added to them, in the format of
//! Redis, byte for byte.
//!
//! ```text
//! "HYLL", encoding, 3 bytes, cached estimate (8 bytes), registers
//!
//! dense    16,384 registers of 6 bits, the lowest bits of each byte first
//! sparse   ranges of registers:  00llllll            l + 1 registers of 0
//!                                01llllll llllllll   l + 1 registers of 0
//!                                1vvvvvll            l + 1 registers of v + 1
//! ```
//!
//! The highest bit of the cached estimate says that it is out of date. An element's hash (MurmurHash64A)
//! chooses a register, which keeps the longest run of zeros that hashes began with, plus one. Estimates
//! are those of Otmar Ertl, "New cardinality estimation algorithms for HyperLogLog sketches" (2017).

use std::ops::Range;

const MAGIC: &[u8] = b"HYLL";
const HEADER: usize = 16;
const ENCODING: usize = 4;
const ESTIMATE: Range<usize> = 8..16;
/// In the last byte of the estimate.
const OUT_OF_DATE: u8 = 0x80;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;

/// Bits of the hash that choose a register.
const INDEX_BITS: u32 = 14;
const REGISTERS: usize = 1 << INDEX_BITS;
const REST_BITS: u32 = 64 - INDEX_BITS;
const REGISTER_BITS: usize = 6;
const REGISTER_MAX: u8 = (1 << REGISTER_BITS) - 1;
const DENSE_LEN: usize = HEADER + REGISTERS * REGISTER_BITS / 8;
/// A longer one becomes dense: Redis's default.
const SPARSE_LEN_MAX: usize = 3000;
/// What an operation of the sparse encoding can say.
const VALUE_MAX: u8 = 32;
const VALUE_LEN_MAX: usize = 4;
const ZERO_LEN_MAX: usize = 64;
/// Operations that are looked at for neighbours that say the same.
const SCANNED: usize = 5;
const SEED: u64 = 0xadc8_3b19;

/// Why a string is none, or none any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    NotOne,
    Corrupt,
}

/// One that is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HyperLogLog(Vec<u8>);

/// Registers of several.
#[derive(Clone, Debug)]
pub struct Registers {
    values: Vec<u8>,
    is_dense: bool,
}

/// An operation of the sparse encoding: its bytes, its registers and their value.
#[derive(Clone, Copy, Debug)]
struct Operation {
    bytes: usize,
    len: usize,
    value: u8,
}

impl Operation {
    /// The first of these bytes.
    fn read(bytes: &[u8]) -> Option<Self> {
        let (&first, behind) = bytes.split_first()?;
        let low = usize::from(first & 0x3f);
        Some(match first >> 6 {
            0 => Self {
                bytes: 1,
                len: low + 1,
                value: 0,
            },
            1 => Self {
                bytes: 2,
                len: (low << 8 | usize::from(*behind.first()?)) + 1,
                value: 0,
            },
            _ => Self {
                bytes: 1,
                len: usize::from(first & 3) + 1,
                value: (first >> 2 & 0x1f) + 1,
            },
        })
    }

    fn is_value(self) -> bool {
        self.value > 0
    }
}

/// So many registers of this value, of 0 or, if they are few, of any; nothing for none.
fn push(bytes: &mut Vec<u8>, len: usize, value: u8) {
    if len == 0 {
    } else if value > 0 {
        bytes.push(0x80 | (value - 1) << 2 | (len - 1) as u8);
    } else if len > ZERO_LEN_MAX {
        bytes.extend_from_slice(&[0x40 | ((len - 1) >> 8) as u8, (len - 1) as u8]);
    } else {
        bytes.push((len - 1) as u8);
    }
}

/// Is the string one, as far as its header says?
///
/// # Errors
/// It is not.
pub fn check(bytes: &[u8]) -> Result<(), Invalid> {
    let is_one = bytes.len() >= HEADER
        && bytes.starts_with(MAGIC)
        && bytes[ENCODING] <= SPARSE
        && (bytes[ENCODING] != DENSE || bytes.len() == DENSE_LEN);
    if is_one { Ok(()) } else { Err(Invalid::NotOne) }
}

/// How many different elements were added to the string, about.
///
/// # Errors
/// A string that is none, or damaged.
pub fn count(bytes: &[u8]) -> Result<u64, Invalid> {
    if let Some(count) = cached(bytes)? {
        return Ok(count);
    }
    let mut registers = Registers::default();
    registers.add(bytes)?;
    Ok(registers.count())
}

/// The estimate that the string keeps, unless it is out of date.
///
/// # Errors
/// A string that is none.
pub fn cached(bytes: &[u8]) -> Result<Option<u64>, Invalid> {
    check(bytes)?;
    let kept: [u8; 8] = bytes[ESTIMATE].try_into().map_err(|_| Invalid::NotOne)?;
    Ok((kept[7] & OUT_OF_DATE == 0).then_some(u64::from_le_bytes(kept)))
}

impl Default for HyperLogLog {
    /// Without elements.
    fn default() -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[..MAGIC.len()].copy_from_slice(MAGIC);
        bytes[ENCODING] = SPARSE;
        push(&mut bytes, REGISTERS, 0);
        Self(bytes)
    }
}

impl HyperLogLog {
    /// # Errors
    /// A string that is none.
    pub fn read(bytes: Vec<u8>) -> Result<Self, Invalid> {
        check(&bytes).map(|()| Self(bytes))
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Has a register changed?
    ///
    /// # Errors
    /// Damaged registers.
    pub fn add(&mut self, element: &[u8]) -> Result<bool, Invalid> {
        let hash = murmur_hash_64a(element, SEED);
        let index = hash as usize & (REGISTERS - 1);
        // A bit behind the last one: no run is longer.
        let rest = hash >> INDEX_BITS | 1 << REST_BITS;
        self.raise(index, rest.trailing_zeros() as u8 + 1)
    }

    /// Registers become at least as high as these.
    ///
    /// # Errors
    /// Damaged registers.
    pub fn merge(&mut self, registers: &Registers) -> Result<(), Invalid> {
        if registers.is_dense {
            self.make_dense()?;
        }
        for (index, &value) in registers.values.iter().enumerate() {
            if value > 0 {
                self.raise(index, value)?;
            }
        }
        Ok(())
    }

    /// How many different elements were added, about: the estimate is kept.
    ///
    /// # Errors
    /// Damaged registers.
    pub fn keep_count(&mut self) -> Result<u64, Invalid> {
        let count = count(&self.0)?;
        self.0[ESTIMATE].copy_from_slice(&count.to_le_bytes());
        Ok(count)
    }

    /// The estimate has to be made anew.
    pub fn set_out_of_date(&mut self) {
        self.0[ESTIMATE.end - 1] |= OUT_OF_DATE;
    }

    fn is_dense(&self) -> bool {
        self.0[ENCODING] == DENSE
    }

    fn raise(&mut self, index: usize, value: u8) -> Result<bool, Invalid> {
        if !self.is_dense() {
            if let Some(is_changed) = self.raise_sparse(index, value)? {
                return Ok(is_changed);
            }
            self.make_dense()?;
        }
        let registers = &mut self.0[HEADER..];
        let is_raised = dense_register(registers, index) < value;
        if is_raised {
            set_dense_register(registers, index, value);
        }
        Ok(is_raised)
    }

    /// `None`: the encoding cannot say it.
    fn raise_sparse(&mut self, index: usize, value: u8) -> Result<Option<bool>, Invalid> {
        if value > VALUE_MAX {
            return Ok(None);
        }
        let found = self.find(index)?;
        let Found { at, first, old, .. } = found;
        if old.value >= value {
            return Ok(Some(false));
        }
        let last = first + old.len - 1;
        let mut new = Vec::new();
        push(&mut new, index - first, old.value);
        push(&mut new, 1, value);
        push(&mut new, last - index, old.value);
        if new.len() > old.bytes && self.0.len() + new.len() - old.bytes > SPARSE_LEN_MAX {
            return Ok(None);
        }
        self.0.splice(at..at + old.bytes, new);
        self.unite(found.before.unwrap_or(HEADER));
        self.set_out_of_date();
        Ok(Some(true))
    }

    fn find(&self, index: usize) -> Result<Found, Invalid> {
        let (mut at, mut first, mut before) = (HEADER, 0, None);
        while let Some(old) = Operation::read(&self.0[at..]) {
            if index < first + old.len {
                return Ok(Found {
                    at,
                    before,
                    first,
                    old,
                });
            }
            before = Some(at);
            at += old.bytes;
            first += old.len;
        }
        Err(Invalid::Corrupt)
    }

    /// Neighbours of one value become one operation, in the few operations from here.
    fn unite(&mut self, mut at: usize) {
        for _ in 0..SCANNED {
            let Some(one) = Operation::read(&self.0[at..]) else {
                return;
            };
            let other = Operation::read(&self.0[at + one.bytes..]);
            let other = other.filter(|other| one.is_value() && other.value == one.value);
            match other {
                Some(other) if one.len + other.len <= VALUE_LEN_MAX => {
                    let mut united = Vec::new();
                    push(&mut united, one.len + other.len, one.value);
                    self.0.splice(at..at + one.bytes + other.bytes, united);
                }
                _ => at += one.bytes,
            }
        }
    }

    fn make_dense(&mut self) -> Result<(), Invalid> {
        if self.is_dense() {
            return Ok(());
        }
        let mut dense = vec![0; DENSE_LEN];
        dense[..HEADER].copy_from_slice(&self.0[..HEADER]);
        dense[ENCODING] = DENSE;
        each_sparse(&self.0[HEADER..], |index, value| {
            set_dense_register(&mut dense[HEADER..], index, value);
        })?;
        self.0 = dense;
        Ok(())
    }
}

/// The operation that has a register.
struct Found {
    at: usize,
    /// The operation before it.
    before: Option<usize>,
    /// Its first register.
    first: usize,
    old: Operation,
}

/// Registers that are not 0; as in Redis, what is beyond the last one is not looked at.
fn each_sparse(mut bytes: &[u8], mut each: impl FnMut(usize, u8)) -> Result<(), Invalid> {
    let mut index = 0;
    while let Some(operation) = Operation::read(bytes) {
        if index + operation.len > REGISTERS {
            break;
        }
        if operation.is_value() {
            (index..index + operation.len).for_each(|index| each(index, operation.value));
        }
        index += operation.len;
        bytes = &bytes[operation.bytes..];
    }
    if index == REGISTERS {
        Ok(())
    } else {
        Err(Invalid::Corrupt)
    }
}

/// The two bytes that a register is in, as a number, and how many bits come before it.
fn dense_place(registers: &[u8], index: usize) -> (u16, usize) {
    let bit = index * REGISTER_BITS;
    let low = registers[bit / 8];
    let high = registers.get(bit / 8 + 1).copied().unwrap_or_default();
    (u16::from_le_bytes([low, high]), bit % 8)
}

fn dense_register(registers: &[u8], index: usize) -> u8 {
    let (pair, shift) = dense_place(registers, index);
    (pair >> shift) as u8 & REGISTER_MAX
}

fn set_dense_register(registers: &mut [u8], index: usize, value: u8) {
    let (pair, shift) = dense_place(registers, index);
    let mask = u16::from(REGISTER_MAX) << shift;
    let [low, high] = (pair & !mask | u16::from(value) << shift).to_le_bytes();
    let at = index * REGISTER_BITS / 8;
    registers[at] = low;
    if let Some(byte) = registers.get_mut(at + 1) {
        *byte = high;
    }
}

impl Default for Registers {
    fn default() -> Self {
        Self {
            values: vec![0; REGISTERS],
            is_dense: false,
        }
    }
}

impl Registers {
    /// Registers become at least as high as those of this string.
    ///
    /// # Errors
    /// A string that is none, or damaged.
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), Invalid> {
        check(bytes)?;
        let (values, registers) = (&mut self.values, &bytes[HEADER..]);
        if bytes[ENCODING] == SPARSE {
            return each_sparse(registers, |index, value| {
                values[index] = values[index].max(value);
            });
        }
        self.is_dense = true;
        for (index, value) in values.iter_mut().enumerate() {
            *value = (*value).max(dense_register(registers, index));
        }
        Ok(())
    }

    /// The estimate.
    pub fn count(&self) -> u64 {
        /// 1 / (2 ln 2).
        const ALPHA: f64 = 0.721_347_520_444_481_7;
        let mut of_value = [0u32; 64];
        for &value in &self.values {
            of_value[usize::from(value & REGISTER_MAX)] += 1;
        }
        let all = REGISTERS as f64;
        let longest = f64::from(of_value[REST_BITS as usize + 1]);
        let mut sum = all * tau((all - longest) / all);
        for value in (1..=REST_BITS as usize).rev() {
            sum += f64::from(of_value[value]);
            sum *= 0.5;
        }
        sum += all * sigma(f64::from(of_value[0]) / all);
        (ALPHA * all * all / sum).round() as u64
    }
}

/// What registers of 0 contribute.
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut sum) = (1.0, x);
    loop {
        x *= x;
        let before = sum;
        sum += x * y;
        y += y;
        if sum == before {
            return sum;
        }
    }
}

/// What registers contribute that are as high as they can be.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut sum) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = sum;
        y *= 0.5;
        sum -= (1.0 - x) * (1.0 - x) * y;
        if sum == before {
            return sum / 3.0;
        }
    }
}

/// MurmurHash2 for 64 bits, by Austin Appleby.
fn murmur_hash_64a(bytes: &[u8], seed: u64) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    const R: u32 = 47;
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(M);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut mixed = u64::from_le_bytes(*word).wrapping_mul(M);
        mixed ^= mixed >> R;
        hash = (hash ^ mixed.wrapping_mul(M)).wrapping_mul(M);
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(M);
    }
    hash ^= hash >> R;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> R
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(elements: Range<u32>) -> HyperLogLog {
        let mut all = HyperLogLog::default();
        for element in elements {
            all.add(element.to_string().as_bytes()).expect("sound");
        }
        all.set_out_of_date();
        all
    }

    #[test]
    fn both_encodings_count_about_right() {
        for elements in [0, 1, 10, 500, 3000, 100_000] {
            let all = of(0..elements);
            assert_eq!(all.is_dense(), elements >= 3000, "{elements}");
            let counted = count(&all.0).expect("sound");
            let error = counted.abs_diff(elements.into());
            assert!(error * 25 <= u64::from(elements), "{elements}: {counted}");
        }
    }

    #[test]
    fn an_estimate_is_kept_until_an_element_is_added() {
        let mut all = of(0..100);
        assert_eq!(cached(&all.0), Ok(None));
        let count = all.keep_count().expect("sound");
        assert_eq!(cached(&all.0), Ok(Some(count)));
        assert_eq!(all.add(b"another"), Ok(true));
        assert_eq!(cached(&all.0), Ok(None));
    }

    #[test]
    fn a_dense_one_has_the_registers_of_the_sparse_one() {
        let sparse = of(0..800);
        let mut dense = sparse.clone();
        dense.make_dense().expect("sound");
        let registers = |one: &HyperLogLog| {
            let mut registers = Registers::default();
            registers.add(&one.0).expect("sound");
            registers.values
        };
        assert!(!sparse.is_dense());
        assert_eq!(registers(&sparse), registers(&dense));
    }

    #[test]
    fn a_merged_one_counts_the_elements_of_all() {
        let mut registers = Registers::default();
        for part in [of(0..600), of(300..900)] {
            registers.add(&part.0).expect("sound");
        }
        let mut merged = HyperLogLog::default();
        merged.merge(&registers).expect("sound");
        assert_eq!(count(&merged.0), count(&of(0..900).0));
    }

    #[test]
    fn strings_that_are_none_and_damaged_ones() {
        let sound = of(0..10).0;
        for bytes in [&b""[..], b"HYLL", &[0; 20]] {
            assert_eq!(count(bytes), Err(Invalid::NotOne));
        }
        let mut other = sound.clone();
        other[ENCODING] = DENSE;
        assert_eq!(count(&other), Err(Invalid::NotOne));
        let cut = &sound[..sound.len() - 1];
        assert_eq!(count(cut), Err(Invalid::Corrupt));
    }
}
