//! The page of counters that all processes of one `sovia run` share.
//!
//! `sovia run -v` makes the page. Every process that loads the library maps the page and adds to its counters. No
//! process makes a decision by a counter. So wrong values from a faulty process only make a report wrong.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::reason::{Junk, Reason};

/// "SOVIASTA" as the bytes of a little-endian number.
const MAGIC: u64 = u64::from_le_bytes(*b"SOVIASTA");
const VERSION: u64 = 5;

/// Number of counters for reasons. The spare counters keep the layout the same when a reason is added.
const REASONS_MAX: usize = 64;
/// Number of counters for kinds of junk, including spare counters.
const JUNK_MAX: usize = 16;

/// Number of users with a counter of their own.
const USERS_MAX: usize = 8;
/// Maximum length of the collector's name in bytes, so that the name is one word. The kernel chooses names of five
/// bytes.
const COLLECTOR_MAX: usize = 8;

const _: () = assert!(
    Reason::ALL[Reason::ALL.len() - 1].index() < REASONS_MAX
        && Junk::ALL[Junk::ALL.len() - 1].index() < JUNK_MAX
);

/// Counters of one `sovia run`, summed over its processes. The counters of connections count ends: a connection
/// between two processes of the run counts twice.
///
/// A counter only increases, and wraps. The engine does not update the page for every message, because an update of
/// memory that all processors share costs more than the message. Each connection has its own [`Traffic`]. The
/// engine adds a connection's traffic to the page now and then, and when the connection ends.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct StatsPage {
    magic: AtomicU64,
    version: AtomicU64,
    accelerated: AtomicU64,
    stayed: AtomicU64,
    reasons: [AtomicU64; REASONS_MAX],
    junk: [AtomicU64; JUNK_MAX],
    bytes_sent: AtomicU64,
    messages_sent: AtomicU64,
    bytes_received: AtomicU64,
    sleeps: AtomicU64,
    rings: AtomicU64,
    messages_handled: AtomicU64,
    messages_registered: AtomicU64,
    recorded: AtomicU64,
    decided: AtomicU64,
    /// Numbers of ends whose peer belongs to another user. A word has this user's id plus one in the upper half,
    /// and the number of ends in the lower half.
    users: [AtomicU64; USERS_MAX],
    /// Abstract name of the socket that [`collector`](Self::collector) returns.
    collector: AtomicU64,
}

/// Traffic on VIs, with the sleeps and wake-ups that the traffic caused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Number of bytes that programs sent.
    pub bytes_sent: u64,
    /// Number of messages that carried the sent bytes.
    pub messages_sent: u64,
    /// Number of bytes that programs received.
    pub bytes_received: u64,
    /// Number of times that a thread went to sleep to wait for its peer.
    pub sleeps: u64,
    /// Number of doorbells rung to wake a sleeping peer.
    pub rings: u64,
    /// Number of messages that a thread of Sovia handled for its program.
    pub messages_handled: u64,
    /// Number of messages sent from the program's memory, after a registration of that memory.
    pub messages_registered: u64,
}

/// Error for memory that is not a [`StatsPage`] of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageError {
    /// The memory is shorter than [`StatsPage::SIZE`], or not aligned to a cache line.
    Shape,
    /// The memory does not begin with the magic number of a page.
    Magic,
    /// The page has this other version.
    Version(u64),
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape => write!(f, "too small or misaligned for a page of counters"),
            Self::Magic => write!(f, "not a page of counters"),
            Self::Version(version) => {
                write!(f, "a page of counters of version {version}, expected {VERSION}")
            }
        }
    }
}

impl core::error::Error for PageError {}

impl StatsPage {
    /// Length of the file and of the mapping in bytes: whole pages of 4 KB.
    pub const SIZE: usize = size_of::<Self>().next_multiple_of(4096);

    /// Makes a page from zeroed memory. Call this before any other process can see the memory.
    ///
    /// # Errors
    /// [`PageError::Shape`]
    ///
    /// # Safety
    /// `memory` must point to `len` bytes that stay mapped, readable and writable during `'a`. All threads and
    /// processes must access the bytes only by atomic instructions.
    pub unsafe fn create<'a>(memory: *mut u8, len: usize) -> Result<&'a Self, PageError> {
        // SAFETY: the caller guarantees that the memory stays mapped and is only accessed by atomic instructions.
        let page = unsafe { Self::shape(memory, len)? };
        page.begin();
        Ok(page)
    }

