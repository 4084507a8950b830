//! A port, the clock and the timers, as the medium of the engine.

use crate::listening::Listening;
use core::fmt;
use core::time::Duration;
use sovia_drive::{Clock, Descriptors, Driven, Terms};
use sovia_link::Time;
use sovia_link::wire::{Checksum, EndId, Packet, Readable};
use sovia_port::udp::Udp;
use sovia_port::{Address, Error, Port};
use sovia_softnic::{Medium, Timer, World};
use std::collections::VecDeque;
use via::NetAddress;

/// A port with its clock.
pub struct Ether {
    /// Away while frames are received.
    port: Option<Box<dyn Port + Send>>,
    descriptors: Descriptors,
    address: Address,
    /// Checksum by which its corrupt frames are found.
    checksum: Checksum,
    /// The port has refused to work, and has not been asked since.
    has_failed: bool,
    /// It never works again.
    is_gone: bool,
    /// Bytes of a frame to another station of UDP, which stay as they are. Connections begin while the port is away as well.
    frame_max: usize,
    /// The first bits of ends' names, where others have the same address.
    prefix: Option<u16>,
    /// The kernel had no room for all frames.
    is_full: bool,
    clock: Clock,
    /// Frames that the NIC sends to itself.
    local: VecDeque<Vec<u8>>,
    /// Frames to send when the port is back.
    held: Vec<(Address, Vec<u8>)>,
    /// At which discriminators the port listens, and for how many waits.
    listening: Listening,
    /// Buffers for frames.
    spare: Vec<Vec<u8>>,
    /// Where the last frame went, and its length.
    last: (Address, usize),
}

/// Buffers that are kept.
const SPARE: usize = 64;
/// Of a frame no more than one in so many bytes is padding.
const PADDING_PART: usize = 16;
/// Between two looks whether a port that has failed works again.
const FAILED: Duration = Duration::from_millis(100);

/// The length of the frame at the beginning of `room` with padding, by which it becomes as long as the last one where little is missing:
/// frames of one length travel together.
fn padded(room: &mut [u8], len: usize, last: usize) -> usize {
    match room.get_mut(len..last) {
        Some(padding) if padding.len() <= last / PADDING_PART => {
            padding.fill(0);
            last
        }
        _ => len,
    }
}

impl fmt::Debug for Ether {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ether({})", self.address)
    }
}

impl Ether {
    pub(crate) fn new(port: Box<dyn Port + Send>, address: Address, checksum: Checksum) -> Ether {
        Ether {
            descriptors: port.descriptors(),
            frame_max: port.frame_max(),
            prefix: port.prefix(),
            port: Some(port),
            address,
            checksum,
            has_failed: false,
            is_gone: false,
            is_full: false,
            clock: Clock::default(),
            local: VecDeque::new(),
            held: Vec::new(),
            listening: Listening::default(),
            spare: Vec::new(),
            last: (address, 0),
        }
    }

    pub(crate) fn address(&self) -> Address {
        self.address
    }

    /// Takes the port away, to receive.
    fn take_port(&mut self) -> Option<Box<dyn Port + Send>> {
        self.port.take()
    }

    /// The port is back; what has been sent meanwhile is on its way.
    fn put_port(&mut self, port: Box<dyn Port + Send>) {
        self.port = Some(port);
        for (to, frame) in core::mem::take(&mut self.held) {
            self.put(&to, &frame);
            self.give_back(frame);
        }
        self.tell_listening();
    }

    /// Tells the port at which discriminators it listens from now on.
    fn tell_listening(&mut self) {
        if let Some(port) = &mut self.port {
            self.listening.tell(|discriminator, listens| port.listen(discriminator, listens));
        }
    }

    /// What the port has been asked to do has come to that.
    fn came<T>(&mut self, result: Result<T, Error>) -> Option<T> {
        let failed = result.is_err();
        if failed && !self.has_failed {
            self.ask();
        }
        result.ok()
    }

    /// Asks whether the port works, where its device may have changed.
    fn ask(&mut self) {
        let health = self.port.as_mut().map_or(Ok(()), |port| port.check());
        self.is_gone |= health == Err(Error::Gone);
        self.has_failed = self.is_gone || health.is_err();
    }

    /// Has `write` write a frame to the port's slot, and commits as many bytes as it says. One for which there is no room is lost, as any
    /// frame may be.
    fn put_by(&mut self, to: &Address, mut write: impl FnMut(&mut [u8]) -> Option<usize>) {
        for _ in 0..2 {
            let Some(port) = &mut self.port else { return };
            if let Some(room) = port.slot() {
                if let Some(len) = write(room) {
                    let _ = port.commit(len, to);
                }
                return;
            }
            // The port's buffer is full, and the kernel may have room.
            self.flush();
        }
    }

    /// Hands a frame to the port.
    fn put(&mut self, to: &Address, frame: &[u8]) {
        self.put_by(to, |room| {
            room.get_mut(..frame.len())?.copy_from_slice(frame);
            Some(frame.len())
        });
    }

    /// A frame that the NIC has sent to itself.
    fn local_frame(&mut self) -> Option<Vec<u8>> {
        self.local.pop_front()
    }

