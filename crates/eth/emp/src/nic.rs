//! The engine with its port: what is under the NIC's lock.

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

/// Frames that are taken before their senders are told, while more come.
const UNACKNOWLEDGED: usize = 64;
/// Looks in a row that find nothing before senders are told of less: more may be just behind, and so may be the program's answer.
const EMPTY: u32 = 4;
/// The shortest frames with which a station works.
const LEAST: usize = 256;
/// Between two looks whether a port that has failed works again.
const FAILED_NS: u64 = 100_000_000;

/// What the NIC's own thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Own {
    /// It runs, or looks in again soon.
    Awake,
    /// It sleeps on the port's descriptors, until then (nanoseconds).
    Watches(Option<u64>),
}

pub(crate) struct Nic {
    pub(crate) engine: Engine<Whereabouts>,
    ways: Ways,
    memory: Program,
    descriptors: Descriptors,
    pub(crate) own: Own,
    /// How often calls have driven.
    pub(crate) driven: u64,
    unacknowledged: usize,
    /// Looks in a row that have found no frame.
    empty: u32,
    has_failed: bool,
    is_gone: bool,
    /// The port had no room for all frames.
    is_full: bool,
}

impl fmt::Debug for Nic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nic({})", self.ways.address)
    }
}

/// The ways that frames go.
struct Ways {
    port: Option<Box<dyn Port + Send>>,
    address: Address,
    own: Whereabouts,
    /// Frames of the station to itself.
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
            // Whether that has made room shows below.
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
        // Faults damage frames behind the checksum of whatever is below.
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
            // SAFETY: the array of this engine is the one of the station, whose posts have that contract.
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

    /// The engine, and what it works with.
    fn with(
        &mut self,
        array: &Array,
        now: Time,
        work: impl FnOnce(&mut Engine<Whereabouts>, &mut Io<'_, Whereabouts>),
    ) {
        let mut io = Io { array, memory: &self.memory, sink: &mut self.ways, now };
        work(&mut self.engine, &mut io);
    }

    /// Takes what the port has, once, and does all that is due; how many frames came.
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
        // While more frames come, and while the program may be about to answer, an acknowledgement waits.
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

    /// Takes what has been posted, and does what is due; whether there was anything, as a number of frames.
    pub(crate) fn take_posts(&mut self, array: &Array) -> usize {
        let has_posts = self.has_posts(array);
        if has_posts {
            let now = Time::from_nanos(clock::now_ns());
            self.with(array, now, Engine::poll);
            self.flush();
        }
        usize::from(has_posts)
    }

    /// Acknowledges what has come.
    pub(crate) fn acknowledge(&mut self, array: &Array) {
        self.unacknowledged = 0;
        if self.engine.owes() {
            let now = Time::from_nanos(clock::now_ns());
            self.with(array, now, Engine::acknowledge);
        }
        self.flush();
    }

    /// Ends all that is under way with a peer.
    pub(crate) fn give_up(&mut self, array: &Array, node: Node) {
        let now = Time::from_nanos(clock::now_ns());
        self.with(array, now, |engine, io| engine.give_up_peer(io, node));
        self.flush();
    }

    /// Ends all that is posted.
    pub(crate) fn close(&mut self, array: &Array) {
        self.acknowledge(array);
        let now = Time::from_nanos(clock::now_ns());
        self.with(array, now, Engine::close);
        self.flush();
    }

    fn put_port(&mut self, port: Box<dyn Port + Send>) {
        self.ways.port = Some(port);
        for (to, frame) in core::mem::take(&mut self.ways.held) {
            // One for which there is no room is lost, as any frame may be.
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

    /// What the port has been asked to do has come to that.
    fn came<T>(&mut self, result: Result<T, Error>) -> Option<T> {
        if result.is_err() && !self.has_failed {
            self.ask();
        }
        result.ok()
    }

    /// Asks whether the port works, where its device may have changed.
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

    /// What a thread waits for that sleeps on the port's descriptors. With a moment that is past it is to look once more.
    pub(crate) fn terms(&mut self) -> Terms {
        let now = clock::now_ns();
        let port = self.ways.port.as_mut();
        let at_once = !self.is_gone && port.is_some_and(|port| !port.about_to_sleep());
        let again = (self.has_failed && !self.is_gone).then(|| now + FAILED_NS);
        let timer = self.engine.next_timer().map(Time::nanos);
        let until = [timer, again, at_once.then_some(now)].into_iter().flatten().min();
        Terms {
            // What tells of a port that is gone does so for ever.
            descriptors: Descriptors {
                news: self.descriptors.news.filter(|_| !self.is_gone),
                ..self.descriptors
            },
            frames: !self.has_failed,
            room: (self.is_full || self.engine.waits_for_room()) && !self.has_failed,
            until,
        }
    }

    /// A thread has slept on the port's descriptors.
    pub(crate) fn woken(&mut self, news: bool) {
        if let Some(port) = &mut self.ways.port {
            port.slept();
        }
        if news || self.has_failed {
            self.ask();
        }
    }

    /// Whether something has been posted that the NIC has not taken.
    pub(crate) fn has_posts(&self, array: &Array) -> bool {
        self.engine.has_posts(array)
    }

    pub(crate) fn port_counters(&mut self) -> (sovia_port::Counters, String) {
        let told = self.ways.port.as_mut().map(|port| (port.counters(), port.describe()));
        told.unwrap_or_default()
    }
}

/// A name that no station has had, drawn by the kernel.
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
