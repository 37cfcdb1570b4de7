//! The meaning of `maxmemory-policy`: which records may go, and which first.

use bpfdb::{Access, Tracking, Victim};

use crate::settings::{EvictionPolicy, Settings};
use crate::values::random::Random;

/// The rules of the evictor, from the settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) policy: EvictionPolicy,
    /// Records that are looked at for each one that goes.
    pub(crate) samples: u32,
    lfu_log_factor: u32,
    lfu_decay: u32,
}

impl Rules {
    pub(crate) fn of(settings: &Settings) -> Self {
        Self {
            policy: settings.max_memory_policy,
            samples: settings.max_memory_samples,
            lfu_log_factor: settings.lfu_log_factor,
            lfu_decay: settings.lfu_decay_time,
        }
    }

    pub(crate) fn evicts(&self) -> bool {
        self.policy != EvictionPolicy::NoEviction
    }

    /// Does it choose among keys with an expiry only?
    pub(crate) fn expiring_only(&self) -> bool {
        use EvictionPolicy::{VolatileLfu, VolatileLru, VolatileRandom, VolatileTtl};
        matches!(
            self.policy,
            VolatileLru | VolatileLfu | VolatileRandom | VolatileTtl
        )
    }

    pub(crate) fn is_random(&self) -> bool {
        use EvictionPolicy::{AllkeysRandom, VolatileRandom};
        matches!(self.policy, AllkeysRandom | VolatileRandom)
    }

    pub(crate) fn is_lfu(&self) -> bool {
        use EvictionPolicy::{AllkeysLfu, VolatileLfu};
        matches!(self.policy, AllkeysLfu | VolatileLfu)
    }

    /// What the engine has to note. As in Redis, policies that do not need the time of the last access
    /// have it noted, too, for OBJECT IDLETIME.
    pub(crate) fn tracking(&self) -> Tracking {
        match self.evicts() {
            false => Tracking::Off,
            true if self.is_lfu() => Tracking::Lfu {
                log_factor: self.lfu_log_factor,
                decay_minutes: self.lfu_decay,
            },
            true => Tracking::Lru,
        }
    }

    /// The greater, the sooner it goes. `random` says which of any.
    pub(super) fn score(&self, victim: &Victim, random: &mut Random) -> u64 {
        if self.policy == EvictionPolicy::VolatileTtl {
            return u64::MAX - victim.expires_at.unwrap_or(u64::MAX);
        }
        if self.is_random() {
            return random.next();
        }
        match victim.access {
            Access::Unknown => 0,
            Access::Idle(idle) => u64::try_from(idle.as_nanos()).unwrap_or(u64::MAX),
            Access::Frequency(counter) => u64::from(u8::MAX - counter),
        }
    }
}
