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

/// What reads a table that is opened, and how many bytes of blocks are kept of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) by: By,
    pub(crate) pool: usize,
}

/// Another opening, behind the one that is under way.
#[derive(Debug)]
struct Again {
    /// As who came last has it.
    how: How,
    openers: Vec<Ticket>,
}

/// All tables of a server. Its thread alone has this.
#[derive(Debug)]
pub(crate) struct Tables {
    folder: Option<PathBuf>,
    ended: Arc<Ended>,
    open: BTreeMap<Name, Open>,
    opening: BTreeMap<Name, Open>,
    /// Of names in `opening`: that has a file already, which another one may have replaced since.
    again: BTreeMap<Name, Again>,
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
            again: BTreeMap::new(),
            closing: Vec::new(),
        }
    }

    /// How many are open.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Opens the file that has this name now, in the place of the one that is open. The reply says when.
    ///
    /// # Errors
    /// There is no folder, too many are open, or no thread can be started: the reply.
    pub(crate) fn open(&mut self, name: &Name, how: How, asker: Asker) -> Result<Pending, String> {
        if !self.opening.contains_key(name) {
            self.begin(name, how)?;
            let begun = self.opening.get(name);
            return begun
                .map(|table| self.ask_of(table, asker, Question::Open))
                .ok_or_else(|| not_open(name));
        }
        let (ticket, pending) = self.ticket(asker);
        let again = self.again.entry(name.clone()).or_insert_with(|| Again {
            how,
            openers: Vec::new(),
        });
        again.how = how;
        again.openers.push(ticket);
        Ok(pending)
    }

    /// Starts a thread that opens the file of this name, if there may be another one.
    fn begin(&mut self, name: &Name, how: How) -> Result<(), String> {
        let Some(folder) = &self.folder else {
            return Err(
                "ERR this server has no folder of tables: see the setting tables-dir".into(),
            );
        };
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
            pool: how.pool,
            ..ChainOptions::default()
        };
        let keeper = Keeper::new(folder.clone(), name.clone(), how.by, options, &queue);
        let thread = keeper.start();
        let thread = thread.map_err(|error| format!("ERR cannot start a thread: {error}"))?;
        self.opening.insert(name.clone(), Open { queue, thread });
        Ok(())
    }

    /// Opens anew what somebody has asked for while it was being opened.
    fn begin_again(&mut self) {
        for (name, again) in std::mem::take(&mut self.again) {
            if self.opening.contains_key(&name) {
                self.again.insert(name, again);
                continue;
            }
            let begun = self.begin(&name, again.how);
            for ticket in again.openers {
                match (&begun, self.opening.get(&name)) {
                    (Err(why), _) => ticket.end(Err(why.clone().into_bytes())),
                    (Ok(()), Some(table)) => table.queue.ask(ticket, Question::Open),
                    (Ok(()), None) => {}
                }
            }
        }
    }

    /// Nobody can ask it any more; what was asked is answered.
    ///
    /// # Errors
    /// It is not open: the reply.
    pub(crate) fn close(&mut self, name: &Name) -> Result<(), String> {
        // They are told that it was closed.
        self.again.remove(name);
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
        let (ticket, pending) = self.ticket(asker);
        table.queue.ask(ticket, question);
        pending
    }

    fn ticket(&self, asker: Asker) -> (Ticket, Pending) {
        Ticket::new(asker.session, asker.protocol, &self.ended)
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
        self.begin_again();
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

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use bpfdb_table::{Options, Writer};
    use tempfile::TempDir;

    use super::question::{Outcome, What};
    use super::*;

    const HOW: How = How {
        by: By::Process,
        pool: 0,
    };
    const ASKER: Asker = Asker {
        session: 0,
        protocol: Protocol::Resp2,
    };

    /// Tables, and their folder.
    struct Asked {
        tables: Tables,
        folder: TempDir,
    }

    impl Asked {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let bell = Bell::new().expect("a bell");
            let tables = Tables::new(Some(folder.path().into()), &bell);
            Self { tables, folder }
        }

        /// The file of this name is one of so many entries.
        fn write(&self, file: &str, entries: u8) {
            let path = self.folder.path().join(file);
            let mut writer = Writer::create(&path, &Options::default()).expect("created");
            for number in 0..entries {
                writer.push(&[number], b"1").expect("pushed");
            }
            writer.finish().expect("finished");
        }

        fn open(&mut self, name: &Name) -> Pending {
            self.tables.open(name, HOW, ASKER).expect("asked")
        }

        /// What a server that serves others, too, is told.
        fn told(&mut self, pending: &Pending) -> Result<String, String> {
            let outcome = self.wait(|asked| {
                asked.tables.take_ended();
                pending.take()
            });
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
            outcome.map(|answer| text(answer.reply)).map_err(text)
        }

        fn wait(&mut self, mut look: impl FnMut(&mut Self) -> Option<Outcome>) -> Outcome {
            let begun = Instant::now();
            loop {
                if let Some(outcome) = look(self) {
                    return outcome;
                }
                assert!(begun.elapsed() < Duration::from_mins(1), "nothing is said");
                std::thread::sleep(Duration::from_millis(1));
            }
        }

        fn count(&mut self, name: &Name) -> Result<String, String> {
            let question = Question::Aggregate {
                from: Vec::new(),
                to: b"+".to_vec(),
                what: What::Count,
                field: None,
            };
            let pending = self.tables.ask(name, question, ASKER)?;
            self.told(&pending)
        }
    }

    fn name() -> Name {
        Name::new(b"t").expect("a name")
    }

    /// One that has its file, and of which the server has not heard yet.
    fn opening(entries: u8) -> Asked {
        let mut asked = Asked::new();
        asked.write("t", entries);
        let first = asked.open(&name());
        let told = asked.wait(|_| first.take());
        assert!(told.is_ok());
        asked
    }

    #[test]
    fn the_file_that_has_the_name_now_is_what_is_opened() {
        let mut asked = opening(10);
        asked.write("t", 20);
        let again = [(); 3].map(|()| asked.open(&name()));
        for pending in again {
            assert_eq!(asked.told(&pending).as_deref(), Ok("+OK\r\n"));
            assert_eq!(asked.count(&name()).as_deref(), Ok(":20\r\n"));
        }
        assert!(asked.tables.again.is_empty() && asked.tables.opening.is_empty());
    }

    #[test]
    fn who_has_asked_while_it_was_opened_is_told_what_fails() {
        let mut asked = opening(10);
        std::fs::remove_file(asked.folder.path().join("t")).expect("removed");
        let again = asked.open(&name());
        let expected = Err("ERR there is no table t".into());
        assert_eq!(asked.told(&again), expected);
        assert_eq!(asked.count(&name()).as_deref(), Ok(":10\r\n"));
    }

    #[test]
    fn who_has_asked_while_it_was_opened_is_told_that_it_was_closed() {
        let mut asked = opening(10);
        let again = asked.open(&name());
        asked.tables.close(&name()).expect("closed");
        let expected = Err("ERR the table was closed before it could answer".into());
        assert_eq!(asked.told(&again), expected);
        let expected = Err("ERR the table t is not open: TABLE OPEN it".into());
        assert_eq!(asked.count(&name()), expected);
        assert_eq!(asked.tables.shown().len(), 0);
    }
}
