//! Inputs of a table.
//!
//! | module | |
//! |---|---|
//! | `loader` | entries in any order, to a table |
//! | `columns` | which columns or fields of a file become key and value |
//! | `csv`, `lines` | files of CSV, and of JSON lines |
//! | `strings` | the strings of a database: a snapshot of an engine, or a copy |

pub(crate) mod columns;
pub(crate) mod csv;
pub(crate) mod lines;
pub(crate) mod loader;
pub(crate) mod strings;
