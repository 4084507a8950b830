//! Connection history: how long connections to an address last, and when a rendezvous pays.
//!
//! A rendezvous costs processor time, so it pays only for connections with enough transfers or bytes afterwards. The
//! length of a new connection is unknown. So the lengths of earlier connections to the same address, or from the same
//! listener, are counted by size class. A length is a number of transfers, in which many bytes count as several
//! transfers. The *plan* is the number of transfers before a rendezvous. The plan is chosen so that the earlier
//! connections would have cost the least in total.
//!
//! On a VI a transfer costs almost nothing if the waiting thread spins. If the thread sleeps, the kernel must wake
//! it, and the transfer costs about half as much as over TCP. So the plan also depends on how often threads slept
//! on earlier connections. Now and then a connection is planned as if no thread slept ([`is_trial`]), to find out if
//! threads still sleep.
//!
//! The counts lie in memory that forked processes share. So a server that forks a process for each connection learns
//! from its children. The counts are only hints: wrong values cost time, but do no harm.

mod deferral;
mod key;
#[cfg(test)]
mod tests;

pub(super) use deferral::FirstOutcome;
pub(crate) use key::Key;
pub use key::Server;

use crate::per_engine::per_engine;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};
use deferral::Deferral;
use sovia_sys::Mapping;

/// Number of places for the counts of an address or a listener. Many addresses and listeners have the same place. It
/// holds the counts of the one that was counted last.
const PLACES: usize = 256;
/// Index of one more place. It counts connections to addresses that had no counts when the connection ended. So it tells
/// how long the first connection to an address lasts, and each connection of a program with more addresses than places.
const FIRSTS: usize = PLACES;
/// Number of entries of each table.
const ENTRIES: usize = PLACES + 1;

/// Counts of earlier connections, for all addresses and listeners.
#[derive(Debug)]
struct Histories {
    /// For each place: [`Key`] of the address or listener whose connections are counted there, or 0.
    keys: [AtomicU32; PLACES],
    /// For each place: number of connections in each size class, one byte per class.
    lengths: [AtomicU64; ENTRIES],
    /// Like `lengths`, but by the number of transfers alone. A connection whose transfers are long counts as short.
    transfers: [AtomicU64; ENTRIES],
    /// For each place: average number of sleeps per message (low half), and number of planned connections (from bit
    /// [`DECIDED`]).
    sleeps: [AtomicU64; ENTRIES],
    /// For each place: the plan computed last, or 0.
    plans: [AtomicU64; ENTRIES],
    /// For each place: [`Deferral`] of a first rendezvous.
    deferred: [AtomicU8; PLACES],
}

/// Number of transfers after which a connection begins a rendezvous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    /// For a rendezvous with a process that already shares a segment with this process.
    pub(super) known: u32,
    /// For a rendezvous with a process that shares no segment with this process yet.
    pub(super) unknown: u32,
    /// Set if only the bytes of the connections make such a rendezvous pay. Most of the bytes are sent before the
    /// rendezvous ends. So it pays only because later connections find the segment.
    pub(super) is_for_later: bool,
    /// Set if only the bytes of the connections make a rendezvous at once pay. Most of the bytes may be in the first
    /// answer, so the connector grants the VI with its request.
    pub(super) grants: bool,
}

/// Number of size classes. Each class has one byte of a word in `lengths`.
const CLASSES: usize = 8;
/// Number of bytes that cost as much over TCP as a transfer of a few bytes.
const BYTES: u64 = 16 << 10;
/// Average number of bytes from which the transfers of a connection are long.
const LONG: u64 = 4 << 10;
/// Assumed length of a connection in each class. A length is the number of sends and receives at one end, plus one for
/// every [`BYTES`] bytes.
const LENGTHS: [u32; CLASSES] = [2, 6, 10, 14, 20, 48, 96, 1000];
/// Maximum length of a connection in each class except the last.
const LIMITS: [u32; CLASSES - 1] = [3, 7, 11, 16, 31, 63, 127];
/// Sum of a place's counts at which all its counts are halved. So about this many connections are remembered.
const MEMORY: u32 = 48;
/// Numbers of transfers after which a rendezvous may begin. Except for 0, each is one more than the limit of a class.
const CHOICES: [u32; 8] = [0, 4, 8, 12, 17, 32, 64, 128];

