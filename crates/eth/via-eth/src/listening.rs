//! The discriminators at which a program listens, for a port that shares its address with other programs' ports.
//!
//! A program that handles one request after the other listens anew for each. So the port keeps a discriminator after
//! its last wait, up to a limited number. Meanwhile no program of another user can take the discriminator.

use sovia_port::Listens;
use std::collections::{HashMap, VecDeque};

/// Maximum number of discriminators that are kept without a waiting thread.
const KEPT: usize = 64;

/// Numbers of waits by discriminator.
#[derive(Debug, Default)]
pub(crate) struct Listening {
    waits: HashMap<Box<[u8]>, u64>,
    /// Kept discriminators without a wait. The oldest is at the front.
    kept: VecDeque<Box<[u8]>>,
    /// Changes that the port must still learn.
    untold: VecDeque<(Box<[u8]>, Listens)>,
}

impl Listening {
    /// Counts the begin or the end of a wait at a discriminator.
    pub(crate) fn count(&mut self, discriminator: &[u8], begins: bool) {
        if begins {
            let waits = self.waits.entry(discriminator.into()).or_default();
            *waits += 1;
            if *waits == 1 {
                self.kept.retain(|kept| **kept != *discriminator);
                self.untold.push_back((discriminator.into(), Listens::Now));
            }
            return;
        }
        let Some(waits) = self.waits.get_mut(discriminator) else { return };
        *waits -= 1;
        if *waits > 0 {
            return;
        }
        self.waits.remove(discriminator);
        self.kept.push_back(discriminator.into());
        self.untold.push_back((discriminator.into(), Listens::Again));
        if self.kept.len() > KEPT
            && let Some(oldest) = self.kept.pop_front()
        {
            self.untold.push_back((oldest, Listens::Never));
        }
    }

    /// Tells the port about all waiting changes.
    pub(crate) fn tell(&mut self, mut tell: impl FnMut(&[u8], Listens)) {
        for (discriminator, listens) in self.untold.drain(..) {
            tell(&discriminator, listens);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Listens::{Again, Never, Now};

    fn told(listening: &mut Listening) -> Vec<(Vec<u8>, Listens)> {
        let mut told = Vec::new();
        listening.tell(|at, listens| told.push((at.to_vec(), listens)));
        told
    }

    #[test]
    fn port_is_notified_of_the_first_wait_and_of_the_last() {
        let mut listening = Listening::default();
        for begins in [true, true, false, true, false, false, false] {
            listening.count(b"a", begins);
        }
        assert_eq!(told(&mut listening), [(b"a".to_vec(), Now), (b"a".to_vec(), Again)]);
        assert_eq!(told(&mut listening), []);
    }

    #[test]
    fn oldest_discriminator_without_a_wait_is_left() {
        let mut listening = Listening::default();
        let at = |n: usize| (n as u32).to_le_bytes();
        for n in 0..KEPT + 2 {
            listening.count(&at(n), true);
            assert_eq!(told(&mut listening), [(at(n).to_vec(), Now)]);
            listening.count(&at(n), false);
            let left = n.checked_sub(KEPT).map(|n| (at(n).to_vec(), Never));
            let again = [(at(n).to_vec(), Again)];
            assert_eq!(told(&mut listening), again.into_iter().chain(left).collect::<Vec<_>>());
        }
        // A discriminator with a new wait is no longer in `kept`.
        listening.count(&at(2), true);
        for n in 100..100 + KEPT {
            listening.count(&at(n), true);
            listening.count(&at(n), false);
            assert!(!told(&mut listening).contains(&(at(2).to_vec(), Never)));
        }
    }
}
