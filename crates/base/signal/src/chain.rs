//! The handler that stands before every handler of the program.
//!
//! The kernel is given `trampoline` for each signal that the program handles; what the program asked
//! for is in a table here, from which its own questions are answered. The trampoline
//!
//! - resumes a copy that met a bad address ([`crate::access`]);
//! - puts a signal off that arrives in a critical section ([`sovia_sync::section`]): it queues the signal
//!   again, with its details, and returns with all signals blocked. The end of the section puts the
//!   mask back;
//! - otherwise calls the program's handler, on the stack and with the mask that the kernel chose for it.
//!
//! Signals that the kernel raises for an instruction are never put off.

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
use sovia_sync::section;
use syscalls::Sysno;
use table::{SIGNALS, slot};
use trampoline::trampoline;

/// libc's `sigaction`.
pub type Sigaction =
    unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int;

/// libc's `sigaction`, once the chain is in use; 0 before.
static INSTALL: AtomicUsize = AtomicUsize::new(0);
/// Whether the handler for faults is in its place.
static GUARDED: AtomicBool = AtomicBool::new(false);

/// Whether signals reach their handlers in sections as well.
static AT_ONCE: AtomicBool = AtomicBool::new(false);

/// SIGSETXID of glibc: a thread that changes its credentials waits for all others to handle it.
const SIGSETXID: c_int = 33;

/// What libc adds to the flags that the kernel gets, and shows.
const SA_RESTORER: c_int = if cfg!(target_arch = "x86_64") { 0x0400_0000 } else { 0 };

const fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// Signals that the kernel raises for an instruction: blocked, they kill.
const FAULTS: u64 = bit(SIGSEGV)
    | bit(SIGBUS)
    | bit(libc::SIGFPE)
    | bit(libc::SIGILL)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGSYS);

/// Faults of memory: these must reach us whatever the program blocks.
pub const MEMORY_FAULTS: u64 = bit(SIGSEGV) | bit(SIGBUS);

/// The flags that the kernel keeps, since 5.11 (UAPI_SA_FLAGS): it clears the others, by which programs ask for them.
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

/// What the kernel takes out of every mask.
const NEVER_BLOCKED: u64 = bit(libc::SIGKILL) | bit(libc::SIGSTOP);

/// What is blocked from when a signal is put off until it is let in.
const HELD_BACK: u64 = !(FAULTS | bit(SIGSETXID));

/// Has the chain used: `install` is libc's own `sigaction`.
pub fn start(install: Sigaction) {
    section::on_leave(let_in);
    INSTALL.store(install as usize, Ordering::Release);
}

/// From now on every signal's handler runs at once, in a section as well: putting it off takes system
/// calls, and the process makes none but its program's.
pub fn put_nothing_off() {
    AT_ONCE.store(true, Ordering::SeqCst);
}

/// Whether [`start`] has been called.
pub fn is_started() -> bool {
    INSTALL.load(Ordering::Acquire) != 0
}

fn install(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
    let address = INSTALL.load(Ordering::Acquire);
    if address == 0 {
        return -1;
    }
    // SAFETY: the address was stored by `start`, from a function of that type; both pointers are null
    // or to live structures, by this module's own calls.
    unsafe { core::mem::transmute::<usize, Sigaction>(address)(signal, new, old) }
}

/// Whether bad addresses are reported instead of killing the program: puts the handler for faults in
/// its place if it is not there yet.
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
            // A stack that overflows has its signal handled elsewhere, if the program has such a place.
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

/// Whether it is in its place.
#[inline]
pub fn is_guarding() -> bool {
    GUARDED.load(Ordering::Acquire)
}

/// What the kernel is told for a handler of the program.
fn kernels(action: &Action) -> libc::sigaction {
    let mut given = unset();
    given.sa_sigaction = trampoline as *const () as usize;
    // The trampoline resets by itself: a signal that is put off has not been handled yet.
    given.sa_flags = (action.flags & !libc::SA_RESETHAND) | libc::SA_SIGINFO;
    // SAFETY: a signal mask begins with its first 64 signals, and has room for them.
    unsafe { (&raw mut given.sa_mask).cast::<u64>().write(action.mask & !MEMORY_FAULTS) };
    given
}

/// What the kernel leaves of a handler that it resets.
fn used_up(action: &Action) -> libc::sigaction {
    let mut left = unset();
    left.sa_flags = action.flags;
    // SAFETY: as above.
    unsafe { (&raw mut left.sa_mask).cast::<u64>().write(action.mask) };
    left
}

