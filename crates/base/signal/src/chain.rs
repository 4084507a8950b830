//! The signal handler that runs before every handler of the program.
//!
//! The kernel gets `trampoline` for each signal that the program handles. A table here keeps the program's
//! dispositions, and answers the program's questions about them. The trampoline does one of the following:
//!
//! - It resumes a copy that met a bad address ([`crate::access`]).
//! - It defers a signal that arrives in a critical section ([`sovia_sync::critical_section`]). The trampoline queues
//!   the signal again, with the signal's details, and returns with all signals blocked. The end of the section
//!   restores the mask.
//! - Otherwise it calls the program's handler, on the stack and with the mask that the kernel chose for this
//!   handler.
//!
//! Signals that the kernel raises for an instruction are never deferred.

mod mask;
mod place;
mod table;
mod trampoline;

pub(crate) use mask::set_mask;
pub use mask::{believe, believed, kernel_mask, passed_on};
pub use place::{goes_on_at, is_in_handler, stack_of, switches};
pub use table::{Action, forked};

use crate::thread::{State, state};
use crate::{access, interrupt};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence};
use libc::{SIG_IGN, SIGBUS, SIGSEGV, siginfo_t, ucontext_t};
use sovia_sync::critical_section;
use syscalls::Sysno;
use table::{SIGNALS, slot};
use trampoline::trampoline;

/// libc's `sigaction`.
pub type Sigaction =
    unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int;

/// libc's `sigaction`; 0 before [`start`].
static INSTALL: AtomicUsize = AtomicUsize::new(0);
/// Set after the handler for faults has been installed.
static GUARDED: AtomicBool = AtomicBool::new(false);

/// Set if handlers run at once, even in sections.
static AT_ONCE: AtomicBool = AtomicBool::new(false);

/// glibc's SIGSETXID. A thread that changes its credentials waits until all other threads have handled this
/// signal.
const SIGSETXID: c_int = 33;

/// Flag that libc adds for the kernel and also shows to the program; 0 on processors without it.
const SA_RESTORER: c_int = if cfg!(target_arch = "x86_64") { 0x0400_0000 } else { 0 };

const fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// Signals that the kernel raises for an instruction. Blocked, they kill the process.
const FAULTS: u64 = bit(SIGSEGV)
    | bit(SIGBUS)
    | bit(libc::SIGFPE)
    | bit(libc::SIGILL)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGSYS);

/// Faults of memory, which must reach the trampoline whatever the program blocks.
pub const MEMORY_FAULTS: u64 = bit(SIGSEGV) | bit(SIGBUS);

/// Flags that the kernel keeps since Linux 5.11 (UAPI_SA_FLAGS). The kernel clears all other flags. A program can
/// read the flags back, and so find out which ones the kernel supports.
const KNOWN: c_int = libc::SA_NOCLDSTOP
    | libc::SA_NOCLDWAIT
    | libc::SA_SIGINFO
    | libc::SA_ONSTACK
    | libc::SA_RESTART
    | libc::SA_NODEFER
    | libc::SA_RESETHAND
    | SA_EXPOSE_TAGBITS
    | SA_RESTORER;
const SA_EXPOSE_TAGBITS: c_int = 0x800;

/// Signals that the kernel removes from every mask.
const NEVER_BLOCKED: u64 = bit(libc::SIGKILL) | bit(libc::SIGSTOP);

/// Signals that stay blocked from the deferral of a signal until the end of the section.
const HELD_BACK: u64 = !(FAULTS | bit(SIGSETXID));

/// Starts the use of this handler. `install` is libc's own `sigaction`.
pub fn start(install: Sigaction) {
    critical_section::on_leave(let_in);
    INSTALL.store(install as usize, Ordering::Release);
}

/// Makes all handlers run at once from now on, even in a section. For a process that must make no system call
/// except the program's own, because deferring a signal takes system calls.
pub fn put_nothing_off() {
    AT_ONCE.store(true, Ordering::SeqCst);
}

/// Returns true after a call of [`start`].
pub fn is_started() -> bool {
    INSTALL.load(Ordering::Acquire) != 0
}

fn install(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
    let address = INSTALL.load(Ordering::Acquire);
    if address == 0 {
        return -1;
    }
    // SAFETY: only `start` stores here, and it stores a function of this type. The callers in this module pass
    // null or pointers to live structures.
    unsafe { core::mem::transmute::<usize, Sigaction>(address)(signal, new, old) }
}

