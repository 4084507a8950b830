//! Records changes to entries of epoll sets since a fork. The forked process has copies of the entries, and finds the
//! changes here.

/// Number of entries of a connection whose changes are recorded.
const RECORDED: usize = 8;

/// Change of an entry after it has been copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) enum Fate {
    /// The entry has moved to the kernel, or is removed. No process gives a copy of it to the kernel any more.
    Over,
    /// `epoll_ctl` has changed the entry, or EPOLLONESHOT has disabled it.
    Changed {
        /// Events that the program waits for.
        events: u32,
        /// The user's data.
        data: u64,
        /// True if the entry is not disabled.
        armed: bool,
    },
}

/// Changes of a connection's entries, by the entry's number.
#[derive(Debug)]
#[repr(C)]
pub struct Copies {
    /// Numbers of the entries; 0 in a free place.
    numbers: [u64; RECORDED],
    fates: [Fate; RECORDED],
}

impl Copies {
    /// Removes all changes.
    pub(crate) fn forget(&mut self) {
        self.numbers = [0; RECORDED];
    }

    /// Returns the change of the entry with this number, if there is one.
    pub(crate) fn fate(&self, number: u64) -> Option<Fate> {
        self.place(number).map(|place| self.fates[place])
    }

    /// Records the change of an entry. Does nothing if other entries use all places.
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
