//! The processes of a family: which of them live, and which place is whose.
//!
//! Each has a place, by which it is named among the holders of a connection ([`Holders`], [`crate::family`]). As long as a
//! process lives it holds a record lock on its place's byte of a memory file that the family has in
//! common. The kernel gives the lock back when the process ends or becomes another program, does not pass
//! it to children, and says in every PID namespace whether it is held.

use crate::per_engine::per_engine;
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use sovia_control::board::{Holders, PLACES};
use sovia_control::inheritance::{FILES_FROM, Passed};
use sovia_sys::{Fd, call, fd, record_lock};

/// Processes that a family can tell apart. More share the last place, which never empties: what
/// one of those holds, another may hold as well, so it is never the last, and the end of the
/// kernel's socket tells the peer what it cannot. What it opens itself stays on TCP.
pub(crate) const MEMBERS: usize = PLACES as usize;
const SHARED: usize = MEMBERS - 1;
/// Places with a living process that the search for a free one passes by before it takes a place that no process has had.
const PASSED_BY: usize = 8;
/// Counters of waiting threads that a connection has. Processes use them by their places, and a child never uses its parent's.
/// A child that was forked in the middle of a wait leaves that wait, too: it counts out what it has not counted in.
pub(crate) const COUNTERS: usize = 64;
/// A place taken for a child that fork is about to make.
const EXPECTED: i32 = -1;
per_engine! {
    /// This process's place.
    static PLACE: AtomicU32 = AtomicU32::new(0);
    /// Which process in that place this one is.
    static LIFE: AtomicU32 = AtomicU32::new(0);
    /// The place of the child that is being forked.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    /// The file with the locks; 0: there is none.
    static LOCKS: AtomicI32 = AtomicI32::new(0);
    /// Which file that is: the program may close the number past every hook, and use it again.
    static LOCKS_ID: AtomicU64 = AtomicU64::new(0);
    /// Another descriptor of it, for the program that this process becomes; 0: there is none. It is kept once it is
    /// there: with any descriptor of the file that this process closes, its lock goes.
    static LOCKS_TO_LEAVE: AtomicI32 = AtomicI32::new(0);
}

/// A place.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Place {
    /// The process's id, as it calls itself; 0 for a free place.
    pid: AtomicI32,
    /// Counts the processes that have been here.
    life: AtomicU32,
}

/// The family's processes.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Members {
    /// One above the highest place that a process has had. The shared one does not count: to search up to it takes a system call
    /// for each place.
    top: AtomicU32,
    _rest: u32,
    places: [Place; MEMBERS],
}

impl Members {
    /// A process has that place, or is about to.
    fn has(&self, place: usize) {
        if place != SHARED {
            self.top.fetch_max(place as u32 + 1, Ordering::AcqRel);
        }
    }

    /// The places that processes have had.
    fn used(&self) -> &[Place] {
        &self.places[..(self.top.load(Ordering::Acquire) as usize).min(MEMBERS)]
    }
}

/// Returns the offset of a place's process id in a family's list, in bytes.
pub(crate) const fn pid_at(place: u32) -> u64 {
    (offset_of!(Members, places) + place as usize * size_of::<Place>() + offset_of!(Place, pid))
        as u64
}

per_engine! {
    /// The family's list, which all of its processes have at the same address; null until a connection is
    /// recorded. [`crate::family`] makes it.
    pub(crate) static LIST: AtomicPtr<Members> = AtomicPtr::new(core::ptr::null_mut());
}

fn members() -> Option<&'static Members> {
    // SAFETY: null, or a list in a mapping that is never unmapped.
    unsafe { LIST.load(Ordering::Acquire).as_ref() }
}

/// This process alone, as a word of holders.
#[inline]
pub(crate) fn only_me() -> u64 {
    with(Holders::NONE, place()).word()
}

/// These and the process with that place. The shared one has no name.
fn with(holders: Holders, place: usize) -> Holders {
    if place == SHARED { holders.with_more() } else { holders.with(place as u32) }
}

/// Returns true if this process is one of the holders in a word. One in the shared place may be.
#[inline]
pub(crate) fn has_me(holders: u64) -> bool {
    let (holders, place) = (Holders::from_word(holders), place());
    if place == SHARED { holders.may_be_more() } else { holders.names(place as u32) }
}

