//! What the kernel has done with the unnamed statements of clients.
//!
//! It keeps the texts of the last batch that has some, and says in the client's word whether that is
//! answered (`bpf/pg/requests.bpf.h`). If its answers are still to come when the process takes the client, they come this way.
//! Until then the client's next messages wait.

use super::Proxy;
use crate::io::slab::Id;
use crate::kernel::abi;
use crate::kernel::shared::Word;
use crate::wire::hint::{self, Hint};
use crate::wire::text;

/// Behind the answer to a batch's first message.
const FIRST: usize = 1;

impl Proxy {
    /// As the word of a client says that the kernel has had. `due`: ReadyForQuery messages to come of what it has brought.
    pub(super) fn unnamed_was(&mut self, id: Id, word: Word, due: usize) {
        let parses = word.has(abi::BPFDB_PROXY_PARSES);
        if let Some(client) = self.clients.get_mut(id) {
            client.parses_there = if parses { due } else { 0 };
        }
        if word.has(abi::BPFDB_PROXY_PARSED) {
            self.learn_unnamed(id, FIRST);
        } else if parses {
            let slot = self.clients.get(id).and_then(|client| client.slot);
            let answered = (self.kernel.as_ref().zip(slot))
                .map_or(0, |(kernel, slot)| kernel.shared.answered(slot));
            self.learn_unnamed(id, if due > 0 { 0 } else { answered });
        } else if word.has(abi::BPFDB_PROXY_FORGOT)
            && let Some(client) = self.clients.get_mut(id)
        {
            client.names.set(b"", None);
        }
    }

    /// The same while the kernel serves a client.
    pub(super) fn look_at_unnamed(&mut self, id: Id) {
        let (Some(kernel), Some(client)) = (&self.kernel, self.clients.get(id)) else {
            return;
        };
        if let Some(slot) = client.slot.filter(|_| client.is_away) {
            let word = kernel.word(slot);
            self.unnamed_was(id, word, 0);
        }
    }

    /// Of what the kernel has kept, so many messages are answered.
    fn learn_unnamed(&mut self, id: Id, answers: usize) {
        let (Some(kernel), Some(client)) = (&self.kernel, self.clients.get_mut(id)) else {
            return;
        };
        let body = client.slot.and_then(|slot| kernel.text(slot, answers));
        let statement = body.map(|body| {
            let query = text::split(&body).map_or(&body[..], |(query, _)| query);
            let hint = Hint::of(query, query.len() <= hint::LOOKED_AT);
            self.texts
                .statement(&body, hint, None, &client.parameters.of_texts())
        });
        client.names.set(b"", statement);
    }

    /// ReadyForQuery of a server: is it the last one of what the kernel has brought?
    pub(super) fn brought_is_answered(&mut self, id: Id) {
        let server = &mut self.servers[id];
        let answers = std::mem::take(&mut server.answers);
        if let Some(id) = server.client
            && let Some(client) = self.clients.get_mut(id)
            && client.parses_there > 0
        {
            client.parses_there -= 1;
            if client.parses_there == 0 {
                self.learn_unnamed(id, answers);
            }
        }
    }
}
