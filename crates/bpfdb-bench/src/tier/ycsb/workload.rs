//! The workloads of YCSB (Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", 2010), for a store of whole
//! records by their keys. An update writes all of its record (YCSB's `writeallfields`). Redis has no order of
//! keys, so a scan asks for the records of some numbers that follow each other.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::random::{Distribution, Draw, Random};

/// Records that a scan asks for, at most; YCSB's `maxscanlength`.
const SCAN: u64 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Read,
    Update,
    Insert,
    Scan,
    /// A read, and an update of the same record when its value is there.
    ReadModifyWrite,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    Drawn(Distribution),
    /// Zipf, the record that was inserted last the most frequent one.
    Latest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Workload {
    pub(super) name: &'static str,
    pub(super) does: &'static str,
    /// Of a hundred operations so many are the first one; the others the second one.
    pub(super) first: (u32, Operation),
    pub(super) second: Operation,
    pub(super) keys: Keys,
}

const fn workload(
    name: &'static str,
    does: &'static str,
    first: (u32, Operation),
    second: Operation,
) -> Workload {
    Workload {
        name,
        does,
        first,
        second,
        keys: Keys::Drawn(Distribution::Zipf),
    }
}

/// In YCSB's order: those that insert come last. Before them the reads of any record, which RocksDB's own
/// benchmark has, too.
pub(super) const ALL: [Workload; 7] = {
    use Operation::{Insert, Read, ReadModifyWrite, Scan, Update};
    [
        Workload {
            keys: Keys::Drawn(Distribution::Uniform),
            ..workload("uniform", "read any", (100, Read), Read)
        },
        workload("A", "read 50, update 50", (50, Read), Update),
        workload("B", "read 95, update 5", (95, Read), Update),
        workload("C", "read", (100, Read), Read),
        workload(
            "F",
            "read 50, read-modify-write 50",
            (50, Read),
            ReadModifyWrite,
        ),
        Workload {
            keys: Keys::Latest,
            ..workload("D", "read latest 95, insert 5", (95, Read), Insert)
        },
        workload("E", "scan 95, insert 5", (95, Scan), Insert),
    ]
};

/// What a client asks for next: numbers of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Read(u32),
    Update(u32),
    Insert(u32),
    Scan { first: u32, count: u32 },
    ReadModifyWrite(u32),
}

/// The records of a store: those with numbers below a bound are there.
#[derive(Debug)]
pub(super) struct Records {
    /// The number of the next one that is inserted.
    next: AtomicU32,
    /// All below are there.
    there: AtomicU32,
    /// Above it those that are there already.
    ahead: Mutex<BTreeSet<u32>>,
}

impl Records {
    pub(super) fn new(count: u32) -> Self {
        Self {
            next: AtomicU32::new(count),
            there: AtomicU32::new(count),
            ahead: Mutex::default(),
        }
    }

    /// So many are there, without one that is missing in between.
    pub(super) fn count(&self) -> u32 {
        self.there.load(Ordering::Acquire)
    }

    /// A client has inserted this one.
    pub(super) fn inserted(&self, number: u32) {
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        ahead.insert(number);
        let mut there = self.count();
        while ahead.remove(&there) {
            there += 1;
        }
        self.there.store(there, Ordering::Release);
    }
}

/// The requests of one client.
pub(super) struct Requests<'a> {
    pub(super) workload: Workload,
    pub(super) records: &'a Records,
    pub(super) draw: &'a Draw,
    pub(super) random: Random,
}

impl Requests<'_> {
    pub(super) fn next(&mut self) -> Request {
        let (percent, first) = self.workload.first;
        let is_first = self.random.below(100) < u64::from(percent);
        match if is_first {
            first
        } else {
            self.workload.second
        } {
            Operation::Read => Request::Read(self.key()),
            Operation::Update => Request::Update(self.key()),
            Operation::ReadModifyWrite => Request::ReadModifyWrite(self.key()),
            Operation::Insert => Request::Insert(self.records.next.fetch_add(1, Ordering::Relaxed)),
            Operation::Scan => {
                let first = self.key();
                let left = self.records.count() - first;
                let count = 1 + self.random.below(SCAN) as u32;
                Request::Scan {
                    first,
                    count: count.min(left),
                }
            }
        }
    }

    /// Of a record that is there.
    fn key(&mut self) -> u32 {
        match self.workload.keys {
            Keys::Drawn(_) => self.draw.next(&mut self.random),
            Keys::Latest => {
                let newest = self.records.count() - 1;
                newest - self.draw.rank(&mut self.random).min(newest)
            }
        }
    }
}

impl Workload {
    /// How records are drawn, of those that were there in the beginning.
    pub(super) fn distribution(&self) -> Distribution {
        match self.keys {
            Keys::Drawn(distribution) => distribution,
            Keys::Latest => Distribution::Zipf,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDS: u32 = 1000;
    const REQUESTS: usize = 10_000;

    /// What a client does, with every insertion done at once.
    fn requests(name: &str) -> Vec<Request> {
        let workload = ALL.into_iter().find(|workload| workload.name == name);
        let workload = workload.expect("a workload");
        let (records, draw) = (
            Records::new(RECORDS),
            Draw::new(workload.distribution(), RECORDS),
        );
        let mut requests = Requests {
            workload,
            records: &records,
            draw: &draw,
            random: Random::new(1),
        };
        let each = |_| {
            let request = requests.next();
            if let Request::Insert(number) = request {
                records.inserted(number);
            }
            request
        };
        (0..REQUESTS).map(each).collect()
    }

    fn percent(requests: &[Request], is_it: impl Fn(&Request) -> bool) -> usize {
        requests.iter().filter(|request| is_it(request)).count() * 100 / requests.len()
    }

    #[test]
    fn workloads_have_their_shares() {
        let reads = |request: &Request| matches!(request, Request::Read(_));
        for (name, least, most) in [("A", 48, 52), ("B", 94, 96), ("C", 100, 100), ("F", 48, 52)] {
            let share = percent(&requests(name), reads);
            assert!((least..=most).contains(&share), "{name}: {share}");
        }
        let scans = |request: &Request| matches!(request, Request::Scan { .. });
        assert!((94..=96).contains(&percent(&requests("E"), scans)));
    }

    #[test]
    fn what_is_asked_for_is_there() {
        for workload in ALL {
            let mut count = RECORDS;
            for request in requests(workload.name) {
                match request {
                    Request::Insert(number) => {
                        assert_eq!(number, count);
                        count += 1;
                    }
                    Request::Scan { first, count: of } => {
                        assert!(of > 0 && first + of <= count, "{request:?} of {count}");
                    }
                    Request::Read(key) | Request::Update(key) | Request::ReadModifyWrite(key) => {
                        assert!(key < count, "{request:?} of {count}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_latest_records_are_read_most() {
        let mut count = RECORDS;
        let mut recent = 0;
        let all = requests("D");
        for request in &all {
            match request {
                Request::Insert(_) => count += 1,
                Request::Read(key) => recent += usize::from(count - key <= 10),
                _ => {}
            }
        }
        assert!(recent * 4 > all.len(), "{recent} of {}", all.len());
    }

    #[test]
    fn a_record_is_there_when_all_before_it_are() {
        let records = Records::new(3);
        records.inserted(4);
        assert_eq!(records.count(), 3);
        records.inserted(3);
        assert_eq!(records.count(), 5);
    }
}
