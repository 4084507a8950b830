//! The processes of a family: which of them live, and which process slot each has.
//!
//! A process slot names its process in a connection's references ([`References`], [`crate::family`]). The family
//! has a memory file with one byte for each slot. While a process lives, it holds a record lock on its slot's byte.
//! The kernel releases the lock when the process ends or executes another program. Children do not inherit the
//! lock. The kernel can say in every PID namespace if the lock is held.

use crate::per_engine::per_engine;
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use sovia_control::inheritance::{FILES_FROM, Passed};
use sovia_control::stats_page::{PROCESS_SLOTS, References};
use sovia_sys::{Fd, call, fd, record_lock};

/// Number of process slots. Processes that find no free slot share the last slot, which never becomes free. What
/// one of these processes holds, another may hold as well. So such a process never has the last reference, and its end
/// of a connection reaches the peer only by the kernel socket. Connections that such a process opens stay on TCP.
pub(crate) const SLOTS: usize = PROCESS_SLOTS as usize;
const SHARED: usize = SLOTS - 1;
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
    static OWN_SLOT: AtomicU32 = AtomicU32::new(0);
    /// Bit of this process's slot in words of references; [`NO_BIT`] if the slot has none.
    static BIT: AtomicU64 = AtomicU64::new(1);
    /// Number of this process among the processes that have had this slot.
    static OWN_GENERATION: AtomicU32 = AtomicU32::new(0);
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
pub(crate) struct ProcessSlot {
    /// Process id in the process's own PID namespace; 0 for a free slot.
    pid: AtomicI32,
    /// Number of processes that have had this slot.
    generation: AtomicU32,
}

/// The processes of the family.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct ProcessSlots {
    /// One above the highest slot that a process has had. The shared slot does not count: with it, each search
    /// would check all slots, at one system call a slot.
    top: AtomicU32,
    _rest: u32,
    slots: [ProcessSlot; SLOTS],
}

impl ProcessSlots {
    /// Records that a process has slot `slot`, or is about to have it.
    fn has(&self, slot: usize) {
        if slot != SHARED {
            self.top.fetch_max(slot as u32 + 1, Ordering::AcqRel);
        }
    }

    /// Returns all slots up to the highest slot that a process has had.
    fn used(&self) -> &[ProcessSlot] {
        &self.slots[..(self.top.load(Ordering::Acquire) as usize).min(SLOTS)]
    }
}

/// Returns the offset of the process id of slot `slot` in a family's list, in bytes.
pub(crate) const fn pid_at(slot: u32) -> u64 {
    (offset_of!(ProcessSlots, slots)
        + slot as usize * size_of::<ProcessSlot>()
        + offset_of!(ProcessSlot, pid)) as u64
}

per_engine! {
    /// The family's list, at the same address in all processes of the family. Null until a connection is recorded.
    /// [`crate::family`] makes the list.
    pub(crate) static LIST: AtomicPtr<ProcessSlots> = AtomicPtr::new(core::ptr::null_mut());
}

fn family_slots() -> Option<&'static ProcessSlots> {
    // SAFETY: the pointer is null, or leads to a list in a mapping that is never unmapped.
    unsafe { LIST.load(Ordering::Acquire).as_ref() }
}

/// Returns a word of references with only this process.
#[inline]
pub(crate) fn only_me() -> u64 {
    with(References::NONE, own_slot()).word()
}

/// Returns `references` plus the process with slot `slot`. For the shared slot, only marks that there may be more
/// references.
fn with(references: References, slot: usize) -> References {
    if slot == SHARED { references.with_more() } else { references.with(slot as u32) }
}

/// Returns true if this process is one of `references`. If this process has the shared slot, returns true if it may be
/// one of them.
#[inline]
pub(crate) fn has_me(references: u64) -> bool {
    let (references, slot) = (References::from_word(references), own_slot());
    if slot == SHARED { references.may_be_more() } else { references.names(slot as u32) }
}

/// Adds the process with slot `slot` to the references in `word`. Returns false if `word` has no room for another
/// name. Then `word` says that there may be more references.
pub(crate) fn add(word: &AtomicU64, slot: usize) -> bool {
    let (_, now) = update(word, |references| with(references, slot));
    slot == SHARED || now.names(slot as u32)
}

