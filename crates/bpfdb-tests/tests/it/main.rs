//! The tests of this crate that need nothing private: one program, a module for each subject.

mod checker;
mod faults;
mod large;
mod layers;
mod limits;
mod model;
mod scripts;
mod semantics;
mod stress;
mod threats;
mod transport;
mod words;
