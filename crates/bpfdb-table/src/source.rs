//! Whoever reads a table: the kernel, or the process.

use crate::aggregate::{Aggregate, Aggregation};
use crate::bounds::Bounds;
use crate::error::{Error, Result};
use crate::field::Field;
use crate::kernel::chains::{ChainFigures, Chains};
use crate::kernel::ring::ChainOptions;
use crate::reader::Reader;
use crate::table::Table;

/// What is to read a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// The kernel, or this process if the kernel cannot.
    #[default]
    Auto,
    /// A chain of reads in the kernel, past the page cache (O_DIRECT).
    Kernel,
    /// This process, through the page cache.
    Process,
}

/// How many questions were answered, by whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answered {
    /// Chains in the kernel.
    pub by_kernel: u64,
    /// Look-ups whose blocks were all in the pool.
    pub from_pool: u64,
    /// Those that the process has answered by reading the file.
    pub by_process: u64,
}

/// What reads a table, for one thread. The answers are the same.
#[derive(Debug)]
pub enum Source<'a> {
    Kernel(Box<Chains<'a>>),
    Process { reader: Reader<'a>, answered: u64 },
}

impl<'a> Source<'a> {
    /// With the reason, if the kernel was to read the table and this process has to.
    ///
    /// # Errors
    /// As [`Chains::start`], if it is to be the kernel and nobody else; or what is wrong with the table.
    pub fn open(table: &'a Table, by: By, options: &ChainOptions) -> Result<(Self, Option<Error>)> {
        let process = || Self::Process {
            reader: Reader::new(table),
            answered: 0,
        };
        if by == By::Process {
            return Ok((process(), None));
        }
        match Chains::start(table, options) {
            Ok(chains) => Ok((Self::Kernel(Box::new(chains)), None)),
            Err(error @ Error::Unavailable(_)) if by == By::Auto => Ok((process(), Some(error))),
            Err(error) => Err(error),
        }
    }

    /// Whether the kernel reads the table. It may cease to ([`Chains::is_stuck`]).
    pub fn is_kernel(&self) -> bool {
        matches!(self, Self::Kernel(chains) if !chains.is_stuck())
    }

    /// Of [`Source::advance`] each slice counts.
    pub fn answered(&self) -> Answered {
        match self {
            Self::Kernel(chains) => {
                let ChainFigures {
                    chains: by_kernel,
                    from_pool,
                    by_process,
                    ..
                } = chains.figures();
                Answered {
                    by_kernel,
                    from_pool,
                    by_process,
                }
            }
            Self::Process { answered, .. } => Answered {
                by_process: *answered,
                ..Answered::default()
            },
        }
    }

    /// The value of a key, if it has one.
    ///
    /// # Errors
    /// As [`Reader::get`].
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self {
            Self::Kernel(chains) => chains.get(key),
            Self::Process { reader, answered } => {
                *answered += 1;
                reader.get(key)
            }
        }
    }

    /// The values of many keys.
    ///
    /// # Errors
    /// As [`Reader::get`], of the first key that has one.
    pub fn get_many(&mut self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        match self {
            Self::Kernel(chains) => chains.get_many(keys),
            Self::Process { .. } => keys.iter().map(|key| self.get(key)).collect(),
        }
    }

    /// What is computed of the entries of a range, and of a field of theirs.
    ///
    /// # Errors
    /// As [`Reader::get`].
    pub fn aggregate(&mut self, bounds: &Bounds<'_>, field: Option<Field>) -> Result<Aggregate> {
        match self {
            Self::Kernel(chains) => chains.aggregate(bounds, field),
            Self::Process { reader, answered } => {
                *answered += 1;
                reader.aggregate(bounds, field)
            }
        }
    }

    /// The same in slices, each of about so many bytes of leaves; `None`: there is more to be looked at.
    ///
    /// # Errors
    /// As [`Reader::get`]. The aggregation is where it was.
    pub fn advance(
        &mut self,
        aggregation: &mut Aggregation,
        bytes: usize,
    ) -> Result<Option<Aggregate>> {
        match self {
            Self::Kernel(chains) => chains.advance(aggregation, bytes),
            Self::Process { reader, answered } => {
                *answered += 1;
                reader.advance(aggregation, bytes)
            }
        }
    }

    /// Hands the entries of a range to `each`, in the order of their keys, until it says false.
    ///
    /// # Errors
    /// As [`Reader::get`].
    pub fn scan(
        &mut self,
        bounds: &Bounds<'_>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        match self {
            Self::Kernel(chains) => chains.scan(bounds, each),
            Self::Process { reader, answered } => {
                *answered += 1;
                let mut scan = reader.scan(bounds)?;
                while let Some((key, value)) = scan.next_entry()? {
                    if !each(key, value) {
                        break;
                    }
                }
                Ok(())
            }
        }
    }
}
