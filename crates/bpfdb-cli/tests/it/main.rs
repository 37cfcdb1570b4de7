//! The tests of this crate that need nothing private: one program, a module for each subject.

mod common;
mod copies;
mod crash_loop;
mod crash_oracle;
mod data_directory;
mod durability;
mod full_disk;
mod living_engine;
mod load_rdb;
mod memory_group;
mod power_loss;
mod procedures;
mod removed_directory;
mod retention;
mod serve;
mod service;
mod stopped;
mod tables;
mod tier;
mod tools_beside_a_server;
mod wall_clock;
