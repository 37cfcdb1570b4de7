//! The tests of this crate that need nothing private: one program, a module for each subject.

mod common;
mod damage;
mod field;
mod kernel;
mod model;
mod pool;
mod program;
mod sorter;
mod sqlite;
