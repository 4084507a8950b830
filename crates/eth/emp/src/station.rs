//! The interface for programs.

use crate::config::{Config, Mode, OpenError};
use crate::nic::Nic;
use crate::shared::Shared;
use crate::thread;
use crate::whereabouts::Whereabouts;
use core::fmt;
use core::time::Duration;
use sovia_emp::{Handle, Misuse, Node, Outcome, Piece, PostError};
use sovia_port::Address;
use sovia_sys::clock;
use std::sync::Arc;
use std::thread::JoinHandle;

/// The end of a node. Any thread may use it.
///
/// ```
/// use emp_eth::{Config, Piece, Station, Status};
///
/// let open = || Station::open(&Config::new("udp:127.0.0.1:0".parse().unwrap(), 42));
/// let (one, other) = (open()?, open()?);
/// let to_other = one.add_peer(&other.address(), 42)?;
/// let to_one = other.add_peer(&one.address(), 42)?;
///
/// let (out, mut room) = (*b"message", [0; 100]);
/// let piece = |bytes: &[u8]| Piece { address: bytes.as_ptr() as u64, length: bytes.len() };
/// let into = Piece { address: room.as_mut_ptr() as u64, length: room.len() };
/// // SAFETY: both buffers live until the transfers have ended, and no code accesses them before.
/// let (receive, send) = unsafe {
///     (other.post_receive(Some(to_one), Some(7), &[into]), one.post_send(to_other, 7, &[piece(&out)]))
/// };
/// let came = other.wait(receive.unwrap(), None).unwrap().unwrap();
/// assert_eq!((came.status, came.node, came.tag, came.length), (Status::Done, to_one, 7, 7));
/// assert_eq!(&room[..7], b"message");
/// assert_eq!(one.wait(send.unwrap(), None).unwrap().unwrap().status, Status::Done);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Station {
    shared: Arc<Shared>,
    address: Address,
    key: u64,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Station {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Station({})", self.address)
    }
}

/// The station already has the maximum number of peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a station has at most 65535 peers")]
pub struct AddError;

/// Counters of frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counters {
    /// The NIC's counters.
    pub nic: sovia_emp::Counters,
    /// The port's counters.
    pub port: sovia_port::Counters,
    /// The mode of the port, for users.
    pub mode: String,
}

impl Station {
    /// Opens a station without peers.
    ///
    /// # Errors
    /// Returns an [`OpenError`].
    pub fn open(config: &Config) -> Result<Station, OpenError> {
        let nic = Nic::open(config)?;
        let address = nic.address();
        let spin = u64::try_from(config.spin.as_nanos()).unwrap_or(u64::MAX);
        let thread = |_| OpenError::Thread(config.place.clone());
        let shared = Arc::new(Shared::new(nic, config.mode, spin).map_err(thread)?);
        let started = thread::start(shared.clone());
        let started = started.map_err(|_| OpenError::Thread(config.place.clone()))?;
        Ok(Station { shared, address, key: config.key, thread: Some(started) })
    }

    /// Returns the station's address, for its peers.
    pub fn address(&self) -> Address {
        self.address
    }

    /// Returns the key that peers must know.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// Adds a peer that requires the key `key`, and returns the peer's number. Sends nothing. A peer that has already
    /// sent a message keeps its number.
    ///
    /// # Errors
    /// Returns [`AddError`].
    pub fn add_peer(&self, address: &Address, key: u64) -> Result<Node, AddError> {
        let mut nic = self.shared.nic_between();
        nic.engine.add_peer(&self.shared.array, Whereabouts::from(address), key).ok_or(AddError)
    }

    /// Returns the number of peers.
    pub fn peers(&self) -> usize {
        self.shared.nic_between().engine.peers()
    }

    /// Returns the address of a peer.
    pub fn address_of(&self, node: Node) -> Option<Address> {
        self.shared.nic_between().engine.address_of(node).map(Address::from)
    }

    /// Sets the number of frames per acknowledgement, for messages that are posted from now on.
    pub fn set_collection(&self, frames: u8) {
        self.shared.nic_between().engine.set_collection(frames);
    }

    /// Posts a send of all pieces, one after the other.
    ///
    /// # Errors
    /// Returns a [`PostError`]. [`PostError::Full`] means that other transfers must first end and be tested.
    ///
    /// # Safety
    /// The memory of all pieces must stay valid for reads until [`Station::test`] reports the end of the send, or until
    /// the station is dropped. If the program changes the memory meanwhile, the message may contain old or new bytes.
    pub unsafe fn post_send(
        &self,
        to: Node,
        tag: u32,
        pieces: &[Piece],
    ) -> Result<Handle, PostError> {
        let posted = self.shared.host().post_send(&self.shared.array, to, tag, pieces);
        posted.inspect(|_| self.shared.posted())
    }

