//! Slow events: LATENCY. As in Redis an event has one sample for each second
//! in which it was slow, and 160 samples.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::stats::slowlog::unix_seconds;

const SAMPLES_MAX: usize = 160;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Seconds since 1970.
    pub(crate) time: u64,
    pub(crate) milliseconds: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Event {
    samples: VecDeque<Sample>,
    pub(crate) longest: u64,
}

impl Event {
    pub(crate) fn samples(&self) -> impl ExactSizeIterator<Item = &Sample> {
        self.samples.iter()
    }

    pub(crate) fn latest(&self) -> Sample {
        let none = Sample {
            time: 0,
            milliseconds: 0,
        };
        self.samples.back().copied().unwrap_or(none)
    }

    fn add(&mut self, sample: Sample) {
        self.longest = self.longest.max(sample.milliseconds);
        match self.samples.back_mut() {
            Some(last) if last.time == sample.time => {
                last.milliseconds = last.milliseconds.max(sample.milliseconds);
                return;
            }
            _ => self.samples.push_back(sample),
        }
        if self.samples.len() > SAMPLES_MAX {
            self.samples.pop_front();
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Latency {
    events: BTreeMap<&'static str, Event>,
}

impl Latency {
    /// Keeps the event, if it was slow. Threshold: milliseconds; 0: never.
    pub(crate) fn observe(&mut self, event: &'static str, time: Duration, threshold: u64) {
        let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        if threshold == 0 || milliseconds < threshold {
            return;
        }
        self.events.entry(event).or_default().add(Sample {
            time: unix_seconds(),
            milliseconds,
        });
    }

    pub(crate) fn events(&self) -> impl ExactSizeIterator<Item = (&'static str, &Event)> {
        self.events.iter().map(|(&name, event)| (name, event))
    }

    pub(crate) fn event(&self, name: &[u8]) -> Option<&Event> {
        let mut all = self.events();
        all.find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name))
            .map(|(_, event)| event)
    }

    /// Forgets these events, or all if none is named; how many those were.
    pub(crate) fn reset(&mut self, names: &[Vec<u8>]) -> usize {
        let before = self.events.len();
        self.events.retain(|known, _| {
            let named = |name: &Vec<u8>| name.eq_ignore_ascii_case(known.as_bytes());
            !names.is_empty() && !names.iter().any(named)
        });
        before - self.events.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_slow_is_kept() {
        let mut latency = Latency::default();
        latency.observe("command", Duration::from_millis(9), 10);
        latency.observe("command", Duration::from_secs(1), 0);
        assert_eq!(latency.events().len(), 0);
        latency.observe("command", Duration::from_millis(10), 10);
        latency.observe("command", Duration::from_millis(30), 10);
        let event = latency.event(b"COMMAND").expect("kept");
        assert_eq!(event.longest, 30);
        assert!(event.samples().len() <= 2);
        assert_eq!(latency.reset(&[b"other".to_vec()]), 0);
        assert_eq!(latency.reset(&[]), 1);
    }

    #[test]
    fn one_sample_for_each_second_and_not_too_many() {
        let mut event = Event::default();
        for time in 0..1000 {
            for milliseconds in [5, 9, 7] {
                event.add(Sample { time, milliseconds });
            }
        }
        assert_eq!(event.samples().len(), SAMPLES_MAX);
        assert!(event.samples().all(|sample| sample.milliseconds == 9));
        assert_eq!(event.latest().time, 999);
    }
}
