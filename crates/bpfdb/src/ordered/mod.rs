//! Ordered tables: rows whose keys can be scanned in their order, in transactions.
//!
//! ```no_run
//! use bpfdb::{Engine, Options};
//!
//! let engine = Engine::create(&Options { ordered_tables: 1, ..Options::default() })?;
//! let (orders, mut session) = (engine.ordered_table(0)?, engine.session()?);
//!
//! orders.set(&mut session, b"2026-11-30/17", b"three apples")?;
//! session.begin()?;
//! let today = bpfdb::prefix_range(b"2026-11-30/");
//! let page = orders.scan(&mut session, today, 100)?;
//! // Until this ends no other transaction adds or deletes an order of the part that was scanned.
//! orders.delete(&mut session, &page.rows[0].0)?;
//! session.commit()?;
//! # Ok::<(), bpfdb::Error>(())
//! ```
//!
//! A row is a record as any other, whose stored key is that of [`OrderedTable::stored`]: sessions and programs
//! read it, and write it over, by the operators that they use for others. To make it come or go takes the index,
//! so [`OrderedTable::set`] and [`OrderedTable::delete`]: others are refused with [`Status::NotIndexed`].
//! `tree.rs` has the index.

mod node;
mod scan;
mod tree;

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU8, Ordering};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::session::Session;
use crate::{Keyspace, Status, abi};

pub use scan::{Rows, prefix_range};
use tree::{Records, Tree};

/// Of nodes, and of the record that has the height.
const FORMAT: u8 = 1;
/// Attempts of what is a transaction of its own while others are in the way.
const CONFLICT_TRIES: u32 = 64;
const KEY_MAX: usize = abi::BPFDB_ORDERED_KEY_MAX as usize;

/// An ordered table of an engine: its number. All handles of one table are alike, also those of other
/// processes.
#[derive(Debug)]
pub struct OrderedTable {
    number: u8,
    /// Of the index, as it may be.
    height: AtomicU8,
}

impl Engine {
    /// The ordered table with this number.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the engine was created with fewer ([`Options::ordered_tables`](
    /// crate::Options::ordered_tables)).
    pub fn ordered_table(&self, number: usize) -> Result<OrderedTable> {
        let tables = self.config().ordered_tables;
        match u8::try_from(number) {
            Ok(small) if u32::from(small) < tables => Ok(OrderedTable {
                number: small,
                height: AtomicU8::new(0),
            }),
            _ => Err(Error::Invalid(format!(
                "there is no ordered table {number}: the engine was created with {tables}, numbered from 0 \
                 (at most {})",
                abi::BPFDB_ORDERED_TABLES_MAX
            ))),
        }
    }

    /// Numbers of tables that have rows, though the engine was created with fewer: a log has brought them back.
    /// They stay, in the log, too, and no handle reaches them.
    ///
    /// # Errors
    /// Those of [`Engine::stats`].
    pub fn undeclared_tables(&self) -> Result<Vec<usize>> {
        let records = self.stats()?.keyspaces;
        let undeclared = self.config().ordered_tables..abi::BPFDB_ORDERED_TABLES_MAX;
        let rows = |table: &u32| records[(abi::BPFDB_KEYSPACE_ORDERED + table) as usize];
        Ok(undeclared
            .filter(|table| rows(table) > 0)
            .map(|table| table as usize)
            .collect())
    }
}

impl OrderedTable {
    /// Longest key of a row, bytes.
    pub const KEY_MAX: usize = KEY_MAX;

    pub fn number(&self) -> usize {
        self.number.into()
    }

    pub fn keyspace(&self) -> Keyspace {
        Keyspace::of_ordered_table(self.number)
    }

    /// The stored key of a row, by which operators name it.
    pub fn stored(&self, key: &[u8]) -> Vec<u8> {
        self.keyspace().key(key)
    }

    /// The value of a row, or `None`, as [`Session::get`].
    pub fn get(&self, session: &mut Session, key: &[u8]) -> Result<Option<Vec<u8>>, Status> {
        session.get(&self.stored(key))
    }

