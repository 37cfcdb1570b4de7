//! From instructions to a program in the kernel.
//!
//! ```text
//! template.rs  the program that clang made and libbpf relocated, by functions
//! program.rs   the template with one function replaced: assembled, verified, loaded
//! ```

mod program;
mod template;

pub use program::Program;
pub use template::Template;
pub(crate) use template::as_called_from;
