//! The processes of a family: which of them live, and which process slot each has.
//!
//! A process slot names its process among the holders of a connection ([`Holders`], [`crate::family`]). The family
//! has a memory file with one byte for each slot. While a process lives, it holds a record lock on its slot's byte.
//! The kernel releases the lock when the process ends or executes another program. Children do not inherit the
//! lock. The kernel can say in every PID namespace if the lock is held.

use crate::per_engine::per_engine;
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use sovia_control::inheritance::{FILES_FROM, Passed};
use sovia_control::stats_page::{Holders, PLACES};
use sovia_sys::{Fd, call, fd, record_lock};

/// Number of process slots. Processes that find no free slot share the last slot, which never becomes free. What
/// one of these processes holds, another may hold as well. So such a process is never the last holder, and its end
/// of a connection reaches the peer only by the kernel socket. Connections that such a process opens stay on TCP.
pub(crate) const MEMBERS: usize = PLACES as usize;
const SHARED: usize = MEMBERS - 1;
/// Number of used slots that a search for a free slot checks before it takes a slot that no process has had.
const PASSED_BY: usize = 8;
/// Number of counters of waiting threads in a connection. A process uses the counter of its slot, modulo this
/// number. A child never uses its parent's counter. A child forked during a wait also leaves this wait, and then
/// counts its own counter down without having counted up.
pub(crate) const COUNTERS: usize = 64;
/// Process id of a slot that is reserved for a child of a coming fork.
const EXPECTED: i32 = -1;
/// Largest process id of a slot that is reserved for a program that a process of the family executes. The program lives
/// while it has the descriptor with the lock on the slot's byte ([`Reserved`]). Each thread reserves slots by a process
/// id of its own. So no thread takes a slot that it has found unused, and that another thread has reserved meanwhile.
const STARTING: i32 = -2;
per_engine! {
    /// Slot of this process.
    static PLACE: AtomicU32 = AtomicU32::new(0);
    /// Bit of this process's slot in words of holders; [`NO_BIT`] if the slot has none.
    static BIT: AtomicU64 = AtomicU64::new(1);
    /// Number of this process among the processes that have had this slot.
    static LIFE: AtomicU32 = AtomicU32::new(0);
    /// Slot of the child that was forked last or is being forked.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    /// Descriptor of the file with the locks; 0 if there is no such file.
    static LOCKS: AtomicI32 = AtomicI32::new(0);
    /// Inode of the file with the locks. The inode identifies the file, because the program may close `LOCKS`
    /// without a hook and reuse the number.
    static LOCKS_ID: AtomicU64 = AtomicU64::new(0);
    /// The file with the family's records, whose bytes have locks for starting programs; 0 if there is none.
    static RECORDS: AtomicI32 = AtomicI32::new(0);
    /// Another descriptor of the file with the locks, for the program that this process executes; 0 if there is
    /// none. The descriptor stays open, because the close of any descriptor of the file releases this process's
    /// lock.
    static LOCKS_TO_LEAVE: AtomicI32 = AtomicI32::new(0);
}

/// A process slot.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Place {
    /// Process id in the process's own PID namespace; 0 for a free slot.
    pid: AtomicI32,
    /// Number of processes that have had this slot.
    life: AtomicU32,
}

/// The processes of the family.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Members {
    /// One above the highest slot that a process has had. The shared slot does not count: with it, each search
    /// would check all slots, at one system call a slot.
    top: AtomicU32,
    _rest: u32,
    places: [Place; MEMBERS],
}

impl Members {
    /// Records that a process has slot `place`, or is about to have it.
    fn has(&self, place: usize) {
        if place != SHARED {
            self.top.fetch_max(place as u32 + 1, Ordering::AcqRel);
        }
    }

    /// Returns all slots up to the highest slot that a process has had.
    fn used(&self) -> &[Place] {
        &self.places[..(self.top.load(Ordering::Acquire) as usize).min(MEMBERS)]
    }
}

/// Returns the offset of the process id of slot `place` in a family's list, in bytes.
pub(crate) const fn pid_at(place: u32) -> u64 {
    (offset_of!(Members, places) + place as usize * size_of::<Place>() + offset_of!(Place, pid))
        as u64
}

