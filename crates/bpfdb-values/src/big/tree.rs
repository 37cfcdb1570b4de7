//! Elements in their order: a tree whose inner pages count what is below their children, so that an element
//! is found by its number as well as by its order.
//!
//! ```text
//!  root, inner   a run: one entry for each child
//!                key    separator: no element of the child is before it, and all of those before are; that of
//!                       the first child is not looked at
//!                value  8 bytes: place of the child; 8 bytes: elements below it
//!  leaf          a run: elements, as in a small collection
//! ```
//!
//! In a list separators are empty. In a sorted set an element's order is that of eight bytes of its score,
//! the highest first, and its member behind them, and in a stream that of its key; a separator is a beginning of
//! that.
//!
//! A change replaces entries of a leaf. The leaf may then have to be divided, or joined with the one beside
//! it, or to go: its parent's entries are replaced in the same way, and so on up to the root. The root stays
//! where it is. It is never divided: its children move into pages of their own.

use std::ops::Range;
use std::rc::Rc;

use super::Big;
use super::children::{Aim, BAD_CHILD, Child, children};
use super::page::{self, Page, Pages};
use super::place::Place;
use super::table::EMPTY;
use crate::edit::Writer;
use crate::run::{self, HEADER, History, Malformed, NARROW_ENTRY, Run, WIDE_ENTRY};

/// Pages above a leaf, at most: a page that is divided has at least [`CHILDREN_MIN`] children, so no tree becomes so high.
pub(super) const HEIGHT_MAX: usize = 64;

pub(super) const TOO_HIGH: Malformed = Malformed("a tree that is higher than any can be");

/// Elements below a page.
fn elements_of(place: Place, run: &Run<'_>) -> Result<u64, Malformed> {
    if place.is_leaf() {
        return Ok(run.len() as u64);
    }
    children(run).try_fold(0, |sum, child| Ok(sum + child?.count))
}

/// One page on the way to a leaf, and which child leads on.
#[derive(Clone, Copy, Debug)]
struct Step {
    page: Place,
    child: usize,
}

/// The way to a leaf.
#[derive(Debug)]
pub(super) struct Path {
    steps: Vec<Step>,
    pub(super) leaf: Place,
    /// Elements before it.
    pub(super) before: u64,
}

/// Where something was added to a page: what comes next will be added there too, perhaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    Start,
    Middle,
    End,
}

impl Growth {
    /// Children in these places have become others.
    fn of_children(places: &Range<usize>, len: usize) -> Self {
        if places.end == len {
            Self::End
        } else if places.start == 0 {
            Self::Start
        } else {
            Self::Middle
        }
    }

    fn of(places: &Range<usize>, len: usize) -> Self {
        if places.start == len {
            Self::End
        } else if places.end == 0 {
            Self::Start
        } else {
            Self::Middle
        }
    }
}

/// A page that is to be written.
#[derive(Debug)]
struct Part {
    separator: Vec<u8>,
    bytes: Vec<u8>,
}

impl<P: Pages> Big<P> {
    /// The way to a leaf; `None`: the tree is empty.
    pub(super) fn path(&mut self, aim: Aim<'_>) -> Result<Option<Path>, P::Error> {
        let (mut page, mut before, mut steps) = (Place::ROOT, 0, Vec::new());
        loop {
            let bytes = self.cache.shared(page)?;
            let run = Run::parse(bytes)?;
            let Some((number, child, sum)) = aim.choose(&run, bytes.index(&run), before)? else {
                return Ok(None);
            };
            if steps.len() == HEIGHT_MAX {
                return Err(TOO_HIGH.into());
            }
            steps.push(Step {
                page,
                child: number,
            });
            (page, before) = (child.place, sum);
            if page.is_leaf() {
                let leaf = page;
                return Ok(Some(Path {
                    steps,
                    leaf,
                    before,
                }));
            }
        }
    }

