//! Checkpoints of the running engine: what recovery begins with instead of the whole log, which
//! may go up to there then. `docs/decisions/0019-checkpoints.md` has the argument.
//!
//! ```text
//!          request, or policy                  all of the file is durable
//!  idle ────────────────────────► Walking ──────────────────────────────► Waiting
//!    ▲                               │ any failure                           │ durable >= end:
//!    │                               ▼                                       │ the log's writer
//!    └──────────────────────────── failed: the one before counts             │ names it in control
//!    └───────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! | file | |
//! |---|---|
//! | `status.rs` | what is said of checkpoints, and when one is due |
//! | `shared.rs` | what this thread, the log's writer and others share |
//! | `walk.rs` | one checkpoint: from the engine to a file |
//! | `thread.rs` | the thread |
//! | `retention.rs` | what is retained for recovery to an earlier time, and how long |
//! | `retaining.rs` | what is retained now, and what of it is to go |
//! | `retain.rs` | how that is kept and given up |
//!
//! Invariants, beside those of decision 19:
//!
//! 1. The start of a checkpoint is the epoch of a group that was durable before the walk began.
//!    The first segment that is needed with it is the one that group began in.
//! 2. Only the log's writer changes the control file. It takes a checkpoint when what is durable
//!    has reached the checkpoint's end, in the order in which groups become durable.
//! 3. A checkpoint that fails, for whatever reason, leaves the one before in force, with its log.
//! 4. A checkpoint file is removed only when the control file names another one and, if the file
//!    was retained, no longer the segments that are read with it. One that was to be named, and
//!    failed at that, stays until a later one counts: a slot may name it.

mod retain;
mod retaining;
mod retention;
mod shared;
mod status;
mod thread;
mod walk;

pub use retention::{RetentionOptions, RetentionStatus};
pub(crate) use shared::{LogEnds, Origin, Shared};
pub use status::{CheckpointDone, CheckpointOptions, CheckpointProgress, CheckpointStatus, Phase};
pub(crate) use thread::Checkpoints;
