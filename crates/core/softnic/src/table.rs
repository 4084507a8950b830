//! A table of objects by name.

use core::cell::Cell;
use core::hash::{BuildHasherDefault, Hash, Hasher};
use core::ops::Index;
use std::collections::HashMap;

/// Objects by name. This side chooses all names, so no peer can force hash collisions. The table finds the last used
/// object without a search. A message concerns one VI and one connection, and looks each of them up many times.
#[derive(Debug)]
pub(crate) struct Table<K, V> {
    places: HashMap<K, usize, BuildHasherDefault<Spread>>,
    things: Vec<Option<(K, V)>>,
    free: Vec<usize>,
    /// Place of the object that was used last.
    last: Cell<usize>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Table<K, V> {
        let (things, free, last) = (Vec::new(), Vec::new(), Cell::new(0));
        Table { places: HashMap::default(), things, free, last }
    }
}

impl<K: Copy + Eq + Hash, V> Table<K, V> {
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    #[inline]
    fn place(&self, name: &K) -> Option<usize> {
        let last = self.last.get();
        if matches!(self.things.get(last), Some(Some((there, _))) if there == name) {
            return Some(last);
        }
        let place = *self.places.get(name)?;
        self.last.set(place);
        Some(place)
    }

    pub(crate) fn contains_key(&self, name: &K) -> bool {
        self.place(name).is_some()
    }

    #[inline]
    pub(crate) fn get(&self, name: &K) -> Option<&V> {
        let place = self.place(name)?;
        self.things.get(place)?.as_ref().map(|(_, thing)| thing)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, name: &K) -> Option<&mut V> {
        let place = self.place(name)?;
        self.things.get_mut(place)?.as_mut().map(|(_, thing)| thing)
    }

    /// Iterates over all names, in no particular order.
    pub(crate) fn names(&self) -> impl Iterator<Item = K> {
        self.places.keys().copied()
    }

    /// Iterates over all objects with their names, in no particular order.
    pub(crate) fn iter_named(&self) -> impl Iterator<Item = (K, &V)> {
        self.things.iter().flatten().map(|(name, thing)| (*name, thing))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.things.iter_mut().flatten().map(|(_, thing)| thing)
    }

    /// Adds an object, replacing an object of the same name.
    pub(crate) fn insert(&mut self, name: K, thing: V) {
        self.remove(&name);
        let place = self.free.pop().unwrap_or(self.things.len());
        if place == self.things.len() {
            self.things.push(None);
        }
        self.things[place] = Some((name, thing));
        self.places.insert(name, place);
    }

    pub(crate) fn remove(&mut self, name: &K) -> Option<V> {
        let place = self.places.remove(name)?;
        self.free.push(place);
        self.things[place].take().map(|(_, thing)| thing)
    }
}

impl<K: Copy + Eq + Hash, V> Index<&K> for Table<K, V> {
    type Output = V;

    fn index(&self, name: &K) -> &V {
        self.get(name).expect("a thing of that name")
    }
}

/// A hash function that spreads a number over all bits that a hash table uses.
#[derive(Debug, Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn what_is_found_is_what_a_plain_map_has(
            steps in prop::collection::vec((0u64..8, 0u8..4), 0..200),
        ) {
            let (mut table, mut map) = (Table::default(), BTreeMap::new());
            for (n, (name, step)) in steps.into_iter().enumerate() {
                match step {
                    0 => {
                        table.insert(name, n);
                        map.insert(name, n);
                    }
                    1 => prop_assert_eq!(table.remove(&name), map.remove(&name)),
                    2 => prop_assert_eq!(table.get_mut(&name), map.get_mut(&name)),
                    _ => prop_assert_eq!(table.contains_key(&name), map.contains_key(&name)),
                }
                prop_assert_eq!((table.len(), table.is_empty()), (map.len(), map.is_empty()));
                (0..8).for_each(|name| assert_eq!(table.get(&name), map.get(&name)));
            }
        }
    }
}