per_engine! {
    /// The family's list, at the same address in all processes of the family. Null until a connection is recorded.
    /// [`crate::family`] makes the list.
    pub(crate) static LIST: AtomicPtr<Members> = AtomicPtr::new(core::ptr::null_mut());
}

fn members() -> Option<&'static Members> {
    // SAFETY: the pointer is null, or leads to a list in a mapping that is never unmapped.
    unsafe { LIST.load(Ordering::Acquire).as_ref() }
}

/// Returns a word of holders with only this process.
#[inline]
pub(crate) fn only_me() -> u64 {
    with(Holders::NONE, place()).word()
}

/// Returns `holders` plus the process with slot `place`. For the shared slot, only marks that there may be more
/// holders.
fn with(holders: Holders, place: usize) -> Holders {
    if place == SHARED { holders.with_more() } else { holders.with(place as u32) }
}

/// Returns true if this process is one of `holders`. If this process has the shared slot, returns true if it may be
/// one of them.
#[inline]
pub(crate) fn has_me(holders: u64) -> bool {
    let (holders, place) = (Holders::from_word(holders), place());
    if place == SHARED { holders.may_be_more() } else { holders.names(place as u32) }
}

/// Adds the process with slot `place` to the holders in `word`. Returns false if `word` has no room for another
/// name. Then `word` says that there may be more holders.
pub(crate) fn add(word: &AtomicU64, place: usize) -> bool {
    let (_, now) = update(word, |holders| with(holders, place));
    place == SHARED || now.names(place as u32)
}

/// Adds the process with slot `place` to the holders in `word`. Returns false, and changes nothing, if `word` has no
/// room for another name.
pub(crate) fn add_if_room(word: &AtomicU64, place: usize) -> bool {
    let added = |seen| {
        let now = with(Holders::from_word(seen), place);
        now.names(place as u32).then(|| now.word())
    };
    word.fetch_update(Ordering::AcqRel, Ordering::Acquire, added).is_ok()
}

/// Adds this process to the holders in `word`.
pub(crate) fn add_me(word: &AtomicU64) {
    add(word, place());
}

/// Removes the process with slot `place` from the holders in `word`. Returns the holders before and after the call.
pub(crate) fn strike(word: &AtomicU64, place: usize) -> (Holders, Holders) {
    update(word, |holders| holders.without(place as u32))
}

/// Removes this process from the holders in `word`.
pub(crate) fn strike_me(word: &AtomicU64) {
    strike(word, place());
}

/// Changes the holders in `word`, and returns the old and the new holders. Does not write to `word` if the value
/// stays the same.
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

/// Value of [`BIT`] that no word of holders contains.
const NO_BIT: u64 = u64::MAX;

fn set_place(place: u32) {
    PLACE.store(place, Ordering::Relaxed);
    BIT.store(Holders::bit_of(place).unwrap_or(NO_BIT), Ordering::Relaxed);
}

/// Returns true if `holders` names this process by a bit. This is the usual case, and takes a few instructions.
#[inline(always)]
pub(crate) fn has_me_by_bit(holders: u64) -> bool {
    Holders::from_word(holders).has_bit(BIT.load(Ordering::Relaxed))
}

/// Returns the number of this process's slot.
#[inline]
pub(crate) fn place() -> usize {
    PLACE.load(Ordering::Relaxed) as usize % MEMBERS
}

/// Returns true if this process has a slot of its own, not the shared one.
pub(crate) fn is_known() -> bool {
    place() != SHARED
}

/// Makes the file with the locks, for a new list. Leaves `LOCKS` 0 if this fails.
pub(crate) fn found() {
    if !fd::can_be_spared() {
        // The program needs every descriptor that its limit allows. Without the file, processes are distinguished by
        // their ids, and connections stay on TCP.
        return;
    }
    let made = Fd::make(|| call::memfd_create(c"sovia-family", libc::MFD_CLOEXEC));
    // Do not keep a low descriptor number, because the program might close this number by mistake.
    let Some(file) = made.ok().filter(Fd::is_high) else { return };
    // Keep only one file. Another thread may make the list at the same time, and may have stored its file already.
    let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
    let id = call::file_id(file.raw()).map_or(0, |(_, inode)| inode);
    if LOCKS.compare_exchange(0, file.raw(), success, failure).is_ok() {
        LOCKS_ID.store(id, Ordering::Release);
        let _ = file.into_raw();
    }
}