/// Adds the process with slot `slot` to the references in `word`. Returns false, and changes nothing, if `word` has no
/// room for another name.
pub(crate) fn add_if_room(word: &AtomicU64, slot: usize) -> bool {
    let added = |seen| {
        let now = with(References::from_word(seen), slot);
        now.names(slot as u32).then(|| now.word())
    };
    word.fetch_update(Ordering::AcqRel, Ordering::Acquire, added).is_ok()
}

/// Adds this process to the references in `word`.
pub(crate) fn add_me(word: &AtomicU64) {
    add(word, own_slot());
}

/// Removes the process with slot `slot` from the references in `word`. Returns the references before and after the
/// call.
pub(crate) fn strike(word: &AtomicU64, slot: usize) -> (References, References) {
    update(word, |references| references.without(slot as u32))
}

/// Removes this process from the references in `word`.
pub(crate) fn strike_me(word: &AtomicU64) {
    strike(word, own_slot());
}

/// Changes the references in `word`, and returns the old and the new references. Does not write to `word` if the value
/// stays the same.
fn update(word: &AtomicU64, change: impl Fn(References) -> References) -> (References, References) {
    let changed = |seen| {
        let now = change(References::from_word(seen)).word();
        (now != seen).then_some(now)
    };
    match word.fetch_update(Ordering::AcqRel, Ordering::Acquire, changed) {
        Ok(before) => (References::from_word(before), change(References::from_word(before))),
        Err(same) => (References::from_word(same), References::from_word(same)),
    }
}

/// Value of [`BIT`] that no word of references contains.
const NO_BIT: u64 = u64::MAX;

fn set_own_slot(slot: u32) {
    OWN_SLOT.store(slot, Ordering::Relaxed);
    BIT.store(References::bit_of(slot).unwrap_or(NO_BIT), Ordering::Relaxed);
}

/// Returns true if `references` names this process by a bit. This is the usual case, and takes a few instructions.
#[inline(always)]
pub(crate) fn has_me_by_bit(references: u64) -> bool {
    References::from_word(references).has_bit(BIT.load(Ordering::Relaxed))
}

/// Returns the number of this process's slot.
#[inline]
pub(crate) fn own_slot() -> usize {
    OWN_SLOT.load(Ordering::Relaxed) as usize % SLOTS
}

/// Returns true if this process has a slot of its own, not the shared one.
pub(crate) fn is_known() -> bool {
    own_slot() != SHARED
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
pub(crate) fn join(list: &ProcessSlots) {
    let slot = own_slot();
    let generation = list.slots[slot].generation.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
    OWN_GENERATION.store(generation, Ordering::Relaxed);
    lock_slot(slot);
    // SYNC: the lock is taken before this Release store. A process that loads this id with Acquire finds the lock
    // held.
    list.slots[slot].pid.store(call::getpid(), Ordering::Release);
    list.has(slot);
}

fn lock_slot(slot: usize) {
    let fd = LOCKS.load(Ordering::Acquire);
    if fd != 0 && slot != SHARED {
        let _ = record_lock::take(fd, slot as u64);
    }
}

/// Calls [`join`] if there is a list.
pub(crate) fn rejoin() {
    if let Some(family_slots) = family_slots() {
        join(family_slots);
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
    if let Some(family_slots) = family_slots() {
        let slot = own_slot();
        if slot != SHARED {
            family_slots.slots[slot].pid.store(0, Ordering::Release);
        }
    }
}

/// A process of the family. After the death of this process, another process may get its slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct FamilyProcess {
    slot: u32,
    generation: u32,
}

impl FamilyProcess {
    /// Returns a word that names the process. 0 means a process without a family.
    pub(crate) fn word(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot)
    }

    pub(crate) fn from_word(word: u64) -> FamilyProcess {
        FamilyProcess { slot: word as u32, generation: (word >> 32) as u32 }
    }
}

/// Returns this process as a [`FamilyProcess`].
pub(crate) fn me() -> FamilyProcess {
    FamilyProcess { slot: own_slot() as u32, generation: OWN_GENERATION.load(Ordering::Relaxed) }
}

/// Returns true if `process` lives and has not executed another program.
pub(crate) fn lives(process: FamilyProcess) -> bool {
    let slot = process.slot as usize % SLOTS;
    family_slots().is_some_and(|family_slots| {
        family_slots.slots[slot].generation.load(Ordering::Acquire) == process.generation
            && is_alive(family_slots, slot)
    })
}

