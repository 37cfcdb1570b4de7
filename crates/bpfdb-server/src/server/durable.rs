//! Replies that are held until what they depend on is durable.

use super::Server;
use crate::connection::Next;

impl Server {
    /// Once for all that were served in a round: they become durable together.
    pub(super) fn want_durable(&mut self) {
        let wanted = std::mem::take(&mut self.wanted);
        let waiters = std::mem::take(&mut self.waiters);
        if wanted > 0 {
            let log = &self.instance.log;
            log.want(wanted, waiters);
            // It may have been, before anybody was told to say so; and of a log that has failed
            // no thread reports any more.
            if log.durable() >= wanted || log.has_failed() {
                self.release_held();
            }
        }
    }

    pub(super) fn release_held(&mut self) {
        let log = &self.instance.log;
        let refusal = log.has_failed().then(|| log.refusal());
        // After that: of a log that has failed this is the last word.
        let durable = log.durable();
        let is_over = |until: u64| refusal.is_some() || until <= durable;
        let due: Vec<u32> = (self.held.iter())
            .filter_map(|(&index, &until)| is_over(until).then_some(index))
            .collect();
        for index in due {
            self.held.remove(&index);
            self.with_client(index, |server, client| {
                let connection = &mut client.connection;
                match (connection.held_until(), &refusal) {
                    (None, _) => return Ok(Next::Keep),
                    (Some(until), _) if until <= durable => {}
                    (Some(_), Some(why)) => {
                        connection.give_up_held(why.as_deref().unwrap_or("MISCONF"));
                        client.executor.give_up();
                    }
                    (Some(_), None) => return Ok(Next::Keep),
                }
                server.serve(client)
            });
            self.close_those_told();
        }
    }
}
