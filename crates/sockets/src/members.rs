//! The processes of a family: which of them live, and which place is whose.
//!
//! Each has a place, and so a bit among the holders of a connection ([`crate::family`]).

use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use sovia_sys::call;

/// Processes that a family can tell apart. More share the last place, which never empties: what
/// one of those holds, another may hold as well, so it is never the last, and the end of the
/// kernel's socket tells the peer what it cannot. What it opens itself stays on TCP.
pub(crate) const MEMBERS: usize = 64;
const SHARED: usize = MEMBERS - 1;
/// A place taken for a child that fork is about to make.
const EXPECTED: i32 = -1;
/// This process's place.
static PLACE: AtomicU32 = AtomicU32::new(0);
/// The place of the child that is being forked.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// The family's processes; 0 for a free place.
pub(crate) type Members = [AtomicI32; MEMBERS];

static TABLE: AtomicPtr<Members> = AtomicPtr::new(core::ptr::null_mut());

/// Keeps the family's list, which all of its processes have at the same address, and joins it.
pub(crate) fn start(list: &'static Members) {
    TABLE.store(core::ptr::from_ref(list).cast_mut(), Ordering::Release);
    join();
}

fn members() -> Option<&'static Members> {
    // SAFETY: null, or the list that `start` was given for good.
    unsafe { TABLE.load(Ordering::Acquire).as_ref() }
}

/// The bit of this process among a connection's holders.
pub(crate) fn my_bit() -> u64 {
    1 << place()
}

/// This process's place.
#[inline]
pub(crate) fn place() -> usize {
    PLACE.load(Ordering::Relaxed) as usize % MEMBERS
}

/// Whether this process can be told apart from all others of the family.
pub(crate) fn is_known() -> bool {
    place() != SHARED
}

/// Says that this process lives, and holds what its bit says.
pub(crate) fn join() {
    if let Some(members) = members() {
        members[place()].store(call::getpid(), Ordering::Release);
    }
}

/// Says that this process holds nothing any more, before its image is replaced.
pub(crate) fn leave() {
    if let Some(members) = members() {
        let place = place();
        if place != SHARED {
            members[place].store(0, Ordering::Release);
        }
    }
}

/// One of the family's processes. Its place may be another's once it has died.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Member {
    place: u32,
    pid: i32,
}

/// This process.
pub(crate) fn me() -> Member {
    Member { place: place() as u32, pid: call::getpid() }
}

/// Whether a process of the family still is, and has not become another program.
pub(crate) fn lives(member: Member) -> bool {
    let place = member.place as usize % MEMBERS;
    members().is_some_and(|members| {
        members[place].load(Ordering::Acquire) == member.pid && is_alive(members, place)
    })
}

fn is_alive(members: &Members, place: usize) -> bool {
    match members[place].load(Ordering::Acquire) {
        0 => false,
        EXPECTED => true,
        pid => place == SHARED || call::task_exists(pid),
    }
}

/// Whether living processes other than this one are among a connection's holders. Strikes the dead
/// ones out.
pub(crate) fn others_live(holders: &AtomicU64) -> bool {
    let others = holders.load(Ordering::Acquire) & !my_bit();
    if others == 0 {
        return false;
    }
    let Some(members) = members() else { return false };
    let mut left = others;
    let mut alive = false;
    while left != 0 {
        let place = left.trailing_zeros() as usize;
        left &= left - 1;
        if is_alive(members, place) {
            alive = true;
        } else {
            holders.fetch_and(!(1 << place), Ordering::AcqRel);
        }
    }
    alive
}

/// The place that a child which is about to be forked will have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    /// Its bit.
    pub(crate) bit: u64,
    /// Whether it is nobody else's.
    pub(crate) is_known: bool,
}

/// Before fork: takes a place for the child. `None` if there is no family.
pub(crate) fn expect() -> Option<Expected> {
    let members = members()?;
    let free = (0..SHARED).find(|&place| {
        let seen = members[place].load(Ordering::Acquire);
        !is_alive(members, place)
            && members[place]
                .compare_exchange(seen, EXPECTED, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    });
    let place = free.unwrap_or(SHARED);
    if place == SHARED {
        // Not empty even before the child runs.
        members[SHARED].store(EXPECTED, Ordering::Release);
    }
    NEXT.store(place as u32, Ordering::Relaxed);
    Some(Expected { bit: 1 << place, is_known: free.is_some() })
}

/// Fork has failed: nobody will come to that place.
pub(crate) fn expect_nobody() {
    let place = NEXT.load(Ordering::Relaxed) as usize % MEMBERS;
    if let Some(members) = members()
        && place != SHARED
    {
        let _ = members[place].compare_exchange(EXPECTED, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// Another process takes this one's place.
pub(crate) fn pass_on(heir: i32) {
    if let Some(members) = members() {
        members[place()].store(heir, Ordering::Release);
    }
}

/// In the child.
pub(crate) fn born() {
    PLACE.store(NEXT.load(Ordering::Relaxed), Ordering::Relaxed);
    join();
}
