//! Keeps an order between events from VIs and events from the kernel's epoll instance.
//!
//! Each source reports its events in the order in which they became ready. The order between the sources is
//! unknown. A connection that moves from one source to the other must neither overtake its neighbours nor fall
//! behind them. Programs with many similar connections, such as programs with libzmq, rely on turns. So events that
//! one wait has reported keep their order in the next wait.

use libc::epoll_event as Event;

/// Number of events of the last wait whose order is remembered.
const REMEMBERED: usize = 64;

/// Order of the events of the last wait.
#[derive(Debug)]
pub(crate) struct ReportOrder {
    last: [u64; REMEMBERED],
    len: usize,
    is_mixed: bool,
}

impl Default for ReportOrder {
    fn default() -> ReportOrder {
        ReportOrder { last: [0; REMEMBERED], len: 0, is_mixed: false }
    }
}

impl ReportOrder {
    /// Returns true if the kernel's instance had events in the last wait. Then the next wait asks the kernel as
    /// well as the VIs.
    pub(crate) fn is_mixed(&self) -> bool {
        self.is_mixed
    }

    /// Returns the position in the last wait of the event with user data `data`.
    fn turn(&self, data: u64) -> Option<usize> {
        self.last[..self.len].iter().position(|&other| other == data)
    }

    /// Returns the queue position for an entry with user data `data` that comes from the kernel's instance. This is
    /// the position of the first queued entry that had a later position in the last wait. `queue` has the user data
    /// of the queued entries.
    pub(super) fn place(&self, data: u64, queue: impl ExactSizeIterator<Item = u64>) -> usize {
        let len = queue.len();
        let Some(turn) = self.turn(data).filter(|_| len <= REMEMBERED) else { return len };
        let is_later = |other| self.turn(other).is_some_and(|other| other > turn);
        queue.into_iter().position(is_later).unwrap_or(len)
    }

    /// Sorts `events` by their positions in the last wait, and remembers the new order. The first `vis` events come
    /// from VIs, the others from the kernel's instance.
    pub(crate) fn arrange(&mut self, events: &mut [Event], vis: usize) {
        let len = events.len().min(REMEMBERED);
        let mut reported = [Event { events: 0, u64: 0 }; REMEMBERED];
        reported[..len].copy_from_slice(&events[..len]);
        if vis > 0 && vis < events.len() {
            // Use small elements, because the program's stack may be small.
            const _: () = assert!(REMEMBERED <= u8::MAX as usize);
            let mut turns = [REMEMBERED as u8; REMEMBERED];
            for (turn, event) in turns.iter_mut().zip(&reported[..len]) {
                *turn = self.turn(event.u64).unwrap_or(REMEMBERED) as u8;
            }
            // Use insertion sort, because the events are usually nearly sorted.
            for end in 1..len {
                let mut i = end;
                while i > 0 && turns[i - 1] > turns[i] {
                    turns.swap(i - 1, i);
                    reported.swap(i - 1, i);
                    i -= 1;
                }
            }
            events[..len].copy_from_slice(&reported[..len]);
        }
        self.is_mixed = vis < events.len();
        self.len = len;
        for (to, event) in self.last.iter_mut().zip(&reported[..len]) {
            *to = event.u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arranged(order: &mut ReportOrder, vis: &[u64], kernel: &[u64]) -> Vec<u64> {
        let all = vis.iter().chain(kernel);
        let mut events: Vec<Event> = all.map(|&u64| Event { events: 1, u64 }).collect();
        order.arrange(&mut events, vis.len());
        events.iter().map(|event| event.u64).collect()
    }

    #[test]
    fn a_connection_that_changes_its_path_keeps_its_turn() {
        let mut order = ReportOrder::default();
        assert_eq!(arranged(&mut order, &[], &[1, 2, 3, 4, 5]), [1, 2, 3, 4, 5]);
        assert_eq!(arranged(&mut order, &[4], &[1, 2, 3, 5]), [1, 2, 3, 4, 5]);
        assert_eq!(arranged(&mut order, &[4, 2], &[1, 3, 5]), [1, 2, 3, 4, 5]);
        assert_eq!(arranged(&mut order, &[4, 2], &[3, 1, 6]), [1, 2, 3, 4, 6]);
    }

    #[test]
    fn an_entry_comes_from_the_kernel_into_its_turn() {
        let mut order = ReportOrder::default();
        arranged(&mut order, &[], &[1, 2, 3, 4]);
        let place = |data, queue: &[u64]| order.place(data, queue.iter().copied());
        assert_eq!(place(1, &[4]), 0);
        assert_eq!(place(2, &[1, 4]), 1);
        assert_eq!(place(4, &[1, 3]), 2);
        // Entries that the last wait did not report have waited for longer.
        assert_eq!(place(1, &[8, 9]), 2);
        assert_eq!(place(7, &[1, 2]), 2);
        assert_eq!(place(1, &[4; REMEMBERED + 1]), REMEMBERED + 1);
    }

    #[test]
    fn new_events_come_behind_those_that_were_there() {
        let mut order = ReportOrder::default();
        arranged(&mut order, &[], &[1, 2]);
        assert_eq!(arranged(&mut order, &[9, 8], &[2, 7]), [2, 9, 8, 7]);
    }

    #[test]
    fn events_of_one_source_keep_their_order() {
        let mut order = ReportOrder::default();
        arranged(&mut order, &[], &[1, 2, 3]);
        assert_eq!(arranged(&mut order, &[], &[3, 1]), [3, 1]);
        assert_eq!(arranged(&mut order, &[1, 3], &[]), [1, 3]);
        assert!(!order.is_mixed());
    }

    #[test]
    fn more_events_than_are_remembered_are_all_reported() {
        let mut order = ReportOrder::default();
        let kernel: Vec<u64> = (0..200).collect();
        arranged(&mut order, &[], &kernel);
        let mut all = arranged(&mut order, &[1000, 1001], &kernel);
        all.sort_unstable();
        assert_eq!(all.len(), 202);
        assert_eq!(all[..200], kernel[..]);
    }
}
