//! Publish and subscribe: messages to all that have subscribed to a channel.
//!
//! ```text
//!  PUBLISH ──► is a transaction open? ──no──► deliver ──► output of each receiver ──► send_pushed
//!                    │ yes                      ▲                          (server/mod.rs)
//!                    ▼                          │
//!                  stage ──COMMIT, EXEC, end of the script──┘
//!                    └──rolled back──► dropped
//! ```
//!
//! Invariants
//!  1. A message stands between two replies, never within one: it is added to what waits to be sent,
//!     which replies enter whole (`Connection::queue_replies`). One to the client that publishes comes
//!     before the reply to its request ([`conclude`]).
//!  2. The kernel answers nothing for a client that has subscribed to anything
//!     (`ConnectionInfo::may_be_handed_back`): it would send beside the daemon.
//!  3. Messages of one client come in the order in which it has published them, since they enter
//!     what is to be sent in that order; those of a transaction when it commits.
//!  4. Nothing waits for a receiver. What it does not read is kept, up to the limits of
//!     `client-output-buffer-limit`; then it is closed.

mod delivery;
mod psubscribe;
#[expect(clippy::module_inception, reason = "the name of the command")]
mod publish;
mod pubsub;
mod punsubscribe;
mod spublish;
mod ssubscribe;
mod subscribe;
mod subscriptions;
mod sunsubscribe;
mod unsubscribe;

use super::context::Context;
use super::definition::{Command, Flag, KeyFlag, Keys};
use crate::protocol::reply::Protocol;

pub(crate) use delivery::{conclude, send, send_for_nobody};
pub(super) use subscriptions::unsubscribe_all;

pub(super) static COMMANDS: &[&Command] = &[
    &psubscribe::COMMAND,
    &publish::COMMAND,
    &pubsub::COMMAND,
    &punsubscribe::COMMAND,
    &spublish::COMMAND,
    &ssubscribe::COMMAND,
    &subscribe::COMMAND,
    &sunsubscribe::COMMAND,
    &unsubscribe::COMMAND,
];

/// Flags of what changes the subscriptions of a client.
const SUBSCRIBES: &[Flag] = &[Flag::Pubsub, Flag::NoScript, Flag::Loading, Flag::Stale];
/// Of what publishes.
const PUBLISHES: &[Flag] = &[Flag::Pubsub, Flag::Loading, Flag::Stale, Flag::Fast];
/// Of replies about subscriptions.
const TELLS: &[Flag] = &[Flag::Pubsub, Flag::Loading, Flag::Stale];

/// A name of a shard's channel, or several.
const SHARD_CHANNEL: Keys = Keys::at(1, &[KeyFlag::NotKey]);

const OF_TRANSACTION: &str = "In BEGIN … COMMIT, MULTI … EXEC and in a script, whose commands are one transaction, the message is sent when that commits, and never if it is rolled back; the reply is how many would receive it now.";

/// Could the client not tell replies from messages?
pub(crate) fn is_for_messages(context: &Context<'_>) -> bool {
    context.connection.subscribed.is_any() && context.replies.protocol() == Protocol::Resp2
}
