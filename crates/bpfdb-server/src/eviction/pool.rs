//! The best victims of those that were seen: as in Redis, what was a good victim in one sample
//! and did not go is compared with the next. Of any record that may go some stay, too: if all went that
//! the hand meets, a record just before the hand would go at once, and one just behind it last.

use bpfdb::Victim;

use super::policy::Rules;
use crate::values::random::Random;

/// Victims that are kept from one sample to the next.
const KEPT: usize = 64;

#[derive(Debug)]
pub(super) struct Pool {
    /// By their score, the least first.
    victims: Vec<(u64, Victim)>,
    random: Random,
}

impl Pool {
    pub(super) fn new() -> Self {
        Self {
            victims: Vec::new(),
            random: Random::new(),
        }
    }

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
        let most = sampled.len().div_ceil(rules.samples.max(1) as usize);
        let scored = |victim: Victim| (rules.score(&victim, &mut self.random), victim);
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
