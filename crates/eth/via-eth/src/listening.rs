//! At which discriminators a program listens, for a port that shares its address with those of other programs.
//!
//! A program that takes one request after the other listens anew for each. So the port keeps a discriminator after the last wait
//! there, until there are too many of that kind, and no program of another user gets it in between.

use sovia_port::Listens;
use std::collections::{HashMap, VecDeque};

/// Discriminators that are kept though no thread waits at them.
const KEPT: usize = 64;

/// Waits, by their discriminators.
#[derive(Debug, Default)]
pub(crate) struct Listening {
    waits: HashMap<Box<[u8]>, u64>,
    /// Those without a wait that the port has still, the one that has been left first at the front.
    kept: VecDeque<Box<[u8]>>,
    /// What the port is to be told.
    untold: VecDeque<(Box<[u8]>, Listens)>,
}

impl Listening {
    /// A wait begins there, or ends.
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

    /// Tells the port what it has not been told.
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
    fn port_is_told_of_the_first_wait_and_of_the_last() {
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
        // One that is waited at again is none of them.
        listening.count(&at(2), true);
        for n in 100..100 + KEPT {
            listening.count(&at(n), true);
            listening.count(&at(n), false);
            assert!(!told(&mut listening).contains(&(at(2).to_vec(), Never)));
        }
    }
}
