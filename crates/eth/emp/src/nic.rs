//! The state under the NIC's lock: the engine and its port.

use crate::config::{Config, OpenError};
use crate::memory::Program;
use crate::whereabouts::Whereabouts;
use core::fmt;
use sovia_emp::{Array, Engine, Io, Node, Sink};
use sovia_link::Time;
use sovia_link::wire::{Checksum, EndId};
use sovia_port::impair::Impaired;
use sovia_port::watch::Terms;
use sovia_port::{Address, Descriptors, Error, Opened, Place, Port, Use};
use sovia_sys::clock;
use std::collections::VecDeque;

/// Number of received frames that forces an acknowledgement, while more frames arrive.
const UNACKNOWLEDGED: usize = 64;
/// Number of successive looks without frames that triggers an acknowledgement. Before this, more frames may follow, and
/// the program may answer.
const EMPTY: u32 = 4;
/// Smallest frame length that a station supports.
const LEAST: usize = 256;
/// Nanoseconds between two checks if a failed port works again.
const FAILED_NS: u64 = 100_000_000;

/// The state of the NIC's own thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Own {
    /// The thread runs, or looks again soon.
    Awake,
    /// The thread sleeps on the port's descriptors, until this time in nanoseconds.
    Watches(Option<u64>),
}

pub(crate) struct Nic {
    pub(crate) engine: Engine<Whereabouts>,
    ways: Ways,
    memory: Program,
    descriptors: Descriptors,
    pub(crate) own: Own,
    /// Number of times that calls have driven the NIC.
    pub(crate) driven: u64,
    unacknowledged: usize,
    /// Number of successive looks without frames.
    empty: u32,
    has_failed: bool,
    is_gone: bool,
    /// Set if the port had no room for all frames.
    is_full: bool,
}

impl fmt::Debug for Nic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nic({})", self.ways.address)
    }
}

/// The paths of outgoing frames.
struct Ways {
    port: Option<Box<dyn Port + Send>>,
    address: Address,
    own: Whereabouts,
    /// Frames from the station to itself.
    local: VecDeque<Vec<u8>>,
    /// Frames to send when the port is back.
    held: Vec<(Whereabouts, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    frame_max: usize,
}

impl Ways {
    fn kept(&mut self, write: &mut dyn FnMut(&mut [u8]) -> Option<usize>) -> Option<Vec<u8>> {
        let mut frame = self.spare.pop().unwrap_or_default();
        frame.resize(self.frame_max, 0);
        let len = write(&mut frame)?;
        frame.truncate(len);
        Some(frame)
    }
}

impl Sink<Whereabouts> for Ways {
    fn send(
        &mut self,
        to: &Whereabouts,
        write: &mut dyn FnMut(&mut [u8]) -> Option<usize>,
    ) -> bool {
        if *to == self.own {
            if let Some(frame) = self.kept(write) {
                self.local.push_back(frame);
            }
            return true;
        }
        let Some(port) = &mut self.port else {
            if let Some(frame) = self.kept(write) {
                self.held.push((*to, frame));
            }
            return true;
        };
        if port.slot().is_none() {
            // The next call of `slot` shows if the flush made room.
            let _ = port.flush();
        }
        let Some(len) = port.slot().map(write) else { return false };
        if let Some(len) = len {
            let _ = port.commit(len, &(*to).into());
        }
        true
    }
}

impl Nic {
    pub(crate) fn open(config: &Config) -> Result<Nic, OpenError> {
        let place = &config.place;
        if matches!(place, Place::Agent(_)) {
            return Err(OpenError::Agent(place.clone()));
        }
        let opened = place.open(Use::Nic);
        let Opened { port, own: address, link_checks, sure } =
            opened.map_err(|why| OpenError::Port { place: place.clone(), why })?;
        let frame_max = config.frame_max.unwrap_or(sure).min(port.frame_max());
        if frame_max < LEAST {
            return Err(OpenError::FrameMax(place.clone()));
        }
        let port: Box<dyn Port + Send> = match config.faults {
            Some(faults) => Box::new(Impaired::new(port, faults)),
            None => port,
        };
        // Injected faults corrupt frames after any lower layer has computed its checksum.
        let has_checks = link_checks && config.faults.is_none();
        let name = name().ok_or_else(|| OpenError::Thread(place.clone()))?;
        let engine = sovia_emp::Config {
            checksum: if has_checks { Checksum::Link } else { Checksum::Crc },
            collection: config.collection,
            timing: config.timing,
            takes_strangers: config.takes_strangers,
            ..sovia_emp::Config::new(name, config.key)
        };
        Ok(Nic {
            engine: Engine::new(engine, frame_max),
            descriptors: port.descriptors(),
            ways: Ways {
                own: Whereabouts::from(&address),
                port: Some(port),
                address,
                local: VecDeque::new(),
                held: Vec::new(),
                spare: Vec::new(),
                frame_max,
            },
            // SAFETY: the engine uses only the station's array, and all posts to this array have the required contract.
            memory: unsafe { Program::new() },
            own: Own::Awake,
            driven: 0,
            unacknowledged: 0,
            empty: 0,
            has_failed: false,
            is_gone: false,
            is_full: false,
        })
    }

    pub(crate) fn address(&self) -> Address {
        self.ways.address
    }

