//! The tests of this crate that need nothing private: one program, a module for each subject.

mod common;
mod copies;
mod crash_loop;
mod crash_oracle;
mod data_directory;
mod durability;
mod full_disk;
mod load_rdb;
mod power_loss;
mod procedures;
mod retention;
mod serve;
mod stopped;
mod tools_beside_a_server;
mod wall_clock;
