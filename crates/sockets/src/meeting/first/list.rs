//! The first meetings that are under way in a process.

use super::Meeting;
use crate::conn::Role;
use crate::table::Ref;
use core::ops::{Index, IndexMut};
use std::collections::BTreeMap;

/// Connectors that may be on their way to a first meeting at a time: each has a name bound. Acceptors share
/// one, and any number may look; were theirs a limited choice as well, the two ends might choose different
/// connections, and none would meet.
const CONNECTORS: usize = 128;

/// Meetings by the number of their connection's place.
pub(super) struct List {
    all: BTreeMap<u32, Meeting>,
    connectors: usize,
}

impl List {
    pub(super) const fn new() -> List {
        List { all: BTreeMap::new(), connectors: 0 }
    }

    /// The meeting of a connection.
    pub(super) fn find(&self, at: Ref) -> Option<u32> {
        self.all.get(&at.index).filter(|meeting| meeting.at.same(at)).map(|_| at.index)
    }

    /// The first meeting of which that is true.
    pub(super) fn position(&self, is: impl Fn(&Meeting) -> bool) -> Option<u32> {
        self.all.iter().find(|(_, meeting)| is(meeting)).map(|(&i, _)| i)
    }

    /// Any meeting.
    pub(super) fn any(&self) -> Option<u32> {
        self.all.keys().next().copied()
    }

    /// Whether another connector may begin.
    pub(super) fn has_room(&self) -> bool {
        self.connectors < CONNECTORS
    }

    /// Adds a meeting to a place where there is none.
    pub(super) fn insert(&mut self, meeting: Meeting) -> u32 {
        let index = meeting.at.index;
        debug_assert!(!self.all.contains_key(&index), "a connection's place is its own");
        self.connectors += usize::from(meeting.role == Role::Connector);
        self.all.insert(index, meeting);
        index
    }

    pub(super) fn remove(&mut self, i: u32) -> Option<Meeting> {
        let meeting = self.all.remove(&i)?;
        self.connectors -= usize::from(meeting.role == Role::Connector);
        Some(meeting)
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
        self.connectors = 0;
    }
}

impl Index<u32> for List {
    type Output = Meeting;

    fn index(&self, i: u32) -> &Meeting {
        &self.all[&i]
    }
}

impl IndexMut<u32> for List {
    fn index_mut(&mut self, i: u32) -> &mut Meeting {
        self.all.get_mut(&i).expect("a meeting that is under way")
    }
}