/// Adds the process with that place to the holders in `word`. False if there is no room for its name: then the word says that
/// there may be more.
pub(crate) fn add(word: &AtomicU64, place: usize) -> bool {
    let (_, now) = update(word, |holders| with(holders, place));
    place == SHARED || now.names(place as u32)
}

/// Adds this process.
pub(crate) fn add_me(word: &AtomicU64) {
    add(word, place());
}

/// Strikes the process with that place out. Returns the holders before and after.
pub(crate) fn strike(word: &AtomicU64, place: usize) -> (Holders, Holders) {
    update(word, |holders| holders.without(place as u32))
}

/// Strikes this process out.
pub(crate) fn strike_me(word: &AtomicU64) {
    strike(word, place());
}

/// A word that stays as it is is not written to.
fn update(word: &AtomicU64, change: impl Fn(Holders) -> Holders) -> (Holders, Holders) {
    let changed = |seen| {
        let now = change(Holders::from_word(seen)).word();
        (now != seen).then_some(now)
    };
    match word.fetch_update(Ordering::AcqRel, Ordering::Acquire, changed) {
        Ok(before) => (Holders::from_word(before), change(Holders::from_word(before))),
        Err(same) => (Holders::from_word(same), Holders::from_word(same)),
    }
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

/// Makes the file with the locks, for a list that is new.
pub(crate) fn found() {
    if !fd::can_be_spared() {
        // The program needs every number that its limit leaves it. Without the file relatives are told
        // apart by their ids, and connections stay on TCP as it is.
        return;
    }
    let made = Fd::make(|| call::memfd_create(c"sovia-family", libc::MFD_CLOEXEC));
    // One with a low number might be the program's next victim.
    let Some(file) = made.ok().filter(Fd::is_high) else { return };
    // Another thread may be making the list as well, and has been earlier.
    let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
    let id = call::file_id(file.raw()).map_or(0, |(_, inode)| inode);
    if LOCKS.compare_exchange(0, file.raw(), success, failure).is_ok() {
        LOCKS_ID.store(id, Ordering::Release);
        let _ = file.into_raw();
    }
}

/// Publishes that this process lives, and takes the lock of its place.
pub(crate) fn join(list: &Members) {
    let place = place();
    let life = list.places[place].life.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
    LIFE.store(life, Ordering::Relaxed);
    hold_place(place);
    // SYNC: a process that finds this one here finds its lock held.
    list.places[place].pid.store(call::getpid(), Ordering::Release);
    list.has(place);
}

fn hold_place(place: usize) {
    let fd = LOCKS.load(Ordering::Acquire);
    if fd != 0 && place != SHARED {
        let _ = record_lock::take(fd, place as u64);
    }
}

/// [`join`]s the list if there is one.
pub(crate) fn rejoin() {
    if let Some(members) = members() {
        join(members);
    }
}

/// This process's image is about to be replaced. Without a file with locks it has to say that it holds nothing any
/// more; with one the kernel gives its lock back in that moment, and not if there is no exec.
pub(crate) fn leave_by_exec() {
    if LOCKS.load(Ordering::Acquire) == 0 {
        leave();
    }
}

/// Says that this process holds nothing any more.
pub(crate) fn leave() {
    if let Some(members) = members() {
        let place = place();
        if place != SHARED {
            members.places[place].pid.store(0, Ordering::Release);
        }
    }
}

/// One of the family's processes. Its place may be another's once it has died.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Member {
    place: u32,
    life: u32,
}

impl Member {
    /// As a word, which is 0 for a process without a family.
    pub(crate) fn word(self) -> u64 {
        u64::from(self.life) << 32 | u64::from(self.place)
    }

    pub(crate) fn from_word(word: u64) -> Member {
        Member { place: word as u32, life: (word >> 32) as u32 }
    }
}

/// This process.
pub(crate) fn me() -> Member {
    Member { place: place() as u32, life: LIFE.load(Ordering::Relaxed) }
}

/// Whether a process of the family still is, and has not become another program.
pub(crate) fn lives(member: Member) -> bool {
    let place = member.place as usize % MEMBERS;
    members().is_some_and(|members| {
        members.places[place].life.load(Ordering::Acquire) == member.life
            && is_alive(members, place)
    })
}

