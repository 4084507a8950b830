//! Tests of agents that know each other, over TCP on the loopback device. The test controls the clock: events that
//! occur while the clock stands still depend on no delay.

use super::*;
use std::time::{Duration, Instant};

/// Returns free addresses on the loopback device. No other test or process uses these addresses.
fn places<const N: usize>(test: u8) -> [SocketAddr; N] {
    let [a, b, ..] = std::process::id().to_le_bytes();
    core::array::from_fn(|i| SocketAddr::from(([127, a | 1, b, test], 40_000 + i as u16)))
}

/// Returns sorted keys: of two agents, the earlier one connects.
fn keys<const N: usize>() -> [SecretKey; N] {
    let mut keys = [(); N].map(|()| SecretKey::generate().unwrap());
    keys.sort_by_key(SecretKey::public);
    keys
}

/// Makes agent `own`, which knows all the others.
fn agent(keys: &[SecretKey], places: &[SocketAddr], own: usize) -> Hosts {
    let others = (0..keys.len()).filter(|&other| other != own).map(|other| Named {
        origin: format!("peer {other}"),
        peer: Peer {
            key: keys[other].public(),
            address: places[other],
            networks: vec![format!("10.0.0.{other}/32").parse().unwrap()],
        },
    });
    let (key, listen) = (keys[own].clone(), places[own]);
    let peers = Peers::new(key.public(), listen, others.collect()).unwrap();
    Hosts::open(Config { listen, key, peers }, &vec![1472; keys.len() - 1]).unwrap()
}

/// Steps all agents at time `now` until `holds` returns true for the events of each agent.
fn until(
    agents: &mut [&mut Hosts],
    now: u64,
    mut holds: impl FnMut(&[Vec<(PeerId, Event)>]) -> bool,
) -> Vec<Vec<(PeerId, Event)>> {
    let mut happened: Vec<Vec<_>> = agents.iter().map(|_| Vec::new()).collect();
    let watchdog = Instant::now() + Duration::from_secs(60);
    while !holds(&happened) {
        assert!(Instant::now() < watchdog, "{happened:?}");
        for (agent, happened) in agents.iter_mut().zip(&mut happened) {
            let events = agent.step(now).into_iter();
            happened.extend(events.filter(|(_, event)| *event != Event::Room));
        }
        std::thread::yield_now();
    }
    happened
}

fn met(events: &[(PeerId, Event)]) -> Vec<(PeerId, Agreed)> {
    let agreed = |(peer, event): &(PeerId, Event)| match event {
        Event::Met(agreed) => Some((*peer, *agreed)),
        _ => None,
    };
    events.iter().filter_map(agreed).collect()
}

#[test]
fn agents_that_know_each_other_meet_and_agree() {
    let (keys, places) = (keys::<3>(), places::<3>(1));
    let mut agents = [0, 1, 2].map(|own| agent(&keys, &places, own));
    let mut all: Vec<&mut Hosts> = agents.iter_mut().collect();
    let happened = until(&mut all, 0, |all| all.iter().all(|events| met(events).len() >= 2));
    for (own, events) in happened.iter().enumerate() {
        for (peer, agreed) in met(events) {
            // An agent's peers are numbered without the agent itself.
            let other = peer + usize::from(peer >= own);
            let theirs = met(&happened[other]);
            let theirs = theirs.iter().find(|(peer, _)| peer + usize::from(*peer >= other) == own);
            let (_, theirs) = theirs.unwrap();
            assert!(!agreed.is_held);
            assert_eq!(agreed.channel, theirs.channel.mirrored());
        }
    }
    let frames: [&[u8]; 2] = [b"first", b"second"];
    for frame in frames {
        assert!(agents[0].has_room(1));
        agents[0].send(1, frame);
    }
    agents[0].flush(1);
    let [_, _, third] = &mut agents;
    let happened = until(&mut [third], 0, |all| all[0].len() >= 2);
    let expected = frames.map(|frame| (0, Event::Frame(frame.to_vec())));
    assert_eq!(happened[0], expected);
}