/// Value of the average in `sleeps` if the thread slept for every message.
const ALWAYS: u64 = 256;
/// Cost of a transfer on a VI if the waiting thread sleeps, in 256ths of the cost of a transfer over TCP.
const SLEEPER: u64 = 128;
/// Additional cost of a rendezvous if threads sleep, in 256ths: its steps wait for each other's locks and processors.
const CROWDED: u64 = 128;
/// Number of transfers over TCP from the begin of a rendezvous until both directions are on the VI.
const ON_TCP: u32 = 2;
/// Number of planned connections in a period at a place. In each period one connection computes a plan, and the rest
/// use the stored plan.
const PERIOD: u64 = 16;
/// Number of connections at a place that each compute a plan, from the first connection on. Later connections
/// mostly use the stored plan. Computing a plan takes a fifth of the instructions of a short connection.
const PLANNED: u64 = 32;
/// Of so many planned connections at a place, one is planned as if no thread slept, after the first of them. If the
/// threads still sleep, this connection costs about half as much again as over TCP.
const TRIAL: u64 = 64;
/// Position, in a word of `sleeps`, of the lowest bit of the number of planned connections.
const DECIDED: u32 = 32;

/// Cost of a rendezvous at one end, in transfers over TCP.
#[derive(Debug, Clone, Copy)]
enum Cost {
    /// For a rendezvous with a process that already shares a segment with this process, if no thread sleeps.
    Known = 11,
    /// For a rendezvous with a process that shares no segment with this process yet.
    Unknown = 80,
}

per_engine! {
    static HISTORIES: AtomicPtr<Histories> = AtomicPtr::new(core::ptr::null_mut());
}

/// Maps memory for the counts, unless the memory is mapped already. Called before a family passes its first
/// connection to a forked process.
pub(crate) fn start() {
    if !HISTORIES.load(Ordering::Acquire).is_null() {
        return;
    }
    let Ok(mapping) = Mapping::for_family(size_of::<Histories>()) else { return };
    let mine = mapping.base().cast();
    let null = core::ptr::null_mut();
    if HISTORIES.compare_exchange(null, mine, Ordering::AcqRel, Ordering::Acquire).is_ok() {
        // Skip the destructor, which would unmap the memory: the counts are used until the process ends.
        core::mem::forget(mapping);
    }
}

fn histories() -> Option<&'static Histories> {
    // SAFETY: the pointer is null or the base of the mapping that `start` made. That mapping is zeroed, which is a
    // valid value for atomics, and is never unmapped.
    unsafe { HISTORIES.load(Ordering::Acquire).as_ref() }
}

impl Histories {
    /// Returns the place with the counts of `key`, or `None` if no connection has been counted.
    fn find(&self, key: Key) -> Option<usize> {
        let place = key.place();
        (self.keys[place].load(Ordering::Relaxed) == key.word()).then_some(place)
    }

    /// Returns the place for the counts of `key`. Drops the counts of another key that had the place.
    fn claim(&self, key: Key) -> usize {
        self.find(key).unwrap_or_else(|| {
            let place = key.place();
            for words in [&self.lengths, &self.transfers, &self.sleeps, &self.plans] {
                words[place].store(0, Ordering::Relaxed);
            }
            self.deferred[place].store(0, Ordering::Relaxed);
            self.keys[place].store(key.word(), Ordering::Relaxed);
            place
        })
    }

    /// Returns the counts at a place: by length, and by transfers alone.
    fn counts(&self, place: usize) -> [u64; 2] {
        [&self.lengths, &self.transfers].map(|words| words[place].load(Ordering::Relaxed))
    }

