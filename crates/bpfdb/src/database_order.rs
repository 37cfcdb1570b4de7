//! Which database of the engine has the keys of which database of clients: SWAPDB exchanges them.

use std::borrow::Cow;

use crate::{Database, Keyspace, Session, Status};

/// Name of its record among the server's own: one byte for each database of clients, the number of
/// the engine's.
const RECORD: &[u8] = b"databases";

type Places = [Database; Database::COUNT];

/// The engine's database for each that clients know. At first they have the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseOrder(Places);

impl Default for DatabaseOrder {
    fn default() -> Self {
        let mut places = [Database::default(); Database::COUNT];
        for database in Database::all() {
            places[database.number()] = database;
        }
        Self(places)
    }
}

impl DatabaseOrder {
    /// The stored key of the record.
    pub fn key() -> Vec<u8> {
        Keyspace::OWN.key(RECORD)
    }

    /// As the record says. An Error of the engine, or [`Status::Corrupt`].
    pub fn read(session: &mut Session) -> Result<Self, Status> {
        let key = Self::key();
        // A look that is counted as no GET: few have the record.
        if !session.watch(&key)?.is_present() {
            return Ok(Self::default());
        }
        let record = session.get(&key)?;
        record
            .and_then(|bytes| Self::decode(&bytes))
            .ok_or(Status::Corrupt)
    }

    /// Sets the record.
    pub fn write(&self, session: &mut Session) -> Result<(), Status> {
        session.set(&Self::key(), &self.encode())
    }

    /// The engine's database of this number; `None`: there cannot be so many.
    pub fn get(&self, number: usize) -> Option<Database> {
        self.0.get(number).copied()
    }

    /// The number by which clients know a database of the engine.
    pub fn number_of(&self, database: Database) -> usize {
        let place = self.0.iter().position(|&place| place == database);
        place.unwrap_or(database.number())
    }

    /// # Panics
    /// If there is no database of one of these numbers.
    pub fn swap(&mut self, first: usize, second: usize) {
        self.0.swap(first, second);
    }

    /// The stored key that this one would have if the order were the first one; one that is in no
    /// database stays as it is. `None`: the record itself.
    pub fn to_first<'k>(&self, stored: &'k [u8]) -> Option<Cow<'k, [u8]>> {
        if stored == Self::key() {
            return None;
        }
        self.renamed(stored, |database| Database::new(self.number_of(database)))
    }

    /// The other way round.
    pub fn from_first<'k>(&self, stored: &'k [u8]) -> Option<Cow<'k, [u8]>> {
        self.renamed(stored, |database| self.get(database.number()))
    }

    fn renamed<'k>(
        &self,
        stored: &'k [u8],
        to: impl Fn(Database) -> Option<Database>,
    ) -> Option<Cow<'k, [u8]>> {
        match Database::split(stored) {
            Some((database, key)) if *self != Self::default() => {
                Some(to(database)?.stored(key).into_owned().into())
            }
            _ => Some(stored.into()),
        }
    }

    fn encode(&self) -> [u8; Database::COUNT] {
        self.0.map(|place| place.number() as u8)
    }

    /// `None`: it is not one byte for each database, all of them different.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: [u8; Database::COUNT] = bytes.try_into().ok()?;
        let mut places = [Database::default(); Database::COUNT];
        for (place, &number) in places.iter_mut().zip(&bytes) {
            *place = Database::new(number.into())?;
        }
        let is_named = |database| places.contains(&database);
        Database::all().all(is_named).then_some(Self(places))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_names_each_database_once() {
        let order = DatabaseOrder::default().encode();
        assert_eq!(
            DatabaseOrder::decode(&order),
            Some(DatabaseOrder::default())
        );
        let mut twice = order;
        twice[1] = 0;
        assert_eq!(DatabaseOrder::decode(&twice), None);
        let mut unknown = order;
        unknown[1] = Database::COUNT as u8;
        assert_eq!(DatabaseOrder::decode(&unknown), None);
        assert_eq!(DatabaseOrder::decode(&order[1..]), None);
    }

    #[test]
    fn exchanged_databases_are_known_by_the_others_numbers() {
        let mut order = DatabaseOrder::default();
        let [first, third] = [0, 2].map(|number| order.get(number).expect("there"));
        order.swap(0, 2);
        assert_eq!(order.get(0), Some(third));
        assert_eq!(order.number_of(first), 2);
        assert_eq!(order.get(Database::COUNT), None);
        let stored = third.stored(b"a");
        assert_eq!(order.to_first(&stored).as_deref(), Some(&b"a"[..]));
        assert_eq!(order.from_first(b"a").as_deref(), Some(&*stored));
        assert_eq!(order.to_first(&DatabaseOrder::key()), None);
        assert_eq!(
            order.to_first(crate::FUNCTIONS_KEY).as_deref(),
            Some(crate::FUNCTIONS_KEY)
        );
    }
}
