//! A large collection that is made of a small one.

use super::head::Head;
use super::page::{self, Pages};
use super::place::Place;
use super::table::{self, bucket_of};
use super::{Big, siphash};
use crate::limits::Kind;
use crate::run::{self, History, NARROW_ENTRY, Run};

/// Writes the pages of a collection with these elements: its head. There are no pages of this identity.
///
/// # Errors
/// Damaged entries, and those of the pages.
pub fn build<P: Pages>(
    kind: Kind,
    run: &Run<'_>,
    identity: u64,
    secret: [u64; 2],
    pages: P,
) -> Result<Head, P::Error> {
    let head = Head::new(identity, secret, run.history());
    let mut big = Big::open(kind, head, pages);
    let entries: Vec<(&[u8], &[u8])> = run.iter().collect::<Result<_, _>>()?;
    let bytes: usize = entries
        .iter()
        .map(|(key, value)| key.len() + value.len())
        .sum();
    if big.shape.has_table() {
        big.build_table(&entries, bytes);
    }
    if big.shape.has_tree() {
        big.plant(&entries)?;
    }
    big.head.elements = entries.len() as u64;
    big.head.bytes = bytes as u64;
    big.finish()
}

impl<P: Pages> Big<P> {
    fn build_table(&mut self, entries: &[(&[u8], &[u8])], bytes: usize) {
        let load = bytes + entries.len() * NARROW_ENTRY;
        let buckets = load.div_ceil(page::TARGET).clamp(1, entries.len().max(1));
        let mut tables = vec![Vec::new(); buckets];
        for &(key, value) in entries {
            let hash = siphash::hash(self.head.secret, key);
            tables[bucket_of(hash, buckets as u64) as usize].push((key, value));
        }
        for (number, entries) in tables.into_iter().enumerate() {
            let page = if entries.is_empty() {
                table::EMPTY.to_vec()
            } else {
                run::write(entries.into_iter(), History::default())
            };
            self.cache.put(Place::bucket(number as u64), page);
        }
        self.head.buckets = buckets as u64;
    }
}
