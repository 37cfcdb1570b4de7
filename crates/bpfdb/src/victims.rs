//! Which records are used, and which may go: access words, and the hand that samples victims
//! (docs/decisions/0032-eviction.md). `bpf/storage/access.bpf.h` says what is noted when.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::engine::Engine;
use crate::error::Result;
use crate::memory::usage::Usage;
use crate::session::{Operation, Session};
use crate::{Status, ValueType, abi};

/// Bytes of what precedes the key of a sampled record.
const SAMPLED: usize = size_of::<abi::bpfdb_sampled>();
/// In the place of a snapshot's timestamp: as in bpf/txn/snapshot.bpf.h.
const SNAPSHOT_REVOKED: u64 = u64::MAX;
/// Records of one call of [`Session::evict`], so that they fit the buffer and hold up no other thread.
pub(crate) const EVICTED_AT_ONCE: usize = 256;
const INLINE_MAX: u64 = abi::BPFDB_INLINE_MAX as u64;
pub(crate) const CELL: u64 = abi::BPFDB_CELL_SIZE as u64;

/// What the engine notes when a record is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tracking {
    /// Nothing, which costs nothing.
    #[default]
    Off,
    /// When.
    Lru,
    /// How often, by the counter of Redis's LFU: the chance that it goes up is one divided by the
    /// counter (less 5) times `log_factor`, and it goes down by one for each `decay_minutes` without
    /// use; 0: never.
    Lfu { log_factor: u32, decay_minutes: u32 },
}

/// What is known of a record's use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing: nothing is noted, or snapshots needed older versions of the record.
    Unknown,
    /// Not used for so long, to 17 ms.
    Idle(Duration),
    /// The counter, as it is now.
    Frequency(u8),
}

impl Access {
    /// The counter of a record that is new.
    pub const FREQUENCY_FIRST: u8 = abi::BPFDB_ACCESS_FREQUENCY_FIRST as u8;
}

/// What a write finds that needs memory beyond the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// `OUT_OF_MEMORY`.
    Final,
    /// `MEMORY_PENDING`: a thread evicts.
    Passes,
    /// `OUT_OF_MEMORY`: nothing can be evicted for now.
    Hopeless,
}

/// A record that may be evicted, as it was when it was sampled.
#[derive(Clone, Debug)]
pub struct Victim {
    /// The stored key ([`crate::Database::split`]).
    pub key: Vec<u8>,
    /// UNIX time, milliseconds.
    pub expires_at: Option<u64>,
    pub access: Access,
    /// Bytes of its value.
    pub len: u64,
    header: u64,
    meta: u64,
    /// The closing slabs that key and value lie in, if those were looked for.
    pub(crate) closing: [Option<NonZeroU32>; 2],
}

impl Victim {
    pub fn value_type(&self) -> ValueType {
        ValueType::of_form(self.meta)
    }

    /// Bytes that come free with it, about.
    pub fn memory(&self) -> u64 {
        let slot = |len| match len {
            0..=INLINE_MAX => 0,
            len => len,
        };
        CELL + slot(self.key.len() as u64) + slot(self.len)
    }
}

/// Where the hand is that goes over the records, round after round.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hand {
    cursor: u64,
}

/// What [`Session::sample_victims`] looks for.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Records after which it stops.
    pub count: u32,
    /// Only those with an expiry.
    pub expiring_only: bool,
    /// Pages of the index, of 1,024 cells each, after which it stops.
    pub pages: u32,
}

/// What a step of the hand has found.
#[derive(Clone, Debug, Default)]
pub struct Sampled {
    pub victims: Vec<Victim>,
    /// A round has ended: the hand has begun the next one.
    pub round_ended: bool,
}

/// What has become of victims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evicted {
    pub records: u64,
    /// Used, written or removed since they were sampled, or locked.
    pub spared: u64,
}

/// How far memory is from full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryMissing {
    /// Bytes.
    pub missing: u64,
    /// It may soon be full.
    pub is_near: bool,
    /// Pages that data of any size may still take.
    pub pages_left: u64,
}

