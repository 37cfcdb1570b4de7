//! Scripts, functions and compiled procedures: what is kept of them between calls. Nothing here
//! knows a client; `commands/scripting` has EVAL, FCALL, SCRIPT and FUNCTION, and runs the calls,
//! in which any command may be executed.
//!
//! ```text
//! scripts.rs    the scripts that clients have sent, and the states of Lua
//! functions/    the libraries of functions, and which of them is the committed one
//! procedures/   what of both the kernel runs: compiled, published, withdrawn
//! reply.rs      what Lua returns, in the client's protocol
//! ```

pub(crate) mod functions;
pub(crate) mod procedures;
pub(crate) mod reply;
pub(crate) mod scripts;
