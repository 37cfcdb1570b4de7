//! All connections, by the index of their session.

use std::os::fd::AsFd;
use std::time::Instant;

use crate::client::Client;
use crate::socket;

#[derive(Debug)]
pub(crate) struct Clients {
    slots: Vec<Option<Client>>,
    /// Index and cookie of those to be closed.
    condemned: Vec<(u32, u64)>,
    /// Bytes kept for those that are here.
    memory: usize,
}

impl Clients {
    pub(crate) fn new(most: u32) -> Self {
        let mut slots = Vec::new();
        slots.resize_with(most as usize, || None);
        Self {
            slots,
            condemned: Vec::new(),
            memory: 0,
        }
    }

    /// Takes one out: to be served, or for good.
    pub(crate) fn take(&mut self, index: u32) -> Option<Client> {
        let client = self.slots.get_mut(index as usize)?.take()?;
        self.memory -= client.connection.memory();
        Some(client)
    }

    pub(crate) fn put(&mut self, client: Client) {
        self.memory += client.connection.memory();
        let index = client.index as usize;
        self.slots[index] = Some(client);
    }

    pub(crate) fn get(&self, index: u32) -> Option<&Client> {
        self.slots.get(index as usize)?.as_ref()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Client> {
        self.slots.iter().flatten()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Client> {
        self.slots.iter_mut().flatten()
    }

    /// Whoever has this index is closed soon. Its stream ends at once: the kernel
    /// answers nothing any more.
    pub(crate) fn condemn(&mut self, index: u32, cookie: u64) {
        if let Some(client) = self.get(index)
            && client.cookie == cookie
        {
            socket::end_stream(client.socket.as_fd());
        }
        self.condemned.push((index, cookie));
    }

    pub(crate) fn take_condemned(&mut self) -> Vec<(u32, u64)> {
        std::mem::take(&mut self.condemned)
    }

    /// Bytes kept for all.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    /// The one that most is kept for, of those that may be closed for it.
    pub(crate) fn largest(&self) -> Option<&Client> {
        self.iter()
            .filter(|client| !client.connection.no_evict && client.connection.memory() > 0)
            .max_by_key(|client| client.connection.memory())
    }

    /// Those that were not seen to do anything since then.
    pub(crate) fn idle_since(&self, moment: Instant) -> impl Iterator<Item = &Client> {
        self.iter()
            .filter(move |client| client.connection.active < moment)
    }
}
