//! Accepts connections even when descriptors run out.

use crate::{Errno, Fd, Result, call, clock};

/// Nanoseconds until the next try, if even the spare descriptor does not help.
const PAUSE_NS: u64 = 100_000_000;

/// Accepts connections from a listener that epoll watches for edges (`EPOLLET`).
///
/// epoll reports an edge once. So accepting continues until no connection waits, or resumes at [`Arrivals::due`].
/// Without a free descriptor, the kernel leaves a connection in the queue, where its peer waits. Then this type
/// gives up a spare descriptor, accepts the connection and closes it.
#[derive(Debug)]
pub struct Arrivals {
    spare: Option<Fd>,
    due: Option<u64>,
    lacked: Option<Errno>,
}

impl Default for Arrivals {
    fn default() -> Arrivals {
        Arrivals { spare: spare(), due: None, lacked: None }
    }
}

fn spare() -> Option<Fd> {
    Fd::make(|| call::eventfd(libc::EFD_CLOEXEC)).ok()
}

impl Arrivals {
    /// Accepts up to `most` connections. `accept` must never block, and must fail with `EAGAIN` if no connection
    /// waits.
    pub fn take<T>(&mut self, most: usize, mut accept: impl FnMut() -> Result<T>) -> Vec<T> {
        let mut taken = Vec::new();
        (self.due, self.lacked) = (Some(0), None);
        for _ in 0..most {
            let mut next = accept();
            if let Err(error) = &next
                && is_lack(*error)
            {
                self.lacked = Some(*error);
                self.spare = None;
                // Close the connection, so that the peer learns at once.
                next = accept().and_then(|turned_away| {
                    drop(turned_away);
                    Err(Errno::ECONNABORTED)
                });
                self.spare = spare();
            }
            match next {
                Ok(one) => taken.push(one),
                Err(Errno::EAGAIN) => {
                    self.due = None;
                    break;
                }
                Err(error) if is_lack(error) => {
                    self.due = Some(clock::now_ns() + PAUSE_NS);
                    break;
                }
                // The peer has closed the connection meanwhile.
                Err(_) => {}
            }
        }
        taken
    }

    /// Returns the time of the next try without an edge, in nanoseconds of the monotonic clock; 0 for at once.
    /// `None` if no try is due.
    pub fn due(&self) -> Option<u64> {
        self.due
    }

    /// Returns the nanoseconds from now until [`due`](Self::due).
    pub fn pause(&self) -> Option<u64> {
        self.due.map(|due| due.saturating_sub(clock::now_ns()))
    }

    /// Returns the error for which the last [`take`](Self::take) refused connections or left them in the queue.
    pub fn lacked(&self) -> Option<Errno> {
        self.lacked
    }
}

fn is_lack(error: Errno) -> bool {
    matches!(error, Errno::EMFILE | Errno::ENFILE | Errno::ENOBUFS | Errno::ENOMEM)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `take` against a kernel that gives these answers in turn, and then `EAGAIN`.
    fn taking(arrivals: &mut Arrivals, most: usize, answers: &[Result<u32>]) -> (Vec<u32>, usize) {
        let mut asked = 0;
        let taken = arrivals.take(most, || {
            asked += 1;
            answers.get(asked - 1).copied().unwrap_or(Err(Errno::EAGAIN))
        });
        (taken, asked)
    }

    #[test]
    fn all_that_waits_is_accepted() {
        let mut arrivals = Arrivals::default();
        let answers = [Ok(1), Err(Errno::ECONNABORTED), Err(Errno::EINTR), Ok(2)];
        assert_eq!(taking(&mut arrivals, 9, &answers), (vec![1, 2], 5));
        assert_eq!((arrivals.due(), arrivals.lacked()), (None, None));
    }

    #[test]
    fn more_than_a_turn_is_due_at_once() {
        let mut arrivals = Arrivals::default();
        assert_eq!(taking(&mut arrivals, 2, &[Ok(1), Ok(2), Ok(3)]), (vec![1, 2], 2));
        assert_eq!(arrivals.due(), Some(0));
    }

    #[test]
    fn without_a_descriptor_a_connection_is_turned_away_and_others_follow() {
        let mut arrivals = Arrivals::default();
        let answers = [Err(Errno::EMFILE), Ok(1), Ok(2)];
        assert_eq!(taking(&mut arrivals, 9, &answers), (vec![2], 4));
        assert_eq!((arrivals.due(), arrivals.lacked()), (None, Some(Errno::EMFILE)));
        assert!(arrivals.spare.is_some());
    }

    #[test]
    fn accepting_is_due_later_where_the_spare_one_does_not_help() {
        let mut arrivals = Arrivals::default();
        let before = clock::now_ns();
        let answers = [Err(Errno::ENFILE), Err(Errno::ENFILE), Ok(1)];
        assert_eq!(taking(&mut arrivals, 9, &answers), (vec![], 2));
        assert!(arrivals.due().is_some_and(|due| due >= before + PAUSE_NS));
    }

    #[test]
    fn an_empty_queue_without_a_descriptor_is_no_reason_to_try_again() {
        // The kernel looks for a free number before it looks at the queue.
        let mut arrivals = Arrivals::default();
        assert_eq!(taking(&mut arrivals, 9, &[Err(Errno::EMFILE)]), (vec![], 2));
        assert_eq!(arrivals.due(), None);
    }
}