fn is_alive(family_slots: &ProcessSlots, slot: usize) -> bool {
    let pid = &family_slots.slots[slot].pid;
    loop {
        let seen = pid.load(Ordering::Acquire);
        let lives = match seen {
            0 => false,
            EXPECTED => true,
            ..=STARTING => match RECORDS.load(Ordering::Acquire) {
                0 => true,
                records => record_lock::is_held(records, slot as u64).unwrap_or(true),
            },
            _ if slot == SHARED || slot == own_slot() => true,
            _ => match LOCKS.load(Ordering::Acquire) {
                // Without the file, check the process id. The result is only right within one PID namespace.
                0 => call::process_exists(seen),
                fd => record_lock::is_held(fd, slot as u64)
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

/// Returns true if one of the `references`, which belong to another family, may live. `pid_of` returns the process id
/// of a slot in that family's list. `locks` is the file with that family's locks. A process without a name in
/// `references` counts as living, like one whose lock cannot be checked.
pub(crate) fn any_may_live(
    references: References,
    locks: i32,
    pid_of: impl Fn(u32) -> Option<i32>,
) -> bool {
    let may_live = |slot: u32| {
        pid_of(slot).is_none_or(|pid| pid < 0)
            || record_lock::is_held(locks, u64::from(slot)).unwrap_or(true)
    };
    references.may_be_more() || references.slots().any(may_live)
}

/// Returns the file with the locks that show which processes live.
pub(crate) fn locks() -> Option<i32> {
    Some(LOCKS.load(Ordering::Acquire)).filter(|&fd| fd != 0)
}

/// Returns the inode of the file with the locks.
pub(crate) fn locks_id() -> u64 {
    LOCKS_ID.load(Ordering::Acquire)
}

/// Returns true if the references in `word` include living processes other than this process. Removes dead processes
/// from `word`. Processes without a name in `word` count as living.
pub(crate) fn others_live(word: &AtomicU64) -> bool {
    let seen = word.load(Ordering::Acquire);
    if seen == only_me() {
        // This is the usual case, and needs no system call.
        return false;
    }
    let me = own_slot();
    let references = References::from_word(seen);
    if references.without(me as u32).is_empty() {
        return false;
    }
    if references.may_be_more() {
        // A process without a name cannot be checked.
        return true;
    }
    let Some(family_slots) = family_slots() else { return false };
    let mut alive = false;
    for slot in references.slots().map(|slot| slot as usize).filter(|&slot| slot != me) {
        if is_alive(family_slots, slot) {
            alive = true;
        } else {
            strike(word, slot);
        }
    }
    alive
}

/// Returns true if the family has had a process in a slot from number `slots` on, or in the shared slot.
pub(crate) fn have_been(slots: usize) -> bool {
    let has_shared =
        |family_slots: &ProcessSlots| family_slots.slots[SHARED].pid.load(Ordering::Acquire) != 0;
    family_slots()
        .is_some_and(|family_slots| family_slots.used().len() > slots || has_shared(family_slots))
}

/// The process slot of a child that is about to be forked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    pub(crate) slot: usize,
    /// Set if the child does not get the shared slot.
    pub(crate) is_known: bool,
}

/// Records that `expected` is the slot of the child that is about to be forked.
pub(crate) fn is_next(expected: Expected) {
    NEXT.store(expected.slot as u32, Ordering::Relaxed);
}

/// Reserves a slot for another process of the family, which this process is about to make. Returns `None` if there
/// is no family.
pub(crate) fn expect() -> Option<Expected> {
    let family_slots = family_slots()?;
    RELATIVES.store(true, Ordering::Relaxed);
    let slot = free_slot(family_slots).unwrap_or(SHARED);
    let is_known = slot != SHARED;
    if is_known {
        // Mark the slot's earlier process as gone, even if the child dies before it calls [`join`].
        family_slots.slots[slot].generation.fetch_add(1, Ordering::AcqRel);
        family_slots.has(slot);
    } else {
        // Mark the shared slot as used even before the child runs.
        family_slots.slots[SHARED].pid.store(EXPECTED, Ordering::Release);
    }
    Some(Expected { slot, is_known })
}

/// Takes a slot without a living process. Searches from the slot that was taken last, because most slots below it
/// are still taken. Each check of a slot costs a system call.
fn free_slot(family_slots: &ProcessSlots) -> Option<usize> {
    let top = family_slots.used().len();
    let take = |slot: usize| {
        let pid = &family_slots.slots[slot].pid;
        let seen = pid.load(Ordering::Acquire);
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        slot % COUNTERS != own_slot() % COUNTERS
            && !is_alive(family_slots, slot)
            && pid.compare_exchange(seen, EXPECTED, success, failure).is_ok()
    };
    let first = NEXT.load(Ordering::Relaxed) as usize;
    let used = (first..first + top).map(|slot| slot % top.max(1));
    let fresh = top..SHARED;
    used.clone().take(PASSED_BY).find(|&slot| take(slot)).or_else(|| {
        // First the slots that no process has had, then all used slots.
        fresh.chain(used).find(|&slot| take(slot))
    })
}

/// Frees the child's slot after a failed fork.
pub(crate) fn expect_nobody() {
    give_up(NEXT.load(Ordering::Relaxed) as usize % SLOTS, EXPECTED);
}

/// Frees a slot that still has the process id `reserved`.
fn give_up(slot: usize, reserved: i32) {
    if let Some(family_slots) = family_slots()
        && slot != SHARED
    {
        let pid = &family_slots.slots[slot].pid;
        let _ = pid.compare_exchange(reserved, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// A process slot for a program that this process executes.
#[derive(Debug)]
pub(crate) struct Reserved {
    pub(crate) slot: usize,
    /// Process id by which the slot is reserved.
    pid: i32,
    /// A descriptor of the family's records, opened for the program. Its open file has the lock on the slot's byte.
    records: Fd,
}

impl Reserved {
    /// Reserves the slot `expected` for a program. Returns `None` if this is impossible.
    pub(crate) fn new(expected: Expected) -> Option<Reserved> {
        let reserved = if expected.is_known { Reserved::lock(expected.slot) } else { None };
        if reserved.is_none() {
            give_up(expected.slot, EXPECTED);
        }
        reserved
    }

    fn lock(slot: usize) -> Option<Reserved> {
        let flags = libc::O_RDWR | libc::O_CLOEXEC;
        let opened = call::reopen(RECORDS.load(Ordering::Acquire), flags).map(Fd::keep).ok()?;
        record_lock::take_for_file(opened.raw(), slot as u64).ok()?;
        let records = Fd::duplicate(opened.raw(), FILES_FROM).ok()?;
        let pid = STARTING - call::gettid();
        // SYNC: the lock is taken before this Release store, as in `join`.
        family_slots()?.slots[slot].pid.store(pid, Ordering::Release);
        Some(Reserved { slot, pid, records })
    }

    /// Returns the descriptor for the program.
    pub(crate) fn records(&self) -> &Fd {
        &self.records
    }

    /// Frees the slot, because no program has got the descriptor. A child that another thread has forked may have got
    /// it.
    pub(crate) fn free(self) {
        let _ = record_lock::give_back_for_file(self.records.raw(), self.slot as u64);
        give_up(self.slot, self.pid);
    }
}

/// Makes this process a process of an existing family, with the slot that was reserved for it. `list` is the family's
/// list. `locks` is a descriptor of the file with the family's locks.
pub(crate) fn take_reserved(list: &'static ProcessSlots, slot: u32, locks: Fd, locks_id: u64) {
    set_own_slot(slot);
    RELATIVES.store(true, Ordering::Relaxed);
    LOCKS_ID.store(locks_id, Ordering::Release);
    LOCKS.store(locks.into_raw(), Ordering::Release);
    LIST.store(core::ptr::from_ref(list).cast_mut(), Ordering::Release);
    join(list);
    // The process is now known by its own lock. The lock of the open file must not last longer than this process.
    let _ = record_lock::give_back_for_file(RECORDS.load(Ordering::Acquire), u64::from(slot));
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
pub(crate) fn begin_anew(list: &ProcessSlots) {
    set_own_slot(0);
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
pub(crate) fn list() -> Option<&'static ProcessSlots> {
    family_slots()
}

/// Takes over the slot that the parent has reserved. Called in a forked child.
pub(crate) fn born() {
    if family_slots().is_none() {
        // The parent has no list to share. A thread of the parent may have been about to make one, and its
        // descriptors are useless here.
        LOCKS.store(0, Ordering::Release);
        LOCKS_TO_LEAVE.store(0, Ordering::Release);
    }
    set_own_slot(NEXT.load(Ordering::Relaxed));
    rejoin();
}
