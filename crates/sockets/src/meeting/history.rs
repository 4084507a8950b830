//! How long connections to an address last, and when it pays to meet.
//!
//! A meeting costs as much processor time as some transfers over TCP. It pays for connections that
//! go on for long enough afterwards, and how long this one will go on is not known; but those before
//! it, to the same address or accepted at the same address, are the best guess. Their lengths are
//! kept as counts by size, and the number of transfers after which it is best to meet is the one with
//! which those connections would have cost the least altogether.
//!
//! On a VI a transfer costs next to nothing if the thread that waits for it spins. One that sleeps is woken
//! by the kernel there as well, and saves less than half; so how often threads have slept on such
//! connections counts, too. One connection of some is decided as if none had: it shows whether they still do.
//!
//! The counts lie in memory that forked processes share: a server that forks a process for each
//! connection learns from its children. They are hints and nothing else, whatever they say.

use crate::per_engine::per_engine;
use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, Ordering};
use sovia_sys::Mapping;

/// Addresses and listeners that are told apart; others share a place.
const PLACES: usize = 256;
/// What is known of all addresses.
#[derive(Debug)]
struct Histories {
    /// Connections by length.
    lengths: [AtomicU64; PLACES],
    /// How often their threads have slept, and how many connections have been decided.
    sleeps: [AtomicU64; PLACES],
    /// Plans as they were last computed; 0: none has been.
    plans: [AtomicU64; PLACES],
    /// Not 0 where the last two processes that met for the first time belong to users without trust.
    refused: [AtomicU8; PLACES],
}

/// Transfers after which a connection is to meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    /// A process that shares a segment already.
    pub(super) known: u32,
    /// Another process.
    pub(super) unknown: u32,
}

/// Size classes of connections, a byte of a place's word for each.
const CLASSES: usize = 8;
/// What a connection of a class is counted with: transfers over all, at one end.
const LENGTHS: [u32; CLASSES] = [2, 6, 10, 14, 24, 48, 96, 1000];
/// The longest connection of each class.
const LIMITS: [u32; CLASSES - 1] = [3, 7, 11, 16, 31, 63, 127];
/// Connections that are remembered, about.
const MEMORY: u32 = 48;
/// When a meeting may take place: at once, or after more transfers than the connections of a class have, but for the last class.
const CHOICES: [u32; 8] = [0, 4, 8, 12, 17, 32, 64, 128];

/// All waits have been sleeps.
const ALWAYS: u64 = 256;
/// What a transfer on a VI costs whose thread sleeps, in 256ths of one over TCP.
const SLEEPER: u64 = 112;
/// One connection of so many is decided as if no thread had slept. For another one a plan is computed, which the others take.
const TRIAL: u64 = 16;
/// Number of first connections with a plan of their own. Computing one takes a fifth of a short connection's instructions.
const PLANNED: u64 = 32;
/// Where in a word of `sleeps` the decided connections are counted.
const DECIDED: u32 = 32;

/// Transfers after which a process is looked for where the last one was refused: what that costs is then less than 2 % of them.
const REFUSED: u32 = 256;

/// What a meeting costs at one end, in transfers over TCP.
#[derive(Debug, Clone, Copy)]
enum Cost {
    /// With a process that shares a segment already.
    Known = 14,
    /// With another one.
    Unknown = 80,
}

/// What the call that makes a connection tells of the server's end.
#[derive(Debug, Clone, Copy)]
pub enum Server {
    /// It connects to that address.
    At(SocketAddr),
    /// It accepts at the listener with that descriptor.
    Listener(i32),
    /// Nothing.
    Unknown,
}

/// Where connections with that server are counted, if the kernel need not be asked for its address.
pub(crate) fn place_of(server: Server) -> Option<u32> {
    match server {
        Server::At(address) => Some(place(address)),
        Server::Listener(fd) => Some((fd as u32).wrapping_mul(0x9e37_79b1) >> 24),
        Server::Unknown => None,
    }
}

/// Where connections with that address of the server's are counted.
pub(super) fn place(server: SocketAddr) -> u32 {
    let mut hash = u32::from(server.port()).wrapping_mul(0x9e37_79b1);
    let mut mix = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    };
    match server.ip() {
        IpAddr::V4(ip) => mix(&ip.octets()),
        IpAddr::V6(ip) => mix(&ip.octets()),
    }
    (hash >> 16 ^ hash) % PLACES as u32
}

per_engine! {
    static HISTORIES: AtomicPtr<Histories> = AtomicPtr::new(core::ptr::null_mut());
}

/// Maps the counts, if that has not been done: before the first connection of a family is handed to
/// a forked process.
pub(crate) fn start() {
    if !HISTORIES.load(Ordering::Acquire).is_null() {
        return;
    }
    let Ok(mapping) = Mapping::for_family(size_of::<Histories>()) else { return };
    let mine = mapping.base().cast();
    let null = core::ptr::null_mut();
    if HISTORIES.compare_exchange(null, mine, Ordering::AcqRel, Ordering::Acquire).is_ok() {
        // It lasts as long as the process.
        core::mem::forget(mapping);
    }
}

