//! The tests of this crate that need nothing private: a module for each subject.

mod common;
mod cost;
mod embedded;
mod inside;
mod programs;
mod verifier;
