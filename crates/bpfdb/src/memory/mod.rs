//! The engine's memory: adding it, giving it back, and knowing what is in use.
//!
//! ```text
//! grow.rs       adds segments to a running engine
//! thread.rs     the owner's thread, which does all of this ahead of need
//! chore.rs      work that others leave to that thread
//! idle.rs       what data had and has left goes back to the free pages
//! shrink.rs     an index that has become too large gives pages back
//! grace.rs      waiting until no program uses such a page
//! usage.rs      what the data takes of its pages
//! presize.rs    an empty engine is prepared for the records of recovery
//! cgroups.rs    what the control groups leave to this process
//! ```

pub mod cgroups;
mod chore;
pub(crate) mod grace;
mod grow;
pub(crate) mod idle;
mod presize;
pub(crate) mod shrink;
pub(crate) mod thread;
pub(crate) mod usage;

pub(crate) use self::grow::Memory;
