//! Large collections and streams of a snapshot, whose elements are in pages ([`bpfdb_values::big`]). A copy has them
//! as it has others: in one run, or in the bytes of a short stream.

use std::rc::Rc;

use bpfdb::{Entry, Keyspace, Session, Status, ValueType};
use bpfdb_values::big::{Big, Head, Page, PageKey, Pages, Shape};
use bpfdb_values::run::Malformed;

use crate::collection::kind_of;
use crate::error::Error;

/// What stored keys of pages begin with.
const PREFIX: [u8; 8] = Keyspace::PAGES.prefix();

/// Is this the key of a page?
pub(crate) fn is_page(key: &[u8]) -> bool {
    key.starts_with(&PREFIX)
}

/// The value of a large collection or stream becomes the bytes that one has which is not large; any other stays.
pub(crate) fn whole(
    session: &mut Session,
    kind: ValueType,
    mut entry: Entry,
) -> Result<Entry, Error> {
    let shape = match kind {
        ValueType::STREAM => Shape::Stream,
        kind => match kind_of(kind) {
            Some(kind) => kind.into(),
            None => return Ok(entry),
        },
    };
    if let Some(head) = Head::parse(&entry.value).map_err(damaged)? {
        let whole = Big::open(shape, head, SnapshotPages(session)).whole();
        entry.value = whole.map_err(|Failed(status)| Error::Snapshot(status))?;
    }
    Ok(entry)
}

fn damaged(_: Malformed) -> Error {
    Error::Snapshot(Status::Corrupt)
}

/// A page could not be read, or is damaged.
#[derive(Debug)]
struct Failed(Status);

impl From<Malformed> for Failed {
    fn from(_: Malformed) -> Self {
        Self(Status::Corrupt)
    }
}

/// The pages that a snapshot sees. Nothing is written.
#[derive(Debug)]
struct SnapshotPages<'s>(&'s mut Session);

impl Pages for SnapshotPages<'_> {
    type Error = Failed;

    fn read(&mut self, page: PageKey) -> Result<Option<Rc<Page>>, Failed> {
        let bytes = self.0.get(&page.stored(PREFIX)).map_err(Failed)?;
        Ok(bytes.map(|bytes| Rc::new(Page::new(bytes))))
    }

    fn write(&mut self, _: PageKey, _: &[u8]) -> Result<(), Failed> {
        Err(Failed(Status::BadRequest))
    }

    fn remove(&mut self, _: PageKey) -> Result<(), Failed> {
        Err(Failed(Status::BadRequest))
    }
}
