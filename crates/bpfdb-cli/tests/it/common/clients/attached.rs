//! Steps of a process that is attached to the engine: it outlives the server.

use bpfdb::{Session, Status};

use super::kind::Mode;
use super::step::{Key, Write, expiry, value};
use super::{Client, Life, PAUSE, goes_on};

impl Client {
    pub(super) fn work_attached(&mut self, life: Life<'_>) {
        let Some(beside) = life.beside else {
            return;
        };
        let mut session = beside.engine.session().expect("a session");
        while goes_on(life) {
            let step = self.next;
            self.history.tried(step);
            match self.attempt(&mut session, step) {
                Ok(()) => {
                    let waits = self.kind.mode == Mode::Sync;
                    let durable = waits && beside.await_durable(beside.engine.now(), life);
                    self.acknowledged(step, durable);
                    self.next += 1;
                }
                Err(
                    Status::Conflict | Status::LogFull | Status::LogClosed | Status::MemoryPending,
                ) => (),
                Err(other) => panic!("client {}: {other}", self.id),
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn attempt(&self, session: &mut Session, step: u64) -> Result<(), Status> {
        session.begin()?;
        let written = self.write_all(session, step);
        if let Err(status) = written {
            session.rollback()?;
            return Err(status);
        }
        session.commit()
    }

    fn write_all(&self, session: &mut Session, step: u64) -> Result<(), Status> {
        for write in self.writes(step) {
            let name = |key: Key| key.of(&self.id).into_bytes();
            match write {
                Write::Set(key) => {
                    let bytes = value(key, step).into_bytes();
                    session.set_entry(&name(key), &bytes, expiry(key, step))?;
                }
                Write::Delete(key) => drop(session.delete(&name(key))?),
                Write::Increment(key) => {
                    let known = session.get_for_update(&name(key))?.unwrap_or_default();
                    let text = String::from_utf8(known).expect("digits");
                    let count: u64 = text.parse().unwrap_or(0);
                    session.set(&name(key), (count + 1).to_string().as_bytes())?;
                }
                Write::Expire(_) | Write::Rename(..) => panic!("what a step of one write does"),
            }
        }
        Ok(())
    }
}
