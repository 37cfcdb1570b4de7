//! The tests of this crate that need nothing private: a module for each subject.

mod common;
mod dump;
mod exchange;
mod forms;
mod fuzz;
mod memory;
mod ordered;
mod rdb;
mod redis;
mod restore;
mod types;
