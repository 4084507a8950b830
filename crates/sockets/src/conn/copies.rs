//! Records changes to a connection's entries in epoll sets. A forked process has private copies of these entries,
//! and finds later changes to the originals here.

/// Number of epoll entries of one connection whose changes can be recorded.
const RECORDED: usize = 8;

/// Change of an epoll entry after a fork has copied the entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) enum Fate {
    /// The entry has been removed, or has been moved to the kernel's epoll instance. No process may add its copy of
    /// the entry to the kernel's epoll instance any more.
    Over,
    /// `epoll_ctl` has changed the entry, or EPOLLONESHOT has disabled the entry.
    Changed {
        /// Events that the program waits for, as in `epoll_event`.
        events: u32,
        /// The program's data, as in `epoll_event`.
        data: u64,
        /// False if EPOLLONESHOT has disabled the entry.
        armed: bool,
    },
}

/// Changes of a connection's entries in epoll sets, by the number of the entry.
#[derive(Debug)]
#[repr(C)]
pub struct Copies {
    /// Number of each changed entry; 0 if this place of the arrays is free.
    numbers: [u64; RECORDED],
    fates: [Fate; RECORDED],
}

impl Copies {
    /// Removes all recorded changes.
    pub(crate) fn forget(&mut self) {
        self.numbers = [0; RECORDED];
    }

    /// Returns the last recorded change of the entry with this number, if there is one.
    pub(crate) fn fate(&self, number: u64) -> Option<Fate> {
        self.place(number).map(|place| self.fates[place])
    }

    /// Records `fate` as the last change of entry `number`. Does nothing if other entries use all places.
    pub(crate) fn record(&mut self, number: u64, fate: Fate) {
        if let Some(place) = self.place(number).or_else(|| self.place(0)) {
            self.fates[place] = fate;
            self.numbers[place] = number;
        }
    }

    fn place(&self, number: u64) -> Option<usize> {
        self.numbers.iter().position(|&recorded| recorded == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copies() -> Copies {
        Copies { numbers: [0; RECORDED], fates: [Fate::Over; RECORDED] }
    }

    #[test]
    fn the_last_fate_of_an_entry_counts() {
        let mut copies = copies();
        assert_eq!(copies.fate(7), None);
        let changed = Fate::Changed { events: 1, data: 2, armed: true };
        copies.record(7, changed);
        assert_eq!(copies.fate(7), Some(changed));
        copies.record(7, Fate::Over);
        assert_eq!((copies.fate(7), copies.fate(8)), (Some(Fate::Over), None));
        copies.forget();
        assert_eq!(copies.fate(7), None);
    }

    #[test]
    fn a_ninth_entry_takes_no_place_of_another() {
        let mut copies = copies();
        for number in 1..=9 {
            copies.record(number, Fate::Over);
        }
        assert!((1..=8).all(|number| copies.fate(number).is_some()));
        assert_eq!(copies.fate(9), None);
    }
}