/// Takes the lock of this process's slot, and records this process in `list`.
pub(crate) fn join(list: &Members) {
    let place = place();
    let life = list.places[place].life.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
    LIFE.store(life, Ordering::Relaxed);
    hold_place(place);
    // SYNC: the lock is taken before this Release store. A process that loads this id with Acquire finds the lock
    // held.
    list.places[place].pid.store(call::getpid(), Ordering::Release);
    list.has(place);
}

fn hold_place(place: usize) {
    let fd = LOCKS.load(Ordering::Acquire);
    if fd != 0 && place != SHARED {
        let _ = record_lock::take(fd, place as u64);
    }
}

/// Calls [`join`] if there is a list.
pub(crate) fn rejoin() {
    if let Some(members) = members() {
        join(members);
    }
}

/// Records before an exec that this process holds no connections any more, if there is no file with locks. With the
/// file, the kernel releases the lock at the exec, and only if the exec succeeds.
pub(crate) fn leave_by_exec() {
    if LOCKS.load(Ordering::Acquire) == 0 {
        leave();
    }
}

/// Records that this process holds no connections any more.
pub(crate) fn leave() {
    if let Some(members) = members() {
        let place = place();
        if place != SHARED {
            members.places[place].pid.store(0, Ordering::Release);
        }
    }
}

/// A process of the family. After the death of this process, another process may get its slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Member {
    place: u32,
    life: u32,
}

impl Member {
    /// Returns a word that names the process. 0 means a process without a family.
    pub(crate) fn word(self) -> u64 {
        u64::from(self.life) << 32 | u64::from(self.place)
    }

    pub(crate) fn from_word(word: u64) -> Member {
        Member { place: word as u32, life: (word >> 32) as u32 }
    }
}

/// Returns this process as a [`Member`].
pub(crate) fn me() -> Member {
    Member { place: place() as u32, life: LIFE.load(Ordering::Relaxed) }
}

/// Returns true if `member` lives and has not executed another program.
pub(crate) fn lives(member: Member) -> bool {
    let place = member.place as usize % MEMBERS;
    members().is_some_and(|members| {
        members.places[place].life.load(Ordering::Acquire) == member.life
            && is_alive(members, place)
    })
}

fn is_alive(members: &Members, place: usize) -> bool {
    let pid = &members.places[place].pid;
    loop {
        let seen = pid.load(Ordering::Acquire);
        let lives = match seen {
            0 => false,
            EXPECTED => true,
            ..=STARTING => match RECORDS.load(Ordering::Acquire) {
                0 => true,
                records => record_lock::is_held(records, place as u64).unwrap_or(true),
            },
            _ if place == SHARED || place == self::place() => true,
            _ => match LOCKS.load(Ordering::Acquire) {
                // Without the file, check the process id. The result is only right within one PID namespace.
                0 => call::process_exists(seen),
                fd => record_lock::is_held(fd, place as u64)
                    .unwrap_or_else(|_| call::process_exists(seen)),
            },
        };
        // A starting program takes its own lock and stores its id before it gives the other lock back.
        if lives || seen > STARTING || pid.load(Ordering::Acquire) == seen {
            return lives;
        }
    }
}

/// A descriptor of the file with the family's locks, for the program that this process is about to execute. The
/// exec closes all other descriptors of this file.
#[derive(Debug)]
pub(crate) struct LocksToLeave {
    fd: Option<Fd>,
    /// Set in a child of `vfork`, which runs on this process's memory with its own descriptor table.
    is_borrowed: bool,
}

impl LocksToLeave {
    /// Duplicates the descriptor. Returns `None` if there are no locks.
    pub(crate) fn new(is_borrowed: bool) -> Option<LocksToLeave> {
        let is_it = |fd: &i32| {
            let id = LOCKS_ID.load(Ordering::Acquire);
            id != 0 && call::file_id(*fd).is_ok_and(|(_, inode)| inode == id)
        };
        let locks = Some(LOCKS.load(Ordering::Acquire)).filter(is_it)?;
        let kept = (!is_borrowed).then(|| LOCKS_TO_LEAVE.swap(0, Ordering::AcqRel));
        let fd = match kept.filter(is_it) {
            Some(kept) => Fd::own(kept),
            None => Fd::duplicate(locks, FILES_FROM).ok()?,
        };
        Some(LocksToLeave { fd: Some(fd), is_borrowed })
    }