impl Engine {
    /// What is noted from now on when records are used.
    pub fn set_access_tracking(&self, tracking: Tracking) -> Result<()> {
        self.owned("change what is noted of accesses")?;
        let state = self.inner.memory.state_pointer();
        let (number, log_factor, decay) = match tracking {
            Tracking::Off => (abi::BPFDB_TRACKING_OFF, 0, 0),
            Tracking::Lru => (abi::BPFDB_TRACKING_LRU, 0, 0),
            Tracking::Lfu {
                log_factor,
                decay_minutes,
            } => (abi::BPFDB_TRACKING_LFU, log_factor, decay_minutes),
        };
        let now = match tracking {
            Tracking::Off => 0,
            Tracking::Lru => word_of_access(Access::Idle(Duration::ZERO), self.coarse_now()),
            Tracking::Lfu { .. } => abi::BPFDB_ACCESS_COUNTED,
        };
        // SAFETY: aligned words inside the mapping. Programs only read them, each by itself, but for the
        // last one: the timer makes it what the others say, if it has overwritten this with what they said.
        unsafe {
            (&raw mut (*state).lfu_log_factor).write_volatile(log_factor);
            (&raw mut (*state).lfu_decay).write_volatile(decay);
            (&raw mut (*state).tracking).write_volatile(number);
            (&raw mut (*state).access_now).write_volatile(now);
        }
        Ok(())
    }

    /// What writes find from now on when memory is full. A process that says [`Shortage::Passes`] evicts.
    pub fn set_shortage(&self, shortage: Shortage) -> Result<()> {
        self.owned("change what a shortage of memory is")?;
        let number = match shortage {
            Shortage::Final => abi::BPFDB_EVICTION_OFF,
            Shortage::Passes => abi::BPFDB_EVICTION_ON,
            Shortage::Hopeless => abi::BPFDB_EVICTION_HOPELESS,
        };
        let state = self.inner.memory.state_pointer();
        // SAFETY: as above.
        unsafe { (&raw mut (*state).eviction).write_volatile(number) };
        Ok(())
    }

    /// Ends what an owner was doing that was killed: no thread evicts, and no slab is closing for that.
    pub(crate) fn end_eviction(&self) -> Result<()> {
        self.set_access_tracking(Tracking::Off)?;
        self.set_shortage(Shortage::Final)?;
        self.reopen_slabs()
    }

    /// Versions with an expiry: none, and no record has one.
    pub fn expiring(&self) -> u64 {
        let state = self.inner.memory.state_pointer();
        // SAFETY: inside the mapping, which lives as long as self.
        unsafe { (&raw const (*state).expiring.value).read_volatile() }
    }

    /// When the oldest snapshot began that is running, on the clock of [`Engine::coarse_now`]: what was
    /// deleted before is not kept any more. One that was revoked, because it is old and in the way, keeps
    /// nothing, though its session is not over. It looks at all sessions, if there is a snapshot.
    pub fn oldest_snapshot(&self) -> Option<u64> {
        let state = self.inner.memory.state_pointer();
        // SAFETY: inside the mapping, which lives as long as self.
        let active = unsafe { (&raw const (*state).snapshots.active).read_volatile() } as u32;
        if active == 0 {
            return None;
        }
        let sessions = &self.inner.sessions;
        let made = (self.inner.memory.sessions_made() as usize).min(sessions.len());
        let (mut oldest, mut revoked) = (None, 0);
        for index in 0..made {
            let session = sessions.at(index);
            // SAFETY: as above.
            let (state, begun) = unsafe {
                let state = (&raw const (*session).state).read_volatile();
                (state, (&raw const (*session).begun).read_volatile())
            };
            if u32::from(state) != abi::BPFDB_TXN_READ {
                continue;
            }
            match self.is_revoked(index as u32) {
                true => revoked += 1,
                false => oldest = Some(oldest.map_or(begun, |oldest: u64| oldest.min(begun))),
            }
        }
        // One that is just beginning begins now.
        oldest.or_else(|| (active > revoked).then(|| self.coarse_now()))
    }

