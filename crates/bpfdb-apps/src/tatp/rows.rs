//! The rows that are there in the beginning: the same ones each time.

use std::ops::Range;

use super::Forwarding;
use crate::client::command;
use crate::random::Random;

/// Of access data, and of facilities, numbered from 1.
pub(super) const TYPES: u64 = 4;
/// Hours at which a call forwarding begins, and for how many it lasts at most.
pub(super) const STARTS: [i64; 3] = [0, 8, 16];
pub(super) const LENGTH_MAX: u64 = 8;
/// Facilities that are active.
const ACTIVE_PERCENT: u64 = 85;

pub const NUMBER_LENGTH: usize = 15;
pub const SUBSCRIBER_LENGTH: usize = NUMBER_LENGTH + 10 + 10 + 30 + 10 + 10;
pub const ACCESS_LENGTH: usize = 3 + 3 + 3 + 5;

/// Where the columns that change are in a subscriber.
pub(super) const BIT_1: usize = NUMBER_LENGTH;
pub(super) const VLR_LOCATION: usize = SUBSCRIBER_LENGTH - 10;
/// And in a facility.
pub(super) const DATA_A: Range<usize> = 4..7;

/// A subscriber and all that belongs to it.
#[derive(Debug)]
pub struct Subscriber {
    pub id: i64,
    pub row: String,
    /// Types and rows.
    pub access: Vec<(u64, String)>,
    pub facilities: Vec<Facility>,
}

#[derive(Debug)]
pub struct Facility {
    pub kind: u64,
    pub row: String,
    /// Starts and rows.
    pub forwardings: Vec<(i64, String)>,
}

/// `sub_nbr`
pub(super) fn number(id: i64) -> String {
    format!("{id:0NUMBER_LENGTH$}")
}

impl Subscriber {
    pub fn new(id: i64) -> Self {
        let mut random = Random::new(id.unsigned_abs());
        let random = &mut random;
        let mut row = number(id);
        row.extend((0..10).map(|_| char::from(b"01"[random.below(2) as usize])));
        row.extend((0..10).map(|_| char::from(b"0123456789abcdef"[random.below(16) as usize])));
        for _ in 0..10 {
            row += &format!("{:03}", random.below(256));
        }
        for _ in 0..2 {
            row += &format!("{:010}", random.below(1 << 32));
        }
        let access = some(random, 1, TYPES)
            .into_iter()
            .map(|kind| (1 + kind, access(random)));
        Self {
            id,
            row,
            access: access.collect(),
            facilities: some(random, 1, TYPES)
                .into_iter()
                .map(|kind| Facility::new(1 + kind, random))
                .collect(),
        }
    }

    /// All rows of call forwarding.
    pub fn forwardings(&self) -> Vec<(Forwarding, String)> {
        let mut all = Vec::new();
        for facility in &self.facilities {
            for (start, row) in &facility.forwardings {
                all.push(((self.id, facility.kind as i64, *start), row.clone()));
            }
        }
        all
    }

    /// Adds the requests that set all rows: how many.
    pub fn write(&self, to: &mut Vec<u8>) -> usize {
        let mut count = 0;
        let mut set = |key: String, value: &str| {
            command(to, &["SET", &format!("tatp:{key}"), value]);
            count += 1;
        };
        // Types and starts are behind the number of the subscriber, which has eight digits where
        // it is a part of a key.
        let id = format!("{:08}", self.id);
        set(format!("subscriber:{id}"), &self.row);
        set(format!("number:{}", number(self.id)), &id);
        for (kind, row) in &self.access {
            set(format!("access:{id}:{kind}"), row);
        }
        for facility in &self.facilities {
            let of = format!("{id}:{}", facility.kind);
            set(format!("facility:{of}"), &facility.row);
            for (start, row) in &facility.forwardings {
                set(format!("forwarding:{of}:{start}"), row);
            }
        }
        count
    }
}

impl Facility {
    fn new(kind: u64, random: &mut Random) -> Self {
        let is_active = u8::from(random.below(100) < ACTIVE_PERCENT);
        let (error, data) = (random.below(256), random.below(256));
        let row = format!("{is_active}{error:03}{data:03}{}", random.text(5));
        let starts = some(random, 0, STARTS.len() as u64);
        let forwarding = |place: u64| {
            let start = STARTS[place as usize];
            let end = start + 1 + random.below(LENGTH_MAX) as i64;
            let number = number(random.below(1_000_000_000) as i64);
            (start, format!("{end:02}{number}"))
        };
        Self {
            kind,
            row,
            forwardings: starts.into_iter().map(forwarding).collect(),
        }
    }
}

fn access(random: &mut Random) -> String {
    let (one, two) = (random.below(256), random.below(256));
    format!("{one:03}{two:03}{}{}", random.text(3), random.text(5))
}

/// At least `least` of the numbers below `bound`, each number of them equally often.
fn some(random: &mut Random, least: u64, bound: u64) -> Vec<u64> {
    let mut all: Vec<u64> = (0..bound).collect();
    let count = least + random.below(bound - least + 1);
    while all.len() as u64 > count {
        all.remove(random.below(all.len() as u64) as usize);
    }
    all
}
