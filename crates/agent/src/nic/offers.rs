//! Connections that a far NIC has offered, and no program of this host has asked for yet.

use crate::connection::Key;
use crate::numbers::Numbers;
use crate::wire::Id;
use std::collections::HashMap;

/// As many as a far NIC may have offered: what is more it offers in vain, and those connections stay on TCP.
const LIMIT: usize = 1 << 14;

/// What one far NIC has offered. Each step costs the same however many there are.
#[derive(Debug, Default)]
pub(super) struct Offers {
    of_connections: HashMap<Key, (Id, Numbers)>,
    of_ids: HashMap<Id, Key>,
}

impl Offers {
    /// An offer has come. A later one for the same end of a connection replaces an earlier one, and so does one of the same id.
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

    /// The far NIC's program does not ask for it any more.
    pub(super) fn withdraw(&mut self, far: Id) {
        if let Some(key) = self.of_ids.remove(&far) {
            self.of_connections.remove(&key);
        }
    }

    /// Takes the offer for that end of a connection out.
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
    fn offer_is_there_until_it_is_taken_withdrawn_or_replaced() {
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
        // The same id for another connection.
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
