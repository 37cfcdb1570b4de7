//! Steps of a process that is attached to the engine, many in one system call.

use bpfdb::{Operation, Session, Status};

use super::kind::Mode;
use super::step::{Write, expiry, value};
use super::{Client, Life, PAUSE, goes_on};

/// Transactions in one system call.
const TRANSACTIONS: u64 = 8;

/// What came of an operation.
type Told = Result<Option<Vec<u8>>, Status>;

/// A write, with its key and its value.
struct Named(Write, String, String);

impl Named {
    fn operation(&self, step: u64) -> Operation<'_> {
        let Self(write, name, value) = self;
        match *write {
            Write::Set(key) => {
                Operation::SetEntry(name.as_bytes(), value.as_bytes(), expiry(key, step))
            }
            Write::Delete(_) => Operation::Delete(name.as_bytes()),
            Write::Increment(_) => panic!("a batch does not know what it will read"),
            Write::Expire(_) | Write::Rename(..) => panic!("what a step of one write does"),
        }
    }
}

impl Client {
    pub(super) fn work_batches(&mut self, life: Life<'_>) {
        let Some(beside) = life.beside else {
            return;
        };
        let mut session = beside.engine.session().expect("a session");
        session.keep_depends(true);
        while goes_on(life) {
            let steps = self.next..self.next + TRANSACTIONS;
            self.next = steps.end;
            self.history.tried(steps.end - 1);
            let committed = self.batch(&mut session, steps.clone());
            let waits = self.kind.mode == Mode::Sync;
            let durable = waits && beside.await_durable(session.depends(), life);
            for (step, committed) in steps.zip(committed) {
                if committed {
                    self.acknowledged(step, durable);
                } else {
                    self.history.refused(step);
                }
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Which of the steps were committed.
    fn batch(&self, session: &mut Session, steps: std::ops::Range<u64>) -> Vec<bool> {
        let all: Vec<(u64, Vec<Named>)> = steps.map(|step| (step, self.named(step))).collect();
        let transactions = all.iter().map(|(step, writes)| transaction(*step, writes));
        let transactions: Vec<Vec<Operation<'_>>> = transactions.collect();
        let told = session.batch(&transactions.concat(), 0);
        let told = told.expect("the batch runs");
        let each = told.chunks(transactions[0].len());
        each.map(|told| self.is_committed(told)).collect()
    }

    fn named(&self, step: u64) -> Vec<Named> {
        let writes = self.writes(step).into_iter();
        let named = writes.map(|write| {
            let key = write.key();
            Named(write, key.of(&self.id), value(key, step))
        });
        named.collect()
    }

    /// As it is promised of a transaction: whole or not at all.
    fn is_committed(&self, told: &[Told]) -> bool {
        let [begin, writes @ .., commit, _] = told else {
            panic!("{told:?}");
        };
        let accepted = writes.iter().filter(|write| write.is_ok()).count();
        let whole = match (begin, commit) {
            (Ok(_), Ok(_)) => accepted == writes.len(),
            (Ok(_), Err(_)) => true,
            // What was accepted after that was a commit of its own.
            (Err(_), _) => accepted == 0,
        };
        let before = writes.iter().chain([begin, commit]);
        let harmless = before.filter_map(|told| told.as_ref().err()).all(passes);
        assert!(whole && harmless, "client {}: {told:?}", self.id);
        commit.is_ok()
    }
}

/// An Error that the same transaction may not meet when it is tried again, or that follows from
/// such an Error.
fn passes(status: &Status) -> bool {
    matches!(
        status,
        Status::Conflict
            | Status::LogFull
            | Status::LogClosed
            | Status::MemoryPending
            | Status::WrongState
            | Status::RolledBack
    )
}

/// It ends in any case: a COMMIT that the log has refused leaves it open. ROLLBACK says WRONG_STATE
/// if it was over.
fn transaction(step: u64, writes: &[Named]) -> Vec<Operation<'_>> {
    let mut operations = vec![Operation::Begin];
    operations.extend(writes.iter().map(|write| write.operation(step)));
    operations.extend([Operation::Commit, Operation::Rollback]);
    operations
}
