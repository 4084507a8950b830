//! Names of things in a world. None is ever used twice.

use core::hash::{BuildHasherDefault, Hasher};
use std::collections::HashMap;

/// A VI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ViId(pub(crate) u64);

/// A completion queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CqId(pub(crate) u64);

/// A waiter for requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct WaiterId(pub(crate) u64);

/// Things by their names, which are all this side's own choice: no stranger can choose them so that they collide.
pub(crate) type Table<K, V> = HashMap<K, V, BuildHasherDefault<Spread>>;

/// Spreads one number over all the bits that a hash table looks at.
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
