//! Stations on a simulated network.

use core::cell::RefCell;
use core::time::Duration;
use sovia_emp::wire::Frame;
use sovia_emp::{
    Array, Config, Counters, Engine, Handle, Host, Io, Memory, Node, Outcome, Piece, Sink,
};
use sovia_link::Time;
use sovia_link::wire::EndId;
use sovia_simnet::{Change, Event, Fabric, Link, Net, NodeId};

/// Maximum number of bytes of a frame.
pub(crate) const FRAME_MAX: usize = 1500;
/// The key of all stations.
pub(crate) const KEY: u64 = 0x006b_6579;

/// Start address of a program's memory.
const BASE: u64 = 0x10_0000;

#[derive(Debug, Default)]
pub(crate) struct Arena(RefCell<Vec<u8>>);

impl Memory for Arena {
    fn read(&self, address: u64, into: &mut [u8]) {
        let at = (address - BASE) as usize;
        into.copy_from_slice(&self.0.borrow()[at..at + into.len()]);
    }

    fn write(&self, address: u64, bytes: &[u8]) {
        let at = (address - BASE) as usize;
        self.0.borrow_mut()[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

impl Arena {
    /// Adds bytes to the memory, and returns their address.
    pub(crate) fn add(&self, bytes: &[u8]) -> u64 {
        let mut all = self.0.borrow_mut();
        let at = all.len() as u64;
        all.extend_from_slice(bytes);
        // The gap bytes detect writes beyond the end.
        all.extend_from_slice(&[0xee; 3]);
        BASE + at
    }

    pub(crate) fn bytes(&self, address: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.read(address, &mut bytes);
        bytes
    }
}

/// Frames that a station sends, by receiver.
#[derive(Default)]
struct Out(Vec<(u32, Vec<u8>)>);

impl Sink<u32> for Out {
    fn send(&mut self, to: &u32, write: &mut dyn FnMut(&mut [u8]) -> Option<usize>) -> bool {
        let mut room = [0; FRAME_MAX];
        if let Some(len) = write(&mut room) {
            self.0.push((*to, room[..len].to_vec()));
        }
        true
    }
}

pub(crate) struct Station {
    pub(crate) engine: Engine<u32>,
    pub(crate) array: Array,
    pub(crate) host: Host,
    pub(crate) memory: Arena,
    timer: Option<Time>,
}

impl Station {
    fn new(config: Config) -> Station {
        Station {
            engine: Engine::new(config, FRAME_MAX),
            array: Array::new(),
            host: Host::new(),
            memory: Arena::default(),
            timer: None,
        }
    }

    pub(crate) fn free(&self) -> usize {
        self.host.free()
    }
}

pub(crate) struct World {
    pub(crate) net: Net<Vec<u8>, u32>,
    pub(crate) stations: Vec<Station>,
    /// Changes the default configuration of each station.
    change: fn(&mut Config),
    starts: u64,
    /// Set for dead stations. They neither send nor receive.
    dead: Vec<bool>,
    /// All frames sent, if the test wants them.
    pub(crate) kept: Option<Vec<(u32, u32, Vec<u8>)>>,
}

impl World {
    pub(crate) fn new(seed: u64, link: Link, count: u32) -> World {
        World::with(Net::new(seed, link), count, |_| ())
    }

    pub(crate) fn switched(seed: u64, fabric: Fabric, count: u32) -> World {
        World::with(Net::switched(seed, fabric), count, |_| ())
    }

    pub(crate) fn with(net: Net<Vec<u8>, u32>, count: u32, change: fn(&mut Config)) -> World {
        let mut world = World {
            net,
            stations: Vec::new(),
            change,
            starts: 0,
            dead: vec![false; count as usize],
            kept: None,
        };
        for _ in 0..count {
            world.net.add_node();
        }
        for at in 0..count {
            let station = world.start(count, at);
            world.stations.push(station);
        }
        world
    }

    fn start(&mut self, count: u32, at: u32) -> Station {
        self.starts += 1;
        // Any name works that was never used before.
        let name = EndId(self.starts.wrapping_mul(0x9e37_79b9_7f4a_7c15) | (u64::from(at) + 1));
        let mut config = Config::new(name, KEY);
        (self.change)(&mut config);
        let mut station = Station::new(config);
        for peer in 0..count {
            assert_eq!(station.engine.add_peer(&station.array, peer, KEY), Some(peer as Node));
        }
        station
    }

    /// Replaces a station by a new process at its address, and returns the old station.
    pub(crate) fn restart(&mut self, at: u32) -> Station {
        let station = self.start(self.stations.len() as u32, at);
        self.dead[at as usize] = false;
        core::mem::replace(&mut self.stations[at as usize], station)
    }

    pub(crate) fn kill(&mut self, at: u32) {
        self.dead[at as usize] = true;
    }

    fn drive(&mut self, at: u32, take: impl FnOnce(&mut Engine<u32>, &mut Io<'_, u32>)) {
        if self.dead[at as usize] {
            return;
        }
        let now = Time::from_nanos(self.net.now().nanos());
        let Station { engine, array, memory, timer, .. } = &mut self.stations[at as usize];
        let mut out = Out::default();
        let mut io = Io { array, memory, sink: &mut out, now };
        take(engine, &mut io);
        engine.poll(&mut io);
        engine.acknowledge(&mut io);
        let next = engine.next_timer();
        if let Some(next) = next
            && timer.is_none_or(|set| next < set || set <= now)
        {
            *timer = Some(next);
            self.net.set_timer(sovia_simnet::Time::from_nanos(next.nanos()), at);
        }
        for (to, frame) in out.0 {
            if let Some(kept) = &mut self.kept {
                kept.push((at, to, frame.clone()));
            }
            self.net.send(NodeId(at), NodeId(to), frame.len() as u32 + 38, frame);
        }
    }

    pub(crate) fn give_up(&mut self, at: u32, node: Node) {
        self.drive(at, |engine, io| engine.give_up_peer(io, node));
    }

    pub(crate) fn poll(&mut self, at: u32) {
        self.drive(at, |_, _| ());
    }

    /// Passes a frame to a station, with any sender address.
    pub(crate) fn inject(&mut self, from: u32, at: u32, frame: &[u8]) {
        self.drive(at, |engine, io| engine.frame(io, &from, frame));
    }

    pub(crate) fn step(&mut self) -> bool {
        match self.net.step() {
            None => return false,
            Some(Event::Packet(mut packet)) => {
                if packet.corrupt {
                    let place = self.net.now().nanos() as usize % packet.payload.len();
                    packet.payload[place] ^= 1 << (self.net.now().nanos() % 8);
                }
                self.inject(packet.from.0, packet.to.0, &packet.payload);
            }
            Some(Event::Timer(at)) => self.poll(at),
            Some(Event::Changed) => {}
        }
        true
    }

    pub(crate) fn run_for(&mut self, while_: Duration) {
        let end = self.net.now().after(while_);
        while self.net.next_time().is_some_and(|next| next <= end) {
            self.step();
        }
        self.net.pass(end);
    }

    /// Runs until no event is left.
    #[track_caller]
    pub(crate) fn run(&mut self) {
        for _ in 0..50_000_000u64 {
            if !self.step() {
                return;
            }
        }
        panic!("it does not end");
    }

    pub(crate) fn change(&mut self, change: Change) {
        let now = self.net.now();
        self.net.change(now, change);
    }

    pub(crate) fn send(&mut self, from: u32, to: Node, tag: u32, bytes: &[u8]) -> Handle {
        let station = &mut self.stations[from as usize];
        let address = station.memory.add(bytes);
        let piece = Piece { address, length: bytes.len() };
        let handle = station.host.post_send(&station.array, to, tag, &[piece]).unwrap();
        self.poll(from);
        handle
    }

    pub(crate) fn receive(
        &mut self,
        at: u32,
        from: Option<Node>,
        tag: Option<u32>,
        room: usize,
    ) -> (Handle, u64) {
        let station = &mut self.stations[at as usize];
        let address = station.memory.add(&vec![0; room]);
        let piece = Piece { address, length: room };
        let handle = station.host.post_receive(&station.array, from, tag, &[piece]).unwrap();
        self.poll(at);
        (handle, address)
    }

    pub(crate) fn test(&mut self, at: u32, handle: Handle) -> Option<Outcome> {
        let station = &mut self.stations[at as usize];
        station.host.test(&station.array, handle).unwrap()
    }

    pub(crate) fn bytes(&self, at: u32, address: u64, len: usize) -> Vec<u8> {
        self.stations[at as usize].memory.bytes(address, len)
    }

    pub(crate) fn counters(&self, at: u32) -> Counters {
        self.stations[at as usize].engine.counters()
    }
}

/// Returns the recorded frames, parsed.
pub(crate) fn kept(world: &World) -> impl Iterator<Item = (u32, u32, Frame<&[u8]>)> {
    world.kept.iter().flatten().map(|(from, to, frame)| {
        (*from, *to, Frame::parse(frame, sovia_link::wire::Checksum::Crc).unwrap())
    })
}