    /// The run of a leaf on its way.
    pub(super) fn leaf(&mut self, path: &Path) -> Result<Run<'_>, P::Error> {
        Ok(Run::parse(self.cache.page(path.leaf)?)?)
    }

    /// An element of an empty tree.
    pub(super) fn plant(&mut self, entries: &[(&[u8], &[u8])]) -> Result<(), P::Error> {
        let leaf = self.new_page(Place::leaf);
        let value = Child::value(leaf, 0);
        let root = [(&[][..], &value[..])];
        self.cache.put(
            Place::ROOT,
            run::write(root.into_iter(), History::default()),
        );
        self.cache.put(leaf, EMPTY.to_vec());
        let step = Step {
            page: Place::ROOT,
            child: 0,
        };
        let path = Path {
            steps: vec![step],
            leaf,
            before: 0,
        };
        self.edit(&path, 0..0, entries)
    }

    /// Puts these entries into places of a leaf.
    pub(super) fn edit(
        &mut self,
        path: &Path,
        places: Range<usize>,
        new: &[(&[u8], &[u8])],
    ) -> Result<(), P::Error> {
        let run = Run::parse(self.cache.page(path.leaf)?)?;
        let growth = Growth::of(&places, run.len());
        let bytes = run.replace(places, new.iter().copied())?;
        self.settle(path, bytes, growth)
    }

    /// Gives a leaf these bytes, and what is above it what follows from that.
    fn settle(
        &mut self,
        path: &Path,
        mut bytes: Vec<u8>,
        mut growth: Growth,
    ) -> Result<(), P::Error> {
        let mut page = path.leaf;
        for step in path.steps.iter().rev() {
            let parent = self.cache.page(step.page)?.to_vec();
            let parent = Run::parse(&parent)?;
            let (range, joined) = self.joined(&parent, step.child, page, bytes)?;
            let separator = child_at(&parent, range.start)?.separator.to_vec();
            let parts = self.parts(page, separator, joined, growth)?;
            if let [part] = &parts[..]
                && range.len() == 1
                && elements_of(page, &Run::parse(&part.bytes)?)?
                    == child_at(&parent, step.child)?.count
            {
                // Nothing above says anything else of it.
                let [part] = <[Part; 1]>::try_from(parts).expect("one part");
                self.cache.put(page, part.bytes);
                return Ok(());
            }
            growth = Growth::of_children(&range, parent.len());
            bytes = self.replaced(&parent, range, page, parts)?;
            page = step.page;
        }
        self.put_root(bytes, growth)
    }

    /// A page that has become short takes in the one beside it, if there is room: which children of the parent
    /// it is then, and its bytes.
    fn joined(
        &mut self,
        parent: &Run<'_>,
        child: usize,
        page: Place,
        bytes: Vec<u8>,
    ) -> Result<(Range<usize>, Vec<u8>), P::Error> {
        let alone = child..child + 1;
        let is_empty = Run::parse(&bytes)?.is_empty();
        if bytes.len() >= page::MIN || parent.len() < 2 || is_empty {
            return Ok((alone, bytes));
        }
        let is_last = child + 1 == parent.len();
        let beside = if is_last { child - 1 } else { child + 1 };
        let other = child_at(parent, beside)?.place;
        if other.is_leaf() != page.is_leaf() {
            return Err(BAD_CHILD.into());
        }
        let others = self.cache.page(other)?;
        if bytes.len() + others.len() > page::TARGET {
            return Ok((alone, bytes));
        }
        let (first, second) = if is_last {
            (others, &bytes[..])
        } else {
            (&bytes[..], others)
        };
        let (first, second) = (Run::parse(first)?, Run::parse(second)?);
        let mut entries: Vec<(&[u8], &[u8])> = second.iter().collect::<Result<_, _>>()?;
        if !page.is_leaf() {
            // It is no longer the first of a page.
            let separator = child_at(parent, child.max(beside))?.separator;
            if let Some(first) = entries.first_mut() {
                first.0 = separator;
            }
        }
        let joined = first.replace(first.len()..first.len(), entries.into_iter())?;
        self.cache.remove(other);
        let start = child.min(beside);
        Ok((start..start + 2, joined))
    }

    /// What becomes of a page: nothing if it has no entries, itself, or several.
    fn parts(
        &mut self,
        page: Place,
        separator: Vec<u8>,
        bytes: Vec<u8>,
        growth: Growth,
    ) -> Result<Vec<Part>, P::Error> {
        let run = Run::parse(&bytes)?;
        if run.is_empty() {
            return Ok(Vec::new());
        }
        if !is_too_long(page, &bytes, &run) {
            return Ok(vec![Part { separator, bytes }]);
        }
        let least = least_of(page);
        Ok(divided(
            &run,
            separator,
            growth,
            least,
            |before, behind| self.separator(page, before, behind),
        )?)
    }

    /// The shortest separator between two entries of a page.
    fn separator(
        &self,
        page: Place,
        before: Pair<'_>,
        behind: Pair<'_>,
    ) -> Result<Vec<u8>, Malformed> {
        if !page.is_leaf() {
            return Ok(behind.0.to_vec());
        }
        let (Some(before), Some(mut behind)) =
            (self.shape.order_of(before)?, self.shape.order_of(behind)?)
        else {
            return Ok(Vec::new());
        };
        let common = before
            .iter()
            .zip(&behind)
            .take_while(|(a, b)| a == b)
            .count();
        behind.truncate(common + 1);
        Ok(behind)
    }

    /// Writes the parts of a page, and the bytes of its parent with them as its children.
    fn replaced(
        &mut self,
        parent: &Run<'_>,
        range: Range<usize>,
        page: Place,
        parts: Vec<Part>,
    ) -> Result<Vec<u8>, P::Error> {
        let mut new: Vec<(Vec<u8>, [u8; 16])> = Vec::new();
        if parts.is_empty() {
            self.cache.remove(page);
        }
        for (number, part) in parts.into_iter().enumerate() {
            let place = match number {
                0 => page,
                _ if page.is_leaf() => self.new_page(Place::leaf),
                _ => self.new_page(Place::inner),
            };
            let count = elements_of(place, &Run::parse(&part.bytes)?)?;
            self.cache.put(place, part.bytes);
            new.push((part.separator, Child::value(place, count)));
        }
        let entries = new
            .iter()
            .map(|(separator, value)| (&separator[..], &value[..]));
        Ok(parent.replace(range, entries)?)
    }

    /// The root has these children.
    fn put_root(&mut self, mut bytes: Vec<u8>, growth: Growth) -> Result<(), P::Error> {
        loop {
            let run = Run::parse(&bytes)?;
            if is_too_long(Place::ROOT, &bytes, &run) {
                let above = self.raised(&run, growth)?;
                let is_shorter = above.len() < bytes.len();
                bytes = above;
                if is_shorter {
                    continue;
                }
                break;
            }
            // With one inner page alone that is the root.
            let only = if run.len() == 1 {
                child_at(&run, 0)?.place
            } else {
                Place::ROOT
            };
            if run.len() != 1 || only.is_leaf() {
                break;
            }
            bytes = self.cache.page(only)?.to_vec();
            self.cache.remove(only);
        }
        self.cache.put(Place::ROOT, bytes);
        Ok(())
    }

    /// The children of the root move into pages of their own: the bytes of the root above these.
    fn raised(&mut self, run: &Run<'_>, growth: Growth) -> Result<Vec<u8>, P::Error> {
        let least = least_of(Place::ROOT);
        let mut parts = divided(run, Vec::new(), growth, least, |_, behind| {
            Ok(behind.0.to_vec())
        })?;
        if let [part] = &mut parts[..] {
            // It was long because its entries were WIDE, and no longer are.
            return Ok(std::mem::take(&mut part.bytes));
        }
        let mut new: Vec<(Vec<u8>, [u8; 16])> = Vec::new();
        for part in parts {
            let place = self.new_page(Place::inner);
            let count = elements_of(place, &Run::parse(&part.bytes)?)?;
            self.cache.put(place, part.bytes);
            new.push((part.separator, Child::value(place, count)));
        }
        let entries = new
            .iter()
            .map(|(separator, value)| (&separator[..], &value[..]));
        Ok(run::write(entries, History::default()))
    }

    pub(super) fn new_page(&mut self, place: fn(u64) -> Place) -> Place {
        let number = self.head.next_page;
        self.head.next_page += 1;
        place(number)
    }

    // ---- Elements by number -----------------------------------------------------

    /// The elements with these numbers, which there are, as a run with the history of the head.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn elements(&mut self, numbers: Range<u64>) -> Result<Vec<u8>, P::Error> {
        self.admit(numbers.end.saturating_sub(numbers.start))?;
        let (mut gathered, mut announced) = (Gathered::default(), None);
        let mut next = numbers.start;
        while next < numbers.end {
            let Some(path) = self.path(Aim::Number(next))? else {
                break;
            };
            // Once for each parent: it has many leaves.
            let parent = path.steps.last().map(|step| step.page);
            if parent != announced {
                self.announce_leaves(&path, numbers.end)?;
                announced = parent;
            }
            let bytes = Rc::clone(self.cache.shared(path.leaf)?);
            let len = Run::parse(&bytes)?.len();
            let places = places_in(&path, len, next..numbers.end);
            if places.is_empty() {
                return Err(BAD_CHILD.into());
            }
            next += places.len() as u64;
            gathered.push(bytes, places);
        }
        Ok(gathered.finish(self.head.history)?)
    }

    /// The leaves from this one on will be read up to the element with the number `end`: those with the same
    /// parent, if there are several.
    fn announce_leaves(&mut self, path: &Path, end: u64) -> Result<(), P::Error> {
        let Some(&Step { page, child }) = path.steps.last() else {
            return Ok(());
        };
        let bytes = Rc::clone(self.cache.shared(page)?);
        let parent = Run::parse(&bytes)?;
        let (mut before, mut leaves) = (path.before, Vec::new());
        for leaf in from(&bytes, &parent, child) {
            if before >= end {
                break;
            }
            let leaf = leaf?;
            leaves.push(leaf.place);
            before += leaf.count;
        }
        if leaves.len() > 1 {
            self.cache.announce(leaves.into_iter());
        }
        Ok(())
    }

    /// Removes the elements with these numbers, which there are, from the tree.
    pub(super) fn cut(&mut self, numbers: Range<u64>) -> Result<(), P::Error> {
        let mut left = numbers.end - numbers.start;
        while left > 0 {
            let Some(path) = self.path(Aim::Number(numbers.start))? else {
                break;
            };
            let len = self.leaf(&path)?.len();
            let places = places_in(&path, len, numbers.start..numbers.start + left);
            if places.is_empty() {
                return Err(BAD_CHILD.into());
            }
            left -= places.len() as u64;
            self.edit(&path, places, &[])?;
        }
        Ok(())
    }
}

