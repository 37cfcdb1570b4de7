//! Tables read in the kernel: chains of reads that come back when they have ended. The protocol stands in
//! `bpf/table/state.bpf.h`.
//!
//! | module | |
//! |---|---|
//! | `objects` | the compiled program |
//! | `memory` | what program and process share |
//! | `ring` | the io_uring whose rings lie there |
//! | `pool` | [`Pool`](pool::Pool): blocks that are kept, and [`PoolReader`](pool::PoolReader) |
//! | `chains` | [`Chains`](chains::Chains): requests, and what becomes of them |

pub(crate) mod chains;
mod memory;
mod objects;
pub(crate) mod pool;
pub(crate) mod ring;
