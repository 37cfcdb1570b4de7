//! The tests of this crate that need nothing private: a module for each subject.

mod common;
mod functions;
mod limits;
mod scripts;