    /// Counts a connection at a place.
    fn count(&self, place: usize, transfers: u64, bytes: u64) {
        let short = if bytes / transfers.max(1) >= LONG { 0 } else { transfers };
        for (words, length) in
            [(&self.lengths, transfers + bytes / BYTES), (&self.transfers, short)]
        {
            let length = u32::try_from(length).unwrap_or(u32::MAX);
            let word = &words[place];
            word.store(with_one_more(word.load(Ordering::Relaxed), length), Ordering::Relaxed);
        }
    }

    /// Returns the plan for the next connection that is counted at a place, or `None` if none has been counted.
    fn plan(&self, place: usize) -> Option<Plan> {
        let word = &self.sleeps[place];
        let now = word.load(Ordering::Relaxed).wrapping_add(1 << DECIDED);
        word.store(now, Ordering::Relaxed);
        let (decided, sleeps) = (now >> DECIDED, (now & (2 * ALWAYS - 1)).min(ALWAYS));
        if is_trial(decided) {
            return planned(self.counts(place), 0);
        }
        let stored = &self.plans[place];
        if decided >= PLANNED
            && decided % PERIOD != PERIOD / 2
            && let Some(plan) = Plan::from_word(stored.load(Ordering::Relaxed))
        {
            return Some(plan);
        }
        let plan = planned(self.counts(place), sleeps)?;
        stored.store(plan.word(), Ordering::Relaxed);
        Some(plan)
    }
}

/// Returns true if a connection is planned as if no thread slept, to find out if threads still sleep. `decided` is its
/// number among the planned connections of its place.
fn is_trial(decided: u64) -> bool {
    let period = if decided < TRIAL { PERIOD } else { TRIAL };
    decided.is_multiple_of(period)
}

// The functions below take no lock, so a count may be lost if two threads write at once. The counts are only hints.

/// Counts an ended connection, with its number of transfers at this end and of bytes in both directions.
pub(super) fn learn(key: Key, transfers: u64, bytes: u64) {
    if let Some(histories) = histories() {
        if !key.is_listener() && histories.find(key).is_none() {
            histories.count(FIRSTS, transfers, bytes);
        }
        histories.count(histories.claim(key), transfers, bytes);
    }
}

/// Records how many times threads slept on a connection's VI, with `messages` messages in each direction.
pub(super) fn learn_sleeps(key: Key, sleeps: u64, messages: u64) {
    if let Some(histories) = histories() {
        let word = &histories.sleeps[histories.claim(key)];
        word.store(with_sleeps(word.load(Ordering::Relaxed), sleeps, messages), Ordering::Relaxed);
    }
}

/// Records the outcome of a first rendezvous.
pub(super) fn learn_first(key: Key, outcome: FirstOutcome) {
    if let Some(histories) = histories() {
        let word = &histories.deferred[histories.claim(key)];
        replace(word, |deferral| ((), deferral.after(outcome)));
    }
}

/// Returns the minimum number of transfers before the next connection with this key begins a first rendezvous. If
/// `is_for_later`, the connections after this one do not begin one at once.
pub(super) fn least_unknown(key: Key, is_for_later: bool) -> u32 {
    let Some(histories) = histories() else { return 0 };
    let Some(place) = histories.find(key) else { return 0 };
    replace(&histories.deferred[place], |deferral| deferral.next(is_for_later))
}

/// Replaces a deferral by the one that `next` returns with a result. Writes only if the deferral changes.
fn replace<T>(word: &AtomicU8, next: impl FnOnce(Deferral) -> (T, Deferral)) -> T {
    let before = word.load(Ordering::Relaxed);
    let (result, after) = next(Deferral::from_word(before));
    if after.word() != before {
        word.store(after.word(), Ordering::Relaxed);
    }
    result
}

/// Returns the plan for the next connection with this key, or `None` if no connection has been counted.
pub(super) fn plan(key: Key) -> Option<Plan> {
    let histories = histories()?;
    histories.find(key).and_then(|place| histories.plan(place))
}

