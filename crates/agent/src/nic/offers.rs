//! Connections that a remote NIC has offered, and that no program of this host has requested yet.

use crate::connection::Key;
use crate::numbers::Numbers;
use crate::wire::Id;
use std::collections::HashMap;

/// Maximum number of offers of one remote NIC. Further offers are ignored, and their connections stay on TCP.
const LIMIT: usize = 1 << 14;

/// Offers of one remote NIC. Each operation takes constant time.
#[derive(Debug, Default)]
pub(super) struct Offers {
    of_connections: HashMap<Key, (Id, Numbers)>,
    of_ids: HashMap<Id, Key>,
}

impl Offers {
    /// Adds an offer. Replaces an earlier offer for the same end of a connection, and an earlier offer with the same
    /// id.
    pub(super) fn add(&mut self, key: Key, far: Id, numbers: Numbers) {
        if self.of_connections.len() >= LIMIT && !self.of_connections.contains_key(&key) {
            return;
        }
        self.withdraw(far);
        if let Some((earlier, _)) = self.of_connections.insert(key, (far, numbers)) {
            self.of_ids.remove(&earlier);
        }
        self.of_ids.insert(far, key);
    }

    /// Removes an offer that the remote NIC has withdrawn.
    pub(super) fn withdraw(&mut self, far: Id) {
        if let Some(key) = self.of_ids.remove(&far) {
            self.of_connections.remove(&key);
        }
    }

    /// Removes and returns the offer for this end of a connection.
    pub(super) fn take(&mut self, key: &Key) -> Option<(Id, Numbers)> {
        let (far, numbers) = self.of_connections.remove(key)?;
        self.of_ids.remove(&far);
        Some((far, numbers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::SocketAddr;

    fn key(n: u32) -> Key {
        let [_, a, b, c] = n.to_be_bytes();
        let connector = SocketAddr::from(([10, a, b, c], 1));
        (connector, SocketAddr::from(([10, 0, 0, 1], 2)), n.is_multiple_of(2))
    }

    fn check(offers: &Offers) {
        assert_eq!(offers.of_connections.len(), offers.of_ids.len());
        for (far, key) in &offers.of_ids {
            assert_eq!(offers.of_connections[key].0, *far);
        }
    }

    #[test]
    fn offer_stays_until_taken_withdrawn_or_replaced() {
        let mut offers = Offers::default();
        let numbers = |sent| Numbers { received: 0, sent };
        offers.add(key(1), 11, numbers(1));
        offers.add(key(2), 12, numbers(2));
        offers.add(key(3), 13, numbers(3));
        offers.withdraw(12);
        offers.add(key(1), 14, numbers(4));
        check(&offers);
        offers.withdraw(11);
        assert_eq!(offers.take(&key(1)), Some((14, numbers(4))));
        assert_eq!(offers.take(&key(2)), None);
        // Offer another connection with the same id.
        offers.add(key(5), 13, numbers(5));
        check(&offers);
        assert_eq!(offers.take(&key(3)), None);
        assert_eq!(offers.take(&key(5)), Some((13, numbers(5))));
        check(&offers);
    }

    #[test]
    fn far_nic_that_offers_without_end_is_not_remembered_without_end() {
        let mut offers = Offers::default();
        for n in 0..100_000 {
            offers.add(key(n), n.into(), Numbers::default());
        }
        assert_eq!(offers.of_connections.len(), LIMIT);
        check(&offers);
        offers.withdraw(0);
        offers.add(key(99_999), 99_999, Numbers::default());
        assert!(offers.take(&key(99_999)).is_some(), "there is room again");
    }
}