#[test]
fn agent_that_starts_later_is_connected_to_at_once() {
    let (keys, places) = (keys::<2>(), places::<2>(2));
    let mut first = agent(&keys, &places, 0);
    // The first try fails. The next one is due at a time that never comes in this test.
    let nobody = |first: &Hosts| first.known[0].trying.is_none() && first.known[0].due() > Some(0);
    let watchdog = Instant::now() + Duration::from_secs(60);
    while !nobody(&first) {
        assert!(Instant::now() < watchdog);
        first.step(1);
    }
    assert!(first.deadline().is_some_and(|due| due > 1));
    let mut second = agent(&keys, &places, 1);
    let happened = until(&mut [&mut first, &mut second], 1, |all| {
        all.iter().all(|events| !met(events).is_empty())
    });
    assert!(happened.iter().all(|events| met(events).len() == 1), "{happened:?}");
    assert_eq!([first.deadline(), second.deadline()], [None; 2], "nothing is left to be tried");
}

#[test]
fn agent_that_ends_is_missed_and_one_that_comes_again_is_met_again() {
    let (keys, places) = (keys::<2>(), places::<2>(3));
    for again in [0, 1] {
        let mut agents = [0, 1].map(|own| Some(agent(&keys, &places, own)));
        let [first, second] = &mut agents;
        let all = &mut [first.as_mut().unwrap(), second.as_mut().unwrap()];
        until(all, 0, |all| all.iter().all(|events| !met(events).is_empty()));
        agents[again] = None;
        let stays = agents[1 - again].as_mut().unwrap();
        let mut happened = Vec::new();
        let watchdog = Instant::now() + Duration::from_secs(60);
        while happened.is_empty() || stays.known[0].trying.is_some() {
            assert!(Instant::now() < watchdog);
            happened.extend(stays.step(NEXT).into_iter().filter(|(_, it)| *it != Event::Room));
        }
        assert_eq!(happened, [(0, Event::Lost)], "that nobody listens there proves nothing");
        agents[again] = Some(agent(&keys, &places, again));
        let [first, second] = &mut agents;
        let all = &mut [first.as_mut().unwrap(), second.as_mut().unwrap()];
        let happened = meeting(all, 2 * NEXT);
        assert!(happened.iter().all(|events| !met(events)[0].1.is_held), "{happened:?}");
    }
}

/// The other agent reports the end once, whichever of the two has connected.
#[test]
fn agent_that_ends_in_order_says_so() {
    let (keys, places) = (keys::<2>(), places::<2>(10));
    for ends in [0, 1] {
        let mut agents = [0, 1].map(|own| agent(&keys, &places, own));
        let [first, second] = &mut agents;
        meeting(&mut [first, second], 0);
        agents[ends].part();
        let stays = &mut agents[1 - ends];
        let happened = until(&mut [stays], 0, |all| all[0].contains(&(0, Event::Lost)));
        assert_eq!(happened[0], [(0, Event::Parted), (0, Event::Lost)]);
        assert_eq!(stays.known[0].held, None);
        assert_eq!(stays.known[0].told, Over::Goodbye.to_string());
    }
}

/// A time at which the next try is due.
const NEXT: u64 = 10_000_000_000;

/// Cuts an agent's conversation without a last message, as a network may do.
fn cut(agent: &mut Hosts) {
    let number = agent.known[0].current.unwrap();
    agent.talks[&number].stream().shutdown(std::net::Shutdown::Both).unwrap();
}

fn meeting(agents: &mut [&mut Hosts], now: u64) -> Vec<Vec<(PeerId, Event)>> {
    until(agents, now, |all| all.iter().all(|events| !met(events).is_empty()))
}

#[test]
fn channel_goes_on_in_the_next_conversation_of_the_same_two_agents() {
    let (keys, places) = (keys::<2>(), places::<2>(6));
    let [mut first, mut second] = [0, 1].map(|own| agent(&keys, &places, own));
    let begun = meeting(&mut [&mut first, &mut second], 0);
    let [begun, _] = [0, 1].map(|own| met(&begun[own])[0].1);
    for (n, side) in [0, 1, 0].into_iter().enumerate() {
        cut(if side == 0 { &mut first } else { &mut second });
        let happened = meeting(&mut [&mut first, &mut second], (n as u64 + 1) * NEXT);
        for events in &happened {
            assert_eq!(events[0], (0, Event::Lost), "{events:?}");
            assert!(met(events)[0].1.is_held);
        }
        assert_eq!(met(&happened[0])[0].1.channel, begun.channel);
        assert_eq!(met(&happened[1])[0].1.channel, begun.channel.mirrored());
    }
}

