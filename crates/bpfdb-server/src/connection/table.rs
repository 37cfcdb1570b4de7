//! All connections, by the index of their session.

use std::os::fd::AsFd;
use std::time::Instant;

use super::Connection;
use crate::io::socket;

#[derive(Debug)]
pub(crate) struct ConnectionTable {
    slots: Vec<Option<Connection>>,
    /// Index and cookie of those to be closed.
    closing: Vec<(u32, u64)>,
    /// Those that messages were pushed to.
    pushed: Vec<u32>,
    /// Bytes kept for those that are here.
    memory: usize,
}

/// Bytes that may be kept when a message is added.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Of what waits for its receiver.
    pub(crate) most: u64,
    /// For all clients together.
    pub(crate) all: u64,
}

impl ConnectionTable {
    pub(crate) fn new(most: u32) -> Self {
        let mut slots = Vec::new();
        slots.resize_with(most as usize, || None);
        Self {
            slots,
            closing: Vec::new(),
            pushed: Vec::new(),
            memory: 0,
        }
    }

    /// Takes one out: to be served, or for good.
    pub(crate) fn take(&mut self, index: u32) -> Option<Connection> {
        let connection = self.slots.get_mut(index as usize)?.take()?;
        self.memory -= connection.info.memory();
        Some(connection)
    }

    pub(crate) fn put(&mut self, connection: Connection) {
        self.memory += connection.info.memory();
        let index = connection.index as usize;
        self.slots[index] = Some(connection);
    }

    pub(crate) fn get(&self, index: u32) -> Option<&Connection> {
        self.slots.get(index as usize)?.as_ref()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.slots.iter().flatten()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Connection> {
        self.slots.iter_mut().flatten()
    }

    /// Has the connection of this index closed after this round of service. Its stream ends at
    /// once: the kernel answers nothing any more.
    pub(crate) fn close_later(&mut self, index: u32, cookie: u64) {
        if let Some(connection) = self.get(index)
            && connection.cookie == cookie
        {
            socket::end_stream(connection.socket.as_fd());
        }
        self.closing.push((index, cookie));
    }

    /// Is any to be closed?
    pub(crate) fn has_closing(&self) -> bool {
        !self.closing.is_empty()
    }

    /// Index and cookie of those that are to be closed now.
    pub(crate) fn take_closing(&mut self) -> Vec<(u32, u64)> {
        std::mem::take(&mut self.closing)
    }

    /// Adds a message to what is to be sent to one, if there is room; else it is to be closed.
    pub(crate) fn push(&mut self, index: u32, bytes: &[u8], room: Room) {
        let Some(Some(connection)) = self.slots.get_mut(index as usize) else {
            return;
        };
        let is_full = (self.memory + bytes.len()) as u64 > room.all;
        let most = if is_full { 0 } else { room.most };
        self.memory -= connection.info.memory();
        if connection.push(bytes, most) {
            self.pushed.push(index);
        }
        self.memory += connection.info.memory();
    }

    /// Those that messages were pushed to, with no attempt to send them yet.
    pub(crate) fn take_pushed(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.pushed)
    }

    /// Bytes kept for all.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    /// The one that most is kept for, of those that may be closed for it.
    pub(crate) fn largest(&self) -> Option<&Connection> {
        self.iter()
            .filter(|connection| !connection.info.no_evict && connection.info.memory() > 0)
            .max_by_key(|connection| connection.info.memory())
    }

    /// Those that were not seen to do anything since then.
    pub(crate) fn idle_since(&self, moment: Instant) -> impl Iterator<Item = &Connection> {
        self.iter()
            .filter(move |connection| connection.info.active < moment)
    }
}