    /// Returns what this process tells the executed program about the file.
    pub(crate) fn passed(&self) -> Passed {
        let fd = self.fd.as_ref().map_or(-1, Fd::raw);
        Passed { fd, inode: LOCKS_ID.load(Ordering::Acquire) }
    }
}

impl Drop for LocksToLeave {
    /// Keeps the descriptor for the next exec. Runs only after an exec has failed.
    fn drop(&mut self) {
        if let Some(fd) = self.fd.take()
            && !self.is_borrowed
        {
            LOCKS_TO_LEAVE.store(fd.into_raw(), Ordering::Release);
        }
    }
}

/// Returns true if one of the `holders`, which belong to another family, may live. `pid_of` returns the process id of a
/// slot in that family's list. `locks` is the file with that family's locks. A process without a name in `holders`
/// counts as living, like one whose lock cannot be checked.
pub(crate) fn any_may_live(
    holders: Holders,
    locks: i32,
    pid_of: impl Fn(u32) -> Option<i32>,
) -> bool {
    let may_live = |place: u32| {
        pid_of(place).is_none_or(|pid| pid < 0)
            || record_lock::is_held(locks, u64::from(place)).unwrap_or(true)
    };
    holders.may_be_more() || holders.places().any(may_live)
}

/// Returns the file with the locks that show which processes live.
pub(crate) fn locks() -> Option<i32> {
    Some(LOCKS.load(Ordering::Acquire)).filter(|&fd| fd != 0)
}

/// Returns the inode of the file with the locks.
pub(crate) fn locks_id() -> u64 {
    LOCKS_ID.load(Ordering::Acquire)
}

/// Returns true if the holders in `word` include living processes other than this process. Removes dead processes
/// from `word`. Processes without a name in `word` count as living.
pub(crate) fn others_live(word: &AtomicU64) -> bool {
    let seen = word.load(Ordering::Acquire);
    if seen == only_me() {
        // This is the usual case, and needs no system call.
        return false;
    }
    let me = place();
    let holders = Holders::from_word(seen);
    if holders.without(me as u32).is_empty() {
        return false;
    }
    if holders.may_be_more() {
        // A process without a name cannot be checked.
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

/// Returns true if the family has had a process in a slot from number `places` on, or in the shared slot.
pub(crate) fn have_been(places: usize) -> bool {
    let has_shared = |members: &Members| members.places[SHARED].pid.load(Ordering::Acquire) != 0;
    members().is_some_and(|members| members.used().len() > places || has_shared(members))
}

/// The process slot of a child that is about to be forked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    pub(crate) place: usize,
    /// Set if the child does not get the shared slot.
    pub(crate) is_known: bool,
}

/// Records that `expected` is the slot of the child that is about to be forked.
pub(crate) fn is_next(expected: Expected) {
    NEXT.store(expected.place as u32, Ordering::Relaxed);
}

/// Reserves a slot for another process of the family, which this process is about to make. Returns `None` if there
/// is no family.
pub(crate) fn expect() -> Option<Expected> {
    let members = members()?;
    RELATIVES.store(true, Ordering::Relaxed);
    let place = free_place(members).unwrap_or(SHARED);
    let is_known = place != SHARED;
    if is_known {
        // Mark the slot's earlier process as gone, even if the child dies before it calls [`join`].
        members.places[place].life.fetch_add(1, Ordering::AcqRel);
        members.has(place);
    } else {
        // Mark the shared slot as used even before the child runs.
        members.places[SHARED].pid.store(EXPECTED, Ordering::Release);
    }
    Some(Expected { place, is_known })
}

/// Takes a slot without a living process. Searches from the slot that was taken last, because most slots below it
/// are still taken. Each check of a slot costs a system call.
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
        // First the slots that no process has had, then all used slots.
        fresh.chain(used).find(|&place| take(place))
    })
}

/// Frees the child's slot after a failed fork.
pub(crate) fn expect_nobody() {
    give_up(NEXT.load(Ordering::Relaxed) as usize % MEMBERS, EXPECTED);
}

