//! Limits of the replies that a client does not read, for each class of clients.

use super::{Size, Value};

/// How much of one connection's replies may wait for it to read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimit {
    /// Bytes at which the connection is closed at once; 0: no limit.
    pub hard: Size,
    /// Bytes that may wait for `seconds`; 0: no limit.
    pub soft: Size,
    pub seconds: u64,
}

impl OutputLimit {
    pub(in crate::settings) const fn new(hard: u64, soft: u64, seconds: u64) -> Self {
        Self {
            hard: Size(hard),
            soft: Size(soft),
            seconds,
        }
    }
}

/// The limits of Redis's classes of clients: subscribers, replicas, of which there are none, and
/// all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimits {
    pub normal: OutputLimit,
    pub replica: OutputLimit,
    pub pubsub: OutputLimit,
}

impl OutputLimits {
    /// Those of Redis for the other classes.
    pub const fn of_normal(normal: OutputLimit) -> Self {
        Self {
            normal,
            replica: OutputLimit::new(256 << 20, 64 << 20, 60),
            pubsub: OutputLimit::new(32 << 20, 8 << 20, 60),
        }
    }

    fn class(&mut self, name: &str) -> Option<&mut OutputLimit> {
        match name.to_ascii_lowercase().as_str() {
            "normal" => Some(&mut self.normal),
            "slave" | "replica" => Some(&mut self.replica),
            "pubsub" => Some(&mut self.pubsub),
            _ => None,
        }
    }
}

/// Redis's way to write it: four words for each class; one that is not named stays.
impl Value for OutputLimits {
    const HINT: &'static str = "\"normal HARD SOFT SECONDS\"";

    fn parse(text: &str) -> Result<Self, String> {
        Self::of_normal(OutputLimit::new(0, 0, 0)).parse_onto(text)
    }

    fn parse_onto(&self, text: &str) -> Result<Self, String> {
        let mut limits = *self;
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        if words.is_empty() || !words.len().is_multiple_of(4) {
            return Err("Wrong number of arguments in buffer limit configuration.".into());
        }
        for limit in words.chunks_exact(4) {
            let class = limits
                .class(limit[0])
                .ok_or("Invalid client class specified in buffer limit configuration.")?;
            let number = |text: &str| text.parse::<Size>().ok();
            let seconds = limit[3]
                .parse()
                .ok()
                .filter(|&seconds| seconds <= i64::MAX as u64);
            let (Some(hard), Some(soft), Some(seconds)) =
                (number(limit[1]), number(limit[2]), seconds)
            else {
                return Err(
                    "Error in hard, soft or soft_seconds setting in buffer limit configuration."
                        .into(),
                );
            };
            *class = OutputLimit {
                hard,
                soft,
                seconds,
            };
        }
        Ok(limits)
    }

    fn show(&self) -> String {
        let classes = [
            ("normal", self.normal),
            ("slave", self.replica),
            ("pubsub", self.pubsub),
        ];
        let one = |(name, limit): (&str, OutputLimit)| {
            format!("{name} {} {} {}", limit.hard.0, limit.soft.0, limit.seconds)
        };
        classes.map(one).join(" ")
    }
}
