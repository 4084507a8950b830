//! Table of the program's dispositions.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use libc::{SIG_DFL, SIG_IGN};
use syscalls::Sysno;

/// One above the highest signal number.
pub(super) const SIGNALS: usize = 65;

/// A disposition: handler, flags and mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Action {
    pub(super) handler: usize,
    pub(super) flags: c_int,
    pub(super) mask: u64,
}

impl Action {
    /// Copies the part of a libc structure that the kernel uses.
    pub fn of(action: &libc::sigaction) -> Action {
        // SAFETY: `sa_mask` begins with the mask of the first 64 signals.
        let mask = unsafe { (&raw const action.sa_mask).cast::<u64>().read() };
        Action { handler: action.sa_sigaction, flags: action.sa_flags, mask }
    }

    /// Returns true if the disposition calls a function of the program.
    pub fn is_handler(&self) -> bool {
        self.handler != SIG_DFL && self.handler != SIG_IGN
    }
}

/// A disposition that one thread at a time writes and that handlers read (a sequence lock).
#[derive(Debug)]
struct Cell {
    /// Odd during a write.
    version: AtomicU32,
    handler: AtomicUsize,
    flags: AtomicU32,
    mask: AtomicU64,
}

impl Cell {
    const fn new() -> Cell {
        Cell {
            version: AtomicU32::new(0),
            handler: AtomicUsize::new(SIG_DFL),
            flags: AtomicU32::new(0),
            mask: AtomicU64::new(0),
        }
    }

    /// Returns the disposition and its version.
    fn get(&self) -> (Action, u32) {
        loop {
            // SYNC: pairs with the Release store in `set`, so the fields of an even version are complete.
            let before = self.version.load(Ordering::Acquire);
            let action = Action {
                handler: self.handler.load(Ordering::Relaxed),
                flags: self.flags.load(Ordering::Relaxed) as c_int,
                mask: self.mask.load(Ordering::Relaxed),
            };
            // SYNC: pairs with the Release fence in `set`, and keeps the loads above before the load below.
            fence(Ordering::Acquire);
            if before & 1 == 0 && self.version.load(Ordering::Relaxed) == before {
                return (action, before);
            }
            core::hint::spin_loop();
        }
    }

    /// Writes the disposition. The caller holds a [`Change`].
    fn set(&self, action: &Action) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        // SYNC: pairs with the Acquire fence in `get`, and keeps the odd version before the fields.
        fence(Ordering::Release);
        self.handler.store(action.handler, Ordering::Relaxed);
        self.flags.store(action.flags as u32, Ordering::Relaxed);
        self.mask.store(action.mask, Ordering::Relaxed);
        // SYNC: pairs with the Acquire load in `get`.
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }
}

/// Data about one signal.
#[derive(Debug)]
pub(super) struct Slot {
    /// The disposition that the trampoline executes.
    runs: Cell,
    /// The disposition that the program has set last.
    shown: Cell,
    /// Set while the kernel has the trampoline.
    ours: AtomicBool,
    /// Version of `runs` whose one-time handler (SA_RESETHAND) has been called.
    used: AtomicU32,
}

sovia_sys::tables! {
    static SLOTS: [Slot; SIGNALS] = [const {
        Slot { runs: Cell::new(), shown: Cell::new(), ours: AtomicBool::new(false), used: AtomicU32::new(0) }
    }; SIGNALS];
}

/// Returns a signal's slot.
pub(super) fn slot(signal: c_int) -> &'static Slot {
    &SLOTS[signal as usize % SIGNALS]
}

impl Slot {
    pub(super) fn get(&self) -> Action {
        self.runs.get().0
    }

    /// Like [`Slot::get`], and also returns the version, for [`Slot::use_up`].
    pub(super) fn get_with_version(&self) -> (Action, u32) {
        self.runs.get()
    }

    /// Sets the disposition that the trampoline executes.
    pub(super) fn set(&self, action: &Action) {
        self.runs.set(action);
    }

    /// Sets the disposition that the program sees.
    pub(super) fn show(&self, action: &Action) {
        self.shown.set(action);
    }

    pub(super) fn is_ours(&self) -> bool {
        self.ours.load(Ordering::Acquire)
    }

    pub(super) fn take(&self, ours: bool) {
        self.ours.store(ours, Ordering::Release);
    }

    /// Claims the only call of a one-time handler. Returns true for the first caller with this version.
    pub(super) fn use_up(&self, version: u32) -> bool {
        let is_later = |used: u32| version.wrapping_sub(used) as i32 > 0;
        let next = |used| is_later(used).then_some(version);
        self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_ok()
    }

