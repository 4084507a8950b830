//! Runs random programs on bad networks, and compares them with a model. Every message arrives exactly once. Messages
//! with one source and tag arrive in order. Messages meet receives in the order of the receives' posts. Every
//! descriptor is free at the end.

use crate::sim::world::World;
use core::time::Duration;
use proptest::prelude::*;
use sovia_emp::array::DESCRIPTORS;
use sovia_emp::{Config, Handle, Node, Status};
use sovia_simnet::{Link, Net};
use std::collections::BTreeMap;

/// The next step of a program.
#[derive(Debug, Clone)]
enum Step {
    Send {
        from: u32,
        to: u32,
        tag: u32,
        len: usize,
    },
    Receive {
        at: u32,
        from: Option<u32>,
        tag: Option<u32>,
    },
    Wait(u64),
    /// Repeats an earlier frame.
    Replay(prop::sample::Index),
    /// Sends bytes that no station has sent.
    Noise(Vec<u8>),
    Restart(u32),
}

const STATIONS: u32 = 3;
const LONGEST: usize = 12_000;

fn steps(restarts: bool) -> impl Strategy<Value = Vec<Step>> {
    let station = || 0..STATIONS;
    let tag = || 0u32..3;
    let send = (station(), station(), tag(), 0..LONGEST);
    let short = (station(), station(), tag(), 0usize..20);
    let receive = (station(), prop::option::of(station()), prop::option::of(tag()))
        .prop_map(|(at, from, tag)| Step::Receive { at, from, tag });
    let send =
        prop_oneof![send, short].prop_map(|(from, to, tag, len)| Step::Send { from, to, tag, len });
    let restart = station().prop_map(Step::Restart);
    let step = prop_oneof![
        8 => send,
        8 => receive,
        4 => (0u64..3000).prop_map(Step::Wait),
        2 => any::<prop::sample::Index>().prop_map(Step::Replay),
        1 => prop::collection::vec(any::<u8>(), 0..100).prop_map(Step::Noise),
        u32::from(restarts) => restart,
    ];
    prop::collection::vec(step, 1..80)
}

#[derive(Debug)]
struct Send {
    handle: Handle,
    /// The earliest process of the receiving station that may get the message.
    target: u32,
    status: Option<Status>,
}

#[derive(Debug)]
struct Receive {
    handle: Handle,
    address: u64,
    /// The message that the receive has met, with the status.
    met: Option<(Status, Node, u32, Vec<u8>)>,
}

/// A stream: sender, its process, receiver, tag.
type Stream = (u32, u32, u32, u32);

/// All posts, by station and process.
struct Model {
    world: World,
    sends: BTreeMap<Stream, Vec<Send>>,
    /// Receives by station and process.
    receives: BTreeMap<(u32, u32), Vec<Receive>>,
    processes: [u32; STATIONS as usize],
}

/// Returns the bytes of message `count` of a stream.
fn message(from: u32, process: u32, to: u32, tag: u32, count: usize, len: usize) -> Vec<u8> {
    let head = [from, process, to, tag, count as u32, len as u32];
    let mut bytes: Vec<u8> = head.iter().flat_map(|word| word.to_be_bytes()).collect();
    bytes.extend((0..len).map(|at| (at as u32 * 31 + head[4]) as u8));
    bytes
}

impl Model {
    fn new(seed: u64, faults: f64, restarts: bool) -> Model {
        let net = Net::new(seed, Link::faulty(faults));
        // Many tries in a row may fail by chance. Without restarts, no station may give up a peer.
        let change =
            if restarts { |_: &mut Config| () } else { |it: &mut Config| it.timing.tries = None };
        let mut world = World::with(net, STATIONS, change);
        world.kept = Some(Vec::new());
        Model {
            world,
            sends: BTreeMap::new(),
            receives: BTreeMap::new(),
            processes: [0; STATIONS as usize],
        }
    }

    fn step(&mut self, step: &Step) {
        let world = &mut self.world;
        match *step {
            Step::Send { from, to, tag, len } => {
                let process = self.processes[from as usize];
                let sends = self.sends.entry((from, process, to, tag)).or_default();
                let bytes = message(from, process, to, tag, sends.len(), len);
                let handle = world.send(from, to as Node, tag, &bytes);
                sends.push(Send { handle, target: self.processes[to as usize], status: None });
            }
            Step::Receive { at, from, tag } => self.receive(at, from, tag),
            Step::Wait(micros) => world.run_for(Duration::from_micros(micros)),
            Step::Replay(place) => {
                let kept = world.kept.as_ref().unwrap();
                if !kept.is_empty() {
                    let (from, to, frame) = kept[place.index(kept.len())].clone();
                    world.inject(from, to, &frame);
                }
            }
            Step::Noise(ref bytes) => world.inject(0, 1, bytes),
            Step::Restart(at) => {
                self.tell();
                self.world.restart(at);
                self.processes[at as usize] += 1;
            }
        }
    }