fn is_alive(members: &Members, place: usize) -> bool {
    match members.places[place].pid.load(Ordering::Acquire) {
        0 => false,
        EXPECTED => true,
        _ if place == SHARED || place == self::place() => true,
        pid => match LOCKS.load(Ordering::Acquire) {
            // Without the file: the process by that id, which is right in one PID namespace.
            0 => call::process_exists(pid),
            fd => {
                record_lock::is_held(fd, place as u64).unwrap_or_else(|_| call::process_exists(pid))
            }
        },
    }
}

/// A descriptor of the file with the family's locks, for the program that this process is about to become. (That
/// process closes the others as it does.)
#[derive(Debug)]
pub(crate) struct LocksToLeave {
    fd: Option<Fd>,
    /// In a child on this process's memory, with descriptors of its own.
    is_borrowed: bool,
}

impl LocksToLeave {
    /// `None` if there are no locks.
    pub(crate) fn new(is_borrowed: bool) -> Option<LocksToLeave> {
        let is_it = |fd: &i32| {
            let id = LOCKS_ID.load(Ordering::Acquire);
            id != 0 && call::file_id(*fd).is_ok_and(|(_, inode)| inode == id)
        };
        let locks = Some(LOCKS.load(Ordering::Acquire)).filter(is_it)?;
        let kept = Some(LOCKS_TO_LEAVE.load(Ordering::Acquire)).filter(is_it);
        let fd = match kept.filter(|_| !is_borrowed) {
            Some(kept) => Fd::own(kept),
            None => Fd::duplicate(locks, FILES_FROM).ok()?,
        };
        fd.outlasts_exec(true);
        Some(LocksToLeave { fd: Some(fd), is_borrowed })
    }

    /// What the program is told of it.
    pub(crate) fn passed(&self) -> Passed {
        let fd = self.fd.as_ref().map_or(-1, Fd::raw);
        Passed { fd, inode: LOCKS_ID.load(Ordering::Acquire) }
    }
}

impl Drop for LocksToLeave {
    /// The process has not become another program.
    fn drop(&mut self) {
        if let Some(fd) = self.fd.take()
            && !self.is_borrowed
        {
            fd.outlasts_exec(false);
            LOCKS_TO_LEAVE.store(fd.into_raw(), Ordering::Release);
        }
    }
}

/// Whether one of `holders` may live: of this process's family, which a copy of it may ask that is none of the family.
pub(crate) fn any_lives(holders: u64) -> bool {
    let (Some(members), Some(locks)) = (members(), locks()) else { return holders != 0 };
    let pid_of = |place: u32| {
        members.places.get(place as usize).map(|place| place.pid.load(Ordering::Acquire))
    };
    any_may_live(Holders::from_word(holders), locks, pid_of)
}

/// Answers the same for another family. `pid_of` reads its list, and `locks` is the file with its locks. What
/// cannot be found out counts as living: the processes that are not named, and those whose locks cannot be asked for.
pub(crate) fn any_may_live(
    holders: Holders,
    locks: i32,
    pid_of: impl Fn(u32) -> Option<i32>,
) -> bool {
    let may_live = |place: u32| {
        pid_of(place).is_none_or(|pid| pid == EXPECTED)
            || record_lock::is_held(locks, u64::from(place)).unwrap_or(true)
    };
    holders.may_be_more() || holders.places().any(may_live)
}

/// The file with the locks that tell which processes live.
pub(crate) fn locks() -> Option<i32> {
    Some(LOCKS.load(Ordering::Acquire)).filter(|&fd| fd != 0)
}

/// Which file that is: its inode.
pub(crate) fn locks_id() -> u64 {
    LOCKS_ID.load(Ordering::Acquire)
}

/// Whether it can be told of each of `holders` whether it lives.
pub(crate) fn are_told_apart(holders: u64) -> bool {
    locks().is_some() && !Holders::from_word(holders).may_be_more()
}

