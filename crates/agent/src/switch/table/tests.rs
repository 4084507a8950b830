//! Tests with programs 1 and 2 of one agent, which belong to two users, and a station elsewhere.

use super::*;
use sovia_link::wire::Request as Asked;
use via::{NetAddress, Reliability, ViAttributes};

const HERE: Address = Address::Mac([2, 0, 0, 0, 0, 1]);
const THERE: Address = Address::Mac([2, 0, 0, 0, 0, 2]);

fn end(program: u16, n: u64) -> EndId {
    EndId(u64::from(program) << 48 | n)
}

fn at(address: Address, discriminator: &[u8]) -> NetAddress {
    NetAddress::new(&address.host(), discriminator)
}

/// Makes a table: program 1 listens at "one", program 2 at "two".
fn table() -> Table {
    let mut table = Table::new(HERE.host());
    assert!(table.add(1, 1000) && table.add(2, 1001) && !table.add(2, 1000) && !table.add(0, 1000));
    table.listen(1, b"one", true).unwrap();
    table.listen(2, b"two", true).unwrap();
    table
}

fn request(id: EndId, local: NetAddress, remote: NetAddress, peer: bool) -> Passing {
    let attributes =
        ViAttributes { reliability: Reliability::RELIABLE_DELIVERY, ..ViAttributes::default() };
    Passing::Meeting(Meeting::Request(Box::new(Asked { id, local, remote, attributes, peer })))
}

fn accepted(request: EndId, conn: EndId) -> Passing {
    let answer = Answer::Accepted { conn, attributes: ViAttributes::default() };
    Passing::Meeting(Meeting::Answer { request, answer })
}

fn may(table: &Table, program: u16, frame: Passing) -> bool {
    table.may_send(program, &frame).is_ok()
}

#[test]
fn program_speaks_for_its_own_ends_alone() {
    let table = table();
    let (own, other, far) = (end(1, 5), end(2, 5), end(9, 5));
    for (from, expected) in [(own, true), (other, false), (EndId::NONE, false), (far, false)] {
        let ends = Passing::Ends { to: far, from, is_answered: true };
        assert_eq!(may(&table, 1, ends), expected);
        assert_eq!(may(&table, 1, accepted(far, from)), expected);
        for meeting in [
            Meeting::Settled { request: from, connected: true },
            Meeting::Settled { request: from, connected: false },
            Meeting::Cancel { request: from },
        ] {
            assert_eq!(may(&table, 1, Passing::Meeting(meeting)), expected);
        }
        let asked = request(from, at(HERE, b""), at(THERE, b"x"), false);
        assert_eq!(may(&table, 1, asked), expected);
    }
}

#[test]
fn program_names_no_address_of_another() {
    let table = table();
    for (address, expected) in [
        (at(HERE, b"one"), true),
        (at(HERE, b"free"), true),
        (at(HERE, b"two"), false),
        (at(THERE, b"one"), false),
    ] {
        let far = at(THERE, b"x");
        for peer in [false, true] {
            let asked = request(end(1, 5), address.clone(), far.clone(), peer);
            let seen = table.may_send(1, &asked);
            assert_eq!(seen.is_ok(), expected);
            // The program waits for an answer.
            assert!(seen.is_ok() || seen.unwrap_err().request.is_some());
        }
        let poke = Meeting::Poke { local: address.clone(), remote: far.clone() };
        assert_eq!(may(&table, 1, Passing::Meeting(poke)), expected);
        let poked = Meeting::Poked { local: far, remote: address };
        assert_eq!(may(&table, 1, Passing::Meeting(poked)), expected);
    }
    let both = at(HERE, b"two");
    assert!(may(&table, 1, request(end(1, 5), both.clone(), both.clone(), false)));
    assert!(!may(&table, 1, request(end(1, 5), both.clone(), both, true)));
}

#[test]
fn frames_go_to_the_program_whose_end_they_name() {
    let mut table = table();
    let ends = |to, is_answered| Passing::Ends { to, from: end(7, 7), is_answered };
    assert_eq!(table.way(THERE, &ends(end(2, 9), true)), Way::To(2));
    let gone = Way::Answer(Word::Gone { to: end(7, 7) });
    assert_eq!(table.way(THERE, &ends(end(3, 9), true)), gone);
    assert_eq!(table.way(THERE, &ends(end(3, 9), false)), Way::Nowhere);
    assert_eq!(table.way(THERE, &Passing::Gone { to: end(1, 9) }), Way::To(1));
    assert_eq!(table.way(THERE, &Passing::Gone { to: EndId::NONE }), Way::Nowhere);
    let pending = Passing::Meeting(Meeting::Pending { request: end(1, 9) });
    assert_eq!(table.way(THERE, &pending), Way::To(1));
    // The acceptor is notified that its requester is gone.
    let settled = Meeting::Settled { request: end(3, 9), connected: false };
    let answer = accepted(end(3, 9), end(7, 7));
    assert_eq!(table.way(THERE, &answer), Way::Answer(Word::Meeting(settled)));
}

#[test]
fn what_follows_a_request_goes_where_the_request_went() {
    let mut table = table();
    let id = end(7, 7);
    let asked = request(id, at(THERE, b"c"), at(HERE, b"one"), false);
    let settled = Passing::Meeting(Meeting::Settled { request: id, connected: true });
    assert_eq!(table.way(THERE, &settled), Way::Nowhere);
    assert_eq!(table.way(THERE, &asked), Way::To(1));
    // Another program listens there meanwhile.
    table.leave(1, b"one");
    table.listen(2, b"one", true).unwrap();
    assert_eq!(table.way(THERE, &asked), Way::To(1));
    assert_eq!(table.way(HERE, &settled), Way::Nowhere, "another sender");
    assert_eq!(table.way(THERE, &settled), Way::To(1));
    let words = table.remove(1);
    assert_eq!(words, [(THERE, Word::Gone { to: id })]);
    assert_eq!(table.way(THERE, &settled), Way::Nowhere);
}

#[test]
fn request_that_has_been_refused_stays_so() {
    let mut table = table();
    let asked = request(end(7, 7), at(THERE, b"c"), at(HERE, b"three"), false);
    let Way::Answer(refusal) = table.way(THERE, &asked) else { panic!("a program has it") };
    table.listen(1, b"three", true).unwrap();
    assert_eq!(table.way(THERE, &asked), Way::Answer(refusal));
    let again = request(end(7, 8), at(THERE, b"c"), at(HERE, b"three"), false);
    assert_eq!(table.way(THERE, &again), Way::To(1));
    let elsewhere = request(end(7, 9), at(THERE, b"c"), at(THERE, b"three"), false);
    assert!(matches!(table.way(THERE, &elsewhere), Way::Answer(_)));
}

#[test]
fn peers_find_each_other_by_what_they_listen_at() {
    let mut table = table();
    let (local, remote) = (at(THERE, b"far"), at(HERE, b"two"));
    let poke = Passing::Meeting(Meeting::Poke { local: local.clone(), remote: remote.clone() });
    assert_eq!(table.way(THERE, &poke), Way::To(2));
    let poked = Passing::Meeting(Meeting::Poked { local: remote, remote: local });
    assert_eq!(table.way(THERE, &poked), Way::To(2));
    table.leave(2, b"two");
    assert!(matches!(table.way(THERE, &poke), Way::Answer(_)));
    assert_eq!(table.way(THERE, &poked), Way::Nowhere);
}
