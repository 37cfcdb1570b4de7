//! The tests of this crate that need nothing private: one program, a module for each subject.

mod drivers;
mod faults;
mod rate_limiters;
