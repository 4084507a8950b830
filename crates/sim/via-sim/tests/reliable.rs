//! Tests of the reliable levels: exactly once, in order, on any network.

use crate::common::{Choices, End, RELIABLE, errors, open, pair, seeds};
use via::{Vi, ViState};
use via_sim::{Config, Link, Network};

const SLOTS: usize = 16;
const SLOT: usize = 64 << 10;

/// One direction of a conversation: the sent messages, and the received ones.
struct Flow<'e> {
    from: &'e End,
    to: &'e End,
    /// First slot in both ends' memory that belongs to this direction.
    base: usize,
    sent: Vec<(Vec<u8>, Option<u32>)>,
    sends_done: usize,
    received: usize,
    posted: usize,
}

impl<'e> Flow<'e> {
    fn new(from: &'e End, to: &'e End, base: usize) -> Flow<'e> {
        Flow { from, to, base, sent: vec![], sends_done: 0, received: 0, posted: 0 }
    }

    fn at(&self, n: usize) -> usize {
        (self.base + n % SLOTS) * SLOT
    }

    /// Posts receives in all free slots.
    fn receive(&mut self) {
        while self.posted < self.received + SLOTS {
            let n = self.posted;
            self.to.post_recv(self.base + n % SLOTS, self.at(n), SLOT);
            self.posted += 1;
        }
    }

    /// Sends a message, if a receive is posted for it.
    fn send(&mut self, choices: &mut Choices) {
        let n = self.sent.len();
        if n >= self.posted || n >= self.sends_done + SLOTS {
            return;
        }
        let limit = [1, 64, 5_000, SLOT][choices.below(4)];
        let len = choices.below(limit + 1);
        let bytes = choices.bytes(len);
        let immediate = (choices.below(3) == 0).then_some(n as u32);
        // Sends use the slots after the receives of the other direction.
        self.from.write((2 * SLOTS + n % SLOTS) * SLOT, &bytes);
        let place = 2 * SLOTS + n % SLOTS;
        self.from.post_send(place, place * SLOT, bytes.len(), immediate);
        self.sent.push((bytes, immediate));
    }

    /// Takes completed descriptors, and compares the messages.
    fn look(&mut self) {
        for done in self.from.sent() {
            let n = self.sends_done;
            assert_eq!(done.descriptor, self.from.place(2 * SLOTS + n % SLOTS), "sends in order");
            assert_eq!(done.result(), Ok(self.sent[n].0.len() as u32));
            self.sends_done += 1;
        }
        for done in self.to.received() {
            let n = self.received;
            let (bytes, immediate) = &self.sent[n];
            assert_eq!(done.descriptor, self.to.place(self.base + n % SLOTS), "in order");
            assert_eq!((done.result(), done.immediate), (Ok(bytes.len() as u32), *immediate));
            assert!(self.to.bytes(self.at(n), bytes.len()) == *bytes, "message {n} is another");
            self.received += 1;
        }
        assert!(self.sends_done <= self.received, "done before it was received");
    }
}

fn link(choices: &mut Choices) -> Link {
    let probability = choices.below(20) as f64 / 100.0;
    let all = Link::faulty(probability);
    let none = Link { bandwidth: all.bandwidth, jitter: all.jitter, ..Link::perfect() };
    match choices.below(6) {
        0 => Link { loss: probability, ..none },
        1 => Link { duplicate: probability, ..none },
        2 => Link { reorder: probability, reorder_delay: all.reorder_delay, ..none },
        3 => Link { corrupt: probability, ..none },
        4 => Link { bandwidth: Some(10_000_000), ..all },
        _ => all,
    }
}

#[test]
fn exactly_once_and_in_order() {
    seeds(200, |seed| {
        let mut choices = Choices::new(seed);
        let config = Config {
            mtu: [64, 1460, 4096, 9000][choices.below(4)],
            window: [1, 4, 32][choices.below(3)],
            // Up to a third of the packets is lost in each direction. With millions of packets, twenty losses in a row
            // do occur.
            retransmit_tries: 80,
            ..Config::default().over(link(&mut choices))
        };
        let network = Network::new(seed, config);
        let level = RELIABLE[choices.below(2)];
        let [(_, a), (_, b)] = pair(&network, 3 * SLOTS * SLOT, open(level));
        let mut flows = [Flow::new(&a, &b, 0), Flow::new(&b, &a, SLOTS)];
        for _ in 0..60 {
            for flow in &mut flows {
                flow.receive();
                for _ in 0..choices.below(4) {
                    flow.send(&mut choices);
                }
                flow.look();
            }
            for _ in 0..choices.below(200) {
                network.step();
            }
        }
        network.run();
        for flow in &mut flows {
            flow.look();
            assert_eq!((flow.received, flow.sends_done), (flow.sent.len(), flow.sent.len()));
        }
        // The end of the connection comes after all sent messages, and once.
        a.vi.disconnect();
        network.run();
        assert_eq!((a.vi.state(), b.vi.state()), (ViState::Idle, ViState::Error));
        for end in [&a, &b] {
            let left = [end.sent(), end.received()].concat();
            let flushed = via::Status::DESC_FLUSHED_ERROR;
            assert!(errors(&left).iter().all(|&status| status == flushed), "{left:?}");
            end.nothing_posted();
        }
        b.vi.disconnect();
        network.run();
        assert_eq!(network.connection_ends(), 0, "an end is left over");
    });
}

/// Both ends disconnect at once while messages are in flight in both directions. Neither end reads the other's stream
/// any more. Yet both learn at once that the connection is over.
#[test]
fn both_ends_disconnect_at_once() {
    seeds(20, |seed| {
        let network = Network::new(seed, Config::default());
        let ends = pair(&network, 1 << 20, open(RELIABLE[0])).map(|(_, end)| end);
        for end in &ends {
            for n in 0..4 {
                end.post_recv(n, n * SLOT, SLOT);
                end.post_send(10 + n, (4 + n) * SLOT, SLOT, None);
            }
        }
        for _ in 0..seed {
            network.step();
        }
        ends.iter().for_each(|end| end.vi.disconnect());
        network.run_for(core::time::Duration::from_millis(5));
        assert_eq!(network.connection_ends(), 0);
    });
}
