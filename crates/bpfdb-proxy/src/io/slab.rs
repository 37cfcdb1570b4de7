//! Things with small numbers, which are used again; a serial tells one from its successor.

use std::ops::{Index, IndexMut};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Id {
    pub(crate) index: u32,
    /// 24 bits.
    pub(crate) serial: u32,
}

const SERIAL_MASK: u32 = 0xff_ffff;

#[derive(Debug)]
struct Place<T> {
    serial: u32,
    value: Option<T>,
}

#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Places that are used again.
    pub(crate) fn free_len(&self) -> usize {
        self.free.len()
    }

    /// Keeps it; its number.
    pub(crate) fn insert(&mut self, value: T) -> Id {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place {
                serial: 0,
                value: None,
            });
            self.places.len() as u32 - 1
        });
        let place = &mut self.places[index as usize];
        place.value = Some(value);
        Id {
            index,
            serial: place.serial,
        }
    }

    pub(crate) fn remove(&mut self, id: Id) -> Option<T> {
        let place = self.places.get_mut(id.index as usize)?;
        if place.serial != id.serial {
            return None;
        }
        let value = place.value.take()?;
        place.serial = (place.serial + 1) & SERIAL_MASK;
        self.free.push(id.index);
        Some(value)
    }

    pub(crate) fn get(&self, id: Id) -> Option<&T> {
        let place = self.places.get(id.index as usize)?;
        place.value.as_ref().filter(|_| place.serial == id.serial)
    }

    pub(crate) fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        let place = self.places.get_mut(id.index as usize)?;
        let is_it = place.serial == id.serial;
        place.value.as_mut().filter(|_| is_it)
    }

    /// Two of them. `None`: one is gone, or both are the same.
    pub(crate) fn two(&mut self, first: Id, second: Id) -> Option<(&mut T, &mut T)> {
        let places = [first.index as usize, second.index as usize];
        let [one, other] = self.places.get_disjoint_mut(places).ok()?;
        if one.serial != first.serial || other.serial != second.serial {
            return None;
        }
        one.value.as_mut().zip(other.value.as_mut())
    }

    /// The one that has this number now.
    pub(crate) fn at(&self, index: u32) -> Option<Id> {
        let place = self.places.get(index as usize)?;
        place.value.as_ref()?;
        let serial = place.serial;
        Some(Id { index, serial })
    }

    pub(crate) fn ids(&self) -> Vec<Id> {
        (0..self.places.len() as u32)
            .filter_map(|index| self.at(index))
            .collect()
    }
}

/// For numbers that were looked up in the same turn.
impl<T> Index<Id> for Slab<T> {
    type Output = T;

    fn index(&self, id: Id) -> &T {
        self.get(id).expect("it is there")
    }
}

impl<T> IndexMut<Id> for Slab<T> {
    fn index_mut(&mut self, id: Id) -> &mut T {
        self.get_mut(id).expect("it is there")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_successor_is_another() {
        let mut slab = Slab::new();
        let first = slab.insert("a");
        assert_eq!(slab.remove(first), Some("a"));
        let second = slab.insert("b");
        assert_eq!((second.index, slab.get(first)), (first.index, None));
        assert_eq!((slab.at(0), slab.len()), (Some(second), 1));
        assert_eq!(slab.remove(first), None);
        let mut third = "c";
        let other = slab.insert(third);
        assert_eq!(slab.two(second, other), Some((&mut "b", &mut third)));
        assert_eq!(slab.two(first, other), None);
        assert_eq!(slab.two(other, other), None);
    }
}
