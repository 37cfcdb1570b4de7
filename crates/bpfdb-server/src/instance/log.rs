//! The engine's log, as the server sees it: what is durable, and why nothing can be written.

use std::sync::Arc;

use bpfdb_durability::{CheckpointStatus, Durability, RetentionOptions, State};

use crate::io::bell::Bell;
use crate::settings::Loaded;

/// The reply to a request for what only a log can give.
pub(crate) const NO_LOG: &str =
    "ERR nothing is durable here: the server was started with appendonly no";

/// The engine's log, if it has one.
#[derive(Debug)]
pub(crate) struct Log {
    durability: Option<Arc<Durability>>,
    loaded: Option<Loaded>,
}

impl Log {
    /// `bell` is rung when something has become durable that a client waits for, and when
    /// the state of the log is another one.
    pub(crate) fn new(
        durability: Option<Arc<Durability>>,
        loaded: Option<Loaded>,
        bell: &Bell,
    ) -> Self {
        if let Some(durability) = &durability {
            let bell = bell.clone();
            if !durability.on_change(move || bell.ring()) {
                tracing::error!("another server waits for this log");
            }
        }
        Self { durability, loaded }
    }

    /// Keys that there were at the start: of a file that was loaded, or of the checkpoint that
    /// was recovered. Those of an engine that was there already were not loaded.
    pub(crate) fn loaded(&self) -> Loaded {
        self.loaded.unwrap_or_else(|| Loaded {
            keys: self
                .durability
                .as_ref()
                .map_or(0, |durability| durability.restored().checkpoint_entries),
            expired: 0,
        })
    }

    pub(crate) fn is_there(&self) -> bool {
        self.durability.is_some()
    }

    pub(crate) fn durability(&self) -> Option<&Durability> {
        self.durability.as_deref()
    }

    /// All commits with a timestamp up to this are durable; without a log there is nothing to wait for.
    pub(crate) fn durable(&self) -> u64 {
        self.durability
            .as_ref()
            .map_or(u64::MAX, |durability| durability.durable())
    }

    /// Has everything up to this timestamp become durable soon, for so many waiters.
    pub(crate) fn want(&self, timestamp: u64, waiters: u32) {
        if let Some(durability) = &self.durability {
            durability.want(timestamp, waiters);
        }
    }

    /// From now on so much is retained of the log.
    pub(crate) fn set_retention(&self, options: RetentionOptions) {
        if let Some(durability) = &self.durability {
            durability.set_retention(options);
        }
    }

    /// Has a checkpoint made: the number of the attempt.
    pub(crate) fn begin_checkpoint(&self) -> Result<u64, String> {
        let durability = self.durability.as_ref().ok_or(NO_LOG)?;
        let attempt = durability.checkpoint();
        attempt.map_err(|error| format!("ERR {error}"))
    }

    /// The same; while one is being made, another one follows.
    pub(crate) fn schedule_checkpoint(&self) -> Result<u64, String> {
        let durability = self.durability.as_ref().ok_or(NO_LOG)?;
        Ok(durability.schedule_checkpoint())
    }

    /// Is a checkpoint being made?
    pub(crate) fn is_checkpointing(&self) -> bool {
        let status = self.checkpoint_status();
        status.is_some_and(|status| status.running.is_some())
    }

    pub(crate) fn checkpoint_status(&self) -> Option<CheckpointStatus> {
        Some(self.durability.as_ref()?.checkpoint_status())
    }

    /// Why the engine is read-only, if it is, and will be for a while; as a reply has it.
    pub(crate) fn refusal(&self) -> Option<String> {
        match self.durability.as_ref()?.state() {
            State::Writing | State::Stalled(_) => None,
            State::Full(why) => Some(format!(
                "MISCONF {why}; bpfdb is read-only until there is some"
            )),
            State::Failed(why) => Some(format!(
                "MISCONF {why}; bpfdb is read-only: mend the disk, and start the server again"
            )),
        }
    }

    /// Will nothing more become durable?
    pub(crate) fn has_failed(&self) -> bool {
        let failed = |durability: &Arc<Durability>| matches!(durability.state(), State::Failed(_));
        self.durability.as_ref().is_some_and(failed)
    }
}
