//! Serves the clients whose commands wait for keys, when keys were written.
//!
//! Redis does this after each command, and so does the server, after each round of service: in that
//! nothing is executed behind a request that has made a key ready (`Executor::execute`).

use std::io;
use std::time::Instant;

use bpfdb::{Database, ValueType};

use super::{Client, Server};
use crate::connection::Next;
use crate::instance::waiting::Waiting;

impl Server {
    /// Each key in its turn, and each that waits for it in its own. What these write is served too.
    pub(super) fn serve_waiters(&mut self) {
        let waiting = self.instance.waiting.clone();
        while let Some(index) = waiting.next_unblocked() {
            self.wake(index);
        }
        while self.instance.may_serve_waiters()
            && let Some(key) = waiting.next_ready()
        {
            self.serve_waiters_for(&waiting, &key);
        }
    }

    fn serve_waiters_for(&mut self, waiting: &Waiting, key: &[u8]) {
        let mut missed: Vec<ValueType> = Vec::new();
        let mut last = None;
        while let Some(waiter) = waiting.next_waiter(key, last, &missed) {
            last = Some(waiter);
            waiting.wake(waiter);
            self.wake(waiter.index);
            if waiting.waits(waiter) {
                missed.extend(waiter.takes);
            }
        }
    }

    /// Those whose questions to tables have been answered.
    pub(super) fn go_on_after_questions(&mut self) {
        let ended = self.instance.tables.take_ended();
        self.instance.note_tables();
        for index in ended {
            // Another client may have the place by now.
            if self.executors[index as usize].is_blocked() {
                self.wake(index);
            }
        }
    }

    pub(super) fn has_waiters_to_serve(&self) -> bool {
        self.instance.has_to_serve_waiters() || self.instance.waiting.has_unblocked()
    }

    fn wake(&mut self, index: u32) {
        self.with_client(index, Self::serve_woken);
        self.send_pushed();
        self.close_those_told();
    }

    fn serve_woken(&mut self, client: &mut Client) -> io::Result<Next> {
        self.forget_rest(client);
        // What is taken for a client that is gone would be lost.
        if client.connection.has_ended() {
            return Ok(Next::Close);
        }
        client.executor.wake();
        self.serve_with(client, |executor, connection, server| {
            executor.serve_woken(connection, server)
        })
    }

    /// It does not rest any more until the time that it has said, which may be far away.
    pub(super) fn forget_rest(&mut self, client: &Client) {
        if let Some(until) = client.executor.rests_until() {
            self.resting.remove(&(until, client.connection.index));
        }
    }

    /// Keys that were locked are ready again; and those that others may have written are compared.
    pub(super) fn look_at_waited(&mut self) {
        let Some(due) = self.instance.waiting.due() else {
            return;
        };
        let now = Instant::now();
        if due > now {
            return;
        }
        let waiting = self.instance.waiting.clone();
        waiting.make_due_ready(now);
        for (key, index) in waiting.due_for_comparison(now) {
            self.session.redirect(index);
            self.session.set_database(Database::default());
            // An error of a moment: it is compared the next time.
            if let Ok(token) = self.session.watch(&key) {
                waiting.compare(&key, token);
            }
        }
    }
}