#[test]
fn channel_does_not_go_on_with_an_agent_that_has_begun_anew() {
    let (keys, places) = (keys::<2>(), places::<2>(7));
    for again in [0, 1] {
        let mut agents = [0, 1].map(|own| Some(agent(&keys, &places, own)));
        let [first, second] = &mut agents;
        meeting(&mut [first.as_mut().unwrap(), second.as_mut().unwrap()], 0);
        // The agent restarts before the other one has noticed its end.
        drop(agents[again].take());
        agents[again] = Some(agent(&keys, &places, again));
        let [first, second] = &mut agents;
        let all = &mut [first.as_mut().unwrap(), second.as_mut().unwrap()];
        let happened = meeting(all, NEXT);
        for events in &happened {
            let (_, agreed) = met(events).pop().unwrap();
            assert!(!agreed.is_held, "{events:?}");
        }
    }
}

/// The other agent has another key, and listens at the same address. A key and an address are independent.
#[test]
fn agent_whose_place_another_one_has_taken_is_not_taken_for_dead() {
    let (keys, places) = (keys::<3>(), places::<2>(9));
    for stays in [0, 1] {
        let mut agents = [0, 1].map(|own| Some(agent(&keys[..2], &places, own)));
        let [first, second] = &mut agents;
        meeting(&mut [first.as_mut().unwrap(), second.as_mut().unwrap()], 0);
        let held = agents[stays].as_ref().unwrap().known[0].held;
        drop(agents[1 - stays].take());
        let mut others = keys[..2].to_vec();
        others[1 - stays] = keys[2].clone();
        let mut other = agent(&others, &places, 1 - stays);
        let stays = agents[stays].as_mut().unwrap();
        let watchdog = Instant::now() + Duration::from_secs(60);
        // Wait until the agent has contacted the other one and reported the refusal.
        while stays.known[0].told.is_empty() || stays.known[0].trying.is_some() {
            assert!(Instant::now() < watchdog);
            for agent in [&mut *stays, &mut other] {
                assert!(met(&agent.step(NEXT)).is_empty());
            }
        }
        assert_eq!(stays.known[0].held, held);
    }
}

/// A station between two agents. The test decides which connections the station forwards.
struct Middle {
    listener: TcpListener,
    to: SocketAddr,
}

impl Middle {
    fn at(place: SocketAddr, to: SocketAddr) -> Middle {
        let listener = TcpListener::bind(place).unwrap();
        listener.set_nonblocking(true).unwrap();
        Middle { listener, to }
    }

    /// Returns the connections that have arrived since the last call.
    fn guests(&self) -> impl Iterator<Item = TcpStream> {
        core::iter::from_fn(|| self.listener.accept().ok().map(|(guest, _)| guest))
    }

