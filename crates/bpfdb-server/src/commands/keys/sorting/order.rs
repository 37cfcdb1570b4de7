//! What elements are sorted by: numbers or texts, their own or those that a pattern reads. Equal ones stay in
//! the order that they had.

use std::cmp::Ordering;

use bpfdb::Session;
use bpfdb_values::double;

use super::super::super::Failure;
use super::pattern::Pattern;

/// Bytes of the texts that elements are sorted by, all together.
const TEXTS_MAX: usize = 1 << 30;

pub(super) fn sorted<'e>(
    session: &mut Session,
    mut elements: Vec<&'e [u8]>,
    by: Option<&Pattern<'_>>,
    is_descending: bool,
    alpha: bool,
) -> Result<Vec<&'e [u8]>, Failure> {
    if !alpha {
        let keyed = with_numbers(session, elements, by)?;
        // Elements of one number are in the order of their texts.
        return Ok(arranged(keyed, is_descending, |one, other| {
            let order = one.0.partial_cmp(&other.0).unwrap_or(Ordering::Equal);
            order.then_with(|| one.1.cmp(other.1))
        }));
    }
    let Some(by) = by else {
        elements.sort_by(|one, other| directed(one.cmp(other), is_descending));
        return Ok(elements);
    };
    let keyed = with_texts(session, elements, by)?;
    Ok(arranged(keyed, is_descending, |one, other| {
        one.0.cmp(&other.0)
    }))
}

fn directed(order: Ordering, is_descending: bool) -> Ordering {
    if is_descending {
        order.reverse()
    } else {
        order
    }
}

fn arranged<K>(
    mut keyed: Vec<(K, &[u8])>,
    is_descending: bool,
    compare: impl Fn(&(K, &[u8]), &(K, &[u8])) -> Ordering,
) -> Vec<&[u8]> {
    keyed.sort_by(|one, other| directed(compare(one, other), is_descending));
    keyed.into_iter().map(|(_, element)| element).collect()
}

/// What has no number is sorted as 0.
fn with_numbers<'e>(
    session: &mut Session,
    elements: Vec<&'e [u8]>,
    by: Option<&Pattern<'_>>,
) -> Result<Vec<(f64, &'e [u8])>, Failure> {
    let mut keyed = Vec::with_capacity(elements.len());
    let mut are_numbers = true;
    for element in elements {
        let text = match by {
            None => Some(element.into()),
            Some(by) => by.read(session, element)?,
        };
        let number = text.map_or(Some(0.0), |text| number(&text));
        are_numbers &= number.is_some();
        keyed.push((number.unwrap_or_default(), element));
    }
    if !are_numbers {
        return Err("ERR One or more scores can't be converted into double".into());
    }
    Ok(keyed)
}

/// What C's `strtod` makes of all of a text, which ends at a zero; an empty one is 0.
fn number(text: &[u8]) -> Option<f64> {
    let end = text.iter().position(|&byte| byte == 0);
    let read = double::prefix(&text[..end.unwrap_or(text.len())]);
    let is_out_of_range = read.is_out_of_range || read.value.is_subnormal();
    let is_number = read.rest.is_empty() && !is_out_of_range && !read.value.is_nan();
    is_number.then_some(read.value)
}

/// An element behind what it is sorted by.
type WithText<'e> = (Option<Vec<u8>>, &'e [u8]);

/// What has no text comes first.
fn with_texts<'e>(
    session: &mut Session,
    elements: Vec<&'e [u8]>,
    by: &Pattern<'_>,
) -> Result<Vec<WithText<'e>>, Failure> {
    let mut keyed = Vec::with_capacity(elements.len());
    let mut bytes = 0;
    for element in elements {
        let text = by.read(session, element)?;
        bytes += text.as_ref().map_or(0, |text| text.len());
        if bytes > TEXTS_MAX {
            return Err("ERR the values to sort by are longer than 1 GiB together".into());
        }
        keyed.push((text.map(Into::into), element));
    }
    Ok(keyed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_strtod() {
        for (text, expected) in [
            (&b"1.5"[..], Some(1.5)),
            (b"", Some(0.0)),
            (b" 7", Some(7.0)),
            (b"0x10", Some(16.0)),
            (b"-inf", Some(f64::NEG_INFINITY)),
            (b"3\0x", Some(3.0)),
            (b"7 ", None),
            (b" ", None),
            (b"a", None),
            (b"nan", None),
            (b"1e400", None),
            (b"1e-310", None),
        ] {
            assert_eq!(number(text), expected, "{text:?}");
        }
    }
}
