//! Tables that clients ask (docs/tables.md): which are open, and what was asked. Decision 53 draws the states and numbers
//! the invariants.
//!
//! ```text
//!  TABLE GET … ──► Tables ──► Queue ──► keeper's thread: Source::get, scan, advance
//!      ▲                                      │
//!      └── the bell ◄── Ended ◄── Ticket: the reply, or an Error
//! ```
//!
//! | module | |
//! |---|---|
//! | `folder` | which files clients may name |
//! | `question` | what is asked, and what becomes of it |
//! | `long` | questions that are answered in slices |
//! | `queue` | what waits for a keeper |
//! | `keeper` | the thread that has a table |

mod folder;
mod keeper;
mod long;
pub(crate) mod question;
mod queue;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use bpfdb_table::{By, ChainOptions};

pub(crate) use self::folder::Name;
use self::keeper::Keeper;
pub(crate) use self::long::ENTRIES_MAX;
use self::question::{Ended, Pending, Question, Ticket};
use self::queue::Queue;
pub(crate) use self::queue::{Facts, Phase};
use crate::io::bell::Bell;
use crate::protocol::reply::Protocol;

/// Tables that may be open: each has a thread, a ring and some mebibytes.
const TABLES_MAX: usize = 16;
/// The same with those that are being closed, or replaced.
const THREADS_MAX: usize = 2 * TABLES_MAX;

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    pub(crate) session: u32,
    pub(crate) protocol: Protocol,
}

#[derive(Debug)]
struct Open {
    queue: Arc<Queue>,
    thread: JoinHandle<()>,
}

/// All tables of a server. Its thread alone has this.
#[derive(Debug)]
pub(crate) struct Tables {
    folder: Option<PathBuf>,
    ended: Arc<Ended>,
    open: BTreeMap<Name, Open>,
    opening: BTreeMap<Name, Open>,
    /// Those of which nobody can ask anything any more.
    closing: Vec<Open>,
}

impl Tables {
    /// `folder`: with the files that clients may name; `bell` is rung when somebody has an answer.
    pub(crate) fn new(folder: Option<PathBuf>, bell: &Bell) -> Self {
        Self {
            folder,
            ended: Arc::new(Ended::new(bell)),
            open: BTreeMap::new(),
            opening: BTreeMap::new(),
            closing: Vec::new(),
        }
    }

    /// How many are open.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Opens the file of this name, in the place of the one that is open. The reply says when.
    ///
    /// # Errors
    /// There is no folder, too many are open, or no thread can be started: the reply.
    pub(crate) fn open(
        &mut self,
        name: &Name,
        by: By,
        pool: usize,
        asker: Asker,
    ) -> Result<Pending, String> {
        let Some(folder) = &self.folder else {
            return Err(
                "ERR this server has no folder of tables: see the setting tables-dir".into(),
            );
        };
        if !self.opening.contains_key(name) {
            self.closing.retain(|table| !table.thread.is_finished());
            let threads = self.open.len() + self.opening.len() + self.closing.len();
            let is_new = !self.open.contains_key(name);
            let new = self
                .opening
                .keys()
                .filter(|name| !self.open.contains_key(*name));
            if is_new && self.open.len() + new.count() >= TABLES_MAX {
                return Err(format!(
                    "ERR {TABLES_MAX} tables are open, and no more may be: TABLE CLOSE one"
                ));
            }
            if threads >= THREADS_MAX {
                return Err("ERR too many tables are being closed: try again".into());
            }
            let queue = Arc::new(Queue::new(&self.ended));
            let options = ChainOptions {
                pool,
                ..ChainOptions::default()
            };
            let keeper = Keeper::new(folder.clone(), name.clone(), by, options, &queue);
            let thread = keeper.start();
            let thread = thread.map_err(|error| format!("ERR cannot start a thread: {error}"))?;
            self.opening.insert(name.clone(), Open { queue, thread });
        }
        let table = self.opening.get(name).or_else(|| self.open.get(name));
        table
            .map(|table| self.ask_of(table, asker, Question::Open))
            .ok_or_else(|| not_open(name))
    }

    /// Nobody can ask it any more; what was asked is answered.
    ///
    /// # Errors
    /// It is not open: the reply.
    pub(crate) fn close(&mut self, name: &Name) -> Result<(), String> {
        let both = [self.open.remove(name), self.opening.remove(name)];
        if both.iter().all(Option::is_none) {
            return Err(not_open(name));
        }
        both.into_iter()
            .flatten()
            .for_each(|table| self.retire(table));
        Ok(())
    }

    fn retire(&mut self, table: Open) {
        table.queue.close();
        self.closing.push(table);
    }

    /// Asks a table.
    ///
    /// # Errors
    /// It is not open: the reply.
    pub(crate) fn ask(
        &self,
        name: &Name,
        question: Question,
        asker: Asker,
    ) -> Result<Pending, String> {
        let table = self.open.get(name).or_else(|| self.opening.get(name));
        table
            .map(|table| self.ask_of(table, asker, question))
            .ok_or_else(|| not_open(name))
    }

    fn ask_of(&self, table: &Open, asker: Asker, question: Question) -> Pending {
        let (ticket, pending) = Ticket::new(asker.session, asker.protocol, &self.ended);
        table.queue.ask(ticket, question);
        pending
    }

    /// What is known of each by its name.
    pub(crate) fn shown(&self) -> Vec<(&Name, Phase)> {
        let opening = self
            .opening
            .iter()
            .filter(|(name, _)| !self.open.contains_key(name));
        let mut all: Vec<_> = self
            .open
            .iter()
            .chain(opening)
            .map(|(name, table)| (name, table.queue.phase()))
            .collect();
        all.sort_by_key(|(name, _)| *name);
        all
    }

    /// Sessions that have an answer since this was asked last. Tables that have been opened meanwhile are what is asked
    /// from now on.
    pub(crate) fn take_ended(&mut self) -> Vec<u32> {
        if !self.ended.has_rung() {
            return Vec::new();
        }
        // In this order: who is told that a table is open finds it.
        let ended = self.ended.take();
        let is_opening = |table: &Open| matches!(table.queue.phase(), Phase::Opening);
        for (name, table) in std::mem::take(&mut self.opening) {
            if is_opening(&table) {
                self.opening.insert(name, table);
            } else if matches!(table.queue.phase(), Phase::Open(_)) {
                let before = self.open.insert(name, table);
                before.into_iter().for_each(|table| self.retire(table));
            } else {
                self.retire(table);
            }
        }
        // A keeper that has failed: it is not open.
        let has_ended = |table: &Open| matches!(table.queue.phase(), Phase::Ended);
        let gone: Vec<Name> = self
            .open
            .iter()
            .filter(|(_, table)| has_ended(table))
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            let table = self.open.remove(&name);
            table.into_iter().for_each(|table| self.retire(table));
        }
        ended
    }
}

impl Drop for Tables {
    /// Each thread ends with the slice that is under way.
    fn drop(&mut self) {
        let open = std::mem::take(&mut self.open).into_values();
        let opening = std::mem::take(&mut self.opening).into_values();
        let all: Vec<Open> = open.chain(opening).chain(self.closing.drain(..)).collect();
        all.iter().for_each(|table| table.queue.abandon());
        for table in all {
            // A panic there was already reported by its hook.
            let _ = table.thread.join();
        }
    }
}

fn not_open(name: &Name) -> String {
    format!("ERR the table {name} is not open: TABLE OPEN it")
}