    fn pass_on(&self) {
        for guest in self.guests() {
            guest.set_nonblocking(false).unwrap();
            let host = TcpStream::connect(self.to).unwrap();
            for (from, to) in [(&guest, &host), (&host, &guest)] {
                let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                std::thread::spawn(move || {
                    let _ = io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    }
}

#[test]
fn station_on_the_way_that_ends_each_connection_ends_no_channel() {
    let (keys, [first, second, way]) = (keys::<2>(), places::<3>(10));
    // The first agent connects to the second one through the station.
    let mut first = agent(&keys, &[first, way], 0);
    let mut second = agent(&keys, &[first.config.listen, second], 1);
    let mut middle = Some(Middle::at(way, second.config.listen));
    let meet = |middle: &Middle, agents: &mut [&mut Hosts], now| {
        until(agents, now, |all| {
            middle.pass_on();
            all.iter().all(|events| !met(events).is_empty())
        })
    };
    let happened = meet(middle.as_ref().unwrap(), &mut [&mut first, &mut second], 0);
    assert!(!met(&happened[0])[0].1.is_held);
    let mut now = 0;
    for deed in ["closes", "resets", "refuses"] {
        cut(&mut first);
        let tries = first.next;
        let watchdog = Instant::now() + Duration::from_secs(60);
        if deed == "refuses" {
            middle = None;
        }
        // Several tries of each agent fail.
        while first.next < tries + 5 {
            assert!(Instant::now() < watchdog, "{deed}");
            now += NEXT;
            for agent in [&mut first, &mut second] {
                assert!(met(&agent.step(now)).is_empty(), "{deed}");
            }
            for guest in middle.iter().flat_map(Middle::guests) {
                if deed == "resets" {
                    let linger = Some(Duration::ZERO);
                    socket2::SockRef::from(&guest).set_linger(linger).unwrap();
                }
            }
        }
        now += 4 * NEXT;
        let middle = middle.get_or_insert_with(|| Middle::at(way, second.config.listen));
        let happened = meet(middle, &mut [&mut first, &mut second], now);
        assert!(happened.iter().all(|events| met(events)[0].1.is_held), "{deed}: {happened:?}");
    }
}

/// After an outage, both agents connect at once, and one of these connections is a knock. On a slow path, the knock
/// may be complete only after the agents have met.
#[test]
fn knock_that_has_been_overtaken_ends_no_conversation() {
    let (keys, places) = (keys::<2>(), places::<3>(8));
    let mut first = agent(&keys, &places[..2], 0);
    // An agent with the second agent's key, whose knock is not complete yet.
    let mut slow = agent(&keys, &[places[0], places[2]], 1);
    slow.step(0);
    let watchdog = Instant::now() + Duration::from_secs(60);
    while first.guests.is_empty() {
        assert!(Instant::now() < watchdog);
        first.step(0);
    }
    let mut second = agent(&keys, &places[..2], 1);
    meeting(&mut [&mut first, &mut second], 0);
    while slow.known[0].trying.is_some() {
        assert!(Instant::now() < watchdog, "the knock is not heard");
        let events = [&mut slow, &mut first, &mut second].map(|agent| agent.step(0));
        let is_over = |(_, event): &(PeerId, Event)| *event == Event::Lost;
        assert!(!events.iter().flatten().any(is_over), "{events:?}");
    }
    assert!(first.known[0].current.is_some() && second.known[0].current.is_some());
}

#[test]
fn agent_whose_key_is_not_known_is_never_met() {
    let (keys, places) = (keys::<3>(), places::<3>(4));
    let [a, b, stranger] = [0, 1, 2];
    // The unknown agent listens at the second agent's address, and knows the first agent's key.
    let mut first = agent(&keys[..2], &places[..2], a);
    let impostor = [keys[a].clone(), keys[stranger].clone()];
    let mut second = agent(&impostor, &places[..2], b);
    let watchdog = Instant::now() + Duration::from_secs(60);
    while first.told.1 == 0 && first.known[0].told.is_empty() {
        assert!(Instant::now() < watchdog, "neither says why");
        for agent in [&mut first, &mut second] {
            assert!(agent.step(0).is_empty());
        }
    }
    assert!(first.known[0].current.is_none());
}

#[test]
fn endless_unknown_connections_are_closed_and_block_no_agent() {
    let (keys, places) = (keys::<2>(), places::<2>(5));
    let mut second = agent(&keys, &places, 1);
    let strangers: Vec<TcpStream> =
        (0..4 * GUESTS).map(|_| TcpStream::connect(places[1]).unwrap()).collect();
    let watchdog = Instant::now() + Duration::from_secs(60);
    while second.next <= strangers.len() as u64 {
        assert!(Instant::now() < watchdog);
        second.step(0);
        assert!(second.guests.len() <= GUESTS + 1 && second.talks.len() <= GUESTS + 2);
    }
    let mut first = agent(&keys, &places, 0);
    until(&mut [&mut first, &mut second], 0, |all| {
        all.iter().all(|events| !met(events).is_empty())
    });
}