fn histories() -> Option<&'static Histories> {
    // SAFETY: null, or the mapping that `start` made, zeroed (which is valid for atomics) and never
    // unmapped.
    unsafe { HISTORIES.load(Ordering::Acquire).as_ref() }
}

// Another thread's count may get lost below; a hint more or less.

/// Counts a connection that has ended after so many transfers at this end.
pub(super) fn learn(place: u32, transfers: u32) {
    if let Some(histories) = histories() {
        let word = &histories.lengths[place as usize % PLACES];
        word.store(with_one_more(word.load(Ordering::Relaxed), transfers), Ordering::Relaxed);
    }
}

/// Notes how many times threads slept on a connection on a VI with so many messages each way.
pub(super) fn learn_sleeps(place: u32, sleeps: u64, messages: u64) {
    if let Some(histories) = histories() {
        let word = &histories.sleeps[place as usize % PLACES];
        word.store(with_sleeps(word.load(Ordering::Relaxed), sleeps, messages), Ordering::Relaxed);
    }
}

/// Notes whether two processes that met for the first time belong to users without trust.
pub(super) fn learn_refusal(place: u32, is_refused: bool) {
    if let Some(histories) = histories() {
        let word = &histories.refused[place as usize % PLACES];
        if (word.load(Ordering::Relaxed) != 0) != is_refused {
            word.store(u8::from(is_refused), Ordering::Relaxed);
        }
    }
}

/// Returns the number of transfers before which a connection there does not look for another process.
pub(super) fn least_unknown(place: u32) -> u32 {
    let is_refused = |histories: &Histories| {
        histories.refused[place as usize % PLACES].load(Ordering::Relaxed) != 0
    };
    if histories().is_some_and(is_refused) { REFUSED } else { 0 }
}

/// Returns the plan for the next connection, or `None` if nothing is known of such connections.
pub(super) fn plan(place: u32) -> Option<Plan> {
    let histories = histories()?;
    let place = place as usize % PLACES;
    let word = &histories.sleeps[place];
    let now = word.load(Ordering::Relaxed).wrapping_add(1 << DECIDED);
    word.store(now, Ordering::Relaxed);
    let (decided, sleeps) = (now >> DECIDED, (now & (2 * ALWAYS - 1)).min(ALWAYS));
    let lengths = || histories.lengths[place].load(Ordering::Relaxed);
    if decided.is_multiple_of(TRIAL) {
        return planned(lengths(), 0);
    }
    let stored = &histories.plans[place];
    if decided >= PLANNED
        && decided % TRIAL != TRIAL / 2
        && let Some(plan) = Plan::from_word(stored.load(Ordering::Relaxed))
    {
        return Some(plan);
    }
    let plan = planned(lengths(), sleeps)?;
    stored.store(plan.word(), Ordering::Relaxed);
    Some(plan)
}

impl Plan {
    fn word(self) -> u64 {
        u64::from(self.known) | u64::from(self.unknown) << 16 | 1 << 32
    }

    fn from_word(word: u64) -> Option<Plan> {
        (word != 0)
            .then_some(Plan { known: word as u32 & 0xffff, unknown: (word >> 16) as u32 & 0xffff })
    }
}

/// Returns the plan with which connections of those lengths would have cost the least.
fn planned(lengths: u64, sleeps: u64) -> Option<Plan> {
    let known = cheapest(lengths, Cost::Known as u32, sleeps)?;
    let unknown = cheapest(lengths, Cost::Unknown as u32, sleeps)?.max(known);
    Some(Plan { known, unknown })
}

/// Of the last connections each counts half as much as the next.
fn with_sleeps(word: u64, sleeps: u64, messages: u64) -> u64 {
    let share = ALWAYS * sleeps.min(messages) / messages.max(1);
    let before = word & (2 * ALWAYS - 1);
    word >> DECIDED << DECIDED | (before + share).div_ceil(2).min(ALWAYS)
}

fn with_one_more(word: u64, transfers: u32) -> u64 {
    let class = LIMITS.iter().position(|&limit| transfers <= limit).unwrap_or(CLASSES - 1);
    // All counts at once, a byte each: every second one added to the next, and then those sums.
    const EVEN: u64 = 0x00ff_00ff_00ff_00ff;
    let pairs = (word & EVEN) + (word >> 8 & EVEN);
    let sum = pairs.wrapping_mul(0x0001_0001_0001_0001) >> 48;
    let word = if sum >= u64::from(MEMORY) { word >> 1 & 0x7f7f_7f7f_7f7f_7f7f } else { word };
    // No count overflows: each is less than their sum's limit.
    word + (1 << (8 * class))
}

