//! The databases that clients choose with SELECT. SWAPDB touches no key: the record of
//! [`DatabaseOrder`] says which of the engine each of them is, so that a restart finds it.

use bpfdb::{Database, DatabaseOrder, Session, Status};

use crate::error::Result;

#[derive(Debug)]
pub(crate) struct Databases {
    order: DatabaseOrder,
    /// Clients may choose so many.
    count: usize,
    /// How often two were exchanged: keys that are watched may have become others.
    swaps: u64,
}

impl Databases {
    pub(crate) fn read(session: &mut Session, count: usize) -> Result<Self> {
        Ok(Self {
            order: DatabaseOrder::read(session).map_err(bpfdb::Error::Engine)?,
            count,
            swaps: 0,
        })
    }

    /// The engine's database of this number; `None`: clients cannot choose it.
    pub(crate) fn get(&self, number: usize) -> Option<Database> {
        self.order.get(number).filter(|_| number < self.count)
    }

    /// The number by which clients choose this database of the engine; `None`: they cannot.
    pub(crate) fn number_of(&self, database: Database) -> Option<usize> {
        self.numbers()
            .find(|&number| self.get(number) == Some(database))
    }

    /// The numbers that clients may choose.
    pub(crate) fn numbers(&self) -> std::ops::Range<usize> {
        0..self.count
    }

    /// Is database 0 another one in the engine?
    pub(crate) fn has_moved_first(&self) -> bool {
        self.get(0) != Some(Database::default())
    }

    pub(crate) fn swaps(&self) -> u64 {
        self.swaps
    }

    /// Writes down that two are exchanged, which [`Databases::swap`] does once that is committed.
    pub(crate) fn write_swap(
        &self,
        session: &mut Session,
        first: usize,
        second: usize,
    ) -> Result<(), Status> {
        let mut order = self.order;
        order.swap(first, second);
        order.write(session)
    }

    pub(crate) fn swap(&mut self, first: usize, second: usize) {
        self.order.swap(first, second);
        self.swaps += 1;
    }
}
