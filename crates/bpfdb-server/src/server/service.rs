//! The service of one connection: it is taken out of the tables, served, and put back or closed.

use std::os::fd::AsFd;

use super::{Client, Server};
use crate::connection::{Connection, Next, State};
use crate::executor::{Executor, ServeContext};
use crate::io::poll::Event;

impl Server {
    /// Takes a connection out of the tables, with what is begun for it.
    pub(super) fn take(&mut self, index: u32) -> Option<Client> {
        let connection = self.connections.take(index)?;
        let executor = std::mem::take(&mut self.executors[index as usize]);
        Some(Client {
            connection,
            executor,
        })
    }

    pub(super) fn put(&mut self, client: Client) {
        let Client {
            connection,
            executor,
        } = client;
        self.executors[connection.index as usize] = executor;
        self.connections.put(connection);
    }

    /// Lets `work` have a connection, and does what it says then.
    pub(super) fn with_client(
        &mut self,
        index: u32,
        work: impl FnOnce(&mut Self, &mut Client) -> std::io::Result<Next>,
    ) {
        let Some(mut client) = self.take(index) else {
            return;
        };
        match work(self, &mut client) {
            Ok(Next::Keep) if self.is_over_output_limit(&client.connection) => self.close(client),
            Ok(Next::Keep) => self.keep(client),
            Ok(Next::Close) => self.close(client),
            Err(error) => {
                tracing::debug!(%error, index, "connection lost");
                self.close(client);
            }
        }
    }

    pub(super) fn keep(&mut self, mut client: Client) {
        let Client {
            connection,
            executor,
        } = &mut client;
        let index = connection.index;
        let admitted = self.instance.admits(&connection.info);
        let mut wanted = connection.wanted(executor.reads(), admitted);
        // Nothing else tells that the client is gone.
        wanted.ended |= executor.is_blocked();
        if wanted != connection.interest {
            connection.interest = wanted;
            let source = connection.source();
            self.poll.change(connection.socket.as_fd(), source, wanted);
        }
        if let Some(until) = connection.held_until()
            && self.held.insert(index, until) != Some(until)
        {
            self.wanted = self.wanted.max(until);
            self.waiters += 1;
        }
        if connection.wants_another_look() && !self.draining.contains(&index) {
            self.draining.push(index);
        }
        if executor.is_paused() && !self.paused.contains(&index) {
            self.paused.push(index);
        }
        if let Some(until) = executor.rests_until() {
            self.resting.insert((until, index));
        } else if executor.is_busy() && !self.busy.contains(&index) {
            self.busy.push_back(index);
        }
        executor.trim(connection);
        self.put(client);
        self.bound_memory();
    }

    pub(super) fn serve(&mut self, client: &mut Client) -> std::io::Result<Next> {
        self.serve_with(client, Executor::serve)
    }

    pub(super) fn serve_with(
        &mut self,
        client: &mut Client,
        serve: impl FnOnce(
            &mut Executor,
            &mut Connection,
            &mut ServeContext<'_>,
        ) -> std::io::Result<Next>,
    ) -> std::io::Result<Next> {
        serve(
            &mut client.executor,
            &mut client.connection,
            &mut ServeContext {
                engine: &self.engine,
                session: &mut self.session,
                kernel: &self.programs.connections,
                instance: &mut self.instance,
                others: &mut self.connections,
                buffer: &mut self.buffer,
            },
        )
    }

    pub(super) fn serve_if(&mut self, index: u32, is_to_be_served: impl FnOnce(&Executor) -> bool) {
        self.with_client(index, |server, client| {
            if is_to_be_served(&client.executor) {
                server.serve(client)
            } else {
                Ok(Next::Keep)
            }
        });
    }

    pub(super) fn take_over(&mut self) {
        for handover in self.programs.handovers() {
            let known = self
                .connections
                .get(handover.index)
                .is_some_and(|connection| connection.cookie == handover.cookie);
            // Else it is not accepted yet, or gone.
            if known {
                self.with_client(handover.index, Self::serve_handed_over);
            }
        }
    }

    pub(super) fn serve_handed_over(&mut self, client: &mut Client) -> std::io::Result<Next> {
        let connection = &mut client.connection;
        let arrived = self.programs.connections.arrived(connection.index);
        if arrived.is_broken() {
            let peer = &connection.info.peer;
            if self.programs.connections.way(connection.index) == bpfdb::abi::BPFDB_WAY_SPLICED {
                tracing::warn!(
                    %peer,
                    "closing a connection whose client has begun to read by splice()"
                );
            } else {
                tracing::warn!(%peer, "closing a connection that sends without reading");
            }
            return Ok(Next::Close);
        }
        connection.take_over(&self.programs.connections);
        self.serve(client)
    }

    pub(super) fn connection_event(&mut self, index: u32, event: &Event) {
        self.with_client(index, |server, client| {
            let connection = &mut client.connection;
            if event.source != connection.source() {
                return Ok(Next::Keep);
            }
            // The other end of a Unix-domain socket may be gone, and what it sent
            // still be here.
            let has_more =
                connection.info.is_unix() && (event.ready.readable || client.executor.has_work());
            if event.failed && !has_more {
                return Ok(Next::Close);
            }
            // As in Redis, what it has sent behind that is not executed.
            if event.ready.ended && client.executor.is_blocked() {
                return Ok(Next::Close);
            }
            if event.ready.ended && connection.state == State::Kernel {
                connection.drain();
                // The end is told before the bytes of its segment are counted: they are when this has
                // had the socket's lock.
                connection.wake()?;
                let drained = connection.is_drained(&server.programs.connections);
                return Ok(if drained { Next::Close } else { Next::Keep });
            }
            if connection.held_until().is_some() {
                connection.press();
            }
            server.serve(client)
        });
    }

    /// Messages that others have published go to those that have subscribed.
    pub(super) fn send_pushed(&mut self) {
        for index in self.connections.take_pushed() {
            self.with_client(index, |server, client| {
                let (kernel, instance) = (&server.programs.connections, &server.instance);
                let durable = instance.log.durable();
                let connection = &mut client.connection;
                let was_held = connection.held_until().is_some();
                connection.send_pushed(kernel, &instance.statistics, durable)?;
                if was_held && connection.held_until().is_none() && !connection.is_overfull() {
                    // Its replies are durable by now, and gone: what it has sent meanwhile is executed,
                    // which nothing else brings here any more.
                    return server.serve(client);
                }
                Ok(Next::Keep)
            });
        }
    }
}
