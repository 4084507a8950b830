//! Tests that frames travel between the trunks of two agents, and that a trunk's failure affects nothing else.

use sovia_trunk::{News, PeerId, Trunks};
use std::sync::Arc;
use via::{MemAttributes, Memory, NetAddress, Nic, Vi, ViAttributes};
use via_sim::{Config, Network, SimNic};

const LONGEST: usize = 1472;
const PEER: PeerId = 3;

/// Two agents on a simulated network. The test decides when the network runs.
struct Agents {
    network: Network,
    ends: [Trunks<SimNic>; 2],
}

impl Agents {
    fn new() -> Agents {
        let network = Network::new(1, Config::default());
        let ends = ["a", "b"].map(|name| Trunks::new(Arc::new(network.nic(name))).unwrap());
        Agents { network, ends }
    }

    fn connected() -> Agents {
        let mut agents = Agents::new();
        agents.connect();
        for end in 0..2 {
            assert_eq!(agents.look(end), [] as [Vec<u8>; 0]);
            assert_eq!(agents.ends[end].news(), Some((PEER, News::Up)));
        }
        agents
    }

    fn connect(&mut self) {
        let hosts = self.ends.each_ref().map(|end| end.host().to_vec());
        for end in 0..2 {
            self.ends[end].connect(PEER, &hosts[1 - end], b"trunk").unwrap();
        }
        self.network.run();
    }

    /// Returns the frames that have arrived at an end.
    fn look(&mut self, end: usize) -> Vec<Vec<u8>> {
        let mut came = Vec::new();
        while self.ends[end].look(&mut |peer, run, frame| {
            assert_eq!(peer, PEER);
            came.extend(run.chunks(frame).map(<[u8]>::to_vec));
        }) {}
        self.network.run();
        came
    }

    /// Sends as many frames as possible and removes them from `frames`. Returns true if more can be sent.
    fn send(&mut self, end: usize, frames: &mut Vec<Vec<u8>>) -> bool {
        let mut left = core::mem::take(frames).into_iter();
        let sent = self.ends[end].transmit(PEER, LONGEST, &mut |room| {
            let frame = left.next()?;
            room[..frame.len()].copy_from_slice(&frame);
            Some(frame.len())
        });
        *frames = left.collect();
        self.network.run();
        sent.has_room
    }
}

fn frames(count: usize) -> Vec<Vec<u8>> {
    let len = |n: usize| if n % 5 == 4 { 1 + n % 700 } else { LONGEST };
    (0..count).map(|n| vec![n as u8; len(n)]).collect()
}

#[test]
fn frames_arrive_in_their_order_and_wait_where_the_other_end_takes_none() {
    let mut agents = Agents::connected();
    for (from, to) in [(0, 1), (1, 0)] {
        let all = frames(2000);
        let (mut left, mut came) = (all.clone(), Vec::new());
        assert!(!agents.send(from, &mut left), "the other end has looked at none");
        let waiting = left.len();
        assert!(waiting > 0 && !agents.send(from, &mut left) && left.len() == waiting);
        while !left.is_empty() {
            came.extend(agents.look(to));
            agents.look(from);
            agents.send(from, &mut left);
        }
        came.extend(agents.look(to));
        agents.look(from);
        assert!(came == all, "{} frames of {}", came.len(), all.len());
    }
}

#[test]
fn idle_end_answers_a_question() {
    let mut agents = Agents::connected();
    agents.ends[0].ask(PEER);
    agents.network.run();
    assert_eq!(agents.look(1), [] as [Vec<u8>; 0]);
    assert_eq!((agents.look(0), agents.ends[0].news()), (vec![], Some((PEER, News::Answered))));
}

#[test]
fn trunk_of_an_agent_that_has_gone_is_down_and_another_one_comes_up() {
    let mut agents = Agents::connected();
    agents.ends[1].end(PEER);
    // A thread of its own ends the trunk, so the test polls for the event.
    let news = loop {
        agents.network.run();
        agents.look(0);
        if let Some(news) = agents.ends[0].news() {
            break news;
        }
        std::thread::yield_now();
    };
    assert!(matches!(news, (PEER, News::Down(_))), "{news:?}");
    let sent = agents.ends[0].transmit(PEER, LONGEST, &mut |_| panic!("there is no trunk"));
    assert!(!sent.any && !sent.has_room);

    agents.connect();
    for end in 0..2 {
        agents.look(end);
        assert_eq!(agents.ends[end].news(), Some((PEER, News::Up)));
    }
    let mut all = frames(10);
    let expected = all.clone();
    agents.send(0, &mut all);
    assert_eq!(agents.look(1), expected);
}

/// Sends `message` to an agent's trunk from a VI that is not a trunk. Returns the event that the agent reports.
fn hear(message: &[u8], immediate: Option<u32>) -> Option<(PeerId, News)> {
    let network = Network::new(1, Config::default());
    let nic = network.nic("hostile");
    let mut agent = Trunks::new(Arc::new(network.nic("agent"))).unwrap();
    let (own, other) = (nic.address(b"trunk"), NetAddress::new(agent.host(), b"trunk"));
    agent.connect(PEER, &own.host, b"trunk").unwrap();
    let vi = nic.create_vi(ViAttributes::default()).unwrap();
    vi.connect_peer_request(&own, &other, None).unwrap();
    network.run();
    vi.connect_peer_done().unwrap().unwrap();
    agent.look(&mut |_, _, _| {});
    assert_eq!(agent.news(), Some((PEER, News::Up)));

    let memory = Memory::zeroed(64 + message.len());
    let handle = nic.register_mem(&memory, MemAttributes::default()).unwrap();
    memory.write(64, message);
    let data = memory.segment(64, message.len() as u32, handle);
    memory.descriptor(0).unwrap().prepare(&[data], immediate).unwrap();
    vi.post_send(via::DescriptorAddress { address: memory.address(0), handle }).unwrap();
    network.run();
    while agent.look(&mut |_, _, _| {}) {}
    agent.news()
}

#[test]
fn what_no_agent_says_ends_the_trunk() {
    const DATA: u32 = 1 << 24;
    let one = [b"frame".as_slice(), &5_u32.to_le_bytes(), &5_u32.to_le_bytes(), &[1, 0, 0, 0]];
    let one = one.concat();
    assert_eq!(hear(&one, Some(DATA)), None);
    for (what, message, immediate) in [
        ("a message without immediate data", one.as_slice(), None),
        ("one that acknowledges what was not sent", &one, Some(DATA | 1)),
        ("one of a stream's kinds", &one, Some(3 << 24)),
        ("an acknowledgement with bytes", &one, Some(2 << 24)),
        ("frames without their lengths", b"frame", Some(DATA)),
    ] {
        let news = hear(message, immediate);
        assert!(matches!(news, Some((PEER, News::Down(_)))), "{what}: {news:?}");
    }
}

#[test]
fn end_that_waits_is_woken_by_what_comes() {
    let mut agents = Agents::connected();
    let (wakes, woken) = std::sync::mpsc::channel();
    for _ in 0..3 {
        let wakes = wakes.clone();
        agents.ends[1].wake_by(move || wakes.send(()).unwrap());
    }
    assert!(woken.try_recv().is_err());
    agents.send(0, &mut frames(1));
    assert_eq!(woken.try_iter().count(), 1, "once, however often it was asked for");
    let wakes = wakes.clone();
    agents.ends[1].wake_by(move || wakes.send(()).unwrap());
    assert!(woken.try_recv().is_ok(), "what has come has not been taken");
}
