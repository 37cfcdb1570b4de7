//! Which key is used next.

use std::fmt;

/// How often which key is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distribution {
    Uniform,
    /// Zipf with exponent 0.99, the ranks scattered over the keys.
    Zipf,
}

impl Distribution {
    pub const ALL: [Self; 2] = [Self::Uniform, Self::Zipf];
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Uniform => "uniform",
            Self::Zipf => "Zipf 0.99",
        })
    }
}

/// Of Zipf: how fast keys become rarer with their rank.
pub const EXPONENT: f64 = 0.99;

/// SplitMix64 (S. Vigna): small, seeded, good enough to draw keys.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.number()) * u128::from(bound)) >> 64) as u64
    }

    /// Letters and digits. Who compresses values gains nothing.
    pub fn text(&mut self, length: u32) -> String {
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        let letter = |_| char::from(LETTERS[self.below(LETTERS.len() as u64) as usize]);
        (0..length).map(letter).collect()
    }

    fn unit(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Draws ranks by the method of Gray et al., "Quickly generating billion-record
/// synthetic databases" (1994), which YCSB uses.
#[derive(Debug)]
struct Zipf {
    count: f64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl Zipf {
    fn new(count: u64) -> Self {
        let zeta = |n: u64| {
            (1..=n)
                .map(|i| 1.0 / (i as f64).powf(EXPONENT))
                .sum::<f64>()
        };
        let all = zeta(count);
        let n = count as f64;
        Self {
            count: n,
            zeta: all,
            alpha: 1.0 / (1.0 - EXPONENT),
            eta: (1.0 - (2.0 / n).powf(1.0 - EXPONENT)) / (1.0 - zeta(2) / all),
        }
    }

    fn draw(&self, random: &mut Random) -> u64 {
        let u = random.unit();
        let uz = u * self.zeta;
        if uz < 1.0 {
            return 0;
        }
        if uz < 1.0 + 0.5f64.powf(EXPONENT) {
            return 1;
        }
        (self.count * (self.eta * u - self.eta + 1.0).powf(self.alpha)) as u64
    }
}

/// How far the records of two ranks are from each other that follow: the golden ratio scatters them
/// well, and a step without a common divisor leaves no record out.
fn step(records: u64) -> u64 {
    let golden = (records as f64 * 0.618_033_988_75) as u64;
    (golden.max(1)..)
        .find(|&step| divisor(step, records) == 1)
        .unwrap_or(1)
}

/// The greatest common divisor, by Euclid.
fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}

/// Draws record numbers, one by one.
#[derive(Debug)]
pub struct Draw {
    records: u64,
    step: u64,
    /// Else uniform.
    zipf: Option<Zipf>,
}

impl Draw {
    /// Record numbers below `records`.
    pub fn new(distribution: Distribution, records: u32) -> Self {
        let records = u64::from(records);
        Self {
            records,
            step: step(records),
            zipf: match distribution {
                Distribution::Uniform => None,
                Distribution::Zipf => Some(Zipf::new(records)),
            },
        }
    }

    pub fn next(&self, random: &mut Random) -> u32 {
        let rank = self.rank(random);
        match &self.zipf {
            None => rank,
            Some(_) => self.scattered(rank.into()),
        }
    }

    /// A rank in the place of a record: the lower the more frequent, unless all are drawn alike.
    pub fn rank(&self, random: &mut Random) -> u32 {
        let rank = match &self.zipf {
            None => random.below(self.records),
            Some(zipf) => zipf.draw(random).min(self.records - 1),
        };
        rank as u32
    }

    /// The record of a rank: neighbours in rank are no neighbours in memory, and each record has one
    /// rank.
    pub fn scattered(&self, rank: u64) -> u32 {
        (rank * self.step % self.records) as u32
    }
}

/// `length` record numbers below `records`; the same ones for the same seed.
pub fn sequence(distribution: Distribution, records: u32, length: u32, seed: u64) -> Vec<u32> {
    let mut random = Random::new(seed);
    let draw = Draw::new(distribution, records);
    (0..length).map(|_| draw.next(&mut random)).collect()
}
