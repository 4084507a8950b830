//! Records which processes use an epoll instance that forked processes share.
//!
//! All forked relatives have the same kernel instance. If one process adds or removes an entry there, the entry
//! changes for all. But each process keeps its set's entries in its own memory. So once a second process waits in
//! the instance or changes it, all connections in the instance go back to TCP. A child that only inherits an
//! instance has no effect. Most children do not use inherited instances.

use crate::per_engine::per_engine_tables;
use crate::{family, process_slots};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Users of an epoll instance, as this process records them.
#[derive(Debug)]
struct Users {
    /// Index of the instance's word of users in the family's memory, plus one. 0 if the instance has no such word.
    word: AtomicU32,
    /// Set while this process is recorded among the users.
    counted: AtomicBool,
}

per_engine_tables! {
    static USERS: [Users; super::EPOLL_SETS] =
        [const { Users { word: AtomicU32::new(0), counted: AtomicBool::new(false) } }; super::EPOLL_SETS];
}

/// Records a new epoll instance, whose only user is this process.
pub(super) fn begin(index: u32) {
    let users = &USERS[index as usize];
    let take = |from: fn(&AtomicU64, u64) -> bool| {
        family::each_epoll_set_users().position(|bits| {
            let seen = bits.load(Ordering::Acquire);
            let (mine, order) = (process_slots::only_me(), Ordering::AcqRel);
            from(bits, seen) && bits.compare_exchange(0, mine, order, Ordering::Relaxed).is_ok()
        })
    };
    let free = take(|_, seen| seen == 0);
    // If there is no free word, take a word whose users are all dead.
    let dead =
        |bits: &AtomicU64, seen| !process_slots::has_me(seen) && !process_slots::others_live(bits);
    let word = free.or_else(|| take(dead));
    users.word.store(word.map_or(0, |word| word as u32 + 1), Ordering::Release);
    users.counted.store(true, Ordering::Release);
}

/// Removes this process from the users. Called after this process has closed its last descriptor of the epoll
/// instance.
pub(super) fn end(index: u32) {
    let users = &USERS[index as usize];
    if users.counted.swap(false, Ordering::AcqRel)
        && process_slots::is_known()
        && let Some(bits) = bits(users)
    {
        process_slots::strike_me(bits);
    }
    users.word.store(0, Ordering::Release);
}

fn bits(users: &Users) -> Option<&'static AtomicU64> {
    let word = users.word.load(Ordering::Acquire).checked_sub(1)?;
    family::epoll_set_users(word)
}

/// Records that this process uses the epoll instance. Returns true if another process uses the instance as well.
/// Usually costs two loads of cache lines that are rarely written, unless another process has used the instance.
/// Calls `first` when a forked process begins to use the instance.
#[inline]
pub(crate) fn is_shared(index: u32, first: impl FnOnce()) -> bool {
    let users = &USERS[index as usize % super::EPOLL_SETS];
    let Some(bits) = bits(users) else { return false };
    if !users.counted.load(Ordering::Relaxed) {
        users.counted.store(true, Ordering::Relaxed);
        process_slots::add_me(bits);
        first();
    }
    bits.load(Ordering::Acquire) != process_slots::only_me() && process_slots::others_live(bits)
}

/// Returns true if this process and another process use the epoll instance.
pub(crate) fn is_shared_by_users(index: u32) -> bool {
    let users = &USERS[index as usize % super::EPOLL_SETS];
    users.counted.load(Ordering::Relaxed) && bits(users).is_some_and(process_slots::others_live)
}

/// Returns true if this process has inherited the epoll instance and only other processes use it. Then those
/// processes decide which entries the kernel gets, because they know the changes since the fork.
pub(super) fn is_others(index: u32) -> bool {
    let users = &USERS[index as usize % super::EPOLL_SETS];
    !users.counted.load(Ordering::Relaxed) && bits(users).is_some_and(process_slots::others_live)
}

/// Records that a forked child has not used the epoll instance yet.
pub(super) fn forked(index: u32) {
    let users = &USERS[index as usize];
    if users.counted.load(Ordering::Relaxed) {
        users.counted.store(false, Ordering::Relaxed);
    }
}