/// Returns the number of transfers before a rendezvous with a process that already shares a segment, for a connection
/// to an address without counts. Returns `None` if no first connection to any address has been counted.
pub(super) fn plan_first() -> Option<u32> {
    Some(histories()?.plan(FIRSTS)?.known)
}

impl Plan {
    fn word(self) -> u64 {
        let flags = 1 | u64::from(self.is_for_later) << 1 | u64::from(self.grants) << 2;
        u64::from(self.known) | u64::from(self.unknown) << 16 | flags << 32
    }

    fn from_word(word: u64) -> Option<Plan> {
        (word != 0).then_some(Plan {
            known: word as u32 & 0xffff,
            unknown: (word >> 16) as u32 & 0xffff,
            is_for_later: word >> 33 & 1 != 0,
            grants: word >> 34 & 1 != 0,
        })
    }
}

/// Returns the plan with which the counted connections would have cost the least. The counts are those by length, and
/// those by transfers alone. `sleeps` is the number of waits, out of [`ALWAYS`], in which the thread sleeps.
fn planned([lengths, transfers]: [u64; 2], sleeps: u64) -> Option<Plan> {
    let known = cheapest(lengths, Cost::Known as u32, sleeps)?;
    let unknown = cheapest(lengths, Cost::Unknown as u32, sleeps)?.max(known);
    let by_transfers = |cost| cheapest(transfers, cost as u32, sleeps);
    Some(Plan {
        known,
        unknown,
        is_for_later: unknown < by_transfers(Cost::Unknown)?,
        grants: known == 0 && by_transfers(Cost::Known)? != 0,
    })
}

/// Returns `word` with the sleeps of one more connection in its moving average. Each connection weighs half as much
/// as the next one.
fn with_sleeps(word: u64, sleeps: u64, messages: u64) -> u64 {
    let share = ALWAYS * sleeps.min(messages) / messages.max(1);
    let before = word & (2 * ALWAYS - 1);
    word >> DECIDED << DECIDED | (before + share).div_ceil(2).min(ALWAYS)
}

fn with_one_more(word: u64, length: u32) -> u64 {
    let class = LIMITS.iter().position(|&limit| length <= limit).unwrap_or(CLASSES - 1);
    // Add all eight bytes of `word`: first the sums of adjacent bytes, then the sum of those sums.
    const EVEN: u64 = 0x00ff_00ff_00ff_00ff;
    let pairs = (word & EVEN) + (word >> 8 & EVEN);
    let sum = pairs.wrapping_mul(0x0001_0001_0001_0001) >> 48;
    let word = if sum >= u64::from(MEMORY) { word >> 1 & 0x7f7f_7f7f_7f7f_7f7f } else { word };
    // No byte overflows, because the sum of all bytes is at most [`MEMORY`].
    word + (1 << (8 * class))
}

/// Returns the best number of transfers before a rendezvous: the number with the lowest total cost for the lengths
/// counted in `word`. `rendezvous` is the cost of a rendezvous. `sleeps` is the number of waits, out of [`ALWAYS`], in
/// which the thread sleeps.
fn cheapest(word: u64, rendezvous: u32, sleeps: u64) -> Option<u32> {
    let counts = word.to_le_bytes();
    let [price, more] = [SLEEPER, CROWDED].map(|most| (most * sleeps / ALWAYS) as u32);
    let rendezvous = rendezvous + rendezvous * more / 256;
    let total = |after: u32| {
        let lengths = counts.iter().zip(LENGTHS);
        let each = |(&count, length): (&u8, u32)| {
            let on_tcp = after + ON_TCP;
            let on_vi = (length.saturating_sub(on_tcp) * price).div_ceil(256);
            let spent = if length <= after { length } else { on_tcp + rendezvous + on_vi };
            u32::from(count) * spent
        };
        lengths.map(each).sum::<u32>()
    };
    (word != 0).then(|| CHOICES.into_iter().min_by_key(|&after| total(after)).unwrap_or(0))
}
