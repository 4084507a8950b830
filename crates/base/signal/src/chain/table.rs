//! The program's dispositions.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use libc::{SIG_DFL, SIG_IGN};
use syscalls::Sysno;

/// One above the highest signal number.
pub(super) const SIGNALS: usize = 65;

/// A disposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Action {
    pub(super) handler: usize,
    pub(super) flags: c_int,
    pub(super) mask: u64,
}

impl Action {
    /// The part of a libc structure that the kernel looks at.
    pub fn of(action: &libc::sigaction) -> Action {
        // SAFETY: a signal mask begins with its first 64 signals.
        let mask = unsafe { (&raw const action.sa_mask).cast::<u64>().read() };
        Action { handler: action.sa_sigaction, flags: action.sa_flags, mask }
    }

    /// Whether a function of the program's is to be called.
    pub fn is_handler(&self) -> bool {
        self.handler != SIG_DFL && self.handler != SIG_IGN
    }
}

/// A disposition that one thread writes at a time and handlers read.
#[derive(Debug)]
struct Cell {
    /// Odd while it is written.
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

    /// The disposition, and which one it is.
    fn get(&self) -> (Action, u32) {
        loop {
            // SYNC: pairs with the Release store in `set`: an even version's fields are whole.
            let before = self.version.load(Ordering::Acquire);
            let action = Action {
                handler: self.handler.load(Ordering::Relaxed),
                flags: self.flags.load(Ordering::Relaxed) as c_int,
                mask: self.mask.load(Ordering::Relaxed),
            };
            // SYNC: keeps the loads above before the one below.
            fence(Ordering::Acquire);
            if before & 1 == 0 && self.version.load(Ordering::Relaxed) == before {
                return (action, before);
            }
            core::hint::spin_loop();
        }
    }

    /// For the holder of a [`Change`] only.
    fn set(&self, action: &Action) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        // SYNC: keeps the odd version before the fields.
        fence(Ordering::Release);
        self.handler.store(action.handler, Ordering::Relaxed);
        self.flags.store(action.flags as u32, Ordering::Relaxed);
        self.mask.store(action.mask, Ordering::Relaxed);
        // SYNC: pairs with the Acquire load in `get`.
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }
}

/// What is known of one signal.
#[derive(Debug)]
pub(super) struct Slot {
    /// What the trampoline does.
    runs: Cell,
    /// What the program asked for last.
    shown: Cell,
    /// Whether the kernel has the trampoline.
    ours: AtomicBool,
    /// The version of `runs` whose handler, which is called once, has been called.
    used: AtomicU32,
}

sovia_sys::tables! {
    static SLOTS: [Slot; SIGNALS] = [const {
        Slot { runs: Cell::new(), shown: Cell::new(), ours: AtomicBool::new(false), used: AtomicU32::new(0) }
    }; SIGNALS];
}

/// A signal's slot.
pub(super) fn slot(signal: c_int) -> &'static Slot {
    &SLOTS[signal as usize % SIGNALS]
}

impl Slot {
    pub(super) fn get(&self) -> Action {
        self.runs.get().0
    }

    /// The same, and which one it is, for [`Slot::use_up`].
    pub(super) fn get_with_version(&self) -> (Action, u32) {
        self.runs.get()
    }

    /// What the trampoline is to do from now on.
    pub(super) fn set(&self, action: &Action) {
        self.runs.set(action);
    }

    /// What the program is to be told from now on.
    pub(super) fn show(&self, action: &Action) {
        self.shown.set(action);
    }

    pub(super) fn is_ours(&self) -> bool {
        self.ours.load(Ordering::Acquire)
    }

    pub(super) fn take(&self, ours: bool) {
        self.ours.store(ours, Ordering::Release);
    }

    /// Whether the handler of that version, which is called once, is called now.
    pub(super) fn use_up(&self, version: u32) -> bool {
        let is_later = |used: u32| version.wrapping_sub(used) as i32 > 0;
        let next = |used| is_later(used).then_some(version);
        self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_ok()
    }

    /// Whether the kernel has the trampoline for the disposition of that version still. Under a [`Change`].
    pub(super) fn is_still(&self, version: u32) -> bool {
        self.is_ours() && self.is_version(version)
    }

    fn is_version(&self, version: u32) -> bool {
        self.runs.version.load(Ordering::Acquire) == version
    }

    /// Puts the program's disposition in the place of ours.
    pub(super) fn answer(&self, kernel: &mut libc::sigaction, ours: usize) {
        if kernel.sa_sigaction == ours {
            let (shown, _) = self.shown.get();
            let is_used_up = shown.flags & libc::SA_RESETHAND != 0
                && shown.is_handler()
                && self.is_version(self.used.load(Ordering::Acquire));
            kernel.sa_sigaction = if is_used_up { SIG_DFL } else { shown.handler };
            kernel.sa_flags = shown.flags;
            // SAFETY: a signal mask begins with its first 64 signals.
            unsafe { (&raw mut kernel.sa_mask).cast::<u64>().write(shown.mask) };
        }
    }
}

/// Counts beginnings and ends of changes: odd while there is one.
static CHANGES: AtomicU32 = AtomicU32::new(0);
/// The thread that makes it, by the address of its state.
static CHANGER: AtomicUsize = AtomicUsize::new(0);

fn me() -> usize {
    core::ptr::from_ref(crate::thread::state()).addr()
}

/// Whether the calling thread is in the middle of a change: a handler for what a change does not block has interrupted it.
fn is_changer() -> bool {
    CHANGES.load(Ordering::Relaxed) & 1 != 0 && CHANGER.load(Ordering::Relaxed) == me()
}

/// What `look` finds, if no disposition is changed meanwhile, by another thread or by a handler on this one.
pub(super) fn undisturbed<R>(look: impl FnOnce() -> R) -> Option<R> {
    // SYNC: pairs with the Release store at the end of a change.
    let before = CHANGES.load(Ordering::Acquire);
    if before & 1 != 0 {
        return is_changer().then(look);
    }
    let found = look();
    // SYNC: keeps what has been looked at before the load.
    fence(Ordering::Acquire);
    (CHANGES.load(Ordering::Relaxed) == before).then_some(found)
}

/// The right to change dispositions, one thread at a time; no handler runs on it meanwhile, but for a debugger's breakpoint
/// and a filter's trap. Nothing of the program's is read or written under it: that might fault.
pub(super) struct Change {
    mask: u64,
    is_inner: bool,
}

/// Blocked, these would kill.
const NOT_BLOCKED: u64 = super::bit(libc::SIGTRAP) | super::bit(libc::SIGSYS);

impl Change {
    pub(super) fn begin() -> Change {
        let mut mask = 0u64;
        let all = !NOT_BLOCKED;
        // SAFETY: a system call on live locals.
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
        // SYNC: pairs with the Release store of the thread that changed before.
        while CHANGES.fetch_or(1, Ordering::Acquire) & 1 != 0 {
            // SAFETY: a system call without arguments.
            let _ = unsafe { syscalls::syscall!(Sysno::sched_yield) };
        }
        CHANGER.store(me(), Ordering::Relaxed);
        // SYNC: what is changed is seen changed only after the count.
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

/// In a forked child: the thread that was changing dispositions has stayed with the parent.
pub fn forked() {
    for cell in SLOTS.iter().flat_map(|slot| [&slot.runs, &slot.shown]) {
        let version = cell.version.load(Ordering::Relaxed);
        cell.version.store(version.wrapping_add(version & 1), Ordering::Relaxed);
    }
    CHANGER.store(0, Ordering::Relaxed);
    CHANGES.fetch_and(!1, Ordering::Release);
}