    /// Gives a buffer back.
    fn give_back(&mut self, frame: Vec<u8>) {
        if self.spare.len() < SPARE {
            self.spare.push(frame);
        }
    }

    /// What the port counts, and how it works.
    pub(crate) fn port_counters(&mut self) -> (sovia_port::Counters, String) {
        let told = self.port.as_mut().map(|port| (port.counters(), port.describe()));
        told.unwrap_or_default()
    }
}

impl Medium for Ether {
    type Node = Address;

    fn now(&self) -> Time {
        self.clock.now()
    }

    fn send<B: Readable>(&mut self, _from: Address, to: Address, packet: &Packet<B>) {
        if (to != self.address || self.prefix.is_some()) && self.port.is_some() {
            // Frames that go together may pass where one alone does not: the next device cuts them, or none does.
            let is_alone = matches!(packet, Packet::Probe { .. });
            if is_alone {
                self.flush();
            }
            let (checksum, last) = (self.checksum, if to == self.last.0 { self.last.1 } else { 0 });
            let mut written = 0;
            self.put_by(&to, |room| {
                let len = packet.emit_into_for(room, checksum)?;
                written = padded(room, len, last);
                Some(written)
            });
            self.last = (to, written);
            if is_alone {
                self.flush();
            }
            return;
        }
        let mut frame = self.spare.pop().unwrap_or_default();
        packet.emit_for(&mut frame, self.checksum);
        if to == self.address && self.prefix.is_none() {
            self.local.push_back(frame);
        } else {
            self.held.push((to, frame));
        }
    }

    fn frame_max(&self, to: Address) -> Option<u32> {
        match to {
            Address::Udp(peer) => {
                let path = Udp::frame_max_to(&peer).ok()?;
                u32::try_from(path.min(self.frame_max)).ok()
            }
            Address::Mac(_) => None,
        }
    }

    fn set_timer(&mut self, at: Time, timer: Timer) {
        self.clock.set(at, timer);
    }

    fn find(&self, host: &[u8]) -> Option<Address> {
        self.address.of_host(host)
    }

    /// Drawn by the kernel: a frame of an older connection names none of today's ends.
    fn name(&mut self) -> EndId {
        loop {
            let mut bytes = [0; 8];
            // Where the kernel has no random bytes there is nothing safe to go on with.
            let drawn = sovia_sys::call::getrandom(&mut bytes);
            let random = u64::from_ne_bytes(bytes);
            let name = EndId(match self.prefix {
                Some(prefix) => u64::from(prefix) << 48 | random >> 16,
                None => random,
            });
            if drawn == Ok(bytes.len()) && name != EndId::NONE {
                return name;
            }
        }
    }

    fn listen(&mut self, address: &NetAddress, listens: bool) {
        if self.prefix.is_some() {
            self.listening.count(&address.discriminator, listens);
            self.tell_listening();
        }
    }

    fn is_receiving(&self) -> bool {
        self.port.is_none()
    }
}

impl Driven for Ether {
    const THREAD: &'static str = "ethernet";

    fn take(world: &mut World<Ether>) -> usize {
        if world.medium().has_failed {
            return 0;
        }
        let Some(mut port) = world.medium_mut().take_port() else { return 0 };
        let at = world.medium().address;
        let received = port.receive_joined(&mut |from, bytes, segment| {
            world.frames(*from, at, bytes, segment);
        });
        world.medium_mut().put_port(port);
        world.medium_mut().came(received).unwrap_or(0)
    }

    fn step(world: &mut World<Ether>) -> bool {
        let at = world.medium().address;
        if let Some(frame) = world.medium_mut().local_frame() {
            world.frame(at, at, &frame);
            world.medium_mut().give_back(frame);
            world.acknowledge();
        } else if let Some(timer) = world.medium_mut().clock.due() {
            world.timer(timer);
        } else {
            return false;
        }
        true
    }

    fn flush(&mut self) {
        let Some(port) = &mut self.port else { return };
        let flushed = port.flush();
        if let Some(left) = self.came(flushed) {
            self.is_full = left > 0;
        }
    }

    fn next_timer(&self) -> Option<Time> {
        self.clock.next()
    }

    fn pass(&self) {
        self.clock.pass();
    }

    fn terms(&mut self, until: Option<Time>) -> Terms {
        let at_once =
            !(self.is_gone || self.port.as_mut().is_none_or(|port| port.about_to_sleep()));
        let again = (self.has_failed && !self.is_gone).then(|| self.clock.now().after(FAILED));
        let until = [until, self.clock.next(), again, at_once.then(|| self.clock.now())];
        Terms {
            // What tells of a port that is gone does so for ever.
            descriptors: Descriptors {
                news: self.descriptors.news.filter(|_| !self.is_gone),
                ..self.descriptors
            },
            frames: !self.has_failed,
            room: self.is_full && !self.has_failed,
            until: until.into_iter().flatten().min().map(Time::nanos),
        }
    }

    fn woken(&mut self, news: bool) {
        if let Some(port) = &mut self.port {
            port.slept();
        }
        if news || self.has_failed {
            self.ask();
        }
    }

    fn is_gone(&self) -> bool {
        self.is_gone
    }
}