    /// Was the snapshot of this session revoked?
    fn is_revoked(&self, session: u32) -> bool {
        self.inner.maps.snapshot(session) == Some(SNAPSHOT_REVOKED)
    }

    /// What should be freed so that each size of slots has one free for each `share` that are in use, or
    /// there are free pages for it. It looks at all pages, each for a nanosecond or two, unless memory is
    /// far from full.
    pub fn memory_missing(&self, share: u64) -> MemoryMissing {
        let inner = &self.inner;
        let (limit, left) = inner.memory.data_pages();
        if left > limit / share {
            return MemoryMissing {
                missing: 0,
                is_near: left < 4 * (limit / share),
                pages_left: left,
            };
        }
        let usage = Usage::take(&inner.memory.state(), &inner.slabs);
        MemoryMissing {
            missing: usage.missing(left, share),
            is_near: true,
            pages_left: left,
        }
    }

    /// Bytes that data may take and does not: free pages, free slots, and what the index keeps for
    /// records that have gone. It looks at all pages.
    pub fn memory_unused(&self) -> u64 {
        let inner = &self.inner;
        let usage = Usage::take(&inner.memory.state(), &inner.slabs);
        let all = inner.memory.data_pages().0 * u64::from(abi::BPFDB_PAGE_SIZE);
        all.saturating_sub(usage.memory_used())
    }

    /// Pages that data of any size may still take, without those that are kept for locks.
    pub fn data_pages_left(&self) -> u64 {
        self.inner.memory.data_pages().1
    }

    /// How often memory was asked for, by all processes, about: it changes when a write has found none.
    pub fn shortages(&self) -> u64 {
        self.inner.memory.shortages()
    }

    /// Has the engine all the memory that its limit allows?
    pub fn has_all_memory(&self) -> bool {
        let state = self.inner.memory.state_pointer();
        // SAFETY: inside the mapping, which lives as long as self.
        let (segments, limit) = unsafe {
            (
                (&raw const (*state).segments.value).read_volatile(),
                (&raw const (*state).segments_limit.value).read_volatile(),
            )
        };
        segments >= limit
    }

    /// Gives all pages of slots that are empty back, for data of any size.
    pub fn reclaim_pages(&self) -> Result<()> {
        self.owned("give empty pages back")?.shrinker.reclaim()
    }

    /// The bytes of the longest large value that has found no room since the last call; 0: none.
    pub fn take_room_wanted(&self) -> u64 {
        self.inner.memory.take_room_wanted()
    }

    /// Has a write found no memory since the last call, of any process, or does a large value wait for
    /// free pages ([`Engine::take_room_wanted`])?
    pub fn take_shortage(&self) -> bool {
        let memory = &self.inner.memory;
        memory.take_shortage() || memory.is_room_wanted()
    }

    /// Nanoseconds of CLOCK_MONOTONIC, as of the last tick of the engine's timer: to 10 ms.
    pub fn coarse_now(&self) -> u64 {
        self.inner.memory.coarse_now()
    }

    /// What an access word says, now.
    fn access(&self, meta: u64) -> Access {
        access_of_word(meta, self.coarse_now(), self.lfu_decay())
    }

    fn lfu_decay(&self) -> u64 {
        let state = self.inner.memory.state_pointer();
        // SAFETY: as above.
        u64::from(unsafe { (&raw const (*state).lfu_decay).read_volatile() })
    }
}

fn access_of_word(meta: u64, now: u64, decay: u64) -> Access {
    if meta & abi::BPFDB_ACCESS_WORD == 0 {
        return Access::Unknown;
    }
    if meta & abi::BPFDB_ACCESS_LFU != 0 {
        let minute_mask = abi::BPFDB_ACCESS_MINUTE_MASK;
        let minute = (now / abi::BPFDB_ACCESS_MINUTE) & minute_mask;
        let then = meta >> abi::BPFDB_ACCESS_MINUTE_SHIFT & minute_mask;
        let counter = meta >> abi::BPFDB_FORM_BITS & abi::BPFDB_ACCESS_COUNTER_MASK;
        let minutes = minute.wrapping_sub(then) & minute_mask;
        let lost = minutes.checked_div(decay).unwrap_or(0);
        return Access::Frequency(counter.saturating_sub(lost) as u8);
    }
    let units = abi::BPFDB_ACCESS_TIME_MASK;
    let then = meta >> abi::BPFDB_FORM_BITS & units;
    let unit = abi::BPFDB_ACCESS_UNIT_BITS;
    // Modulo 146 years: what was restored can be idle for longer than the machine has been up. More
    // than half of that is a record that was used since `now` was read.
    let idle = (now >> unit).wrapping_sub(then) & units;
    let idle = if idle > units / 2 { 0 } else { idle };
    Access::Idle(Duration::from_nanos(idle << unit))
}

