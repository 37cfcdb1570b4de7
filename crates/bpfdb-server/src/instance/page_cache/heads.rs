//! Heads that were used of late, in two generations, as pages are ([`super::pages`]).

use std::collections::HashMap;
use std::rc::Rc;

use super::KnownHead;

/// Heads of a generation.
const HEADS_MAX: usize = 2048;

/// By stored key. Clients choose keys, so the hash has a secret.
type Heads = HashMap<Box<[u8]>, Rc<KnownHead>>;

#[derive(Debug, Default)]
pub(super) struct RecentHeads {
    young: Heads,
    old: Heads,
}

impl RecentHeads {
    pub(super) fn contains(&self, stored: &[u8]) -> bool {
        self.peek(stored).is_some()
    }

    /// Without counting as a use.
    pub(super) fn peek(&self, stored: &[u8]) -> Option<&Rc<KnownHead>> {
        self.young.get(stored).or_else(|| self.old.get(stored))
    }

    /// It is a young one from here on.
    pub(super) fn get_mut(&mut self, stored: &[u8]) -> Option<&mut Rc<KnownHead>> {
        if let Some((stored, known)) = self.old.remove_entry(stored) {
            self.keep(stored, known);
        }
        self.young.get_mut(stored)
    }

    /// In the place of the one before, if there is one.
    pub(super) fn keep(&mut self, stored: Box<[u8]>, known: Rc<KnownHead>) {
        if self.young.len() >= HEADS_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.old.remove(&stored);
        self.young.insert(stored, known);
    }

    /// Was it kept?
    pub(super) fn remove(&mut self, stored: &[u8]) -> bool {
        let (young, old) = (self.young.remove(stored), self.old.remove(stored));
        young.or(old).is_some()
    }
}

#[cfg(test)]
mod tests {
    use bpfdb::ValueType;
    use bpfdb_values::big::{Head, Page, PageKey, Pages, build};
    use bpfdb_values::limits::Kind;
    use bpfdb_values::run::{Malformed, Run};

    use super::*;

    /// Takes pages, and has none.
    #[derive(Debug)]
    struct Nowhere;

    impl Pages for Nowhere {
        type Error = Malformed;

        fn read(&mut self, _: PageKey) -> Result<Option<Rc<Page>>, Malformed> {
            Ok(None)
        }

        fn write(&mut self, _: PageKey, _: &[u8]) -> Result<(), Malformed> {
            Ok(())
        }

        fn remove(&mut self, _: PageKey) -> Result<(), Malformed> {
            Ok(())
        }
    }

    fn head() -> Head {
        let run = bpfdb_values::run::write(
            [(&b"element"[..], &b""[..])].into_iter(),
            bpfdb_values::run::History::default(),
        );
        let run = Run::parse(&run).expect("a run");
        build(Kind::List, &run, 7, [1, 2], Nowhere).expect("built")
    }

    #[test]
    fn what_is_used_stays_and_what_is_not_goes() {
        let mut heads = RecentHeads::default();
        let known = |version| {
            Rc::new(KnownHead {
                kind: ValueType::LIST,
                head: head(),
                version,
                seen: None,
            })
        };
        let key = |number: u64| Box::<[u8]>::from(&number.to_le_bytes()[..]);
        heads.keep(key(0), known(10));
        heads.keep(key(1), known(11));
        for number in 2..5 * HEADS_MAX as u64 {
            heads.keep(key(number), known(number));
            let used = heads.get_mut(&key(0)).map(|known| known.version);
            assert_eq!(used, Some(10), "{number}");
            assert!(heads.young.len() + heads.old.len() <= 2 * HEADS_MAX);
        }
        assert!(!heads.contains(&key(1)));
        heads.keep(key(0), known(20));
        assert_eq!(heads.peek(&key(0)).map(|known| known.version), Some(20));
        assert!(heads.remove(&key(0)) && !heads.contains(&key(0)));
    }
}
