//! Tests that drive the real engine from outside.
//!
//! | where         | what                                                         |
//! |---------------|--------------------------------------------------------------|
//! | [`target`]    | what can be tested: the model, with or without a fault, too  |
//! | [`kernel`]    | the real engine as a target; alone knows its API             |
//! | [`log`]       | a log for the engines of all tests, if one is wanted         |
//! | [`tier`]      | cold values in the engines of all tests, if they are wanted  |
//! | [`schedule`]  | random schedules, run on a target and on the model           |
//! | [`script`]    | the anomaly scripts of `tests/scripts`, in [`words`]         |
//! | [`stress`]    | parallel runs that check what must always hold               |
//! | [`interrupt`] | programs that interrupt operators, as guests of such runs    |
//! | [`steps`]     | writers that no process runs                                 |
//! | [`lent`]      | engines and servers that tests have one after the other       |
//! | [`namespace`] | network and files that only one test sees                    |
//! | [`process`]   | processes that a test starts, and tests in one of their own  |
//! | [`serial`]    | tests of one program that must not run at the same time      |
//! | [`server`]    | servers, clients, Redis to compare with                      |
//! | [`install`]   | clients of other languages                                   |
//! | [`programs`]  | random programs of Lua                                       |
//!
//! Every check is written against [`target::Target`], so that it also runs on a
//! model with a deliberate fault, where it has to fail: `tests/faults.rs`.

pub mod files;
pub mod install;
pub mod interrupt;
pub mod kernel;
pub mod lent;
pub mod log;
pub mod namespace;
pub mod noise;
pub mod process;
pub mod programs;
pub mod random;
pub mod schedule;
pub mod script;
pub mod serial;
pub mod server;
pub mod settings;
pub mod steps;
pub mod stress;
pub mod target;
pub mod tier;
mod timer;
pub mod words;
