//! Work that is done once a second, and the bounds on memory: clients that are idle, that
//! do not read their replies, that make the daemon keep most.

use std::time::{Duration, Instant};

use bpfdb::abi;

use super::{Client, Server};
use crate::connection::Connection;

/// Memory that free() may keep without a request to give it back.
const FREE_KEPT: u64 = 16 << 20;

impl Server {
    pub(super) fn tick(&mut self, now: Instant) {
        self.instance.statistics.mark_alive();
        self.look_at_activity(now);
        self.close_idle(now);
        self.close_slow_readers(now);
        self.measure_rate();
        self.instance.procedures.look_at_use();
        self.tell_of_procedures();
        self.workers.prefer(self.instance.settings.worker_nice);
        self.close_those_told();
        self.give_memory_back();
    }

    /// The metrics, which others scrape.
    fn tell_of_procedures(&self) {
        let instance = &self.instance;
        if instance.metrics_address.is_some() {
            let figures = instance.procedures.figures();
            instance.statistics.procedures.put(figures);
        }
    }

    /// What the kernel answers for a connection is not seen here, but that
    /// bytes arrived is.
    fn look_at_activity(&mut self, now: Instant) {
        let kernel = &self.programs.connections;
        let mut ways = [0; abi::BPFDB_WAY_COUNT as usize];
        for connection in self.connections.iter_mut() {
            connection.look_at_activity(kernel, now);
            if !connection.info.is_unix()
                && let Some(count) = ways.get_mut(kernel.way(connection.index) as usize)
            {
                *count += 1;
            }
        }
        for (of_way, count) in self.instance.statistics.ways.iter().zip(ways) {
            of_way.set(count);
        }
    }

    fn close_idle(&mut self, now: Instant) {
        let seconds = self.instance.settings.timeout;
        if seconds == 0 {
            return;
        }
        let Some(moment) = now.checked_sub(Duration::from_secs(seconds)) else {
            return;
        };
        // One whose replies are held back, or whose request waits for the end of CLIENT PAUSE or for a
        // key, waits for us.
        // Nor need one say anything that has subscribed, or that is shown requests, as in Redis.
        let waits = |connection: &&Connection| {
            connection.held_until().is_some()
                || connection.info.begun.paused
                || connection.info.begun.blocked
                || connection.info.subscribed.is_any()
                || connection.info.is_monitor
        };
        let idle = self.connections.idle_since(moment);
        let idle = idle.filter(|connection| !waits(connection));
        let idle: Vec<_> = idle.map(place).collect();
        for (index, cookie) in idle {
            self.instance
                .statistics
                .numbers
                .connections_timed_out
                .increment();
            tracing::debug!(index, "closing an idle connection");
            self.connections.close_later(index, cookie);
        }
    }

    fn close_slow_readers(&mut self, now: Instant) {
        let mut slow = Vec::new();
        for connection in self.connections.iter_mut() {
            let limit = self.instance.output_limit(&connection.info);
            let patience = Duration::from_secs(limit.seconds);
            let soft = usize::try_from(limit.soft.bytes()).unwrap_or(usize::MAX);
            // What is held back cannot be read.
            let is_held = connection.held_until().is_some();
            let above = soft > 0 && connection.unsent() > soft && !is_held;
            let since = connection.slow_since.filter(|_| above).unwrap_or(now);
            connection.slow_since = above.then_some(since);
            if above && now.duration_since(since) >= patience {
                slow.push(place(connection));
            }
        }
        for (index, cookie) in slow {
            self.report_slow_reader(index);
            self.connections.close_later(index, cookie);
        }
    }

    fn report_slow_reader(&self, index: u32) {
        let statistics = &self.instance.statistics;
        statistics.numbers.connections_over_output_limit.increment();
        tracing::warn!(index, "closing a connection that does not read its replies");
    }

    /// The hard limit, after every round of service.
    pub(super) fn is_over_output_limit(&self, connection: &Connection) -> bool {
        let hard = self.instance.output_limit(&connection.info).hard.bytes();
        let over = (hard > 0 && connection.unsent() as u64 > hard) || connection.is_overfull();
        if over {
            self.report_slow_reader(connection.index);
        }
        over
    }

    /// A request of many short arguments is many small pieces, and free() keeps those:
    /// more than 100 MiB, after one that never ended.
    fn give_memory_back(&mut self) {
        let kept = self.connections.memory() as u64;
        if self.instance.client_memory_most > kept + FREE_KEPT {
            self.instance.client_memory_most = kept;
            // SAFETY: changes nothing but what is free.
            #[cfg(target_env = "gnu")]
            unsafe {
                libc::malloc_trim(0);
            }
        }
    }

    /// Closes those that most is kept for, until the rest is within bounds.
    pub(super) fn bound_memory(&mut self) {
        let kept = self.connections.memory() as u64;
        let instance = &mut self.instance;
        instance.client_memory_most = instance.client_memory_most.max(kept);
        let most = instance.settings.max_client_memory;
        let most = most.limit(self.engine.memory_limit()).unwrap_or(u64::MAX);
        while self.connections.memory() as u64 > most {
            let largest = self
                .connections
                .largest()
                .map(|connection| connection.index);
            match largest.and_then(|index| self.take(index)) {
                Some(client) => self.evict(client),
                None => break,
            }
        }
        self.note_memory();
    }

    pub(super) fn note_memory(&self) {
        let statistics = &self.instance.statistics;
        statistics
            .numbers
            .client_memory_bytes
            .set(self.connections.memory() as u64);
    }

    fn evict(&mut self, client: Client) {
        let (peer, kept) = (
            &client.connection.info.peer,
            client.connection.info.memory(),
        );
        tracing::warn!(%peer, kept, "closing a connection: all together use too much memory");
        self.instance
            .statistics
            .numbers
            .connections_evicted
            .increment();
        self.close(client);
    }

    fn measure_rate(&mut self) {
        let counters = match self.engine.counters() {
            Ok(counters) => counters,
            Err(error) => {
                tracing::warn!(%error, "cannot read the engine's counters");
                return;
            }
        };
        let counters = counters.redis();
        let used = self.engine.memory_used() + self.connections.memory() as u64;
        let instance = &mut self.instance;
        let daemon = &instance.statistics;
        instance
            .rate
            .look(counters.requests_by_kernel() + daemon.commands_executed());
        instance
            .input_rate
            .look(counters.net.bytes_received + daemon.numbers.input_bytes.get());
        instance
            .output_rate
            .look(counters.net.bytes_sent + daemon.numbers.output_bytes.get());
        instance.see_memory(used);
    }
}

fn place(connection: &Connection) -> (u32, u64) {
    (connection.index, connection.cookie)
}
