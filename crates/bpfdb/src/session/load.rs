//! Many writes at once, for recovery.

use super::operation::{Operation, Place};
use super::{PENDING_TRIES, Session};
use crate::error::Result;
use crate::{Status, abi};

/// Writes of one system call: as many as have their records fetched before they are executed.
const WRITES: usize = 128;

/// Writes that wait for their system call.
#[derive(Debug, Default)]
struct Load<'a> {
    writes: Vec<(Operation<'a>, Place)>,
}

impl Session {
    /// Executes writes, in order and each by itself, with as few system calls as possible; how
    /// many. For recovery, when no other session uses these keys: what is refused for a moment is
    /// tried again. Values of up to `BPFDB_VALUE_MAX` bytes.
    ///
    /// # Errors
    /// The first Error that does not go away: the writes before it were executed.
    pub fn load<'a>(
        &mut self,
        writes: impl IntoIterator<Item = Operation<'a>>,
    ) -> Result<u64, Status> {
        let mut load = Load {
            writes: Vec::with_capacity(WRITES),
        };
        let mut count = 0;
        self.flush()?;
        for write in writes {
            if load.writes.len() == WRITES || !self.add_to(&mut load, &write)? {
                self.execute(&mut load)?;
                self.add_to(&mut load, &write)?;
            }
            count += 1;
        }
        self.execute(&mut load)?;
        Ok(count)
    }

    /// False: the buffer is full.
    fn add_to<'a>(&mut self, load: &mut Load<'a>, write: &Operation<'a>) -> Result<bool, Status> {
        let last = load.writes.last().map(|(_, place)| *place);
        let at = last.map_or(0, |place| place.end());
        let place = match self.put(at, write, 0, abi::BPFDB_OR_STOP) {
            Err(_) if at != 0 => return Ok(false),
            place => place?,
        };
        if let Some(last) = last {
            self.link(last, at as u32);
        }
        load.writes.push((*write, place));
        Ok(true)
    }

    fn execute(&mut self, load: &mut Load<'_>) -> Result<(), Status> {
        let mut first = 0;
        let mut attempts = 0;
        while first < load.writes.len() {
            let start = load.writes[first].1.at;
            let done = self.submit_from(start).map_err(|_| Status::BadRequest)?;
            let last = (first + done.max(1)).min(load.writes.len()) - 1;
            let status = self.status(load.writes[last].1);
            if !status.is_error() {
                first = last + 1;
                attempts = 0;
                continue;
            }
            attempts += 1;
            if attempts > PENDING_TRIES || !self.may_succeed(status) {
                return Err(status);
            }
            first = last;
            self.put_again(load, first)?;
        }
        load.writes.clear();
        Ok(())
    }

    /// Waits for what was in the way, if it is worth another attempt.
    fn may_succeed(&self, status: Status) -> bool {
        match status {
            Status::Conflict => {
                std::thread::yield_now();
                true
            }
            Status::IndexCrowded => self.split_anyway(),
            _ => self.await_room(status),
        }
    }

    /// What is loaded in the order of the index may crowd one half of a page before the other
    /// half comes, which no split would part well. True: it is divided now, or by others.
    pub(super) fn split_anyway(&self) -> bool {
        // SAFETY: points into the mapping of the sessions, which lives as long as self.
        let page = unsafe { (&raw const (*self.own_state()).room_page).read_volatile() };
        let code = self
            .engine
            .inner
            .driver
            .run(abi::BPFDB_DRIVER_SPLIT_ANYWAY, &[page.into()]);
        // RETRY of the programs is no status.
        match code.ok().and_then(Status::from_code) {
            Some(Status::MemoryPending) => self.await_memory(),
            Some(status) => !status.is_error(),
            None => true,
        }
    }

    /// The request that failed, which its reply has overwritten.
    fn put_again(&mut self, load: &Load<'_>, n: usize) -> Result<(), Status> {
        let (write, place) = load.writes[n];
        self.put(place.at, &write, 0, abi::BPFDB_OR_STOP)?;
        if let Some((_, next)) = load.writes.get(n + 1) {
            self.link(place, next.at as u32);
        }
        Ok(())
    }
}