/// Whether living processes other than this one are among a connection's holders. Strikes the dead
/// ones out. Those that are not named count as living.
pub(crate) fn others_live(word: &AtomicU64) -> bool {
    let seen = word.load(Ordering::Acquire);
    if seen == only_me() {
        // At once for nearly every connection.
        return false;
    }
    let me = place();
    let holders = Holders::from_word(seen);
    if holders.without(me as u32).is_empty() {
        return false;
    }
    if holders.may_be_more() {
        // Whether those live that are not named, nothing tells.
        return true;
    }
    let Some(members) = members() else { return false };
    let mut alive = false;
    for place in holders.places().map(|place| place as usize).filter(|&place| place != me) {
        if is_alive(members, place) {
            alive = true;
        } else {
            strike(word, place);
        }
    }
    alive
}

/// Returns true if the family has had processes with more places than that, or in the shared one.
pub(crate) fn have_been(places: usize) -> bool {
    let has_shared = |members: &Members| members.places[SHARED].pid.load(Ordering::Acquire) != 0;
    members().is_some_and(|members| members.used().len() > places || has_shared(members))
}

/// The place that a child which is about to be forked will have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    pub(crate) place: usize,
    /// Whether it is no other process's.
    pub(crate) is_known: bool,
}

/// Before fork: takes a place for the child. `None` if there is no family.
pub(crate) fn expect() -> Option<Expected> {
    let members = members()?;
    RELATIVES.store(true, Ordering::Relaxed);
    let place = free_place(members).unwrap_or(SHARED);
    let is_known = place != SHARED;
    if is_known {
        // The process that had the place is known to be gone, even if the child dies before it joins.
        members.places[place].life.fetch_add(1, Ordering::AcqRel);
        members.has(place);
    } else {
        // Not empty even before the child runs.
        members.places[SHARED].pid.store(EXPECTED, Ordering::Release);
    }
    NEXT.store(place as u32, Ordering::Relaxed);
    Some(Expected { place, is_known })
}

/// Takes a place without a living process. It looks first at the place that was taken last, and behind it: most of those before
/// are taken still. To find out is a system call for each.
fn free_place(members: &Members) -> Option<usize> {
    let top = members.used().len();
    let take = |place: usize| {
        let pid = &members.places[place].pid;
        let seen = pid.load(Ordering::Acquire);
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        place % COUNTERS != self::place() % COUNTERS
            && !is_alive(members, place)
            && pid.compare_exchange(seen, EXPECTED, success, failure).is_ok()
    };
    let first = NEXT.load(Ordering::Relaxed) as usize;
    let used = (first..first + top).map(|place| place % top.max(1));
    let fresh = top..SHARED;
    used.clone().take(PASSED_BY).find(|&place| take(place)).or_else(|| {
        // All of them, where there is no fresh one.
        fresh.chain(used).find(|&place| take(place))
    })
}

/// Fork has failed: no process will come to that place.
pub(crate) fn expect_nobody() {
    let place = NEXT.load(Ordering::Relaxed) as usize % MEMBERS;
    if let Some(members) = members()
        && place != SHARED
    {
        let pid = &members.places[place].pid;
        let _ = pid.compare_exchange(EXPECTED, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

per_engine! {
    /// Whether this process may share the family's memory with another one.
    static RELATIVES: AtomicBool = AtomicBool::new(false);
}

/// Whether it may.
pub(crate) fn has_relatives() -> bool {
    RELATIVES.load(Ordering::Relaxed)
}

/// The family's memory is this process's alone from here on: it is the first of a new family. `list` is
/// what the family's list is going to be.
pub(crate) fn begin_anew(list: &Members) {
    PLACE.store(0, Ordering::Relaxed);
    RELATIVES.store(false, Ordering::Relaxed);
    for locks in [&LOCKS_TO_LEAVE, &LOCKS] {
        let locks = locks.swap(0, Ordering::AcqRel);
        if locks != 0 {
            // With it goes the lock on the old place.
            drop(Fd::keep(locks));
        }
    }
    found();
    join(list);
}

/// Where the family's list lies.
pub(crate) fn list() -> Option<&'static Members> {
    members()
}

/// In the child.
pub(crate) fn born() {
    if members().is_none() {
        // There is nothing to share yet; a thread of the parent may have been about to make it.
        LOCKS.store(0, Ordering::Release);
        LOCKS_TO_LEAVE.store(0, Ordering::Release);
    }
    PLACE.store(NEXT.load(Ordering::Relaxed), Ordering::Relaxed);
    rejoin();
}
