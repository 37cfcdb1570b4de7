//! Keys that are made of a pattern and an element: `weight_*`, or `user_*->name` for the field of a hash.

use std::borrow::Cow;

use bpfdb::{Session, Status, ValueType};

use super::super::super::Failure;
use super::super::super::collection::find;

/// What is read of each element.
#[derive(Debug)]
pub(super) enum Pattern<'a> {
    /// `#`
    Element,
    /// Without a place for the element: nothing is read.
    Constant,
    Key {
        before: &'a [u8],
        behind: &'a [u8],
        /// Of a hash.
        field: Option<&'a [u8]>,
    },
}

const ARROW: &[u8] = b"->";

impl<'a> Pattern<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        // As in Redis, what tells the parts apart is looked for before a zero.
        let end = text.iter().position(|&byte| byte == 0);
        let looked_at = &text[..end.unwrap_or(text.len())];
        if looked_at == b"#" {
            return Self::Element;
        }
        let Some(star) = looked_at.iter().position(|&byte| byte == b'*') else {
            return Self::Constant;
        };
        let (before, behind) = (&text[..star], &text[star + 1..]);
        let arrow = looked_at[star + 1..]
            .windows(ARROW.len())
            .position(|two| two == ARROW);
        // An arrow at the end is a part of the key.
        let arrow = arrow.filter(|arrow| star + 1 + arrow + ARROW.len() < looked_at.len());
        match arrow {
            None => Self::Key {
                before,
                behind,
                field: None,
            },
            Some(arrow) => Self::Key {
                before,
                behind: &behind[..arrow],
                field: Some(&behind[arrow + ARROW.len()..]),
            },
        }
    }

    /// Does what it reads depend on the element?
    pub(super) fn has_element(&self) -> bool {
        matches!(self, Self::Key { .. })
    }

    /// What there is for an element, in a transaction.
    pub(super) fn read<'e>(
        &self,
        session: &mut Session,
        element: &'e [u8],
    ) -> Result<Option<Cow<'e, [u8]>>, Failure> {
        let Self::Key {
            before,
            behind,
            field,
        } = *self
        else {
            let is_element = matches!(self, Self::Element);
            return Ok(is_element.then_some(Cow::Borrowed(element)));
        };
        let key = [before, element, behind].concat();
        // Clients have no such key: there is none, or it is not of them.
        let can_be = key.len() <= session.database().key_max();
        if !can_be || bpfdb::is_reserved(&key) {
            return Ok(None);
        }
        let value = match field {
            None => string(session, &key)?,
            Some(field) => of_hash(session, &key, field)?,
        };
        Ok(value.map(Cow::Owned))
    }
}

fn string(session: &mut Session, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
    match session.get(key) {
        Err(Status::WrongType) => Ok(None),
        read => Ok(read?),
    }
}

fn of_hash(session: &mut Session, key: &[u8], field: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
    let head = session.head(key)?;
    if head.is_none_or(|head| head.value_type != ValueType::HASH) {
        return Ok(None);
    }
    let found = find(session, key, ValueType::HASH, &[field])?;
    Ok(found.and_then(|mut values| values.pop()).flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_patterns() {
        let parts = |text| match Pattern::new(text) {
            Pattern::Key {
                before,
                behind,
                field,
            } => Some((before, behind, field)),
            _ => None,
        };
        let some = |before: &'static str, behind: &'static str, field: Option<&'static str>| {
            let field = field.map(str::as_bytes);
            Some((before.as_bytes(), behind.as_bytes(), field))
        };
        assert!(matches!(Pattern::new(b"#"), Pattern::Element));
        assert!(matches!(Pattern::new(b"nosort"), Pattern::Constant));
        assert!(matches!(Pattern::new(b"\0*"), Pattern::Constant));
        assert_eq!(parts(b"w_*"), some("w_", "", None));
        assert_eq!(parts(b"w_*_*"), some("w_", "_*", None));
        assert_eq!(parts(b"h_*_x->f"), some("h_", "_x", Some("f")));
        assert_eq!(parts(b"h_*->f->g"), some("h_", "", Some("f->g")));
        assert_eq!(parts(b"h->f_*"), some("h->f_", "", None));
        assert_eq!(parts(b"h_*->"), some("h_", "->", None));
    }
}