/// The access word that says so.
fn word_of_access(access: Access, now: u64) -> u64 {
    match access {
        Access::Unknown => 0,
        Access::Idle(idle) => {
            let (unit, units) = (abi::BPFDB_ACCESS_UNIT_BITS, abi::BPFDB_ACCESS_TIME_MASK);
            let idle = u64::try_from(idle.as_nanos() >> unit)
                .map_or(units / 2, |idle| idle.min(units / 2));
            let then = (now >> unit).wrapping_sub(idle) & units;
            abi::BPFDB_ACCESS_WORD | then << abi::BPFDB_FORM_BITS
        }
        Access::Frequency(counter) => {
            let minute = (now / abi::BPFDB_ACCESS_MINUTE) & abi::BPFDB_ACCESS_MINUTE_MASK;
            abi::BPFDB_ACCESS_WORD
                | abi::BPFDB_ACCESS_LFU
                | minute << abi::BPFDB_ACCESS_MINUTE_SHIFT
                | u64::from(counter) << abi::BPFDB_FORM_BITS
        }
    }
}

impl Session {
    /// The next records that the hand meets and that may be evicted: those of all databases that
    /// have a value and are not locked. What lies side by side is a random sample. All records
    /// are met in a round, but for those that are moved meanwhile. It is no access.
    pub fn sample_victims(&mut self, hand: &mut Hand, sample: &Sample) -> Result<Sampled, Status> {
        let reply = self.run_sample(abi::bpfdb_sample {
            cursor: hand.cursor,
            wanted: sample.count,
            pages: sample.pages,
            which: match sample.expiring_only {
                true => abi::BPFDB_SAMPLE_EXPIRING,
                false => 0,
            },
            ended: 0,
        })?;
        hand.cursor = reply.cursor;
        Ok(self.sampled(&reply))
    }

    /// The records that a step of the hand has left in the buffer.
    pub(crate) fn sampled(&mut self, reply: &abi::bpfdb_sample) -> Sampled {
        let engine = self.engine().clone();
        let (now, decay) = (engine.coarse_now(), engine.lfu_decay());
        let mut at = size_of::<abi::bpfdb_sample>();
        let mut victims = Vec::with_capacity(reply.wanted as usize);
        for _ in 0..reply.wanted {
            let start = self.buffer_at(at, SAMPLED).as_ptr();
            // SAFETY: the program wrote so many records, one behind the other.
            let sampled = unsafe { start.cast::<abi::bpfdb_sampled>().read_unaligned() };
            let len = (sampled.key_len as usize).min(abi::BPFDB_KEY_MAX as usize);
            let key = self.buffer_at(at + SAMPLED, len).to_vec();
            at += SAMPLED + len.next_multiple_of(8);
            victims.push(Victim {
                key,
                expires_at: (sampled.expires != 0).then_some(sampled.expires),
                access: access_of_word(sampled.meta, now, decay),
                len: sampled.len,
                header: sampled.header,
                meta: sampled.meta,
                closing: [sampled.key_page, sampled.value_page].map(NonZeroU32::new),
            });
        }
        Sampled {
            victims,
            round_ended: reply.ended != 0,
        }
    }

    /// Deletes those of the victims that are what they were when they were sampled, each in a
    /// transaction of its own. Not in a transaction; the session's database is 0.
    ///
    /// # Errors
    /// Nothing can be deleted now: the log has no room, or is closed. Some may be.
    pub fn evict(&mut self, victims: &[Victim]) -> Result<Evicted, Status> {
        self.evict_each(victims, |_| ())
    }

