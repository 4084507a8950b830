//! What a program holds in its hands.

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

/// A node's end of EMP. Any thread may call it.
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
/// // SAFETY: both live until the transfers have ended, and neither is touched before.
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

/// There are as many peers as a station can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a station has at most 65535 peers")]
pub struct AddError;

/// What has become of frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counters {
    /// What the NIC counts.
    pub nic: sovia_emp::Counters,
    /// What its port counts.
    pub port: sovia_port::Counters,
    /// How the port works, for people.
    pub mode: String,
}

impl Station {
    /// Opens a station without peers.
    ///
    /// # Errors
    /// [`OpenError`].
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

    /// Where it is, for its peers.
    pub fn address(&self) -> Address {
        self.address
    }

    /// What its peers have to know.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// Another peer, which wants to see that key; its number. Nothing is sent. One that became a peer by itself has its number
    /// already.
    ///
    /// # Errors
    /// [`AddError`].
    pub fn add_peer(&self, address: &Address, key: u64) -> Result<Node, AddError> {
        let mut nic = self.shared.nic_between();
        nic.engine.add_peer(&self.shared.array, Whereabouts::from(address), key).ok_or(AddError)
    }

    /// How many peers there are.
    pub fn peers(&self) -> usize {
        self.shared.nic_between().engine.peers()
    }

    /// Where a peer is.
    pub fn address_of(&self, node: Node) -> Option<Address> {
        self.shared.nic_between().engine.address_of(node).map(Address::from)
    }

    /// Frames that are acknowledged together, of messages that are posted from now on.
    pub fn set_collection(&self, frames: u8) {
        self.shared.nic_between().engine.set_collection(frames);
    }

    /// Posts a send of the bytes of all pieces, one behind the other.
    ///
    /// # Errors
    /// [`PostError`]; [`PostError::Full`] until others have ended and have been told.
    ///
    /// # Safety
    /// The memory of all pieces must stay valid for reads until the send has ended ([`Station::test`] has told so, or the station
    /// has been dropped). What is written there meanwhile may be sent or not.
    pub unsafe fn post_send(
        &self,
        to: Node,
        tag: u32,
        pieces: &[Piece],
    ) -> Result<Handle, PostError> {
        let posted = self.shared.host().post_send(&self.shared.array, to, tag, pieces);
        posted.inspect(|_| self.shared.posted())
    }

    /// Posts a receive into all pieces, one behind the other, of a message from that node (or from any) with that tag (or with
    /// any).
    ///
    /// # Errors
    /// As [`Station::post_send`].
    ///
    /// # Safety
    /// The memory of all pieces must stay valid for writes, and be touched by nothing else, until the receive has ended.
    pub unsafe fn post_receive(
        &self,
        from: Option<Node>,
        tag: Option<u32>,
        pieces: &[Piece],
    ) -> Result<Handle, PostError> {
        let posted = self.shared.host().post_receive(&self.shared.array, from, tag, pieces);
        posted.inspect(|_| self.shared.posted_receive())
    }

    /// Ends all that is under way with a peer, as if it did not answer. Receives that have met no message stay.
    pub fn give_up(&self, node: Node) {
        self.shared.give_up(node);
    }

    /// Descriptors that are free: a post takes one to four.
    pub fn free_descriptors(&self) -> usize {
        self.shared.host().free()
    }

    /// What has come of a send or a receive; `None` while it is under way. It is told once: then the handle names nothing any more.
    ///
    /// # Errors
    /// [`Misuse`].
    pub fn test(&self, handle: Handle) -> Result<Option<Outcome>, Misuse> {
        if self.shared.array.is_pending(handle)? {
            self.progress();
            if self.shared.array.is_pending(handle)? {
                return Ok(None);
            }
        }
        self.shared.host().test(&self.shared.array, handle)
    }

    /// As [`Station::test`], but does none of the NIC's work: for those that have many, and call [`Station::progress`] once for all.
    ///
    /// # Errors
    /// [`Misuse`].
    pub fn outcome(&self, handle: Handle) -> Result<Option<Outcome>, Misuse> {
        if self.shared.array.is_pending(handle)? {
            return Ok(None);
        }
        self.shared.host().test(&self.shared.array, handle)
    }

    /// Waits until a send or a receive has ended; `None` if it has not within that time.
    ///
    /// # Errors
    /// [`Misuse`].
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

    /// Gives a receive up, unless it has met a message. It ends either way, and is to be tested.
    ///
    /// # Errors
    /// [`Misuse`].
    pub fn cancel(&self, handle: Handle) -> Result<(), Misuse> {
        self.shared.host().cancel(&self.shared.array, handle)?;
        self.shared.posted();
        Ok(())
    }

    /// Does what there is to do for the NIC, where calls do its work.
    pub fn progress(&self) {
        if self.shared.mode == Mode::Calls {
            self.shared.drive();
        }
    }

    /// How many sends and receives have ended so far, modulo 2^32.
    pub fn ended(&self) -> u32 {
        self.shared.ended()
    }

    /// Waits until another one has ended than the `since` that [`Station::ended`] has told; whether one has within that time.
    pub fn wait_for_another(&self, since: u32, timeout: Option<Duration>) -> bool {
        let done = self.wait_until(timeout, || Ok((self.shared.ended() != since).then_some(())));
        done == Ok(Some(()))
    }

    /// Looks, then sleeps, until `done` says so or the time is over.
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

    /// What has become of frames so far.
    pub fn counters(&self) -> Counters {
        let mut nic = self.shared.nic_between();
        let (port, mode) = nic.port_counters();
        Counters { nic: nic.engine.counters(), port, mode }
    }
}

/// All that is posted ends; then nothing reaches into the program's memory any more.
impl Drop for Station {
    fn drop(&mut self) {
        self.shared.close();
        if let Some(thread) = self.thread.take() {
            // A NIC that has failed has said so.
            let _ = thread.join();
        }
    }
}