/// Returns true if bad addresses are reported instead of killing the program. Installs the handler for faults if
/// needed.
#[inline]
pub fn guards() -> bool {
    GUARDED.load(Ordering::Acquire) || guard()
}

#[cold]
fn guard() -> bool {
    if INSTALL.load(Ordering::Acquire) == 0 {
        return false;
    }
    for signal in [SIGSEGV, SIGBUS] {
        let _change = table::Change::begin();
        let slot = slot(signal);
        if slot.is_ours() {
            continue;
        }
        let mut before: libc::sigaction = unset();
        if install(signal, core::ptr::null(), &raw mut before) != 0 {
            return false;
        }
        slot.show(&Action::of(&before));
        let mut action = Action::of(&before);
        if !action.is_handler() {
            // After an overflow of the stack, the handler needs the program's alternate stack, if there is one.
            action.flags = libc::SA_ONSTACK | libc::SA_RESTART;
        }
        slot.set(&action);
        if install(signal, &kernels(&action), core::ptr::null_mut()) != 0 {
            return false;
        }
        slot.take(true);
    }
    GUARDED.store(true, Ordering::Release);
    true
}

/// Returns true if the handler for faults is installed.
#[inline]
pub fn is_guarding() -> bool {
    GUARDED.load(Ordering::Acquire)
}

/// Returns the disposition that the kernel gets for a handler of the program.
fn kernels(action: &Action) -> libc::sigaction {
    let mut given = unset();
    given.sa_sigaction = trampoline as *const () as usize;
    // The trampoline itself resets the handler (SA_RESETHAND), because a deferred signal has not been handled
    // yet.
    given.sa_flags = (action.flags & !libc::SA_RESETHAND) | libc::SA_SIGINFO;
    // SAFETY: `sa_mask` begins with the mask of the first 64 signals, and is large enough for it.
    unsafe { (&raw mut given.sa_mask).cast::<u64>().write(action.mask & !MEMORY_FAULTS) };
    given
}

/// Returns the disposition that the kernel leaves after it has reset a handler (SA_RESETHAND).
fn used_up(action: &Action) -> libc::sigaction {
    let mut left = unset();
    left.sa_flags = action.flags;
    // SAFETY: `sa_mask` begins with the mask of the first 64 signals, and is large enough for it.
    unsafe { (&raw mut left.sa_mask).cast::<u64>().write(action.mask) };
    left
}

fn unset() -> libc::sigaction {
    // SAFETY: `sigaction` is plain data, and all-zero bytes are the default disposition.
    unsafe { core::mem::zeroed() }
}

/// Does `sigaction` for the program. Returns true on success; otherwise libc has set `errno`. `borrowed`: the
/// caller is a child that borrows this process's memory (vfork) and has its own dispositions.
pub fn change(
    signal: c_int,
    new: Option<&libc::sigaction>,
    old: Option<&mut libc::sigaction>,
    borrowed: bool,
) -> bool {
    if !(1..SIGNALS as c_int).contains(&signal) || INSTALL.load(Ordering::Acquire) == 0 {
        let new = new.map_or(core::ptr::null(), core::ptr::from_ref);
        let old = old.map_or(core::ptr::null_mut(), core::ptr::from_mut);
        return install(signal, new, old) == 0;
    }
    // Read the program's structure before a change begins, because the access may fault.
    let new = new.copied();
    let before = match new {
        None => table::undisturbed(|| now(signal)).unwrap_or_else(|| {
            let _change = table::Change::begin();
            now(signal)
        }),
        Some(new) if borrowed => {
            let _change = table::Change::begin();
            put(signal, &new).map(|before| as_shown(signal, before))
        }
        Some(new) => put_through(signal, &new),
    };
    let Some(before) = before else { return false };
    if let Some(old) = old {
        *old = before;
    }
    true
}

/// Returns a signal's disposition as the program sees it.
fn now(signal: c_int) -> Option<libc::sigaction> {
    let mut kernel = unset();
    let done = install(signal, core::ptr::null(), &raw mut kernel) == 0;
    done.then(|| as_shown(signal, kernel))
}

fn as_shown(signal: c_int, mut kernel: libc::sigaction) -> libc::sigaction {
    slot(signal).answer(&mut kernel, trampoline as *const () as usize);
    kernel
}

