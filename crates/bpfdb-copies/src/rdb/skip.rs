//! Passes what is not wanted: values of types that bpfdb does not have, those of other databases, and
//! what modules leave.
//!
//! Every type is a sequence of lengths, strings and fixed bytes, whose meaning does not matter
//! here. Which sequence, is known for all types up to Redis 8.2 and Valkey 9.0, but one: values of modules of
//! Redis before 4.0, which only the module could read.

use super::Dialect;
use super::string::{read_len, skip as skip_string};
use crate::error::{Result, damaged, foreign};
use crate::source::{Input, Source};

/// What a type is called that is neither string nor collection; `None`: there is no such type.
pub(super) fn name(number: u8) -> Option<&'static str> {
    Some(match number {
        6 | 7 => "module",
        _ => return None,
    })
}

/// Passes a value of this type.
pub(super) fn value<I: Input>(source: &mut Source<I>, dialect: Dialect, kind: u8) -> Result<()> {
    match kind {
        22 if dialect == Dialect::Valkey => many(source, |source| {
            skip_string(source)?;
            skip_string(source)?;
            source.skip(8)
        }),
        1 | 2 | 14 => strings(source, 1),
        4 => strings(source, 2),
        3 => many(source, |source| {
            skip_string(source)?;
            text_number(source)
        }),
        5 => many(source, |source| {
            skip_string(source)?;
            source.skip(8)
        }),
        // One string has all of it.
        9..=13 | 16 | 17 | 20 | 23 => skip_string(source),
        18 => many(source, |source| {
            read_len(source)?;
            skip_string(source)
        }),
        22 => hash_with_times(source),
        24 => {
            source.skip(8)?;
            hash_with_times(source)
        }
        25 => {
            source.skip(8)?;
            skip_string(source)
        }
        15 => stream(source, 1),
        19 => stream(source, 2),
        21 => stream(source, 3),
        7 => {
            read_len(source)?;
            module_data(source)
        }
        6 => Err(foreign(
            source.offset(),
            "a value of a module in the form before Redis 4.0, whose end only the module knows",
        )),
        _ => Err(damaged(
            source.offset(),
            format!("no type has the number {kind}"),
        )),
    }
}

/// What a module left beside its values.
pub(super) fn module_aux<I: Input>(source: &mut Source<I>) -> Result<()> {
    // The module, and when it wants to see this: a marked number.
    for _ in 0..3 {
        read_len(source)?;
    }
    module_data(source)
}

fn many<I: Input>(
    source: &mut Source<I>,
    mut one: impl FnMut(&mut Source<I>) -> Result<()>,
) -> Result<()> {
    for _ in 0..read_len(source)? {
        one(source)?;
    }
    Ok(())
}

/// So many elements, of `each` strings.
fn strings<I: Input>(source: &mut Source<I>, each: usize) -> Result<()> {
    many(source, |source| {
        (0..each).try_for_each(|_| skip_string(source))
    })
}

/// A number as text, or a mark for what is none, or infinite.
fn text_number<I: Input>(source: &mut Source<I>) -> Result<()> {
    match source.byte()? {
        253..=255 => Ok(()),
        len => source.skip(len.into()),
    }
}

/// Each field with its time, and its value.
fn hash_with_times<I: Input>(source: &mut Source<I>) -> Result<()> {
    many(source, |source| {
        read_len(source)?;
        skip_string(source)?;
        skip_string(source)
    })
}

fn lens<I: Input>(source: &mut Source<I>, count: usize) -> Result<()> {
    (0..count).try_for_each(|_| read_len(source).map(drop))
}

/// The three forms differ in what they have of history.
fn stream<I: Input>(source: &mut Source<I>, form: u8) -> Result<()> {
    strings(source, 2)?;
    // Length, and the last id; the first id, the largest that was deleted, how many there were.
    lens(source, if form >= 2 { 8 } else { 3 })?;
    many(source, |source| group(source, form))
}

fn group<I: Input>(source: &mut Source<I>, form: u8) -> Result<()> {
    skip_string(source)?;
    lens(source, if form >= 2 { 3 } else { 2 })?;
    many(source, |source| {
        source.skip(16 + 8)?;
        lens(source, 1)
    })?;
    many(source, |source| {
        skip_string(source)?;
        source.skip(if form >= 3 { 16 } else { 8 })?;
        many(source, |source| source.skip(16))
    })
}

/// Marked numbers and strings, up to the mark of the end.
fn module_data<I: Input>(source: &mut Source<I>) -> Result<()> {
    loop {
        let at = source.offset();
        match read_len(source)? {
            0 => return Ok(()),
            1 | 2 => lens(source, 1)?,
            3 => source.skip(4)?,
            4 => source.skip(8)?,
            5 => skip_string(source)?,
            other => return Err(damaged(at, format!("{other} marks nothing of a module"))),
        }
    }
}
