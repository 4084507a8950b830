//! Which processes use an epoll instance that forked processes share.
//!
//! The kernel's instance is one for all of them: what one process adds or removes, the others see. What
//! is kept in memory each process keeps for itself. So once a second process uses an instance, by
//! waiting in it or changing it, all of its connections are the kernel's, as in an instance that is
//! itself waited on. A child that only inherits one, as most do, changes nothing.

use crate::per_engine::per_engine_tables;
use crate::{family, members};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Here and in the family's memory.
#[derive(Debug)]
struct Users {
    /// The place of its users' bits in the family's memory, plus one; 0: it has none.
    place: AtomicU32,
    /// Whether this process is counted among them.
    counted: AtomicBool,
}

per_engine_tables! {
    static USERS: [Users; super::SETS] =
        [const { Users { place: AtomicU32::new(0), counted: AtomicBool::new(false) } }; super::SETS];
}

/// A new instance: this process is its only user.
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
    // What the dead have left is free as well.
    let dead = |bits: &AtomicU64, seen| !members::has_me(seen) && !members::others_live(bits);
    let place = free.or_else(|| take(dead));
    users.place.store(place.map_or(0, |place| place as u32 + 1), Ordering::Release);
    users.counted.store(true, Ordering::Release);
}

/// This process has closed its last descriptor of an instance.
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

/// This process uses an instance. Whether another one does, too: two loads of lines that hardly
/// anything writes, unless one has. `first` is called when a forked process begins to use it.
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

/// Whether this process and another one use an instance.
pub(crate) fn is_shared_by_users(index: u32) -> bool {
    let users = &USERS[index as usize % super::SETS];
    users.counted.load(Ordering::Relaxed) && bits(users).is_some_and(members::others_live)
}

/// Whether other processes use an instance and this one, which has inherited it, does not: what is the kernel's in it
/// is theirs to say. They know what has been changed since the fork.
pub(super) fn is_others(index: u32) -> bool {
    let users = &USERS[index as usize % super::SETS];
    !users.counted.load(Ordering::Relaxed) && bits(users).is_some_and(members::others_live)
}

/// In a forked child: it has not used the instance yet.
pub(super) fn forked(index: u32) {
    let users = &USERS[index as usize];
    if users.counted.load(Ordering::Relaxed) {
        users.counted.store(false, Ordering::Relaxed);
    }
}
