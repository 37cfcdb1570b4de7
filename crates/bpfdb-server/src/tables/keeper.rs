//! The thread that has a table: it alone asks the kernel.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use bpfdb_table::{Answered, By, ChainOptions, Error, Source, Table};

use super::folder::{self, Name};
use super::long::{Long, told, who};
use super::question::{Answer, AnsweredBy, Ticket};
use super::queue::{Facts, Queue, Work};
use crate::protocol::reply::Replies;

/// Why the kernel reads a table no more.
const STUCK: &str =
    "a chain of reads in the kernel was not heard of for two seconds: TABLE OPEN tries again";

pub(super) struct Keeper {
    folder: PathBuf,
    name: Name,
    by: By,
    options: ChainOptions,
    queue: Arc<Queue>,
}

/// The thread ends, if by a panic.
struct End<'q>(&'q Queue);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.end(None);
    }
}

impl Keeper {
    pub(super) fn new(
        folder: PathBuf,
        name: Name,
        by: By,
        options: ChainOptions,
        queue: &Arc<Queue>,
    ) -> Self {
        Self {
            folder,
            name,
            by,
            options,
            queue: Arc::clone(queue),
        }
    }

    pub(super) fn start(self) -> io::Result<JoinHandle<()>> {
        thread::Builder::new()
            .name("bpfdb-table".into())
            .spawn(move || self.run())
    }

    fn run(self) {
        let _end = End(&self.queue);
        if let Err(why) = self.keep() {
            let name = self.name.as_str();
            let error = String::from_utf8_lossy(&why);
            // The client is told; one that tries again and again does not fill the log.
            tracing::debug!(name, %error, "a table cannot be opened");
            self.queue.end(Some(&why));
        }
    }

    /// Opens the table, and answers until nobody asks any more.
    fn keep(&self) -> Result<(), Vec<u8>> {
        let name = &self.name;
        let file = folder::open_file(&self.folder, name).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => format!("ERR there is no table {name}").into_bytes(),
            _ => format!("TABLE_UNAVAILABLE cannot open {name}: {error}").into_bytes(),
        })?;
        let table = Table::of_file(file, Path::new(name.as_str())).map_err(|error| told(&error))?;
        let opened = Source::open(&table, self.by, &self.options);
        let (mut source, why) = opened.map_err(|error| told(&error))?;
        let about = table.about();
        let facts = Facts {
            id: about.id,
            entries: about.entries,
            bytes: about.blocks * u64::from(about.block_size),
            time: about.time,
            is_kernel: source.is_kernel(),
            why: why.map(|error| error.to_string()),
        };
        tracing::info!(
            name = name.as_str(),
            entries = facts.entries,
            kernel = facts.is_kernel,
            "a table is open"
        );
        if let Some(error) = &facts.why {
            self.warn(error);
        }
        let mut is_kernel = facts.is_kernel;
        self.queue.set_open(facts);
        while let Some(Work { gets, long }) = self.queue.next() {
            look_up(&mut source, gets);
            if let Some(long) = long {
                self.advance(&mut source, long);
            }
            if is_kernel && !source.is_kernel() {
                is_kernel = false;
                self.warn(STUCK);
                self.queue.set_by_process(STUCK);
            }
        }
        Ok(())
    }

    fn warn(&self, error: &str) {
        let name = self.name.as_str();
        tracing::warn!(name, %error, "this process reads the table");
    }

    fn advance(&self, source: &mut Source<'_>, mut long: Long) {
        if !long.ticket().is_wanted() || self.queue.is_abandoned() {
            return;
        }
        match long.advance(source) {
            Some(outcome) => long.into_ticket().end(outcome),
            None => self.queue.put_back(long),
        }
    }
}

/// Answers look-ups, whose chains run at the same time.
fn look_up(source: &mut Source<'_>, mut gets: Vec<(Ticket, Vec<u8>)>) {
    gets.retain(|(ticket, _)| ticket.is_wanted());
    if gets.is_empty() {
        return;
    }
    let keys: Vec<&[u8]> = gets.iter().map(|(_, key)| &**key).collect();
    let before = source.answered();
    let found = source.get_many(&keys);
    let by = shares(before, source.answered());
    match found {
        Ok(values) => {
            for (((ticket, _), value), by) in gets.into_iter().zip(values).zip(by) {
                end_look_up(ticket, Ok(value), by);
            }
        }
        // One block that is damaged is no error of the other keys.
        Err(_) => {
            for (ticket, key) in gets {
                let before = source.answered();
                let found = source.get(&key);
                end_look_up(ticket, found, who(before, source.answered()));
            }
        }
    }
}

fn end_look_up(ticket: Ticket, found: Result<Option<Vec<u8>>, Error>, by: AnsweredBy) {
    let outcome = found.map_err(|error| told(&error)).map(|value| {
        let mut replies = Replies::new(ticket.protocol());
        replies.bulk_or_null(value.as_deref());
        Answer {
            reply: replies.take(),
            by,
        }
    });
    ticket.end(outcome);
}

/// How many look-ups were answered by whom; which of them does not matter for a sum.
fn shares(before: Answered, after: Answered) -> impl Iterator<Item = AnsweredBy> {
    let count = |before: u64, after: u64| (after - before) as usize;
    let kernel = count(before.by_kernel, after.by_kernel);
    let process = count(before.by_process, after.by_process);
    std::iter::repeat_n(AnsweredBy::Kernel, kernel)
        .chain(std::iter::repeat_n(AnsweredBy::Process, process))
        .chain(std::iter::repeat(AnsweredBy::Pool))
}
