//! The simulated network as a port of `sovia-link`: frames are bytes on it, and damaged ones are damaged.

use crate::Time;
use sovia_link::Malformed;
use sovia_link::wire::Packet;
use sovia_simnet::{Change, Counters, Link, Log, Net, NodeId};
use std::sync::Arc;

/// The network, with timers `T`.
#[derive(Debug)]
pub(crate) struct Port<T> {
    net: Net<Arc<[u8]>, T>,
    /// Where frames are put together.
    frame: Vec<u8>,
    malformed: u64,
}

/// What happens.
#[derive(Debug)]
pub(crate) enum Event<T> {
    /// A frame has come to a node.
    Frame { from: NodeId, to: NodeId, frame: Arc<[u8]> },
    /// A timer goes off.
    Timer(T),
    /// Time has passed.
    Nothing,
}

impl<T> Port<T> {
    pub(crate) fn new(seed: u64, link: Link) -> Port<T> {
        Port { net: Net::new(seed, link), frame: Vec::new(), malformed: 0 }
    }

    pub(crate) fn add_node(&mut self) -> NodeId {
        self.net.add_node()
    }

    /// Sends a packet.
    pub(crate) fn send<B: AsRef<[u8]>>(&mut self, from: NodeId, to: NodeId, packet: &Packet<B>) {
        packet.emit(&mut self.frame);
        self.net.send(from, to, self.frame.len() as u32, self.frame.as_slice().into());
    }

    /// What a frame says.
    ///
    /// # Errors
    /// [`Malformed`]; the frame is counted.
    pub(crate) fn parse<'f>(&mut self, frame: &'f [u8]) -> Result<Packet<&'f [u8]>, Malformed> {
        Packet::parse(frame).inspect_err(|_| self.refuse())
    }

    /// A frame is dropped that is not what it should be.
    pub(crate) fn refuse(&mut self) {
        self.malformed += 1;
    }

    /// Frames that were dropped because they were damaged, or not what they should have been.
    pub(crate) fn malformed(&self) -> u64 {
        self.malformed
    }

    /// The next thing that happens; `None` if there is none.
    pub(crate) fn step(&mut self) -> Option<Event<T>> {
        Some(match self.net.step()? {
            sovia_simnet::Event::Packet(packet) => {
                let (from, to, mut frame) = (packet.from, packet.to, packet.payload);
                if packet.damaged {
                    // Which byte is all the same: the checksum finds it.
                    let place = self.net.now().nanos() as usize % frame.len();
                    Arc::make_mut(&mut frame)[place] ^= 0x10;
                }
                Event::Frame { from, to, frame }
            }
            sovia_simnet::Event::Timer(timer) => Event::Timer(timer),
            sovia_simnet::Event::Changed => Event::Nothing,
        })
    }

    pub(crate) fn now(&self) -> Time {
        self.net.now()
    }

    /// The present, as streams count it.
    pub(crate) fn clock(&self) -> sovia_link::Time {
        sovia_link::Time::from_nanos(self.net.now().nanos())
    }

    pub(crate) fn set_timer(&mut self, at: Time, timer: T) {
        self.net.set_timer(at, timer);
    }

    /// As [`Port::set_timer`], with the time as streams count it.
    pub(crate) fn wake_at(&mut self, at: sovia_link::Time, timer: T) {
        self.set_timer(Time::from_nanos(at.nanos()), timer);
    }

    pub(crate) fn next_time(&self) -> Option<Time> {
        self.net.next_time()
    }

    pub(crate) fn pass(&mut self, to: Time) {
        self.net.pass(to);
    }

    pub(crate) fn change(&mut self, at: Time, change: Change) {
        self.net.change(at, change);
    }

    pub(crate) fn note(&mut self, words: &[u64]) {
        self.net.note(words);
    }

    pub(crate) fn log(&self) -> Log {
        self.net.log()
    }

    pub(crate) fn counters(&self) -> Counters {
        self.net.counters()
    }
}