    /// Makes a page from a value whose words are all zero. Call this before any other process can see the page.
    pub fn begin(&self) {
        self.version.store(VERSION, Ordering::Relaxed);
        // The magic number is stored last: a process that sees the magic number also sees the version.
        self.magic.store(MAGIC, Ordering::Release);
    }

    /// Returns the page in memory that another process has made a page.
    ///
    /// # Errors
    /// All of [`PageError`].
    ///
    /// # Safety
    /// Same as [`create`](Self::create).
    pub unsafe fn from_ptr<'a>(memory: *mut u8, len: usize) -> Result<&'a Self, PageError> {
        // SAFETY: the caller guarantees that the memory stays mapped and is only accessed by atomic instructions.
        let page = unsafe { Self::shape(memory, len)? };
        if page.magic.load(Ordering::Acquire) != MAGIC {
            return Err(PageError::Magic);
        }
        match page.version.load(Ordering::Relaxed) {
            VERSION => Ok(page),
            other => Err(PageError::Version(other)),
        }
    }

    /// Returns a copy of a page from the page's `bytes`, which the caller has read.
    ///
    /// # Errors
    /// All of [`PageError`].
    pub fn copy_of(bytes: &[u8]) -> Result<Self, PageError> {
        if bytes.len() < size_of::<Self>() {
            return Err(PageError::Shape);
        }
        let words = bytes.chunks_exact(8).map(|word| core::array::from_fn(|at| word[at]));
        let mut words = words.map(u64::from_ne_bytes);
        let mut next = || AtomicU64::new(words.next().unwrap_or(0));
        // This initializer reads the words in the order of the fields. Each field is a word or an array of words.
        let page = Self {
            magic: next(),
            version: next(),
            accelerated: next(),
            stayed: next(),
            reasons: core::array::from_fn(|_| next()),
            junk: core::array::from_fn(|_| next()),
            bytes_sent: next(),
            messages_sent: next(),
            bytes_received: next(),
            sleeps: next(),
            rings: next(),
            messages_handled: next(),
            messages_registered: next(),
            recorded: next(),
            decided: next(),
            users: core::array::from_fn(|_| next()),
            collector: next(),
        };
        page.checked()
    }

    fn checked(self) -> Result<Self, PageError> {
        if self.magic.load(Ordering::Relaxed) != MAGIC {
            return Err(PageError::Magic);
        }
        match self.version.load(Ordering::Relaxed) {
            VERSION => Ok(self),
            other => Err(PageError::Version(other)),
        }
    }

    /// # Safety
    /// Same as [`create`](Self::create).
    unsafe fn shape<'a>(memory: *mut u8, len: usize) -> Result<&'a Self, PageError> {
        let page = memory.cast::<Self>();
        if len < Self::SIZE || page.is_null() || !page.is_aligned() {
            return Err(PageError::Shape);
        }
        // SAFETY: `page` is aligned and long enough. The caller guarantees that the memory stays mapped and is only
        // accessed by atomic instructions. Every bit pattern is a valid `StatsPage`, which consists of atomics.
        Ok(unsafe { &*page })
    }

    /// Counts an end of a connection that has moved to a VI. Call this once per end.
    pub fn count_accelerated(&self) {
        add(&self.accelerated, 1);
    }

    /// Counts an end that is on TCP for good, with the reason. Call this once per end. An end that was accelerated
    /// and fell back counts here and in [`count_accelerated`](Self::count_accelerated).
    pub fn count(&self, reason: Reason) {
        add(&self.stayed, 1);
        add(&self.reasons[reason.index()], 1);
    }

    /// Counts an end of a connection that Sovia follows from now on.
    pub fn count_recorded(&self) {
        add(&self.recorded, 1);
    }

    /// Counts an end whose fate is known: the end is accelerated, or stays on TCP for a known reason. Call this
    /// once per end.
    pub fn count_decided(&self) {
        add(&self.decided, 1);
    }

    /// Returns the number of ends that Sovia has followed.
    pub fn recorded(&self) -> u64 {
        self.recorded.load(Ordering::Relaxed)
    }

    /// Returns the number of ends whose fate is not known. These ends are on TCP, and their rendezvous may still
    /// succeed.
    pub fn undecided(&self) -> u64 {
        self.recorded().saturating_sub(self.decided.load(Ordering::Relaxed))
    }

