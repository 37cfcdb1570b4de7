//! The best victims of those that were seen: as in Redis, what was a good victim in one sample
//! and did not go is compared with the next.

use bpfdb::Victim;

use super::policy::Rules;

/// Victims that are kept from one sample to the next.
const KEPT: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Pool {
    /// By their score, the least first.
    victims: Vec<(u64, Victim)>,
}

impl Pool {
    pub(super) fn clear(&mut self) {
        self.victims.clear();
    }

    /// Adds a sample, and takes out the victims that go: one for each `rules.samples`, but not many more
    /// than what takes so many bytes.
    pub(super) fn choose(
        &mut self,
        rules: &Rules,
        sampled: Vec<Victim>,
        bytes: u64,
    ) -> Vec<Victim> {
        let samples = match rules.is_random() {
            true => 1,
            false => rules.samples.max(1) as usize,
        };
        let most = sampled.len().div_ceil(samples);
        let scored = |victim: Victim| (rules.score(&victim), victim);
        self.victims.extend(sampled.into_iter().map(scored));
        self.victims.sort_by_key(|(score, _)| *score);
        let mut chosen = Vec::new();
        let mut left = bytes;
        while chosen.len() < most
            && left > 0
            && let Some((_, victim)) = self.victims.pop()
        {
            left = left.saturating_sub(victim.memory());
            chosen.push(victim);
        }
        let excess = self.victims.len().saturating_sub(KEPT);
        self.victims.drain(..excess);
        chosen
    }
}