    fn receive(&mut self, at: u32, from: Option<u32>, tag: Option<u32>) {
        let process = self.processes[at as usize];
        let from = from.map(|from| from as Node);
        let (handle, address) = self.world.receive(at, from, tag, LONGEST + 24);
        self.receives.entry((at, process)).or_default().push(Receive {
            handle,
            address,
            met: None,
        });
    }

    /// Asks for the outcome of all posts of current processes, and returns the number of pending posts.
    fn tell(&mut self) -> usize {
        let mut pending = 0;
        for (&(from, process, ..), sends) in &mut self.sends {
            for send in sends.iter_mut().filter(|send| send.status.is_none()) {
                if process == self.processes[from as usize] {
                    send.status = self.world.test(from, send.handle).map(|outcome| outcome.status);
                    pending += usize::from(send.status.is_none());
                }
            }
        }
        for (&(at, process), receives) in &mut self.receives {
            for receive in receives.iter_mut().filter(|receive| receive.met.is_none()) {
                if process == self.processes[at as usize]
                    && let Some(outcome) = self.world.test(at, receive.handle)
                {
                    let len = outcome.length as usize;
                    let bytes = self.world.bytes(at, receive.address, len.min(LONGEST + 24));
                    receive.met = Some((outcome.status, outcome.node, outcome.tag, bytes));
                }
            }
        }
        pending
    }

    /// Posts receives for all remaining messages, and runs until all posts have ended.
    fn end(&mut self) {
        for round in 0.. {
            self.world.run_for(Duration::from_secs(2));
            if self.tell() == 0 {
                break;
            }
            assert!(round < 200, "it does not end");
            for at in 0..STATIONS {
                if self.world.stations[at as usize].free() > 500 {
                    (0..40).for_each(|_| self.receive(at, None, None));
                }
            }
        }
        for (&(at, process), receives) in &self.receives {
            for receive in receives.iter().filter(|receive| receive.met.is_none()) {
                if process == self.processes[at as usize] {
                    let station = &mut self.world.stations[at as usize];
                    station.host.cancel(&station.array, receive.handle).unwrap();
                }
            }
        }
        for at in 0..STATIONS {
            self.world.poll(at);
        }
        self.world.run_for(Duration::from_secs(60));
        self.tell();
    }

    fn check(&self, restarts: bool) {
        for station in &self.world.stations {
            assert_eq!(station.free(), DESCRIPTORS, "every descriptor is back");
        }
        // For each message: the process and the receive that it has met.
        let mut met: BTreeMap<Stream, Vec<(u32, u32, usize)>> = BTreeMap::new();
        for (&(at, process), receives) in &self.receives {
            for (place, receive) in receives.iter().enumerate() {
                let Some((status, node, tag, bytes)) = &receive.met else { continue };
                match status {
                    Status::Done => {}
                    Status::Cancelled => continue,
                    Status::PeerRestarted | Status::PeerDead if restarts => continue,
                    status => panic!("{status:?}"),
                }
                let word = |at: usize| u32::from_be_bytes(bytes[at * 4..][..4].try_into().unwrap());
                let (from, sender, to, tagged, count) =
                    (word(0), word(1), word(2), word(3), word(4));
                assert_eq!((from, to, tagged), (u32::from(*node), at, *tag));
                assert_eq!(
                    *bytes,
                    message(from, sender, to, *tag, count as usize, bytes.len() - 24)
                );
                met.entry((from, sender, to, *tag)).or_default().push((count, process, place));
            }
        }
        for (stream, sends) in &self.sends {
            let mut met = met.remove(stream).unwrap_or_default();
            // Sorted by the posts of receives, messages must be in the order of the posts of sends.
            met.sort_by_key(|&(_, process, place)| (process, place));
            assert!(met.windows(2).all(|two| two[0].0 < two[1].0), "{stream:?}: {met:?}");
            for (count, send) in sends.iter().enumerate() {
                let place = met.iter().find(|met| met.0 == count as u32);
                match send.status {
                    Some(Status::Done) if !restarts => {
                        assert!(place.is_some(), "{stream:?} {count}")
                    }
                    // A killed process could not report the messages that it had received.
                    Some(Status::Done) => {}
                    Some(Status::PeerRestarted | Status::PeerDead) | None if restarts => {}
                    status => panic!("{stream:?} {count}: {status:?}"),
                }
                if let Some((_, process, _)) = place {
                    assert!(*process >= send.target || restarts);
                }
            }
            assert!(met.iter().all(|met| (met.0 as usize) < sends.len()));
        }
        assert!(met.is_empty(), "nothing comes that was not sent: {met:?}");
    }
}

fn run(seed: u64, faults: f64, steps: &[Step], restarts: bool) {
    let mut model = Model::new(seed, faults, restarts);
    steps.iter().for_each(|step| model.step(step));
    model.end();
    model.check(restarts);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    #[test]
    fn every_message_comes_once_and_in_order(seed: u64, faults in 0.0f64..0.3, steps in steps(false)) {
        run(seed, faults, &steps, false);
    }

    #[test]
    fn processes_that_begin_anew_get_nothing_of_the_old_ones(
        seed: u64,
        faults in 0.0f64..0.2,
        steps in steps(true),
    ) {
        run(seed, faults, &steps, true);
    }
}