    /// Counts an end whose peer belongs to the other user `uid`. The caller must also call [`count`](Self::count).
    pub fn count_user(&self, uid: u32) {
        let (mine, one) = ((u64::from(uid) + 1) << 32, 1);
        for place in &self.users {
            let seen = place.load(Ordering::Relaxed);
            let free = seen == 0
                && place
                    .compare_exchange(0, mine | one, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok();
            if free {
                return;
            }
            if place.load(Ordering::Relaxed) >> 32 == mine >> 32 {
                add(place, one);
                return;
            }
        }
    }

    /// Returns the users from [`count_user`](Self::count_user), each with the number of ends. Only the first eight
    /// users have a counter.
    pub fn users(&self) -> impl Iterator<Item = (u32, u64)> {
        self.users.iter().map(|place| place.load(Ordering::Relaxed)).filter_map(|word| {
            Some(((word >> 32).checked_sub(1)? as u32, word & u64::from(u32::MAX)))
        })
    }

    /// Stores the name of the socket to which processes send their statistics files. The last counts of a killed
    /// process may be in its statistics file only, and not on this page. If `name` is empty or longer than eight
    /// bytes, there is no socket.
    pub fn name_collector(&self, name: &[u8]) {
        let mut bytes = [0; COLLECTOR_MAX];
        if let Some(room) = bytes.get_mut(..name.len()) {
            room.copy_from_slice(name);
        }
        self.collector.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
    }

    /// Returns the name of the collector's socket, padded with zeros. `None` if there is no socket.
    pub fn collector(&self) -> Option<[u8; COLLECTOR_MAX]> {
        let name = self.collector.load(Ordering::Relaxed);
        (name != 0).then(|| name.to_ne_bytes())
    }

    /// Counts a message that Sovia dropped during a rendezvous.
    pub fn count_junk(&self, junk: Junk) {
        add(&self.junk[junk.index()], 1);
    }

    /// Adds a connection's traffic since the last addition.
    pub fn add(&self, traffic: &Traffic) {
        add(&self.bytes_sent, traffic.bytes_sent);
        add(&self.messages_sent, traffic.messages_sent);
        add(&self.bytes_received, traffic.bytes_received);
        add(&self.sleeps, traffic.sleeps);
        add(&self.rings, traffic.rings);
        add(&self.messages_handled, traffic.messages_handled);
        add(&self.messages_registered, traffic.messages_registered);
    }

    /// Returns the number of ends that have moved to a VI.
    pub fn accelerated(&self) -> u64 {
        self.accelerated.load(Ordering::Relaxed)
    }

    /// Returns the number of ends that are on TCP for good.
    pub fn stayed(&self) -> u64 {
        self.stayed.load(Ordering::Relaxed)
    }

    /// Returns the number of ends that are on TCP for good for this reason.
    pub fn stayed_for(&self, reason: Reason) -> u64 {
        self.reasons[reason.index()].load(Ordering::Relaxed)
    }

    /// Returns the number of messages that were dropped as this kind of junk.
    pub fn junk(&self, junk: Junk) -> u64 {
        self.junk[junk.index()].load(Ordering::Relaxed)
    }

    /// Returns the traffic on VIs so far.
    pub fn traffic(&self) -> Traffic {
        Traffic {
            bytes_sent: self.bytes_sent.load(Ordering::Relaxed),
            messages_sent: self.messages_sent.load(Ordering::Relaxed),
            bytes_received: self.bytes_received.load(Ordering::Relaxed),
            sleeps: self.sleeps.load(Ordering::Relaxed),
            rings: self.rings.load(Ordering::Relaxed),
            messages_handled: self.messages_handled.load(Ordering::Relaxed),
            messages_registered: self.messages_registered.load(Ordering::Relaxed),
        }
    }
}

impl core::ops::AddAssign for Traffic {
    fn add_assign(&mut self, other: Traffic) {
        self.bytes_sent += other.bytes_sent;
        self.messages_sent += other.messages_sent;
        self.bytes_received += other.bytes_received;
        self.sleeps += other.sleeps;
        self.rings += other.rings;
        self.messages_handled += other.messages_handled;
        self.messages_registered += other.messages_registered;
    }
}

/// Adds to a counter. The order is Relaxed, because no other data depends on a counter.
fn add(counter: &AtomicU64, by: u64) {
    if by != 0 {
        counter.fetch_add(by, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;
    use std::vec;
    use std::vec::Vec;

    /// Zeroed memory, aligned to 64 bytes like a mapping.
    #[repr(C, align(64))]
    struct Line([u8; 64]);

    fn memory() -> Vec<Line> {
        (0..StatsPage::SIZE / 64).map(|_| Line([0; 64])).collect()
    }

    fn made(memory: &mut [Line]) -> &StatsPage {
        // SAFETY: `memory` is borrowed exclusively as long as the page lives, and has SIZE bytes.
        unsafe { StatsPage::create(memory.as_mut_ptr().cast(), StatsPage::SIZE).unwrap() }
    }

    fn seen(memory: &mut [Line], len: usize) -> Result<&StatsPage, PageError> {
        // SAFETY: `memory` is borrowed exclusively as long as the page lives, and has at least `len` bytes.
        unsafe { StatsPage::from_ptr(memory.as_mut_ptr().cast(), len) }
    }

    #[test]
    fn every_counter_has_a_place_of_its_own() {
        let mut memory = memory();
        let page = made(&mut memory);
        for (place, &reason) in Reason::ALL.iter().enumerate() {
            (0..=place).for_each(|_| page.count(reason));
        }
        for (place, &junk) in Junk::ALL.iter().enumerate() {
            (0..=place).for_each(|_| page.count_junk(junk));
        }
        page.count_accelerated();
        let traffic = Traffic {
            bytes_sent: 10,
            messages_sent: 2,
            bytes_received: 7,
            sleeps: 4,
            rings: 3,
            messages_handled: 6,
            messages_registered: 5,
        };
        page.add(&traffic);
        page.add(&Traffic::default());

        let copy = {
            let page = seen(&mut memory, StatsPage::SIZE).unwrap();
            let at = core::ptr::from_ref(page).cast::<u8>();
            // SAFETY: the bytes are the page's own, and no other thread accesses the page.
            let bytes = unsafe { core::slice::from_raw_parts(at, size_of::<StatsPage>()) };
            assert_eq!(StatsPage::copy_of(&bytes[1..]).err(), Some(PageError::Shape));
            assert_eq!(StatsPage::copy_of(&vec![0; 4096]).err(), Some(PageError::Magic));
            StatsPage::copy_of(bytes).unwrap()
        };
        for page in [seen(&mut memory, StatsPage::SIZE).unwrap(), &copy] {
            assert_traffic(page, &traffic);
        }
    }

    fn assert_traffic(page: &StatsPage, traffic: &Traffic) {
        for (place, &reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(page.stayed_for(reason), place as u64 + 1);
        }
        for (place, &junk) in Junk::ALL.iter().enumerate() {
            assert_eq!(page.junk(junk), place as u64 + 1);
        }
        assert_eq!(page.stayed(), (1..=Reason::ALL.len() as u64).sum::<u64>());
        assert_eq!(page.accelerated(), 1);
        assert_eq!(page.traffic(), *traffic);
    }

    #[test]
    fn users_are_counted_apart() {
        let mut memory = memory();
        let page = made(&mut memory);
        for uid in [33, 0, 33, 65534] {
            page.count_user(uid);
        }
        assert!(page.users().eq([(33, 2), (0, 1), (65534, 1)]));
        (100..200).for_each(|uid| page.count_user(uid));
        assert_eq!(page.users().count(), USERS_MAX);
    }

    #[test]
    fn what_is_not_decided_is_open() {
        let mut memory = memory();
        let page = made(&mut memory);
        (0..3).for_each(|_| page.count_recorded());
        page.count_decided();
        assert_eq!((page.recorded(), page.undecided()), (3, 2));
    }

    #[test]
    fn other_memory_is_refused() {
        let mut zeroed = memory();
        assert_eq!(seen(&mut zeroed, StatsPage::SIZE).err(), Some(PageError::Magic));
        assert_eq!(seen(&mut zeroed, StatsPage::SIZE - 1).err(), Some(PageError::Shape));
        made(&mut zeroed).version.store(7, Ordering::Relaxed);
        assert_eq!(seen(&mut zeroed, StatsPage::SIZE).err(), Some(PageError::Version(7)));
        assert!(PageError::Version(7).to_string().contains("version 7"));

        let mut bytes = vec![0u8; StatsPage::SIZE + 64];
        let odd = bytes.as_mut_ptr().wrapping_add(1 + bytes.as_ptr().align_offset(64));
        // SAFETY: the range lies within `bytes`, which outlives the page.
        let page = unsafe { StatsPage::from_ptr(odd, StatsPage::SIZE) };
        assert_eq!(page.err(), Some(PageError::Shape));
    }

    #[test]
    fn the_layout_is_fixed() {
        assert_eq!(core::mem::offset_of!(StatsPage, reasons), 32);
        assert_eq!(core::mem::offset_of!(StatsPage, junk), 32 + 64 * 8);
        assert_eq!(core::mem::offset_of!(StatsPage, bytes_sent), 32 + (64 + 16) * 8);
        assert_eq!(StatsPage::SIZE, 4096);
    }
}
