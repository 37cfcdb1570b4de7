//! Elements of a collection that are picked at random: HRANDFIELD and SRANDMEMBER.

use std::collections::HashSet;

use bpfdb::{Session, ValueType};
use bpfdb_values::big::table::Element;
use bpfdb_values::run::{Malformed, Run};

use super::arguments::number;
use super::chance::Chance;
use super::collection::{Collection, Large, REPLY_TOO_LONG, read};
use super::{Failure, Outcome};
use crate::settings::limits::MESSAGE_MAX;

/// Bytes of the shortest element in a reply.
const SHORTEST: usize = b"$0\r\n\r\n".len();

/// How many elements are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    /// Different ones, as many as there are.
    Different(usize),
    /// Each may come more often than once.
    Repeated(usize),
}

impl Count {
    pub(super) fn parse(word: &[u8]) -> Result<Self, Failure> {
        let count = number(word)?;
        if count == i64::MIN {
            return Err(format!(
                "ERR value is out of range, value must between {} and {}",
                -i64::MAX,
                i64::MAX
            )
            .into());
        }
        let many = count.unsigned_abs() as usize;
        Ok(if count < 0 {
            Self::Repeated(many)
        } else {
            Self::Different(many)
        })
    }

    fn number(self) -> usize {
        match self {
            Self::Different(many) | Self::Repeated(many) => many,
        }
    }

    /// Refuses what Redis could not count twice.
    pub(super) fn check_for_pairs(self) -> Outcome {
        if self.number() > i64::MAX as usize / 2 {
            return Err("ERR value is out of range".into());
        }
        Ok(())
    }
}

/// Of a large collection less than one of so many elements are drawn one by one.
const FEW: u64 = 4;

/// What elements are picked from.
#[derive(Debug)]
pub(super) enum Source {
    /// The bytes of a run.
    Run(Vec<u8>),
    /// These were picked already.
    Elements(Vec<Element>),
}

impl Source {
    /// The collection of a key, or what was picked of it if it is a large one; `None`: the key is absent.
    pub(super) fn read(
        session: &mut Session,
        key: &[u8],
        kind: ValueType,
        count: Count,
    ) -> Result<Option<Self>, Failure> {
        read(session, key, kind, |collection| match collection {
            Collection::Small(bytes) => Ok(Self::Run(bytes)),
            Collection::Large(mut large) if count.number() as u64 >= large.len() / FEW => {
                Ok(Self::Run(large.whole()?))
            }
            Collection::Large(mut large) => Ok(Self::Elements(draw(&mut large, count)?)),
        })
    }

    /// Picks entries.
    pub(super) fn pick(&self, count: Count) -> Result<Picked<'_>, Failure> {
        match self {
            Self::Run(bytes) => pick(&Run::parse(bytes)?, count),
            Self::Elements(elements) => Ok(Picked {
                entries: elements
                    .iter()
                    .map(|(key, value)| (&key[..], &value[..]))
                    .collect(),
                times: None,
            }),
        }
    }

    /// Picks one; `None`: there is none.
    pub(super) fn pick_one(&self) -> Result<Option<Entry<'_>>, Malformed> {
        match self {
            Self::Run(bytes) => pick_one(&Run::parse(bytes)?),
            Self::Elements(elements) => {
                let first = elements.first();
                Ok(first.map(|(key, value)| (&key[..], &value[..])))
            }
        }
    }
}

/// So many elements of a large collection, which has many more.
fn draw(large: &mut Large<'_>, count: Count) -> Result<Vec<Element>, Failure> {
    let (mut chance, mut drawn, mut known) = (Chance::new(), Vec::new(), HashSet::new());
    while drawn.len() < count.number() {
        let element = large.pick(&mut |end| chance.below(end as usize) as u64)?;
        if matches!(count, Count::Repeated(_)) || known.insert(element.0.clone()) {
            drawn.push(element);
        }
    }
    Ok(drawn)
}

