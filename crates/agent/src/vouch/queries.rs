//! Queries of programs: which process holds the other end of this connection? Uses no clock and makes no system call.

use core::net::SocketAddr;
use sovia_proto::rendezvous::Link;
use std::collections::{BTreeMap, HashMap};

/// Maximum number of queries of one user's programs, and of all programs. Further queries are ignored: their
/// connections stay on TCP.
const OF_ONE_USER: usize = 16 << 10;
const OF_ALL: usize = 96 << 10;
/// Maximum number of other programs checked for one query. Any process that knows the addresses may claim an end.
const CANDIDATES: usize = 8;

/// Number of a connected program.
pub(super) type Client = u64;

/// A query: the program and the program's number for the query.
pub(super) type Id = (Client, u64);

/// An end of a connection, whose other end is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) link: Link,
    pub(super) is_connector: bool,
    /// User of the program that has this end.
    pub(super) user: u32,
    /// Network namespace of that program.
    pub(super) place: Place,
}

/// A network namespace: its device and inode.
pub(super) type Place = (u64, u64);

impl Query {
    fn key(&self) -> Key {
        (self.link.connector, self.link.acceptor, self.is_connector)
    }

    fn others_key(&self) -> Key {
        (self.link.connector, self.link.acceptor, !self.is_connector)
    }
}

/// Addresses of a connection, and true for the connector's end.
type Key = (SocketAddr, SocketAddr, bool);

/// All open queries.
#[derive(Debug, Default)]
pub(super) struct Queries {
    all: BTreeMap<Id, Query>,
    ends: HashMap<Key, Vec<Id>>,
    /// Number of queries of each user's programs.
    of_users: HashMap<u32, usize>,
}

impl Queries {
    /// Adds a query. Replaces an earlier query with the same id. Returns false if there are too many.
    pub(super) fn add(&mut self, id: Id, query: Query) -> bool {
        self.remove(id);
        let of_user = self.of_users.entry(query.user).or_default();
        if *of_user >= OF_ONE_USER || self.all.len() >= OF_ALL {
            return false;
        }
        *of_user += 1;
        self.all.insert(id, query);
        self.ends.entry(query.key()).or_default().push(id);
        true
    }

    /// Returns the programs that may have the other end, newest first. Returns one for each network namespace,
    /// because at most one socket in a namespace has these addresses.
    pub(super) fn candidates(&self, id: Id) -> Vec<(Id, Query)> {
        let Some(query) = self.all.get(&id) else { return Vec::new() };
        let mut found: Vec<(Id, Query)> = Vec::new();
        for other in self.ends.get(&query.others_key()).into_iter().flatten().rev() {
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
        let Some(query) = self.all.remove(&id) else { return };
        if let Some(of_user) = self.of_users.get_mut(&query.user) {
            *of_user -= 1;
            if *of_user == 0 {
                self.of_users.remove(&query.user);
            }
        }
        let key = query.key();
        if let Some(ids) = self.ends.get_mut(&key) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.ends.remove(&key);
            }
        }
    }

    /// Removes all queries of a program.
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

    fn query(port: u16, is_connector: bool) -> Query {
        query_in(port, is_connector, 1)
    }

    fn query_in(port: u16, is_connector: bool, place: u64) -> Query {
        let connector = SocketAddr::new("10.0.0.2".parse().unwrap(), port);
        let link = Link { connector, acceptor: "10.0.0.3:6379".parse().unwrap(), cookie: 1 };
        Query { link, is_connector, user: 7, place: (0, place) }
    }

    fn ids(queries: &Queries, id: Id) -> Vec<Id> {
        queries.candidates(id).into_iter().map(|(id, _)| id).collect()
    }

    #[test]
    fn the_other_ends_of_the_same_addresses_are_candidates() {
        let mut queries = Queries::default();
        assert!(queries.add((1, 7), query(5, true)));
        assert!(queries.add((2, 7), query_in(5, true, 2)));
        assert!(queries.add((3, 7), query(5, false)));
        assert!(queries.add((3, 8), query(6, false)));
        assert_eq!(ids(&queries, (3, 7)), [(2, 7), (1, 7)]);
        assert_eq!(ids(&queries, (1, 7)), [(3, 7)]);
        assert_eq!(ids(&queries, (3, 8)), []);
        queries.remove((1, 7));
        assert_eq!(ids(&queries, (3, 7)), [(2, 7)]);
        queries.remove_all_of(2);
        assert_eq!(ids(&queries, (3, 7)), []);
        // Reuse the number for another query.
        assert!(queries.add((3, 8), query(5, true)));
        assert_eq!(ids(&queries, (3, 8)), [(3, 7)]);
        queries.remove_all_of(3);
        assert!(queries.all.is_empty() && queries.ends.is_empty() && queries.of_users.is_empty());
    }

    #[test]
    fn a_flood_is_bounded_for_its_user_and_hides_nobody_in_another_place() {
        let mut queries = Queries::default();
        assert!(queries.add((9, 0), query_in(5, true, 9)));
        let of_one = (0..20_000).filter(|&n| queries.add((1, n), query(5, true))).count();
        assert_eq!(of_one, OF_ONE_USER - 1);
        let end = Query { user: 8, ..query_in(5, false, 3) };
        assert!(queries.add((3, 0), end));
        assert_eq!(ids(&queries, (3, 0)), [(1, of_one as u64 - 1), (9, 0)]);
        for place in 10..30 {
            assert!(queries.add((place, 0), Query { user: 9, ..query_in(5, true, place) }));
        }
        let candidates = ids(&queries, (3, 0));
        assert_eq!((candidates.len(), candidates[0]), (CANDIDATES, (29, 0)));
    }
}