/// Gives a disposition to the kernel, and returns the one before.
fn put(signal: c_int, new: &libc::sigaction) -> Option<libc::sigaction> {
    let mut before = unset();
    (install(signal, new, &raw mut before) == 0).then_some(before)
}

/// Sets the program's disposition. If this is a handler, the kernel gets the trampoline. Returns the disposition
/// before, as the program sees it.
fn put_through(signal: c_int, new: &libc::sigaction) -> Option<libc::sigaction> {
    let _change = table::Change::begin();
    let slot = slot(signal);
    let action = Action::of(new);
    let guarded = bit(signal) & MEMORY_FAULTS != 0 && slot.is_ours();
    let before = if action.is_handler() {
        let last = slot.get();
        // Ask before `set`, because the answer depends on whether a one-time handler has been called.
        let before = now(signal)?;
        slot.set(&action);
        if put(signal, &kernels(&action)).is_none() {
            slot.set(&last);
            return None;
        }
        before
    } else if guarded && GUARDED.load(Ordering::Acquire) {
        // The handler for faults stays installed, and acts as the kernel would.
        let before = now(signal)?;
        slot.set(&action);
        before
    } else {
        // The table keeps the last handler, because a thread may be about to call it.
        as_shown(signal, put(signal, new)?)
    };
    let shown = Action {
        flags: action.flags & KNOWN | SA_RESTORER,
        mask: action.mask & !NEVER_BLOCKED,
        ..action
    };
    slot.show(&shown);
    slot.take(action.is_handler() || guarded);
    Some(before)
}

/// Replaces the kernel's disposition by the one that the program sees.
pub fn shown(signal: c_int, kernel: &mut libc::sigaction) {
    if (1..SIGNALS as c_int).contains(&signal) {
        slot(signal).answer(kernel, trampoline as *const () as usize);
    }
}

/// Instructions for the trampoline.
#[repr(C)]
struct Next {
    /// Address of the program's handler; 0 if no handler must run.
    handler: usize,
    /// Argument for [`end`]; 0 for an outermost handler.
    outer: usize,
}

impl Next {
    const NONE: Next = Next { handler: 0, outer: 0 };
}

/// Handles a signal before the program's handler, and returns this handler if it must run now.
///
/// # Safety
/// Only for the trampoline: the arguments must be those that the kernel passes to a handler.
unsafe extern "C" fn begin(signal: c_int, info: *mut siginfo_t, context: *mut c_void) -> Next {
    let state = state();
    // SAFETY: by contract the kernel has passed these pointers, and they are valid until the handler returns.
    let (info, context) = unsafe { (&mut *info, &mut *context.cast::<ucontext_t>()) };
    let code = info.si_code;
    if code > 0 && bit(signal) & FAULTS != 0 {
        if bit(signal) & MEMORY_FAULTS != 0 && access::resume(context) {
            return Next::NONE;
        }
    } else if critical_section::is_inside() && !AT_ONCE.load(Ordering::Relaxed) {
        put_off(state, signal, info, context);
        return Next::NONE;
    }
    restore_details(state, info);
    let Some(action) = next_action(signal, info, info.si_code) else { return Next::NONE };
    interrupt::count(state, bit(signal), action.flags & libc::SA_RESTART != 0);
    Next { handler: action.handler, outer: place::enter(state, context) }
}

/// Finishes after the program's handler has returned.
///
/// # Safety
/// Only for the trampoline: `context` must be the pointer that the kernel passes to a handler.
unsafe extern "C" fn end(context: *mut c_void, outer: usize) {
    // SAFETY: by contract the kernel has passed this pointer, and it is valid until the handler returns.
    let context = unsafe { &mut *context.cast::<ucontext_t>() };
    place::leave(context, outer);
    interrupt::land(context);
}

/// Records that an outermost handler is being unwound. The unwinder calls this personality routine for the
/// trampoline's frame. The routine calls no function of the unwinder, because a program may have brought its own
/// unwinder.
extern "C" fn unwound(
    _version: c_int,
    actions: c_int,
    _class: u64,
    _exception: *mut c_void,
    _context: *mut c_void,
) -> c_int {
    /// Flag of `actions`: the unwinder removes the frame. Without it, the unwinder only searches for the function
    /// that catches the exception.
    const CLEANUP_PHASE: c_int = 2;
    const CONTINUE_UNWIND: c_int = 8;
    if actions & CLEANUP_PHASE != 0 {
        place::unwound();
    }
    CONTINUE_UNWIND
}

