//! Lua 5.1 as Redis runs it: scripts and libraries of functions, each call in a sandbox, with
//! limits on time and memory.
//!
//! A call never blocks the thread that runs it. It has a stack of its own, on which it is left where
//! it stands when it wants a command executed, or when its time slice is over:
//!
//! ```text
//!  server                               call, on its own stack
//!    │ Vm::begin(function, keys, arguments)
//!    ├── resume ──────────────────────────► local n = redis.call('GET', KEYS[1])
//!    │◄─ Step::Command(["GET", "k"]) ─────┘
//!    │  executes it
//!    ├── resume(Answer::Reply(…)) ────────► while … do … end
//!    │◄─ Step::SliceOver ─────────────────┘
//!    │  serves others
//!    ├── resume(Answer::GoOn) ────────────► return n
//!    │◄─ Step::Done(reply) ───────────────┘
//! ```
//!
//! Invariants
//!  1. A [`Vm`] runs one call at a time; one that is left runs nothing until it is resumed.
//!  2. A call sees its keys, its arguments, the libraries of Lua that are in the sandbox, and
//!     what commands reply. What it changes of its surroundings ends with it, but for the
//!     local variables of a library.
//!  3. A call ends: a hook looks at the clock every [`Limits::INSTRUCTIONS_BETWEEN_LOOKS`]
//!     instructions, more often in a large state (`limits.rs`), and every function of ours that may take long does so too. One that is
//!     stopped meets an error at each instruction, which no `pcall` holds for long.
//!  4. A stack is left for good only by its own end: what is on it would never be given back.
//!     A call that is dropped is stopped and resumed until it has ended.
//!
//! ```text
//! vm.rs          one state of Lua, the scripts and libraries it has compiled
//! call.rs        a call on its way, on its own stack
//! library.rs     libraries of functions that a state has loaded
//! header.rs      what a script's first line says
//! limits.rs      how much memory and time, and how often that is looked at
//! compile.rs     from text to functions, a few bytes at a time
//! charged.rs     functions of Lua that may take long, with what they cost
//! native.rs      functions of C, whose errors name the script's line; math.random
//! sha1.rs        names of scripts
//! sandbox.lua    what a script finds: globals, `redis`, errors as Redis words them
//! sandbox.rs     the functions behind it
//! reply.rs       replies of commands, to and from Lua
//! number.rs      numbers as C prints them
//! json.rs        cjson
//! msgpack.rs     cmsgpack
//! pack.rs        struct
//! bit.rs         bit
//! matching.rs    string.find, match, gmatch, gsub, rep
//! pattern.rs     what matches a pattern
//! random.rs      the numbers of math.random
//! work.rs        slices of what is not Lua's
//! ```

mod answer;
mod bit;
mod call;
mod charged;
mod compile;
mod header;
mod json;
mod library;
mod limits;
mod matching;
mod msgpack;
mod native;
mod number;
mod pack;
mod pattern;
mod random;
mod reply;
mod sandbox;
mod sha1;
mod vm;
mod work;

pub use call::{Answer, Call, Failure, Step};
pub use header::{Flags, flags};
pub use library::{FunctionFlags, Registered, Source};
pub use limits::Limits;
pub use number::text_of_double;
pub use random::Random;
pub use reply::Reply;
pub use sha1::Sha1;
pub use vm::Vm;

// The tests that need nothing private, in the program of the unit tests: one program less is linked.
#[cfg(test)]
extern crate self as bpfdb_lua;
#[cfg(test)]
#[path = "../tests/it/main.rs"]
mod it;
