//! The tests of this crate that need nothing private: a module for each subject.

mod beside;
mod bits;
mod checking;
mod checkpoints;
mod common;
mod cutting;
mod faults;
mod fixtures;
mod fixtures_of_points;
mod following;
mod formats;
mod fuzz;
mod hostile;
mod point_in_time;
mod power_loss;
mod queued;
mod rebuilding;
mod retaining;
mod slots;
mod unreadable;
mod writing;
