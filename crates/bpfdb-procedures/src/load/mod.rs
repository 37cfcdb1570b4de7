//! From instructions to a program in the kernel.
//!
//! ```text
//! info.rs      what the kernel says of a program
//! template.rs  the program that clang made and libbpf relocated, by functions
//! program.rs   the template with one function replaced: assembled, verified, loaded
//! ```

mod info;
mod program;
mod template;

pub use program::Program;
pub use template::Template;
pub(crate) use template::as_called_from;
