//! List of every first rendezvous that is under way in this process.

use super::Rendezvous;
use crate::conn::Role;
use crate::table::Ref;
use core::ops::{Index, IndexMut};
use std::collections::BTreeMap;

/// Maximum number of this process's connections that are in a first rendezvous as connectors. Each connector binds
/// a name. Acceptors share one socket, and have no limit. If both ends had a limit, they might choose different
/// connections, and no rendezvous would succeed.
const CONNECTORS: usize = 128;

/// Every first rendezvous under way, by the index of its connection.
pub(super) struct List {
    all: BTreeMap<u32, Rendezvous>,
    connectors: usize,
}

impl List {
    pub(super) const fn new() -> List {
        List { all: BTreeMap::new(), connectors: 0 }
    }

    /// Returns the index of a connection's rendezvous.
    pub(super) fn find(&self, at: Ref) -> Option<u32> {
        self.all.get(&at.index).filter(|rendezvous| rendezvous.at.same(at)).map(|_| at.index)
    }

    /// Returns the index of the first rendezvous for which `is` returns true.
    pub(super) fn position(&self, is: impl Fn(&Rendezvous) -> bool) -> Option<u32> {
        self.all.iter().find(|(_, rendezvous)| is(rendezvous)).map(|(&i, _)| i)
    }

    /// Returns the index of any rendezvous.
    pub(super) fn any(&self) -> Option<u32> {
        self.all.keys().next().copied()
    }

    /// Returns true if another connector may begin a first rendezvous.
    pub(super) fn has_room(&self) -> bool {
        self.connectors < CONNECTORS
    }

    /// Adds a rendezvous at the index of its connection. No rendezvous may have this index yet.
    pub(super) fn insert(&mut self, rendezvous: Rendezvous) -> u32 {
        let index = rendezvous.at.index;
        debug_assert!(!self.all.contains_key(&index), "a connection's place is its own");
        self.connectors += usize::from(rendezvous.role == Role::Connector);
        self.all.insert(index, rendezvous);
        index
    }

    pub(super) fn remove(&mut self, i: u32) -> Option<Rendezvous> {
        let rendezvous = self.all.remove(&i)?;
        self.connectors -= usize::from(rendezvous.role == Role::Connector);
        Some(rendezvous)
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
        self.connectors = 0;
    }
}

impl Index<u32> for List {
    type Output = Rendezvous;

    fn index(&self, i: u32) -> &Rendezvous {
        &self.all[&i]
    }
}

impl IndexMut<u32> for List {
    fn index_mut(&mut self, i: u32) -> &mut Rendezvous {
        self.all.get_mut(&i).expect("the rendezvous is in the table")
    }
}
