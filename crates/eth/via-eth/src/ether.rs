//! The medium of the engine: a port, the clock and the timers.

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
    /// The port; `None` while frames are received.
    port: Option<Box<dyn Port + Send>>,
    descriptors: Descriptors,
    address: Address,
    /// The checksum that detects corrupt frames.
    checksum: Checksum,
    /// Set if the port has failed, and has not been checked since.
    has_failed: bool,
    /// Set if the port will never work again.
    is_gone: bool,
    /// Maximum number of bytes of a frame to another station. Stored here because connections also begin while the port
    /// is away.
    frame_max: usize,
    /// The first bits of the names of ends, if the port shares its address.
    prefix: Option<u16>,
    /// Set if the kernel had no room for all frames.
    is_full: bool,
    clock: Clock,
    /// Frames that the NIC sends to itself.
    local: VecDeque<Vec<u8>>,
    /// Frames to send when the port is back.
    held: Vec<(Address, Vec<u8>)>,
    /// The discriminators at which the port listens, and their numbers of waits.
    listening: Listening,
    /// Free buffers for frames.
    spare: Vec<Vec<u8>>,
    /// Destination and length of the last frame.
    last: (Address, usize),
}

/// Maximum number of free buffers.
const SPARE: usize = 64;
/// Padding takes at most one in this number of a frame's bytes.
const PADDING_PART: usize = 16;
/// Time between two checks if a failed port works again.
const FAILED: Duration = Duration::from_millis(100);

/// Pads the frame in `room` to the length `last` of the last frame, if few bytes are missing, and returns the new
/// length. Frames of one length share a system call.
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

    /// Puts the port back, and sends the frames held meanwhile.
    fn put_port(&mut self, port: Box<dyn Port + Send>) {
        self.port = Some(port);
        for (to, frame) in core::mem::take(&mut self.held) {
            self.put(&to, &frame);
            self.give_back(frame);
        }
        self.tell_listening();
    }

    /// Tells the port about changes of the discriminators at which it listens.
    fn tell_listening(&mut self) {
        if let Some(port) = &mut self.port {
            self.listening.tell(|discriminator, listens| port.listen(discriminator, listens));
        }
    }

    /// Checks the port after an error. Returns the result's value.
    fn came<T>(&mut self, result: Result<T, Error>) -> Option<T> {
        let failed = result.is_err();
        if failed && !self.has_failed {
            self.ask();
        }
        result.ok()
    }

    /// Checks if the port works, because its device may have changed.
    fn ask(&mut self) {
        let health = self.port.as_mut().map_or(Ok(()), |port| port.check());
        self.is_gone |= health == Err(Error::Gone);
        self.has_failed = self.is_gone || health.is_err();
    }

    /// Lends a slot of the port to `write`, and commits the number of bytes that `write` returns. A frame without room
    /// is lost, like any frame may be.
    fn put_by(&mut self, to: &Address, mut write: impl FnMut(&mut [u8]) -> Option<usize>) {
        for _ in 0..2 {
            let Some(port) = &mut self.port else { return };
            if let Some(room) = port.slot() {
                if let Some(len) = write(room) {
                    let _ = port.commit(len, to);
                }
                return;
            }
            // The port's buffer is full, but the kernel may have room.
            self.flush();
        }
    }

    /// Passes a frame to the port.
    fn put(&mut self, to: &Address, frame: &[u8]) {
        self.put_by(to, |room| {
            room.get_mut(..frame.len())?.copy_from_slice(frame);
            Some(frame.len())
        });
    }

    /// Returns a frame that the NIC has sent to itself.
    fn local_frame(&mut self) -> Option<Vec<u8>> {
        self.local.pop_front()
    }

    /// Returns a buffer.
    fn give_back(&mut self, frame: Vec<u8>) {
        if self.spare.len() < SPARE {
            self.spare.push(frame);
        }
    }

    /// Returns the port's counters, and a description of the port.
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
            // A probe must travel alone. In a batch, it may pass where a single frame of its length does not: the next
            // device cuts the batch, or no device does.
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

    /// Returns a random name, so that a frame of an older connection names no current end.
    fn name(&mut self) -> EndId {
        loop {
            let mut bytes = [0; 8];
            // Without random bytes from the kernel, no safe name is possible.
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
            // The descriptor for changes stays readable forever once the port is gone.
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