/// The places in a leaf of so many elements that have these numbers.
fn places_in(path: &Path, len: usize, numbers: Range<u64>) -> Range<usize> {
    let place = |number: u64| (number - path.before).min(len as u64) as usize;
    place(numbers.start)..place(numbers.end)
}

/// The children of a page from this one on.
fn from<'a>(
    page: &Page,
    run: &Run<'a>,
    child: usize,
) -> impl Iterator<Item = Result<Child<'a>, Malformed>> + use<'a> {
    let (known, unknown) = match page.index(run) {
        Some(index) => (Some(index.from(child, run)), None),
        None => (None, Some(children(run).skip(child))),
    };
    known
        .into_iter()
        .flatten()
        .chain(unknown.into_iter().flatten())
}

type Pair<'a> = (&'a [u8], &'a [u8]);

fn child_at<'a>(run: &Run<'a>, number: usize) -> Result<Child<'a>, Malformed> {
    children(run).nth(number).ok_or(BAD_CHILD)?
}

/// Entries that a part of a divided page has at least, but for one at an end. Separators may be long: a tree
/// of pages with one child each would have no top.
fn least_of(page: Place) -> usize {
    if page.is_leaf() { 1 } else { CHILDREN_MIN }
}

const CHILDREN_MIN: usize = 4;