/// Frees a slot that still has the process id `reserved`.
fn give_up(place: usize, reserved: i32) {
    if let Some(members) = members()
        && place != SHARED
    {
        let pid = &members.places[place].pid;
        let _ = pid.compare_exchange(reserved, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// A process slot for a program that this process executes.
#[derive(Debug)]
pub(crate) struct Reserved {
    pub(crate) place: usize,
    /// Process id by which the slot is reserved.
    pid: i32,
    /// A descriptor of the family's records, opened for the program. Its open file has the lock on the slot's byte.
    records: Fd,
}

impl Reserved {
    /// Reserves the slot `expected` for a program. Returns `None` if this is impossible.
    pub(crate) fn new(expected: Expected) -> Option<Reserved> {
        let reserved = if expected.is_known { Reserved::lock(expected.place) } else { None };
        if reserved.is_none() {
            give_up(expected.place, EXPECTED);
        }
        reserved
    }

    fn lock(place: usize) -> Option<Reserved> {
        let flags = libc::O_RDWR | libc::O_CLOEXEC;
        let opened = call::reopen(RECORDS.load(Ordering::Acquire), flags).map(Fd::keep).ok()?;
        record_lock::take_for_file(opened.raw(), place as u64).ok()?;
        let records = Fd::duplicate(opened.raw(), FILES_FROM).ok()?;
        let pid = STARTING - call::gettid();
        // SYNC: the lock is taken before this Release store, as in `join`.
        members()?.places[place].pid.store(pid, Ordering::Release);
        Some(Reserved { place, pid, records })
    }

    /// Returns the descriptor for the program.
    pub(crate) fn records(&self) -> &Fd {
        &self.records
    }

    /// Frees the slot, because no program has got the descriptor. A child that another thread has forked may have got
    /// it.
    pub(crate) fn free(self) {
        let _ = record_lock::give_back_for_file(self.records.raw(), self.place as u64);
        give_up(self.place, self.pid);
    }
}

/// Makes this process a process of an existing family, with the slot that was reserved for it. `list` is the family's
/// list. `locks` is a descriptor of the file with the family's locks.
pub(crate) fn take_reserved(list: &'static Members, place: u32, locks: Fd, locks_id: u64) {
    set_place(place);
    RELATIVES.store(true, Ordering::Relaxed);
    LOCKS_ID.store(locks_id, Ordering::Release);
    LOCKS.store(locks.into_raw(), Ordering::Release);
    LIST.store(core::ptr::from_ref(list).cast_mut(), Ordering::Release);
    join(list);
    // The process is now known by its own lock. The lock of the open file must not last longer than this process.
    let _ = record_lock::give_back_for_file(RECORDS.load(Ordering::Acquire), u64::from(place));
}

/// Stores the file with the family's records.
pub(crate) fn has_records(file: i32) {
    RECORDS.store(file, Ordering::Release);
}

per_engine! {
    /// Set while this process may share the family's memory with a forked relative.
    static RELATIVES: AtomicBool = AtomicBool::new(false);
}

/// Returns true if this process may have forked relatives.
pub(crate) fn has_relatives() -> bool {
    RELATIVES.load(Ordering::Relaxed)
}

/// Makes this process the first process of a new family. Called when this process replaces the family's memory by
/// its own. `list` will be the new family's list.
pub(crate) fn begin_anew(list: &Members) {
    set_place(0);
    RELATIVES.store(false, Ordering::Relaxed);
    for locks in [&LOCKS_TO_LEAVE, &LOCKS] {
        let locks = locks.swap(0, Ordering::AcqRel);
        if locks != 0 {
            // This close releases the lock on this process's old slot.
            drop(Fd::keep(locks));
        }
    }
    found();
    join(list);
}

/// Returns the family's list.
pub(crate) fn list() -> Option<&'static Members> {
    members()
}

/// Takes over the slot that the parent has reserved. Called in a forked child.
pub(crate) fn born() {
    if members().is_none() {
        // The parent has no list to share. A thread of the parent may have been about to make one, and its
        // descriptors are useless here.
        LOCKS.store(0, Ordering::Release);
        LOCKS_TO_LEAVE.store(0, Ordering::Release);
    }
    set_place(NEXT.load(Ordering::Relaxed));
    rejoin();
}
