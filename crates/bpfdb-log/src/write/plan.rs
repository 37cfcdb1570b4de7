//! How a group becomes batches: refused if no reader would accept it, divided between records if
//! it is larger than a batch may be.

use std::ops::Range;

use crate::error::{LogError, Result};
use crate::format::batch;
use crate::format::layout::BLOCK;
use crate::format::record::{Record, Records};

/// The payload of one batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) bytes: Range<usize>,
    pub(crate) records: u32,
    /// On the disk, in bytes.
    pub(crate) size: u64,
}

/// The batches of a group, at least one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) rings: usize,
}

impl Plan {
    /// `floor`: every commit has a greater timestamp. `limit`: bytes of the largest batch.
    pub(crate) fn new(
        records: &[u8],
        count: u32,
        rings: usize,
        floor: u64,
        limit: u64,
    ) -> Result<Self> {
        let mut plan = Self {
            chunks: Vec::new(),
            rings,
        };
        plan.push(0..0, 0);
        let mut seen = 0;
        let mut walk = Records::new(records);
        while let Some(record) = walk.next() {
            let (at, record) =
                record.map_err(|why| refused(format!("record {seen} of the batch: {why}")))?;
            check_timestamp(&record, floor)?;
            plan.add(at..walk.position(), limit)?;
            seen += 1;
        }
        match seen == count && plan.chunks[0].size <= limit {
            true => Ok(plan),
            false => Err(refused(format!(
                "a batch of {seen} records and {rings} rings is said to have {count} records"
            ))),
        }
    }

    /// Adds a record to the last chunk, or to a new one if it does not fit.
    fn add(&mut self, record: Range<usize>, limit: u64) -> Result<()> {
        if self.size(&record) > limit {
            let size = record.len();
            return Err(refused(format!("a record of {size} bytes fits no batch")));
        }
        let (mut bytes, mut records) = (record.clone(), 1);
        if let Some(last) = self.chunks.last() {
            let joined = last.bytes.start..record.end;
            if self.size(&joined) <= limit {
                (bytes, records) = (joined, last.records + 1);
                self.chunks.pop();
            }
        }
        self.push(bytes, records);
        Ok(())
    }

    fn size(&self, bytes: &Range<usize>) -> u64 {
        batch::size(self.rings, bytes.len() as u64)
    }

    fn push(&mut self, bytes: Range<usize>, records: u32) {
        let size = self.size(&bytes);
        self.chunks.push(Chunk {
            bytes,
            records,
            size,
        });
    }

    /// The chunks that go to each segment, of which the first has room from `offset` on, perhaps
    /// for none of them. Segments have `segment_size` bytes, and begin with a header.
    pub(crate) fn spans(&self, mut offset: u64, segment_size: u64) -> Vec<Range<usize>> {
        let mut spans = vec![Range { start: 0, end: 0 }];
        for (n, chunk) in self.chunks.iter().enumerate() {
            if offset + chunk.size > segment_size {
                spans.push(n..n);
                offset = BLOCK as u64;
            }
            offset += chunk.size;
            if let Some(span) = spans.last_mut() {
                span.end = n + 1;
            }
        }
        spans
    }
}

fn check_timestamp(record: &Record<'_>, floor: u64) -> Result<()> {
    match record {
        Record::Commit(commit) if commit.timestamp <= floor => Err(refused(format!(
            "a commit with timestamp {} after epoch {floor}",
            commit.timestamp
        ))),
        _ => Ok(()),
    }
}

fn refused(why: String) -> LogError {
    LogError::Refused(why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::record::{Part, encode_part};

    const LIMIT: u64 = 2 * BLOCK as u64;

    /// Records of 2,048 bytes.
    fn records(count: u64) -> Vec<u8> {
        let mut records = Vec::new();
        for id in 0..count {
            let bytes = &[1; 2008];
            let offset = 0;
            encode_part(&Part { id, offset, bytes }, &mut records);
        }
        records
    }

    #[test]
    fn divides_between_records() {
        let plan = Plan::new(&records(8), 8, 2, 0, LIMIT).unwrap();
        let chunks: Vec<_> = plan.chunks.iter().map(|chunk| chunk.records).collect();
        assert_eq!(chunks, [3, 3, 2]);
        assert_eq!(plan.chunks[1].bytes, 3 * 2048..6 * 2048);
        assert!(plan.chunks.iter().all(|chunk| chunk.size == LIMIT));
        let block = BLOCK as u64;
        assert_eq!(plan.spans(block, 5 * block), [0..2, 2..3]);
        assert_eq!(plan.spans(4 * block, 5 * block), [0..0, 0..2, 2..3]);
        assert_eq!(plan.spans(block, 7 * block).len(), 1);
    }

    #[test]
    fn refuses_what_no_reader_accepts() {
        let refused = |records: &[u8], count, rings| {
            matches!(
                Plan::new(records, count, rings, 0, LIMIT),
                Err(LogError::Refused(_))
            )
        };
        assert!(refused(&records(2), 3, 0));
        assert!(refused(&records(2)[16..], 2, 0));
        assert!(refused(&records(1), 1, 1000));
        assert!(refused(&[], 0, 2000));
        assert!(!refused(&[], 0, 1000));
    }
}