    /// The same; `gone` is called with each of them that was deleted, also if an Error follows.
    pub fn evict_each(
        &mut self,
        victims: &[Victim],
        mut gone: impl FnMut(&Victim),
    ) -> Result<Evicted, Status> {
        let mut evicted = Evicted::default();
        for some in victims.chunks(EVICTED_AT_ONCE) {
            let operations: Vec<_> = some.iter().map(evict).collect();
            let batch = self
                .prepare(&operations, 0)
                .map_err(|_| Status::BadRequest)?;
            self.run(&batch).map_err(|_| Status::BadRequest)?;
            let mut refused = None;
            for (i, victim) in some.iter().enumerate() {
                match self.status_of(&batch, i) {
                    Status::Found => {
                        evicted.records += 1;
                        gone(victim);
                    }
                    status if status.is_refused_by_log() => refused = Some(status),
                    _ => evicted.spared += 1,
                }
            }
            if let Some(status) = refused {
                return Err(status);
            }
        }
        Ok(evicted)
    }

    /// What is known of the use of a key; `None`: there is no record. It is no access.
    pub fn access_of(&mut self, key: &[u8]) -> Result<Option<Access>, Status> {
        let found = self.read_access(&Operation::Access(key, 0))?;
        Ok(found.map(|meta| self.engine().access(meta)))
    }

    /// Makes this what is known of the use of a key, if it has a record.
    pub fn set_access(&mut self, key: &[u8], access: Access) -> Result<(), Status> {
        let word = word_of_access(access, self.engine().coarse_now());
        self.read_access(&Operation::Access(key, word)).map(drop)
    }
}

fn evict(victim: &Victim) -> Operation<'_> {
    Operation::Evict(&victim.key, victim.header, victim.meta)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn words_say_what_they_were_made_of() {
        let now = 5000 * SECOND;
        let idle = Access::Idle(Duration::from_secs(20));
        let word = word_of_access(idle, now);
        let Access::Idle(read) = access_of_word(word | 0x1234, now, 1) else {
            panic!("a time");
        };
        assert!(read.abs_diff(Duration::from_secs(20)) < Duration::from_millis(20));

        let word = word_of_access(Access::Frequency(200), now);
        let later = |minutes: u64| access_of_word(word, now + minutes * 60 * SECOND, 2);
        assert_eq!(later(0), Access::Frequency(200));
        assert_eq!(later(20), Access::Frequency(190));
        assert_eq!(later(4000), Access::Frequency(0));
        assert_eq!(
            access_of_word(word, now + 4000 * 60 * SECOND, 0),
            Access::Frequency(200)
        );
        assert_eq!(access_of_word(0x1234 << 24, now, 1), Access::Unknown);
        assert_eq!(word_of_access(Access::Unknown, now), 0);
    }

    #[test]
    fn a_record_can_be_idle_for_longer_than_the_machine_is_up() {
        let now = 10 * SECOND;
        let days = Duration::from_secs(3 * 24 * 60 * 60);
        let word = word_of_access(Access::Idle(days), now);
        let idle = |now: u64| match access_of_word(word, now, 1) {
            Access::Idle(idle) => idle,
            other => panic!("{other:?}"),
        };
        let unit = Duration::from_millis(40);
        assert!(idle(now).abs_diff(days) < unit);
        let later = idle(now + 60 * SECOND);
        assert!(later.abs_diff(days + Duration::from_secs(60)) < unit);
        // Used after `now` was read.
        let word = word_of_access(Access::Idle(Duration::ZERO), now + SECOND);
        assert_eq!(access_of_word(word, now, 1), Access::Idle(Duration::ZERO));
        // The longest that a word can say.
        let longest = access_of_word(word_of_access(Access::Idle(Duration::MAX), now), now, 1);
        let years = |years: u64| Duration::from_secs(years * 365 * 24 * 60 * 60);
        assert!(matches!(longest, Access::Idle(idle) if idle > years(70) && idle < years(75)));
    }
}
