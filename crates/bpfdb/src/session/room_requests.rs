//! Requests for room, which a session that never waits remembers.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::Status;
use crate::memory::Memory;

/// For how long a request for room is remembered: a caller that does not come again has gone.
const REMEMBERED: Duration = Duration::from_secs(5);

/// Requests for room that the memory thread was asked for, by session.
#[derive(Debug, Default)]
pub(super) struct RoomRequests {
    asked: HashMap<u32, Asked>,
}

#[derive(Debug)]
struct Asked {
    number: u64,
    at: Instant,
}

impl RoomRequests {
    /// Are there free pages for so many bytes, or has the memory thread found no more when
    /// it was asked? Else asks it: `MEMORY_PENDING`.
    pub(super) fn make_room_for(
        &mut self,
        memory: &Memory,
        session: u32,
        bytes: u64,
    ) -> Result<(), Status> {
        if memory.has_free(bytes) {
            self.asked.remove(&session);
            return Ok(());
        }
        self.asked
            .retain(|_, asked| asked.at.elapsed() < REMEMBERED);
        match self.asked.get(&session) {
            // Whether there is room now, SET will see.
            Some(asked) if memory.was_room_made(asked.number) => {
                self.asked.remove(&session);
                return Ok(());
            }
            Some(_) => {}
            None => {
                let number = memory.ask_for_room(bytes);
                let at = Instant::now();
                self.asked.insert(session, Asked { number, at });
            }
        }
        Err(Status::MemoryPending)
    }
}
