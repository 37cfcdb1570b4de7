//! Figures of several rounds.

use serde::{Deserialize, Serialize};

/// One figure per round, in order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Sample(Vec<f64>);

impl Sample {
    pub(crate) fn push(&mut self, figure: f64) {
        self.0.push(figure);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        match (sorted.len(), sorted.len() / 2) {
            (0, _) => f64::NAN,
            (n, half) if n % 2 == 1 => sorted[half],
            (_, half) => (sorted[half - 1] + sorted[half]) / 2.0,
        }
    }

    pub(crate) fn min(&self) -> f64 {
        self.0.iter().copied().fold(f64::NAN, f64::min)
    }

    pub(crate) fn max(&self) -> f64 {
        self.0.iter().copied().fold(f64::NAN, f64::max)
    }

    /// Round by round `self / other`: what both suffered alike cancels out.
    pub(crate) fn over(&self, other: &Self) -> Self {
        self.with(other, |a, b| a / b)
    }

    /// Round by round `f(self, other)`.
    pub(crate) fn with(&self, other: &Self, f: impl Fn(f64, f64) -> f64) -> Self {
        self.0
            .iter()
            .zip(&other.0)
            .map(|(&a, &b)| f(a, b))
            .collect()
    }

    pub(crate) fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        self.0.iter().map(|&figure| f(figure)).collect()
    }
}

impl FromIterator<f64> for Sample {
    fn from_iter<I: IntoIterator<Item = f64>>(figures: I) -> Self {
        Self(figures.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(figures: &[f64]) -> Sample {
        figures.iter().copied().collect()
    }

    #[test]
    fn median_and_spread() {
        assert_eq!(sample(&[3.0, 1.0, 2.0]).median(), 2.0);
        assert_eq!(sample(&[4.0, 1.0, 2.0, 3.0]).median(), 2.5);
        assert_eq!(sample(&[3.0, 1.0, 2.0]).min(), 1.0);
        assert_eq!(sample(&[3.0, 1.0, 2.0]).max(), 3.0);
        assert!(Sample::default().median().is_nan());
    }

    #[test]
    fn a_ratio_is_taken_round_by_round() {
        let ratio = sample(&[1.0, 20.0, 3.0]).over(&sample(&[2.0, 40.0, 6.0]));
        assert_eq!((ratio.min(), ratio.max()), (0.5, 0.5));
    }
}