fn is_too_long(page: Place, bytes: &[u8], run: &Run<'_>) -> bool {
    bytes.len() > page::MAX && run.len() >= 2 * least_of(page)
}

/// Cuts a run into parts, none of them empty.
fn divided(
    run: &Run<'_>,
    separator: Vec<u8>,
    growth: Growth,
    least: usize,
    mut between: impl FnMut(Pair<'_>, Pair<'_>) -> Result<Vec<u8>, Malformed>,
) -> Result<Vec<Part>, Malformed> {
    let entries: Vec<Pair<'_>> = run.iter().collect::<Result<_, _>>()?;
    let mut parts = Vec::new();
    let (mut start, mut separator) = (0, separator);
    for end in cuts(&entries, growth, least, page::MAX) {
        let part = entries[start..end].iter().copied();
        let bytes = run::write(part, History::default());
        parts.push(Part { separator, bytes });
        separator = match entries.get(end) {
            Some(&behind) => between(entries[end - 1], behind)?,
            None => Vec::new(),
        };
        start = end;
    }
    Ok(parts)
}

/// Where parts end. Where a page grows at one end, the others are left nearly full.
/// `max`: bytes of a page.
fn cuts(entries: &[Pair<'_>], growth: Growth, least: usize, max: usize) -> Vec<usize> {
    let filled = max / 8 * 7;
    // One long entry makes all entries of its page WIDE.
    let is_long = |&(key, value): &Pair<'_>| key.len().max(value.len()) > run::NARROW_MAX;
    let header = if entries.iter().any(is_long) {
        WIDE_ENTRY
    } else {
        NARROW_ENTRY
    };
    let size = |&(key, value): &Pair<'_>| key.len() + value.len() + header;
    let total: usize = entries.iter().map(size).sum();
    // Bytes that a part has at least, but for the last, and at most.
    let (least_bytes, most_bytes) = match growth {
        Growth::Middle => {
            let parts = total.div_ceil(max / 4 * 3).max(2);
            (total.div_ceil(parts), max - HEADER)
        }
        Growth::Start | Growth::End => (filled, filled - HEADER),
    };
    let (mut cuts, mut used, mut count) = (Vec::new(), 0, 0);
    let mut cut = |place: usize, entry: &Pair<'_>| {
        let is_full = used >= least_bytes || used + size(entry) > most_bytes;
        if count >= least && is_full {
            cuts.push(place);
            (used, count) = (0, 0);
        }
        used += size(entry);
        count += 1;
    };
    if growth == Growth::Start {
        (0..entries.len())
            .rev()
            .for_each(|place| cut(place + 1, &entries[place]));
        cuts.reverse();
    } else {
        (0..entries.len()).for_each(|place| cut(place, &entries[place]));
    }
    cuts.push(entries.len());
    cuts
}

