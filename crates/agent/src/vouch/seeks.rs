//! Who seeks the other end of which connection. No clock, no call of the kernel's.

use core::net::SocketAddr;
use sovia_proto::meeting::Link;
use std::collections::{BTreeMap, HashMap};

/// What the programs of a user may seek at a time, and all programs. What they seek beyond that is not heard: it stays on TCP.
const OF_ONE_USER: usize = 16 << 10;
const OF_ALL: usize = 96 << 10;
/// Others that are looked at for one that is sought: any process that knows the addresses may say that they are its own.
const CANDIDATES: usize = 8;

/// A program that has come, as the agent counts them.
pub(super) type Client = u64;

/// Something sought: by whom, and the program's number for it.
pub(super) type Id = (Client, u64);

/// An end whose other one is sought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sought {
    pub(super) link: Link,
    pub(super) is_connector: bool,
    /// By a program of that user.
    pub(super) user: u32,
    /// In that network namespace.
    pub(super) place: Place,
}

/// A network namespace.
pub(super) type Place = (u64, u64);

impl Sought {
    fn key(&self) -> Key {
        (self.link.connector, self.link.acceptor, self.is_connector)
    }

    fn others_key(&self) -> Key {
        (self.link.connector, self.link.acceptor, !self.is_connector)
    }
}

/// A connection's addresses, and which of its ends.
type Key = (SocketAddr, SocketAddr, bool);

/// All that is sought.
#[derive(Debug, Default)]
pub(super) struct Seeks {
    all: BTreeMap<Id, Sought>,
    ends: HashMap<Key, Vec<Id>>,
    /// How many of them are of each user's programs.
    of_users: HashMap<u32, usize>,
}

impl Seeks {
    /// Whether it has been put down. In the place of what the program sought by that number before.
    pub(super) fn add(&mut self, id: Id, sought: Sought) -> bool {
        self.remove(id);
        let of_user = self.of_users.entry(sought.user).or_default();
        if *of_user >= OF_ONE_USER || self.all.len() >= OF_ALL {
            return false;
        }
        *of_user += 1;
        self.all.insert(id, sought);
        self.ends.entry(sought.key()).or_default().push(id);
        true
    }

    /// Those that may have the other end, the latest first. Of each network namespace one: there is one socket at most
    /// with these addresses in it.
    pub(super) fn candidates(&self, id: Id) -> Vec<(Id, Sought)> {
        let Some(sought) = self.all.get(&id) else { return Vec::new() };
        let mut found: Vec<(Id, Sought)> = Vec::new();
        for other in self.ends.get(&sought.others_key()).into_iter().flatten().rev() {
            let Some(end) = self.all.get(other) else { continue };
            if found.iter().all(|(_, known)| known.place != end.place) {
                found.push((*other, *end));
            }
            if found.len() == CANDIDATES {
                break;
            }
        }
        found
    }

    pub(super) fn remove(&mut self, id: Id) {
        let Some(sought) = self.all.remove(&id) else { return };
        if let Some(of_user) = self.of_users.get_mut(&sought.user) {
            *of_user -= 1;
            if *of_user == 0 {
                self.of_users.remove(&sought.user);
            }
        }
        let key = sought.key();
        if let Some(ids) = self.ends.get_mut(&key) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.ends.remove(&key);
            }
        }
    }

    /// A program has gone.
    pub(super) fn remove_all_of(&mut self, client: Client) {
        let ids: Vec<Id> = self.of(client).collect();
        ids.into_iter().for_each(|id| self.remove(id));
    }

    fn of(&self, client: Client) -> impl Iterator<Item = Id> {
        self.all.range((client, 0)..=(client, u64::MAX)).map(|(id, _)| *id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sought(port: u16, is_connector: bool) -> Sought {
        sought_in(port, is_connector, 1)
    }

    fn sought_in(port: u16, is_connector: bool, place: u64) -> Sought {
        let connector = SocketAddr::new("10.0.0.2".parse().unwrap(), port);
        let link = Link { connector, acceptor: "10.0.0.3:6379".parse().unwrap(), cookie: 1 };
        Sought { link, is_connector, user: 7, place: (0, place) }
    }

    fn ids(seeks: &Seeks, id: Id) -> Vec<Id> {
        seeks.candidates(id).into_iter().map(|(id, _)| id).collect()
    }

    #[test]
    fn the_other_ends_of_the_same_addresses_are_candidates() {
        let mut seeks = Seeks::default();
        assert!(seeks.add((1, 7), sought(5, true)));
        assert!(seeks.add((2, 7), sought_in(5, true, 2)));
        assert!(seeks.add((3, 7), sought(5, false)));
        assert!(seeks.add((3, 8), sought(6, false)));
        assert_eq!(ids(&seeks, (3, 7)), [(2, 7), (1, 7)]);
        assert_eq!(ids(&seeks, (1, 7)), [(3, 7)]);
        assert_eq!(ids(&seeks, (3, 8)), []);
        seeks.remove((1, 7));
        assert_eq!(ids(&seeks, (3, 7)), [(2, 7)]);
        seeks.remove_all_of(2);
        assert_eq!(ids(&seeks, (3, 7)), []);
        // The same number for something else.
        assert!(seeks.add((3, 8), sought(5, true)));
        assert_eq!(ids(&seeks, (3, 8)), [(3, 7)]);
        seeks.remove_all_of(3);
        assert!(seeks.all.is_empty() && seeks.ends.is_empty() && seeks.of_users.is_empty());
    }

    #[test]
    fn a_flood_is_bounded_for_its_user_and_hides_nobody_in_another_place() {
        let mut seeks = Seeks::default();
        assert!(seeks.add((9, 0), sought_in(5, true, 9)));
        let of_one = (0..20_000).filter(|&n| seeks.add((1, n), sought(5, true))).count();
        assert_eq!(of_one, OF_ONE_USER - 1);
        let end = Sought { user: 8, ..sought_in(5, false, 3) };
        assert!(seeks.add((3, 0), end));
        assert_eq!(ids(&seeks, (3, 0)), [(1, of_one as u64 - 1), (9, 0)]);
        for place in 10..30 {
            assert!(seeks.add((place, 0), Sought { user: 9, ..sought_in(5, true, place) }));
        }
        let candidates = ids(&seeks, (3, 0));
        assert_eq!((candidates.len(), candidates[0]), (CANDIDATES, (29, 0)));
    }
}