    /// The same under an exclusive lock, in a read-write transaction.
    pub fn get_for_update(
        &self,
        session: &mut Session,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, Status> {
        session.get_for_update(&self.stored(key))
    }

    /// Sets the value of a row, which may come by that. Without a transaction it is one of its own.
    ///
    /// # Errors
    /// [`Status::Conflict`] where the row comes, also if another transaction has scanned or changed the part of
    /// the table where it belongs; [`Status::KeyTooLarge`] beyond [`OrderedTable::KEY_MAX`]; those of
    /// [`Session::set`].
    pub fn set(&self, session: &mut Session, key: &[u8], value: &[u8]) -> Result<(), Status> {
        changing(session, abi::BPFDB_INDEX_GROWS, |session| {
            let stored = self.checked(key)?;
            if session.head_for_update(&stored)?.is_some() {
                return session.set(&stored, value);
            }
            self.with_index(session, |index| index.insert(key))?;
            session.set(&stored, value)
        })
    }

    /// Whether there was a row to delete. Without a transaction it is one of its own.
    ///
    /// # Errors
    /// As [`OrderedTable::set`], where the row goes.
    pub fn delete(&self, session: &mut Session, key: &[u8]) -> Result<bool, Status> {
        changing(session, abi::BPFDB_INDEX_SHRINKS, |session| {
            let stored = self.checked(key)?;
            if session.head_for_update(&stored)?.is_none() {
                return Ok(false);
            }
            self.with_index(session, |index| index.remove(key))?;
            session.delete(&stored)
        })
    }

    fn checked(&self, key: &[u8]) -> Result<Vec<u8>, Status> {
        if key.len() > KEY_MAX {
            return Err(Status::KeyTooLarge);
        }
        Ok(self.stored(key))
    }

    /// Does `work` in the open transaction.
    fn with_index<T>(
        &self,
        session: &mut Session,
        work: impl FnOnce(&mut Tree<'_, Session>) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let mut tree = Tree::new(session, self.number, self.height.load(Ordering::Relaxed));
        let result = work(&mut tree);
        self.height.store(tree.height(), Ordering::Relaxed);
        result
    }
}

impl Records for Session {
    fn peek(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Status> {
        if self.state() == abi::BPFDB_TXN_READ {
            return self.get(key);
        }
        Session::peek(self, key)
    }

    fn read(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Status> {
        self.get(key)
    }

    fn lock(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Status> {
        self.get_for_update(key)
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), Status> {
        Session::set(self, key, value)
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Status> {
        Session::delete(self, key).map(drop)
    }
}

/// Does `work`, which changes rows and their index as `how` says, in the session's transaction, or in one of its own, which
/// is tried again while others are in its way.
fn changing<T>(
    session: &mut Session,
    how: u32,
    mut work: impl FnMut(&mut Session) -> Result<T, Status>,
) -> Result<T, Status> {
    if has_transaction(session)? {
        return change_within(session, how, work);
    }
    for attempt in 0.. {
        match session.keeping_index(how, |session| change_alone(session, &mut work)) {
            Err(status) if is_of_others(status) && attempt < CONFLICT_TRIES => {
                std::thread::yield_now();
            }
            Err(status) if session.await_passing(status, attempt) => {}
            outcome => return outcome,
        }
    }
    unreachable!("the last attempt returns")
}

/// Is it an Error that goes when others go on? They hold locks; or snapshots, for which a leaf has no room for one
/// more version; or write all the time what is to be read.
fn is_of_others(status: Status) -> bool {
    matches!(
        status,
        Status::Conflict | Status::VersionsFull | Status::Exhausted
    )
}

/// In a transaction of its own; what waits is executed with COMMIT.
fn change_alone<T>(
    session: &mut Session,
    work: impl FnOnce(&mut Session) -> Result<T, Status>,
) -> Result<T, Status> {
    session.begin_deferred()?;
    let outcome = match work(session) {
        Ok(result) => session.commit().map(|()| result),
        Err(status) => session.rollback().and(Err(status)),
    };
    session.leave_no_transaction();
    outcome
}

/// In the open transaction, which an Error fails: its index may be half changed.
fn change_within<T>(
    session: &mut Session,
    how: u32,
    work: impl FnOnce(&mut Session) -> Result<T, Status>,
) -> Result<T, Status> {
    session.flush()?;
    let result = session.keeping_index(how, |session| {
        let result = work(session)?;
        session.flush()?;
        Ok(result)
    });
    if result.is_err() && session.state() == abi::BPFDB_TXN_WRITE {
        session.fail_transaction();
    }
    result
}

/// Has the caller begun a transaction?
fn has_transaction(session: &mut Session) -> Result<bool, Status> {
    session.catch_up()?;
    let state = session.state();
    Ok(!matches!(
        state,
        abi::BPFDB_TXN_NONE | abi::BPFDB_TXN_FINISHING
    ))
}