/// Defers a signal that has interrupted a section. Queues the signal again, and makes the section continue with
/// all signals blocked.
#[cold]
fn put_off(state: &State, signal: c_int, info: &mut siginfo_t, context: &mut ucontext_t) {
    // Other signals may have interrupted this handler so far. This call blocks them, so the stores below are
    // final.
    set_mask(HELD_BACK);
    let mask = (&raw mut context.uc_sigmask).cast::<u64>();
    // SAFETY: the kernel's frame holds the mask of the first 64 signals there. If the kernel starts several
    // handlers at once, the handler that interrupted the section itself runs last, so its mask stays stored.
    unsafe {
        state.mask.store(mask.read(), Ordering::Relaxed);
        mask.write(HELD_BACK);
    }
    critical_section::pend();
    compiler_fence(Ordering::SeqCst);
    if !requeue(signal, info) {
        // The kernel has no room for the details (RLIMIT_SIGPENDING), so keep them here. A signal with code
        // SI_USER to the sender's own thread needs no room.
        state.details.keep(info);
        // SAFETY: all-zero bytes are a valid `siginfo_t`.
        let mut bare: siginfo_t = unsafe { core::mem::zeroed() };
        (bare.si_signo, bare.si_code) = (signal, libc::SI_USER);
        requeue(signal, &raw mut bare);
    }
}

/// Restores the details of a deferred signal, if the kernel had no room for them.
fn restore_details(state: &State, info: &mut siginfo_t) {
    // SAFETY: `si_pid` reads a number inside the structure. For a signal without a sender, the number has another
    // meaning.
    let is_bare = info.si_code == libc::SI_USER && unsafe { info.si_pid() } == 0;
    if let Some(details) = state.details.take(info.si_signo)
        && is_bare
    {
        *info = details;
    }
}

/// Restores the signal mask after the outermost section has ended. The kernel then delivers the deferred signals.
/// Since the first deferral, all signals except [`FAULTS`] and [`SIGSETXID`] were blocked.
fn let_in() {
    set_mask(state().mask.load(Ordering::Relaxed));
}

/// Sends a signal with its details to this thread again. Returns false if the kernel has no room for the signal.
fn requeue(signal: c_int, info: *mut siginfo_t) -> bool {
    // SAFETY: the system calls take numbers and the kernel's own structure, which they only read.
    unsafe {
        let (Ok(process), Ok(thread)) =
            (syscalls::syscall!(Sysno::getpid), syscalls::syscall!(Sysno::gettid))
        else {
            return false;
        };
        syscalls::syscall!(Sysno::rt_tgsigqueueinfo, process, thread, signal, info).is_ok()
    }
}

/// Returns the program's action for a signal that has arrived. Returns `None` if there is no handler, or no
/// longer one. In this case the function has already done what the kernel would do.
fn next_action(signal: c_int, info: *mut siginfo_t, code: c_int) -> Option<Action> {
    let slot = slot(signal);
    let (action, version) = slot.get_with_version();
    let once = action.flags & libc::SA_RESETHAND != 0;
    // The handler for faults stays installed, and acts as the kernel would.
    let stays = bit(signal) & MEMORY_FAULTS != 0 && GUARDED.load(Ordering::Acquire);
    if !action.is_handler() || once && !slot.use_up(version) {
        if action.handler == SIG_IGN && !(code > 0 && bit(signal) & FAULTS != 0) {
            return None;
        }
        default(signal, info, code, version);
        return None;
    }
    if once && !stays {
        // Another thread may have set another handler since.
        let _change = table::Change::begin();
        if slot.is_still(version) {
            slot.take(false);
            let _ = install(signal, &used_up(&action), core::ptr::null_mut());
        }
    }
    Some(action)
}

/// Does what the kernel does for a signal without a handler.
#[cold]
fn default(signal: c_int, info: *mut siginfo_t, code: c_int, version: u32) {
    {
        // Leave the disposition alone if another thread has set another handler since.
        let _change = table::Change::begin();
        if slot(signal).is_still(version) {
            let _ = install(signal, &unset(), core::ptr::null_mut());
        }
    }
    if !(code > 0 && bit(signal) & FAULTS != 0) {
        requeue(signal, info);
    }
    // A fault repeats when the thread continues, and then the kernel finds no handler.
}
