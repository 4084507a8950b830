//! Records which processes use an epoll instance that forked processes share.
//!
//! All relatives have the same kernel instance: an entry that one process adds or removes changes for all. But each
//! process keeps its own entries in memory. So once a second process waits in an instance or changes it, all its
//! connections go back to TCP. A child that only inherits an instance, as most do, changes nothing.

use crate::per_engine::per_engine_tables;
use crate::{family, members};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Users of one instance, as this process records them.
#[derive(Debug)]
struct Users {
    /// Index of the users' bits in the family's memory, plus one. 0 if the instance has no bits.
    place: AtomicU32,
    /// Set while this process is counted among the users.
    counted: AtomicBool,
}

per_engine_tables! {
    static USERS: [Users; super::SETS] =
        [const { Users { place: AtomicU32::new(0), counted: AtomicBool::new(false) } }; super::SETS];
}

/// Records a new instance, whose only user is this process.
pub(super) fn begin(index: u32) {
    let users = &USERS[index as usize];
    let take = |from: fn(&AtomicU64, u64) -> bool| {
        family::each_set_users().position(|bits| {
            let seen = bits.load(Ordering::Acquire);
            let (mine, order) = (members::only_me(), Ordering::AcqRel);
            from(bits, seen) && bits.compare_exchange(0, mine, order, Ordering::Relaxed).is_ok()
        })
    };
    let free = take(|_, seen| seen == 0);
    // Bits of dead processes are free as well.
    let dead = |bits: &AtomicU64, seen| !members::has_me(seen) && !members::others_live(bits);
    let place = free.or_else(|| take(dead));
    users.place.store(place.map_or(0, |place| place as u32 + 1), Ordering::Release);
    users.counted.store(true, Ordering::Release);
}

/// Called after this process has closed its last descriptor of an instance.
pub(super) fn end(index: u32) {
    let users = &USERS[index as usize];
    if users.counted.swap(false, Ordering::AcqRel)
        && members::is_known()
        && let Some(bits) = bits(users)
    {
        members::strike_me(bits);
    }
    users.place.store(0, Ordering::Release);
}

fn bits(users: &Users) -> Option<&'static AtomicU64> {
    let place = users.place.load(Ordering::Acquire).checked_sub(1)?;
    family::set_users(place)
}

/// Records that this process uses an instance. Returns true if another process uses it too. Costs two loads of rarely
/// written cache lines, unless another process has used the instance. `first` is called when a forked process begins to
/// use it.
#[inline]
pub(crate) fn is_shared(index: u32, first: impl FnOnce()) -> bool {
    let users = &USERS[index as usize % super::SETS];
    let Some(bits) = bits(users) else { return false };
    if !users.counted.load(Ordering::Relaxed) {
        users.counted.store(true, Ordering::Relaxed);
        members::add_me(bits);
        first();
    }
    bits.load(Ordering::Acquire) != members::only_me() && members::others_live(bits)
}

/// Returns true if this process and another one use an instance.
pub(crate) fn is_shared_by_users(index: u32) -> bool {
    let users = &USERS[index as usize % super::SETS];
    users.counted.load(Ordering::Relaxed) && bits(users).is_some_and(members::others_live)
}

/// Returns true if other processes use an instance that this process has inherited and does not use. Then the others
/// decide which entries the kernel gets: they know the changes since the fork.
pub(super) fn is_others(index: u32) -> bool {
    let users = &USERS[index as usize % super::SETS];
    !users.counted.load(Ordering::Relaxed) && bits(users).is_some_and(members::others_live)
}

/// Resets the count in a forked child, which has not used the instance yet.
pub(super) fn forked(index: u32) {
    let users = &USERS[index as usize];
    if users.counted.load(Ordering::Relaxed) {
        users.counted.store(false, Ordering::Relaxed);
    }
}
