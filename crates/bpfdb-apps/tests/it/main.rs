//! The tests of this crate that need nothing private: one program, a module for each subject.

mod collections;
mod drivers;
mod faults;
mod pattern;
mod queues;
mod random;
mod rate_limiters;
mod rows;
mod sidekiq;
