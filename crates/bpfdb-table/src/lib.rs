//! Tables: files of keys and values in the order of the keys, written once and read often.
//!
//! ```text
//! Snapshot, copy, CSV, JSON lines ──► Sorter ──► Writer ──► table file
//! table file ──► Table ──► Reader: get, scan, aggregate    ┐
//!                     └──► Chains: the same in the kernel ─┴─ Source
//! ```
//!
//! A table is a B+-tree that is loaded at once: the blocks of a level lie one behind the other, so a block
//! names only its first child. Each block has a checksum of its own. `docs/formats/tables.md` has the file
//! byte by byte, `docs/tables.md` says how tables are used.
//!
//! ```
//! use bpfdb_table::{Access, Options, Reader, Table, Writer};
//! # fn main() -> Result<(), bpfdb_table::Error> {
//! # let folder = tempfile::tempdir().expect("a folder");
//! # let path = folder.path().join("names.table");
//! let mut writer = Writer::create(&path, &Options::default())?;
//! writer.push(b"ada", b"1815")?;
//! writer.push(b"grace", b"1906")?;
//! writer.finish()?;
//!
//! let table = Table::open(&path, Access::Cached)?;
//! let mut reader = Reader::new(&table);
//! assert_eq!(reader.get(b"ada")?.as_deref(), Some(&b"1815"[..]));
//! # Ok(())
//! # }
//! ```
//!
//! | module | |
//! |---|---|
//! | `block`, `header` | the form of the file |
//! | `writer`, `sorter` | how a table is made |
//! | `table`, `walk`, `reader` | how the process reads one |
//! | `bounds`, `field`, `aggregate` | ranges, numbers in values, and what is computed of them |
//! | `kernel` | how chains of reads in the kernel read one |
//! | `source` | either of both |
//! | `input` | what a table is made of: a snapshot, a copy, CSV, JSON lines |

mod abi;
mod aggregate;
mod block;
mod bounds;
mod buffer;
mod error;
mod field;
mod header;
mod input;
mod kernel;
mod reader;
mod sorter;
mod source;
mod table;
mod walk;
mod writer;

/// Longest key, bytes.
pub const KEY_MAX: usize = abi::KEY_MAX;

pub use aggregate::{Aggregate, Aggregation};
pub use bounds::Bounds;
pub use error::{Error, Result};
pub use field::{Field, Type};
pub use header::About;
pub use input::columns::{Column, Columns};
pub use input::csv::read_csv;
pub use input::lines::read_json_lines;
pub use input::loader::Loader;
pub use input::strings::{Chosen, Exported, export, read_copy};
pub use kernel::chains::{ChainFigures, Chains};
pub use kernel::pool::{Pool, PoolFigures, PoolReader};
pub use kernel::ring::ChainOptions;
pub use reader::{Reader, Scan};
pub use sorter::{Sorted, Sorter};
pub use source::{Answered, By, Source};
pub use table::{Access, Table};
pub use walk::{Step, Walk};
pub use writer::{Options, Writer};