    /// Calls `work` with the engine and its environment.
    fn with(
        &mut self,
        array: &Array,
        now: Time,
        work: impl FnOnce(&mut Engine<Whereabouts>, &mut Io<'_, Whereabouts>),
    ) {
        let mut io = Io { array, memory: &self.memory, sink: &mut self.ways, now };
        work(&mut self.engine, &mut io);
    }

    /// Handles the port's frames once, and all due work. Returns the number of frames.
    pub(crate) fn drive(&mut self, array: &Array) -> usize {
        let now = Time::from_nanos(clock::now_ns());
        let mut came = 0;
        if !self.has_failed
            && let Some(mut port) = self.ways.port.take()
        {
            let received = port.receive(&mut |from, frame| {
                self.with(array, now, |engine, io| engine.frame(io, &from.into(), frame));
            });
            self.put_port(port);
            came = self.came(received).unwrap_or(0);
        }
        while let Some(frame) = self.ways.local.pop_front() {
            let own = self.ways.own;
            self.with(array, now, |engine, io| engine.frame(io, &own, &frame));
            self.give_back(frame);
            came += 1;
        }
        self.unacknowledged += came;
        self.empty = if came == 0 { self.empty.saturating_add(1) } else { 0 };
        self.with(array, now, Engine::poll);
        // An acknowledgement waits while more frames arrive, and while the program may be about to answer.
        if self.empty >= EMPTY || self.unacknowledged >= UNACKNOWLEDGED {
            self.acknowledge(array);
        } else {
            self.flush();
        }
        if self.is_gone {
            self.close(array);
        }
        came + self.ways.local.len()
    }

    /// Takes posts and executes due work. Returns 1 if there were posts, otherwise 0.
    pub(crate) fn take_posts(&mut self, array: &Array) -> usize {
        let has_posts = self.has_posts(array);
        if has_posts {
            let now = Time::from_nanos(clock::now_ns());
            self.with(array, now, Engine::poll);
            self.flush();
        }
        usize::from(has_posts)
    }

    /// Acknowledges all received frames.
    pub(crate) fn acknowledge(&mut self, array: &Array) {
        self.unacknowledged = 0;
        if self.engine.owes() {
            let now = Time::from_nanos(clock::now_ns());
            self.with(array, now, Engine::acknowledge);
        }
        self.flush();
    }

    /// Ends all transfers with a peer.
    pub(crate) fn give_up(&mut self, array: &Array, node: Node) {
        let now = Time::from_nanos(clock::now_ns());
        self.with(array, now, |engine, io| engine.give_up_peer(io, node));
        self.flush();
    }

    /// Ends all posts.
    pub(crate) fn close(&mut self, array: &Array) {
        self.acknowledge(array);
        let now = Time::from_nanos(clock::now_ns());
        self.with(array, now, Engine::close);
        self.flush();
    }

    fn put_port(&mut self, port: Box<dyn Port + Send>) {
        self.ways.port = Some(port);
        for (to, frame) in core::mem::take(&mut self.ways.held) {
            // A frame without room is lost, like any frame may be.
            self.ways.send(&to, &mut |room| {
                room.get_mut(..frame.len())?.copy_from_slice(&frame);
                Some(frame.len())
            });
            self.give_back(frame);
        }
    }

    fn give_back(&mut self, frame: Vec<u8>) {
        const SPARE: usize = 64;
        if self.ways.spare.len() < SPARE {
            self.ways.spare.push(frame);
        }
    }

    /// Checks the port after an error. Returns the result's value.
    fn came<T>(&mut self, result: Result<T, Error>) -> Option<T> {
        if result.is_err() && !self.has_failed {
            self.ask();
        }
        result.ok()
    }

    /// Checks if the port works, because its device may have changed.
    pub(crate) fn ask(&mut self) {
        let health = self.ways.port.as_mut().map_or(Ok(()), |port| port.check());
        self.is_gone |= health == Err(Error::Gone);
        self.has_failed = self.is_gone || health.is_err();
    }

    fn flush(&mut self) {
        let Some(port) = &mut self.ways.port else { return };
        let flushed = port.flush();
        if let Some(left) = self.came(flushed) {
            self.is_full = left > 0;
        }
    }

    /// Returns the events that a sleeping thread waits for. A time limit in the past means that the thread must look
    /// once more.
    pub(crate) fn terms(&mut self) -> Terms {
        let now = clock::now_ns();
        let port = self.ways.port.as_mut();
        let at_once = !self.is_gone && port.is_some_and(|port| !port.about_to_sleep());
        let again = (self.has_failed && !self.is_gone).then(|| now + FAILED_NS);
        let timer = self.engine.next_timer().map(Time::nanos);
        let until = [timer, again, at_once.then_some(now)].into_iter().flatten().min();
        Terms {
            // The descriptor for changes stays readable forever once the port is gone.
            descriptors: Descriptors {
                news: self.descriptors.news.filter(|_| !self.is_gone),
                ..self.descriptors
            },
            frames: !self.has_failed,
            room: (self.is_full || self.engine.waits_for_room()) && !self.has_failed,
            until,
        }
    }

    /// Notes that a thread has slept on the port's descriptors.
    pub(crate) fn woken(&mut self, news: bool) {
        if let Some(port) = &mut self.ways.port {
            port.slept();
        }
        if news || self.has_failed {
            self.ask();
        }
    }

    /// Returns true if the host has posted entries that the NIC has not taken.
    pub(crate) fn has_posts(&self, array: &Array) -> bool {
        self.engine.has_posts(array)
    }

    pub(crate) fn port_counters(&mut self) -> (sovia_port::Counters, String) {
        let told = self.ways.port.as_mut().map(|port| (port.counters(), port.describe()));
        told.unwrap_or_default()
    }
}

/// Returns a random name, which no station has had.
fn name() -> Option<EndId> {
    let mut bytes = [0; 8];
    for _ in 0..16 {
        let drawn = sovia_sys::call::getrandom(&mut bytes);
        let name = EndId(u64::from_ne_bytes(bytes));
        if drawn == Ok(bytes.len()) && name != EndId::NONE {
            return Some(name);
        }
    }
    None
}