/// Parts of pages that become one run.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    parts: Vec<(Rc<Page>, Range<usize>)>,
    elements: u64,
}

impl Gathered {
    pub(super) fn push(&mut self, page: Rc<Page>, places: Range<usize>) {
        self.elements += places.len() as u64;
        self.parts.push((page, places));
    }

    /// Elements so far.
    pub(super) fn len(&self) -> u64 {
        self.elements
    }

    pub(super) fn finish(self, history: History) -> Result<Vec<u8>, Malformed> {
        let mut whole = Run::with_history(history);
        for (page, _) in &self.parts {
            whole.is_wide |= Run::parse(page)?.is_wide;
        }
        let mut writer = Writer::new(&whole, std::iter::empty());
        for (page, places) in self.parts {
            writer.keep(Run::parse(&page)?.part(places)?)?;
        }
        Ok(writer.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root of so many short separators and one long one is too long only because it is WIDE.
    #[test]
    fn parts_have_room_for_wide_entries() {
        const MAX: usize = 4096;
        let (long, value) = ([b'x'; 309], [0; 16]);
        for growth in [Growth::Start, Growth::Middle, Growth::End] {
            for place in [0, 50, 105] {
                let mut entries: Vec<Pair<'_>> = vec![(b"01234567", &value); 106];
                entries[place].0 = &long;
                let whole = run::write(entries.iter().copied(), History::default());
                assert!(whole.len() > MAX);
                let cuts = cuts(&entries, growth, CHILDREN_MIN, MAX);
                assert!(cuts.len() > 1, "{growth:?} {place}");
                let mut start = 0;
                for end in cuts {
                    let part = entries[start..end].iter().copied();
                    assert!(run::write(part, History::default()).len() <= MAX);
                    start = end;
                }
            }
        }
    }
}
