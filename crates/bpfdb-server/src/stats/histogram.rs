//! A histogram of times.

use std::time::Duration;

use super::numbers::Number;

/// How long something took, in buckets that grow by a quarter of a power of
/// two: percentiles are exact to 25 %.
#[derive(Debug)]
pub(crate) struct Histogram {
    buckets: [Number; Self::BUCKETS],
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: std::array::from_fn(|_| Number::default()),
        }
    }
}

impl Histogram {
    /// Shorter times share a bucket, longer ones than the last bucket too.
    const LEAST_BITS: u32 = 8;
    const MOST_BITS: u32 = 36;
    const PARTS_BITS: u32 = 2;
    const BUCKETS: usize = ((Self::MOST_BITS - Self::LEAST_BITS) << Self::PARTS_BITS) as usize;

    fn bucket(nanoseconds: u64) -> usize {
        let value = nanoseconds.max(1 << Self::LEAST_BITS);
        let bits = value.ilog2();
        let part = (value >> (bits - Self::PARTS_BITS)) & ((1 << Self::PARTS_BITS) - 1);
        let number = u64::from((bits - Self::LEAST_BITS) << Self::PARTS_BITS) + part;
        (number as usize).min(Self::BUCKETS - 1)
    }

    /// Nanoseconds that are longer than all in the bucket.
    fn end(bucket: usize) -> u64 {
        let bits = Self::LEAST_BITS + (bucket as u32 >> Self::PARTS_BITS);
        let part = bucket as u64 & ((1 << Self::PARTS_BITS) - 1);
        (1 << bits) + ((part + 1) << (bits - Self::PARTS_BITS))
    }

    pub(crate) fn add(&self, nanoseconds: u64) {
        self.buckets[Self::bucket(nanoseconds)].increment();
    }

    pub(crate) fn reset(&self) {
        self.buckets.iter().for_each(|bucket| bucket.set(0));
    }

    fn total(&self) -> u64 {
        self.buckets.iter().map(Number::get).sum()
    }

    /// Time that this share of all was not longer than.
    pub(crate) fn percentile(&self, percent: f64) -> Duration {
        let wanted = (self.total() as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let mut seen = 0;
        let reached = self.buckets.iter().position(|bucket| {
            seen += bucket.get();
            seen >= wanted
        });
        Duration::from_nanos(reached.map_or(0, Self::end))
    }

    /// Powers of two of nanoseconds, and how many took less than that, but not
    /// less than the one before.
    pub(crate) fn octaves(&self) -> impl Iterator<Item = (Duration, u64)> {
        const PARTS: usize = 1 << Histogram::PARTS_BITS;
        let octaves = self.buckets.chunks(PARTS).enumerate();
        octaves.map(|(octave, buckets)| {
            let end = Self::end(octave * PARTS + PARTS - 1);
            let count = buckets.iter().map(Number::get).sum();
            (Duration::from_nanos(end), count)
        })
    }

    /// The same, and how many took less in all: from the first that did to the
    /// last.
    pub(crate) fn cumulative(&self) -> Vec<(Duration, u64)> {
        let total = self.total();
        let mut sum = 0;
        let mut steps = Vec::new();
        for (end, count) in self.octaves() {
            let complete = sum == total;
            sum += count;
            if sum > 0 && !complete {
                steps.push((end, sum));
            }
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_what_belongs_to_them() {
        let mut last = 0;
        for nanoseconds in [0, 255, 256, 319, 320, 511, 512, 1000, 123_456, u64::MAX] {
            let bucket = Histogram::bucket(nanoseconds);
            assert!(bucket >= last, "{nanoseconds}");
            last = bucket;
            if bucket < Histogram::BUCKETS - 1 {
                assert!(nanoseconds < Histogram::end(bucket), "{nanoseconds}");
                assert!(
                    bucket == 0 || nanoseconds >= Histogram::end(bucket - 1),
                    "{nanoseconds}"
                );
            }
        }
    }

    #[test]
    fn percentiles() {
        let histogram = Histogram::default();
        assert_eq!(histogram.cumulative(), []);
        for _ in 0..99 {
            histogram.add(1_000);
        }
        histogram.add(1_000_000);
        let near = |time: Duration, nanoseconds: f64| {
            let ratio = time.as_nanos() as f64 / nanoseconds;
            assert!((1.0..=1.25).contains(&ratio), "{time:?}");
        };
        near(histogram.percentile(50.0), 1_000.0);
        near(histogram.percentile(99.0), 1_000.0);
        near(histogram.percentile(99.9), 1_000_000.0);
        let steps = histogram.cumulative();
        assert_eq!(steps.first(), Some(&(Duration::from_nanos(1024), 99)));
        assert_eq!(steps.last(), Some(&(Duration::from_nanos(1 << 20), 100)));
    }
}