/// `sleeps`: how often of [`ALWAYS`] the threads sleep.
fn cheapest(word: u64, meeting: u32, sleeps: u64) -> Option<u32> {
    let counts = word.to_le_bytes();
    let total = |after: u32| {
        let lengths = counts.iter().zip(LENGTHS);
        let each = |(&count, length): (&u8, u32)| {
            let on_vi = length.saturating_sub(after) * (SLEEPER * sleeps / ALWAYS) as u32 / 256;
            let spent = if length <= after { length } else { after + meeting + on_vi };
            u32::from(count) * spent
        };
        lengths.map(each).sum::<u32>()
    };
    (word != 0).then(|| CHOICES.into_iter().min_by_key(|&after| total(after)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(lengths: &[u32], cost: Cost) -> Option<u32> {
        let word = lengths.iter().fold(0, |word, &length| with_one_more(word, length));
        cheapest(word, cost as u32, 0)
    }

    #[test]
    fn connections_whose_threads_sleep_pay_if_they_are_longer() {
        let cheapest = |length: u32, slept: &[u64]| {
            let lengths = (0..20).fold(0, |word, _| with_one_more(word, length));
            let sleeps = slept.iter().fold(0, |word, &sleeps| with_sleeps(word, sleeps, 10));
            cheapest(lengths, Cost::Known as u32, sleeps).unwrap()
        };
        assert_eq!(cheapest(14, &[0; 9]), 0);
        assert!(cheapest(14, &[10; 9]) >= 14);
        assert_eq!(cheapest(30, &[10; 9]), 0);
        assert_eq!(cheapest(60, &[10; 9]), 0);
        assert_eq!(cheapest(1000, &[10; 9]), 0);
        // Once they spin again, a few connections show it.
        assert_eq!(cheapest(14, &[10, 10, 10, 0, 0, 0]), 0);
    }

    #[test]
    fn nothing_is_guessed_from_nothing() {
        assert_eq!(after(&[], Cost::Known), None);
    }

    #[test]
    fn stored_plans_follow_the_lengths_within_the_connections_of_a_trial() {
        start();
        const PLACE: u32 = 201;
        // The first connections have plans of their own.
        (0..PLANNED).for_each(|_| assert_eq!(plan(PLACE), None));
        for transfers in [4, 10_000, 4] {
            (0..100).for_each(|_| learn(PLACE, transfers));
            (0..TRIAL).for_each(|_| _ = plan(PLACE));
            // A trial says the same: no thread sleeps here.
            let is_late = |plan: Option<Plan>| plan.is_some_and(|plan| plan.known >= 4);
            assert!(
                (0..TRIAL).all(|_| is_late(plan(PLACE)) == (transfers == 4)),
                "after {transfers}"
            );
        }
    }

    #[test]
    fn a_refusal_puts_off_first_meetings_until_one_succeeds() {
        start();
        const PLACE: u32 = 202;
        assert_eq!(least_unknown(PLACE), 0);
        learn_refusal(PLACE, true);
        assert_eq!(least_unknown(PLACE), REFUSED);
        assert_eq!(least_unknown(PLACE + 1), 0);
        learn_refusal(PLACE, false);
        assert_eq!(least_unknown(PLACE), 0);
    }

    #[test]
    fn all_counts_are_halved_when_their_sum_has_reached_the_limit() {
        let full = u64::from_le_bytes([9, 0, 7, 8, 0, 3, 1, 20]);
        let halved = u64::from_le_bytes([4, 0, 3, 4, 0, 1, 0, 11]);
        assert_eq!(with_one_more(full, 1000), halved);
        assert_eq!(with_one_more(full - 1, 1000), full - 1 + (1 << 56));
    }

    #[test]
    fn plans_are_packed_and_unpacked() {
        for plan in [Plan { known: 0, unknown: 0 }, Plan { known: 17, unknown: 0xffff }] {
            assert_eq!(Plan::from_word(plan.word()), Some(plan));
        }
        assert_eq!(Plan::from_word(0), None);
    }

    #[test]
    fn short_connections_never_pay() {
        for length in [2, 3, 6, 7, 10, 11] {
            for cost in [Cost::Known, Cost::Unknown] {
                let after = after(&[length; 20], cost).unwrap();
                assert!(after >= length, "met after {after} of {length}");
            }
        }
    }

    /// A server that forks a process for each connection has such ones.
    #[test]
    fn a_segment_for_each_connection_pays_for_long_ones_alone() {
        for length in [20, 31, 40, 63] {
            let after = after(&[length; 20], Cost::Unknown).unwrap();
            assert!(after >= length, "met after {after} of {length}");
        }
        assert_eq!(after(&[100; 20], Cost::Unknown), Some(0));
    }

    #[test]
    fn long_ones_meet_at_once() {
        for length in [20, 60, 200, 100_000] {
            assert_eq!(after(&[length; 20], Cost::Known), Some(0), "of {length}");
        }
        assert_eq!(after(&[200_000; 20], Cost::Unknown), Some(0));
    }

    #[test]
    fn a_few_long_ones_among_short_ones_are_waited_for() {
        let mut lengths = vec![2; 30];
        lengths.extend([10_000; 4]);
        assert_eq!(after(&lengths, Cost::Unknown), Some(4));
    }

    #[test]
    fn a_change_of_history_is_seen() {
        let mut lengths = vec![4; 1000];
        lengths.extend([10_000; 60]);
        assert_eq!(after(&lengths, Cost::Known), Some(0));
        lengths.extend([4; 200]);
        assert!(after(&lengths, Cost::Known).unwrap() >= 4);
    }
}
