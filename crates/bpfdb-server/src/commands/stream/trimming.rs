//! Options of XADD and XTRIM for the entries that go.

use bpfdb_values::stream::block::ENTRIES;
use bpfdb_values::stream::{Keep, Trim};

use super::super::arguments::{is, number, syntax_error};
use super::super::prelude::*;
use super::ids::{self, NewId};

/// Entries that an approximate trim without LIMIT removes at most.
const LIMIT: u64 = 100 * ENTRIES;

/// Options before the identifier of XADD, or all of XTRIM.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Options {
    keep: Option<Keep>,
    is_approximate: bool,
    limit: Option<i64>,
    pub(super) is_for_old_only: bool,
}

impl Options {
    /// Those of XTRIM: how it trims.
    pub(super) fn of_xtrim(mut words: &[Vec<u8>]) -> Result<Trim, Failure> {
        let mut options = Self::default();
        while let [option, rest @ ..] = words {
            words = options.take(option, rest)?.ok_or_else(syntax_error)?;
        }
        if options.keep.is_none() && options.limit.unwrap_or(0) == 0 {
            return Err("ERR syntax error, XTRIM must be called with a trimming strategy".into());
        }
        options.trim()?.ok_or_else(syntax_error)
    }

    /// Those of XADD, the identifier, and the words behind it. Without an identifier there is nothing
    /// behind it either.
    pub(super) fn of_xadd(mut words: &[Vec<u8>]) -> Result<(Self, NewId, &[Vec<u8>]), Failure> {
        let mut options = Self::default();
        while let [option, rest @ ..] = words {
            if matches!(&option[..], [b'*'] | [b'*', 0, ..]) {
                return Ok((options, NewId::Now, rest));
            }
            words = match options.take(option, rest)? {
                Some(rest) => rest,
                None if is(option, "nomkstream") => {
                    options.is_for_old_only = true;
                    rest
                }
                None => return Ok((options, NewId::read(option)?, rest)),
            };
        }
        Ok((options, NewId::Now, words))
    }

    /// Takes an option with its value; `None`: it is no option of a trim. The rest are the words
    /// behind it.
    fn take<'a>(
        &mut self,
        option: &[u8],
        rest: &'a [Vec<u8>],
    ) -> Result<Option<&'a [Vec<u8>]>, Failure> {
        let Some(next) = rest.first() else {
            return Ok(None);
        };
        if is(option, "limit") {
            let limit = number(next)?;
            if limit < 0 {
                return Err("ERR The LIMIT argument must be >= 0.".into());
            }
            self.limit = Some(limit);
            return Ok(Some(&rest[1..]));
        }
        let (is_maxlen, is_minid) = (is(option, "maxlen"), is(option, "minid"));
        if !is_maxlen && !is_minid {
            return Ok(None);
        }
        if self.keep.is_some() {
            return Err(
                "ERR syntax error, MAXLEN and MINID options at the same time are not compatible"
                    .into(),
            );
        }
        let has_sign = rest.len() > 1 && matches!(&next[..], b"~" | b"=");
        self.is_approximate = has_sign && next[0] == b'~';
        let rest = if has_sign { &rest[1..] } else { rest };
        self.keep = Some(if is_maxlen {
            let most = number(&rest[0])?;
            let most = u64::try_from(most).map_err(|_| "ERR The MAXLEN argument must be >= 0.")?;
            Keep::Entries(most)
        } else {
            Keep::From(ids::id(&rest[0], 0)?)
        });
        Ok(Some(&rest[1..]))
    }

    /// How a stream is trimmed; `None`: it is not.
    pub(super) fn trim(&self) -> Result<Option<Trim>, Failure> {
        let limit = self.limit.unwrap_or(0) as u64;
        let Some(keep) = self.keep else {
            if limit > 0 {
                return Err(
                    "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy"
                        .into(),
                );
            }
            if self.limit.is_some() {
                return Err(LIMIT_ALONE.into());
            }
            return Ok(None);
        };
        let limit = match (self.is_approximate, self.limit) {
            (true, None) => LIMIT,
            (true, Some(_)) => limit,
            (false, None) => 0,
            (false, Some(_)) => return Err(LIMIT_ALONE.into()),
        };
        Ok(Some(Trim {
            keep,
            is_approximate: self.is_approximate,
            limit,
        }))
    }
}

const LIMIT_ALONE: &str = "ERR syntax error, LIMIT cannot be used without the special ~ option";