/// Any entry of a run; `None` if it has none.
fn pick_one<'a>(run: &Run<'a>) -> Result<Option<Entry<'a>>, Malformed> {
    if run.is_empty() {
        return Ok(None);
    }
    let chosen = Chance::new().below(run.len());
    run.iter().nth(chosen).transpose()
}

/// A key and its value.
type Entry<'a> = (&'a [u8], &'a [u8]);

/// Entries of a run that were picked.
#[derive(Debug)]
pub(super) struct Picked<'a> {
    entries: Vec<Entry<'a>>,
    /// So many times any of them; `None`: all of them.
    times: Option<usize>,
}

/// Picks entries of a run. Those that are different are in the order of the run.
fn pick<'a>(run: &Run<'a>, count: Count) -> Result<Picked<'a>, Failure> {
    let times = match count {
        Count::Different(many) => return Ok(different(run, many)?),
        Count::Repeated(_) if run.is_empty() => 0,
        Count::Repeated(many) => many,
    };
    if times > MESSAGE_MAX / SHORTEST {
        return Err(REPLY_TOO_LONG.into());
    }
    let entries: Result<_, _> = run.iter().collect();
    Ok(Picked {
        entries: entries?,
        times: Some(times),
    })
}

fn different<'a>(run: &Run<'a>, many: usize) -> Result<Picked<'a>, Malformed> {
    let mut entries = Vec::new();
    if many >= run.len() {
        entries = run.iter().collect::<Result<_, _>>()?;
    } else {
        let chosen = Chance::new().some_below(run.len(), many);
        for (number, entry) in run.iter().enumerate() {
            let entry = entry?;
            if chosen.contains(&number) {
                entries.push(entry);
            }
        }
    }
    Ok(Picked {
        entries,
        times: None,
    })
}

impl<'a> Picked<'a> {
    pub(super) fn len(&self) -> usize {
        self.times.unwrap_or(self.entries.len())
    }

    /// Shows each to `show`, until that fails.
    pub(super) fn each(&self, mut show: impl FnMut(Entry<'a>) -> Outcome) -> Outcome {
        let Some(times) = self.times else {
            return self.entries.iter().try_for_each(|&entry| show(entry));
        };
        let mut chance = Chance::new();
        (0..times).try_for_each(|_| show(self.entries[chance.below(self.entries.len())]))
    }
}

#[cfg(test)]
mod tests {
    use bpfdb_values::run::{History, write};

    use super::*;

    fn picked(count: Count) -> Vec<Vec<u8>> {
        let keys = [b"a", b"b", b"c"].map(|key| (&key[..], &b"v"[..]));
        let bytes = write(keys.into_iter(), History::default());
        let run = Run::parse(&bytes).expect("a run");
        let picked = pick(&run, count).expect("sound");
        let mut keys = Vec::new();
        let shown = picked.each(|(key, _)| {
            keys.push(key.to_vec());
            Ok(())
        });
        shown.expect("shown");
        assert_eq!(keys.len(), picked.len());
        keys
    }

    #[test]
    fn different_ones_are_different() {
        for many in 0..5 {
            let mut keys = picked(Count::Different(many));
            assert_eq!(keys.len(), many.min(3));
            keys.dedup();
            assert_eq!(keys.len(), many.min(3));
        }
    }

    #[test]
    fn repeated_ones_are_as_many_as_asked_for() {
        assert_eq!(picked(Count::Repeated(100)).len(), 100);
        assert_eq!(picked(Count::Repeated(0)).len(), 0);
    }

    #[test]
    fn numbers() {
        let parse = |text: &str| Count::parse(text.as_bytes()).ok();
        assert_eq!(parse("3"), Some(Count::Different(3)));
        assert_eq!(parse("-3"), Some(Count::Repeated(3)));
        assert_eq!(parse("-9223372036854775808"), None);
        assert_eq!(parse("x"), None);
    }
}