fn unset() -> libc::sigaction {
    // SAFETY: plain data, for which all zero is the default disposition.
    unsafe { core::mem::zeroed() }
}

/// `sigaction` for the program: true if it succeeded, else libc has set `errno`. A child that only
/// borrows this process's memory says so by `borrowed`: its dispositions are its own.
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
    // Read first: it may lie nowhere.
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

/// What the program is told of a signal's disposition.
fn now(signal: c_int) -> Option<libc::sigaction> {
    let mut kernel = unset();
    let done = install(signal, core::ptr::null(), &raw mut kernel) == 0;
    done.then(|| as_shown(signal, kernel))
}

fn as_shown(signal: c_int, mut kernel: libc::sigaction) -> libc::sigaction {
    slot(signal).answer(&mut kernel, trampoline as *const () as usize);
    kernel
}

/// Gives the kernel a disposition; the one before.
fn put(signal: c_int, new: &libc::sigaction) -> Option<libc::sigaction> {
    let mut before = unset();
    (install(signal, new, &raw mut before) == 0).then_some(before)
}

/// Does what the program asks for, by the trampoline if that is a handler; what it is told of the disposition before.
fn put_through(signal: c_int, new: &libc::sigaction) -> Option<libc::sigaction> {
    let _change = table::Change::begin();
    let slot = slot(signal);
    let action = Action::of(new);
    let guarded = bit(signal) & MEMORY_FAULTS != 0 && slot.is_ours();
    let before = if action.is_handler() {
        let last = slot.get();
        // What is told depends on whether a handler that is called once has been called.
        let before = now(signal)?;
        slot.set(&action);
        if put(signal, &kernels(&action)).is_none() {
            slot.set(&last);
            return None;
        }
        before
    } else if guarded && GUARDED.load(Ordering::Acquire) {
        // The handler for faults stays, and does as the kernel would.
        let before = now(signal)?;
        slot.set(&action);
        before
    } else {
        // The last handler stays in the table: a thread may be on its way to it.
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

/// The disposition that is shown to the program, in the place of the kernel's.
pub fn shown(signal: c_int, kernel: &mut libc::sigaction) {
    if (1..SIGNALS as c_int).contains(&signal) {
        slot(signal).answer(kernel, trampoline as *const () as usize);
    }
}

/// What the trampoline is to do.
#[repr(C)]
struct Next {
    /// The address of the program's handler; 0: none is to run.
    handler: usize,
    /// For [`end`]; 0 for an outermost handler.
    outer: usize,
}

impl Next {
    const NONE: Next = Next { handler: 0, outer: 0 };
}

/// Before a handler of the program's.
///
/// # Safety
/// For the trampoline: the arguments are what the kernel hands to a handler.
unsafe extern "C" fn begin(signal: c_int, info: *mut siginfo_t, context: *mut c_void) -> Next {
    let state = state();
    // SAFETY: the kernel's own pointers, by the contract.
    let (info, context) = unsafe { (&mut *info, &mut *context.cast::<ucontext_t>()) };
    let code = info.si_code;
    if code > 0 && bit(signal) & FAULTS != 0 {
        if bit(signal) & MEMORY_FAULTS != 0 && access::resume(context) {
            return Next::NONE;
        }
    } else if section::is_inside() && !AT_ONCE.load(Ordering::Relaxed) {
        put_off(state, signal, info, context);
        return Next::NONE;
    }
    restore_details(state, info);
    let Some(action) = next_action(signal, info, info.si_code) else { return Next::NONE };
    interrupt::count(state, bit(signal), action.flags & libc::SA_RESTART != 0);
    Next { handler: action.handler, outer: place::enter(state, context) }
}

/// After a handler of the program's that has returned.
///
/// # Safety
/// For the trampoline: `context` is what the kernel hands to a handler.
unsafe extern "C" fn end(context: *mut c_void, outer: usize) {
    // SAFETY: the kernel's own pointer, by the contract.
    let context = unsafe { &mut *context.cast::<ucontext_t>() };
    place::leave(context, outer);
    interrupt::land(context);
}

/// While an outermost handler is unwound: a personality routine, as the unwinder calls it for the trampoline's
/// frame. It asks the unwinder for nothing: a program may have brought its own.
extern "C" fn unwound(
    _version: c_int,
    actions: c_int,
    _class: u64,
    _exception: *mut c_void,
    _context: *mut c_void,
) -> c_int {
    /// Of `actions`: the frame goes, where else the unwinder only looks which function catches the exception.
    const CLEANUP_PHASE: c_int = 2;
    const CONTINUE_UNWIND: c_int = 8;
    if actions & CLEANUP_PHASE != 0 {
        place::unwound();
    }
    CONTINUE_UNWIND
}

/// Queues a signal again that has interrupted a section, and has the section go on with all signals
/// blocked.
#[cold]
fn put_off(state: &State, signal: c_int, info: &mut siginfo_t, context: &mut ucontext_t) {
    // Another signal may have come before this, in the middle of the handler: what follows is the last word.
    set_mask(HELD_BACK);
    let mask = (&raw mut context.uc_sigmask).cast::<u64>();
    // SAFETY: the kernel's frame holds the mask's first 64 signals there. Where several handlers have
    // been begun at once, the frame that the section itself was interrupted at comes last.
    unsafe {
        state.mask.store(mask.read(), Ordering::Relaxed);
        mask.write(HELD_BACK);
    }
    section::pend();
    compiler_fence(Ordering::SeqCst);
    if !requeue(signal, info) {
        // No room for its details (RLIMIT_SIGPENDING): they are kept here. One with this code, and to the sender's own thread
        // alone, needs none.
        state.details.keep(info);
        // SAFETY: all zeros are a `siginfo_t`.
        let mut bare: siginfo_t = unsafe { core::mem::zeroed() };
        (bare.si_signo, bare.si_code) = (signal, libc::SI_USER);
        requeue(signal, &raw mut bare);
    }
}

/// Puts the details of a signal into their place that the kernel had no room for when it was put off.
fn restore_details(state: &State, info: &mut siginfo_t) {
    // SAFETY: of a signal that comes from a process; for another one it is some number.
    let is_bare = info.si_code == libc::SI_USER && unsafe { info.si_pid() } == 0;
    if let Some(details) = state.details.take(info.si_signo)
        && is_bare
    {
        *info = details;
    }
}

/// Puts the signal mask back when the outermost section has ended, upon which the kernel delivers what
/// was put off. All signals but faults have been blocked since then.
fn let_in() {
    set_mask(state().mask.load(Ordering::Relaxed));
}

/// Sends a signal to this thread as it came; false if the kernel has no room for it.
fn requeue(signal: c_int, info: *mut siginfo_t) -> bool {
    // SAFETY: system calls on numbers and on the kernel's own structure, which stays untouched.
    unsafe {
        let (Ok(process), Ok(thread)) =
            (syscalls::syscall!(Sysno::getpid), syscalls::syscall!(Sysno::gettid))
        else {
            return false;
        };
        syscalls::syscall!(Sysno::rt_tgsigqueueinfo, process, thread, signal, info).is_ok()
    }
}

/// The program's action for a signal that has come; `None` if it has no handler (any more), and what the kernel would do
/// has been done.
fn next_action(signal: c_int, info: *mut siginfo_t, code: c_int) -> Option<Action> {
    let slot = slot(signal);
    let (action, version) = slot.get_with_version();
    let once = action.flags & libc::SA_RESETHAND != 0;
    // The handler for faults stays, and does as the kernel would.
    let stays = bit(signal) & MEMORY_FAULTS != 0 && GUARDED.load(Ordering::Acquire);
    if !action.is_handler() || once && !slot.use_up(version) {
        if action.handler == SIG_IGN && !(code > 0 && bit(signal) & FAULTS != 0) {
            return None;
        }
        default(signal, info, code, version);
        return None;
    }
    if once && !stays {
        // Another thread may have set another one since.
        let _change = table::Change::begin();
        if slot.is_still(version) {
            slot.take(false);
            let _ = install(signal, &used_up(&action), core::ptr::null_mut());
        }
    }
    Some(action)
}

/// Does what the kernel does where there is no handler.
#[cold]
fn default(signal: c_int, info: *mut siginfo_t, code: c_int, version: u32) {
    {
        // Where another thread has set another handler since, it is that one's.
        let _change = table::Change::begin();
        if slot(signal).is_still(version) {
            let _ = install(signal, &unset(), core::ptr::null_mut());
        }
    }
    if !(code > 0 && bit(signal) & FAULTS != 0) {
        requeue(signal, info);
    }
    // A fault comes again by itself, and the kernel finds no handler.
}
