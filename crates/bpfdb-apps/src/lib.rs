//! Drivers for the applications in `examples/procedures`, for any server that speaks Redis's
//! protocol and has functions.
//!
//! ```text
//!  application ── next, write ──► calls ──► server
//!      ▲                                      │
//!      └── check ◄── tallies ◄── count ◄── replies
//! ```
//!
//! | module           | the application, and what must hold of its data at the end            |
//! |------------------|-----------------------------------------------------------------------|
//! | [`voter`]        | every accepted vote is there once, and no phone is over its limit     |
//! | [`smallbank`]    | all money is there that was, but for what was paid in and taken out   |
//! | [`tatp`]         | every call forwarding was inserted once more than it was deleted      |
//! | [`lock`]         | no two clients were between acquire and release at the same time      |
//! | [`rate_limiter`] | no window, and no bucket, has let more through than its limit         |
//! | [`idempotency`]  | every request was executed once, and all have seen the same result    |
//!
//! [`application`] runs the first three and the fifth, whose calls depend on nothing; in the
//! other two a client's next call depends on the last reply. An error in the place of a reply,
//! a conflict too, ends a run.

pub mod application;
pub mod client;
pub mod idempotency;
pub mod lock;
pub mod pattern;
pub mod procedures;
pub mod random;
pub mod rate_limiter;
pub mod smallbank;
pub mod tatp;
pub mod voter;
