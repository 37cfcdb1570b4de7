//! Connections that are served later: between the slices of a long command, after a pause, when
//! their last bytes have arrived.

use std::time::Instant;

use super::Server;
use crate::connection::{Connection, Next, State};
use crate::executor::Executor;

impl Server {
    /// Those whose time has come are busy again, after those that are.
    pub(super) fn wake_resting(&mut self) {
        let now = Instant::now();
        while let Some(&(until, index)) = self.resting.first()
            && until <= now
        {
            self.resting.pop_first();
            if !self.busy.contains(&index) {
                self.busy.push_back(index);
            }
        }
    }

    /// One step of one long command; then the others are served.
    pub(super) fn work_on(&mut self) {
        if let Some(index) = self.busy.pop_front() {
            self.serve_if(index, Executor::is_busy);
        }
    }

    /// Those for which values were read from files go on, if they have all that they waited for.
    pub(super) fn go_on_after_reads(&mut self) {
        let Some(tier) = &self.instance.tier else {
            return;
        };
        for index in tier.take_ended_reads() {
            self.serve_if(index, Executor::has_read);
            self.close_those_told();
        }
    }

    /// Requests that the kernel has parked for too long are the daemon's.
    pub(super) fn take_overdue(&mut self) {
        let Some(tier) = &self.instance.tier else {
            return;
        };
        for (index, cookie) in tier.take_overdue() {
            let is_it = |connection: &Connection| connection.cookie == cookie;
            if self.connections.get(index).is_some_and(is_it) {
                self.with_client(index, |server, client| {
                    client.connection.take_overdue(&server.programs.connections);
                    server.serve_handed_over(client)
                });
                self.close_those_told();
            }
        }
    }

    /// When CLIENT PAUSE is over, by time or by UNPAUSE, what waited is executed.
    pub(super) fn end_pause_when_due(&mut self) {
        let left = self.instance.pause.left(Instant::now());
        if left.is_some_and(|left| left.is_zero()) {
            self.instance.unpause();
        }
        if self.instance.pause.is_on() {
            return;
        }
        for index in std::mem::take(&mut self.paused) {
            self.serve_if(index, Executor::is_paused);
            self.close_those_told();
        }
    }

    pub(super) fn look_at_draining(&mut self) {
        for index in std::mem::take(&mut self.draining) {
            self.with_client(index, |server, client| {
                let connection = &mut client.connection;
                if connection.state == State::Daemon {
                    return server.serve(client);
                }
                let drained = connection.state == State::Draining
                    && connection.is_drained(&server.programs.connections);
                Ok(if drained { Next::Close } else { Next::Keep })
            });
        }
    }
}