    /// Posts a receive into all pieces, one after the other. `None` accepts a message from any node, or with any tag.
    ///
    /// # Errors
    /// Returns the errors of [`Station::post_send`].
    ///
    /// # Safety
    /// The memory of all pieces must stay valid for writes until the receive has ended. No other code may access the
    /// memory meanwhile.
    pub unsafe fn post_receive(
        &self,
        from: Option<Node>,
        tag: Option<u32>,
        pieces: &[Piece],
    ) -> Result<Handle, PostError> {
        let posted = self.shared.host().post_receive(&self.shared.array, from, tag, pieces);
        posted.inspect(|_| self.shared.posted_receive())
    }

    /// Ends all transfers with a peer, as if the peer did not answer. Receives that have met no message stay.
    pub fn give_up(&self, node: Node) {
        self.shared.give_up(node);
    }

    /// Returns the number of free descriptors. A post takes one to four.
    pub fn free_descriptors(&self) -> usize {
        self.shared.host().free()
    }

    /// Returns the outcome of a send or receive, or `None` while it is under way. After an outcome, the handle is
    /// invalid.
    ///
    /// # Errors
    /// Returns [`Misuse`] if the handle is invalid.
    pub fn test(&self, handle: Handle) -> Result<Option<Outcome>, Misuse> {
        if self.shared.array.is_pending(handle)? {
            self.progress();
            if self.shared.array.is_pending(handle)? {
                return Ok(None);
            }
        }
        self.shared.host().test(&self.shared.array, handle)
    }

    /// Like [`Station::test`], but without work for the NIC. A program with many handles can call [`Station::progress`]
    /// once for all of them.
    ///
    /// # Errors
    /// Returns [`Misuse`] if the handle is invalid.
    pub fn outcome(&self, handle: Handle) -> Result<Option<Outcome>, Misuse> {
        if self.shared.array.is_pending(handle)? {
            return Ok(None);
        }
        self.shared.host().test(&self.shared.array, handle)
    }

    /// Waits until a send or receive has ended. Returns `None` if the time limit passes first.
    ///
    /// # Errors
    /// Returns [`Misuse`] if the handle is invalid.
    pub fn wait(
        &self,
        handle: Handle,
        timeout: Option<Duration>,
    ) -> Result<Option<Outcome>, Misuse> {
        let array = &self.shared.array;
        self.wait_until(timeout, || {
            array.is_pending(handle).map(|pending| (!pending).then_some(()))
        })?;
        self.test(handle)
    }

    /// Cancels a receive that has met no message. The receive ends in any case, and the program must test it.
    ///
    /// # Errors
    /// Returns [`Misuse`] if the handle is not a receive.
    pub fn cancel(&self, handle: Handle) -> Result<(), Misuse> {
        self.shared.host().cancel(&self.shared.array, handle)?;
        self.shared.posted();
        Ok(())
    }

    /// Does the NIC's due work, if calls do the NIC's work.
    pub fn progress(&self) {
        if self.shared.mode == Mode::Calls {
            self.shared.drive();
        }
    }

    /// Returns the number of ended sends and receives, modulo 2^32.
    pub fn ended(&self) -> u32 {
        self.shared.ended()
    }

    /// Waits until [`Station::ended`] differs from `since`. Returns false if the time limit passes first.
    pub fn wait_for_another(&self, since: u32, timeout: Option<Duration>) -> bool {
        let done = self.wait_until(timeout, || Ok((self.shared.ended() != since).then_some(())));
        done == Ok(Some(()))
    }

    /// Polls, then sleeps, until `done` returns a value or the time limit passes.
    fn wait_until(
        &self,
        timeout: Option<Duration>,
        mut done: impl FnMut() -> Result<Option<()>, Misuse>,
    ) -> Result<Option<()>, Misuse> {
        let shared = &self.shared;
        let begun = clock::now_ns();
        let nanos = timeout.map(|timeout| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        let end = nanos.map(|nanos| begun.saturating_add(nanos));
        let mut spin_until = begun.saturating_add(shared.spin_ns);
        loop {
            let since = shared.ended();
            if let Some(done) = done()? {
                return Ok(Some(done));
            }
            let came = if shared.mode == Mode::Calls { shared.drive() } else { 0 };
            let now = clock::now_ns();
            if end.is_some_and(|end| now >= end) {
                return done();
            }
            if came > 0 {
                spin_until = now.saturating_add(shared.spin_ns);
            } else if now >= spin_until && done()?.is_none() {
                shared.sleep(since, end.map(|end| end - now));
                spin_until = clock::now_ns().saturating_add(shared.spin_ns);
            } else {
                core::hint::spin_loop();
            }
        }
    }

    /// Returns the counters.
    pub fn counters(&self) -> Counters {
        let mut nic = self.shared.nic_between();
        let (port, mode) = nic.port_counters();
        Counters { nic: nic.engine.counters(), port, mode }
    }
}

/// Ends all posts. After that the NIC does not access the program's memory.
impl Drop for Station {
    fn drop(&mut self) {
        self.shared.close();
        if let Some(thread) = self.thread.take() {
            // A panic of the NIC's thread has already printed its message.
            let _ = thread.join();
        }
    }
}
