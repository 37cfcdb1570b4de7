//! An io_uring whose rings lie in memory of an eBPF program. The program writes requests into the submission
//! queue (`bpf/ring/ring.bpf.h`), and a thread of io_uring in the kernel submits them (SQPOLL), or one of the process. The process
//! makes the ring, registers buffers and files, and may take completions.
//!
//! | module | |
//! |---|---|
//! | `abi` | the memory, as programs see it |
//! | `mapped` | [`Mapped`]: memory of a map |
//! | `ring` | [`Ring`] |

mod abi;
mod mapped;
mod ring;

pub use abi::bpfdb_ring as RingMemory;
pub use mapped::Mapped;
pub use ring::{Completion, ENTRIES, Entry, Options, Ring};