    /// Returns true if the kernel still has the trampoline for this version. The caller holds a [`Change`].
    pub(super) fn is_still(&self, version: u32) -> bool {
        self.is_ours() && self.is_version(version)
    }

    fn is_version(&self, version: u32) -> bool {
        self.runs.version.load(Ordering::Acquire) == version
    }

    /// Replaces the disposition in `kernel` by the program's, if it is the trampoline (`ours`).
    pub(super) fn answer(&self, kernel: &mut libc::sigaction, ours: usize) {
        if kernel.sa_sigaction == ours {
            let (shown, _) = self.shown.get();
            let is_used_up = shown.flags & libc::SA_RESETHAND != 0
                && shown.is_handler()
                && self.is_version(self.used.load(Ordering::Acquire));
            kernel.sa_sigaction = if is_used_up { SIG_DFL } else { shown.handler };
            kernel.sa_flags = shown.flags;
            // SAFETY: `sa_mask` begins with the mask of the first 64 signals, and is large enough for it.
            unsafe { (&raw mut kernel.sa_mask).cast::<u64>().write(shown.mask) };
        }
    }
}

/// Counts the beginnings and ends of changes; odd during a change.
static CHANGES: AtomicU32 = AtomicU32::new(0);
/// The thread that makes the change, by the address of its state; 0 for none.
static CHANGER: AtomicUsize = AtomicUsize::new(0);

fn me() -> usize {
    core::ptr::from_ref(crate::thread::state()).addr()
}

/// Returns true if the calling thread is making a change. Then a handler calls this, for a signal that a change
/// does not block.
fn is_changer() -> bool {
    CHANGES.load(Ordering::Relaxed) & 1 != 0 && CHANGER.load(Ordering::Relaxed) == me()
}

/// Calls `look` and returns its result. Returns `None` if another thread, or a handler on this thread, changes a
/// disposition meanwhile.
pub(super) fn undisturbed<R>(look: impl FnOnce() -> R) -> Option<R> {
    // SYNC: pairs with the Release addition at the end of a change.
    let before = CHANGES.load(Ordering::Acquire);
    if before & 1 != 0 {
        return is_changer().then(look);
    }
    let found = look();
    // SYNC: pairs with the Release fence in `Change::begin`, and keeps the loads of `look` before the load below.
    fence(Ordering::Acquire);
    (CHANGES.load(Ordering::Relaxed) == before).then_some(found)
}

/// The right to change dispositions, for one thread at a time. Meanwhile no handler runs on this thread, except
/// for a debugger's breakpoint and a filter's trap. The holder must not access the program's memory, because the
/// access might fault.
pub(super) struct Change {
    mask: u64,
    is_inner: bool,
}

/// Signals that kill the process if they are raised while blocked.
const NOT_BLOCKED: u64 = super::bit(libc::SIGTRAP) | super::bit(libc::SIGSYS);

impl Change {
    pub(super) fn begin() -> Change {
        let mut mask = 0u64;
        let all = !NOT_BLOCKED;
        // SAFETY: the system call reads and writes only live locals.
        let _ = unsafe {
            syscalls::syscall!(
                Sysno::rt_sigprocmask,
                libc::SIG_BLOCK,
                &raw const all,
                &raw mut mask,
                size_of::<u64>()
            )
        };
        if is_changer() {
            return Change { mask, is_inner: true };
        }
        // SYNC: pairs with the Release addition of the thread that made the last change.
        while CHANGES.fetch_or(1, Ordering::Acquire) & 1 != 0 {
            // SAFETY: the system call takes no arguments.
            let _ = unsafe { syscalls::syscall!(Sysno::sched_yield) };
        }
        CHANGER.store(me(), Ordering::Relaxed);
        // SYNC: pairs with the Acquire fence in `undisturbed`: a thread that sees the changes also sees the odd
        // count.
        fence(Ordering::Release);
        Change { mask, is_inner: false }
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        if !self.is_inner {
            CHANGER.store(0, Ordering::Relaxed);
            CHANGES.fetch_add(1, Ordering::Release);
        }
        super::set_mask(self.mask);
    }
}

/// Ends an unfinished change in a forked child. The thread that was making the change exists only in the parent.
pub fn forked() {
    for cell in SLOTS.iter().flat_map(|slot| [&slot.runs, &slot.shown]) {
        let version = cell.version.load(Ordering::Relaxed);
        cell.version.store(version.wrapping_add(version & 1), Ordering::Relaxed);
    }
    CHANGER.store(0, Ordering::Relaxed);
    CHANGES.fetch_and(!1, Ordering::Release);
}
