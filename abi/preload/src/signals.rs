//! Hooks for signal dispositions and masks. The program sees the dispositions and masks that it has set. The kernel
//! gets Sovia's handler, which calls the program's handler after the end of a critical section
//! ([`sovia_signal::chain`]).
//!
//! As in libc, the hooks of older functions, such as `signal`, call the hook of `sigaction`.

use crate::set_errno;
use core::sync::atomic::{AtomicU64, Ordering};
use libc::{c_int, c_long, c_ulong, c_void, sighandler_t, sigset_t};
use sovia_calls::boundary::{give, take_if};
use sovia_signal::chain;
use sovia_sockets::process::is_borrowed;

/// Value by which `sigset` blocks a signal (`SIG_HOLD`).
const SIG_HOLD: sighandler_t = 2;

/// Signals, one bit each, for which the program has called `siginterrupt`. `signal` installs their handlers without
/// SA_RESTART.
static INTERRUPTS: AtomicU64 = AtomicU64::new(0);

fn bit(signal: c_int) -> u64 {
    1 << ((signal - 1) & 63)
}

/// Returns true if libc accepts this signal number.
fn is_signal(signal: c_int) -> bool {
    (1..=64).contains(&signal)
}

/// Passes libc's `sigaction` to [`chain`]. The first call of a hook runs this function, because the constructor of
/// another library may call a hook before this library's constructor runs.
pub(crate) fn start() {
    // SAFETY: the address is that of libc's `sigaction`, which has this type.
    let real =
        unsafe { core::mem::transmute::<usize, chain::Sigaction>(reals::sigaction.callable()) };
    chain::start(real);
    // If this process has inherited a mask that blocks the signals of memory faults, a bad address would kill the
    // process.
    let mut inherited = 0u64;
    kernel_mask(libc::SIG_BLOCK, None, Some(&mut inherited));
    if inherited & chain::MEMORY_FAULTS != 0 {
        chain::believe(libc::SIG_BLOCK, inherited);
        kernel_mask(libc::SIG_UNBLOCK, Some(chain::MEMORY_FAULTS), None);
    }
}

fn action(
    signal: c_int,
    new: Option<&libc::sigaction>,
    old: Option<&mut libc::sigaction>,
) -> c_int {
    if !chain::is_started() {
        start();
    }
    if chain::change(signal, new, old, is_other_process()) { 0 } else { -1 }
}

/// Returns true in a child of vfork. The child has its own dispositions, but shares this library's memory with its
/// parent.
fn is_other_process() -> bool {
    sovia_sockets::process::owner() != 0 && is_borrowed()
}

fn with_handler(handler: sighandler_t, flags: c_int, mask: u64) -> libc::sigaction {
    // SAFETY: all zeros are a valid `sigaction`, and a mask begins with its first 64 signals.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        (&raw mut action.sa_mask).cast::<u64>().write(mask);
        action
    }
}

/// Implements the variants of `signal`. Returns the previous handler, or `SIG_ERR`.
fn set_handler(signal: c_int, handler: sighandler_t, flags: c_int, mask: u64) -> sighandler_t {
    if handler == libc::SIG_ERR || !is_signal(signal) {
        set_errno(libc::EINVAL);
        return libc::SIG_ERR;
    }
    let mut old = with_handler(libc::SIG_DFL, 0, 0);
    match action(signal, Some(&with_handler(handler, flags, mask)), Some(&mut old)) {
        0 => old.sa_sigaction,
        _ => libc::SIG_ERR,
    }
}

/// Implements `signal` with BSD's meaning, the default of glibc.
fn bsd(signal: c_int, handler: sighandler_t) -> sighandler_t {
    let interrupts = is_signal(signal) && INTERRUPTS.load(Ordering::Relaxed) & bit(signal) != 0;
    let flags = if interrupts { 0 } else { libc::SA_RESTART };
    set_handler(signal, handler, flags, bit(signal.max(1)))
}

/// Implements `signal` with System V's meaning: the handler runs once, and the signal is not blocked while the
/// handler runs.
fn system_v(signal: c_int, handler: sighandler_t) -> sighandler_t {
    const SA_INTERRUPT: c_int = 0x2000_0000;
    set_handler(signal, handler, libc::SA_RESETHAND | libc::SA_NODEFER | SA_INTERRUPT, 0)
}

/// Changes the kernel's signal mask of the calling thread.
fn kernel_mask(how: c_int, new: Option<u64>, old: Option<&mut u64>) {
    chain::kernel_mask(how, new, old);
}

/// Implements `pthread_sigmask`. The kernel never blocks the signals of memory faults. Returns 0 or an error.
///
/// # Safety
/// `set` and `old` must be null or valid.
unsafe fn mask(
    how: c_int,
    set: *const sigset_t,
    old: *mut sigset_t,
    real: impl FnOnce(c_int, *const sigset_t, *mut sigset_t) -> c_int,
) -> c_int {
    let believed = chain::believed();
    let wanted = set.cast::<u64>();
    // SAFETY: the caller guarantees that `set` and `old` are null or valid. A mask begins with its first 64
    // signals.
    unsafe {
        let mut given: sigset_t = core::mem::zeroed();
        let mut bits = 0;
        let mut given_at = core::ptr::null();
        if !wanted.is_null() {
            bits = wanted.read();
            (&raw mut given).cast::<u64>().write(chain::passed_on(how, bits));
            given_at = &raw const given;
        }
        let result = real(how, given_at, old);
        if result == 0 {
            if !wanted.is_null() {
                chain::believe(how, bits);
            }
            if !old.is_null() {
                *old.cast::<u64>() |= believed;
            }
        }
        result
    }
}

/// Blocks or unblocks one signal. Refuses the signals that libc reserves for itself.
fn mask_one(how: c_int, signal: c_int) -> c_int {
    if !is_signal(signal) || (32..libc::SIGRTMIN()).contains(&signal) {
        set_errno(libc::EINVAL);
        return -1;
    }
    mask_bits(how, bit(signal)).map_or(-1, |_| 0)
}

/// Changes the calling thread's mask by the signals in `bits`. Returns the previous mask.
fn mask_bits(how: c_int, bits: u64) -> Option<u64> {
    // SAFETY: all zeros are an empty mask, and a mask begins with its first 64 signals.
    unsafe {
        let (mut set, mut before): (sigset_t, sigset_t) = core::mem::zeroed();
        (&raw mut set).cast::<u64>().write(bits);
        let done = sigprocmask(how, &raw const set, &raw mut before) == 0;
        done.then(|| (&raw const before).cast::<u64>().read())
    }
}

hooks! {
    fn sigaction(
        signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction,
    ) -> c_int {
        action(signal, new.as_ref(), old.as_mut())
    }

    fn __sigaction(
        signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction,
    ) -> c_int {
        action(signal, new.as_ref(), old.as_mut())
    }

    fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
        bsd(signal, handler)
    }

    fn bsd_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
        bsd(signal, handler)
    }

    fn ssignal(signal: c_int, handler: sighandler_t) -> sighandler_t {
        bsd(signal, handler)
    }

    fn sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
        system_v(signal, handler)
    }

    fn __sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
        system_v(signal, handler)
    }

    fn sigset(signal: c_int, handler: sighandler_t) -> sighandler_t {
        if !is_signal(signal) || handler == libc::SIG_ERR {
            set_errno(libc::EINVAL);
            return libc::SIG_ERR;
        }
        let mut set: sigset_t = core::mem::zeroed();
        let mut before: sigset_t = core::mem::zeroed();
        libc::sigaddset(&raw mut set, signal);
        let holds = handler == SIG_HOLD;
        let how = if holds { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK };
        let mut last = with_handler(libc::SIG_DFL, 0, 0);
        let new = with_handler(handler, 0, 0);
        if action(signal, (!holds).then_some(&new), Some(&mut last)) != 0
            || sigprocmask(how, &raw const set, &raw mut before) != 0
        {
            return libc::SIG_ERR;
        }
        if libc::sigismember(&raw const before, signal) == 1 { SIG_HOLD } else { last.sa_sigaction }
    }

    fn sigignore(signal: c_int) -> c_int {
        action(signal, Some(&with_handler(libc::SIG_IGN, 0, 0)), None)
    }

    fn siginterrupt(signal: c_int, interrupts: c_int) -> c_int {
        let mut now = with_handler(libc::SIG_DFL, 0, 0);
        if action(signal, None, Some(&mut now)) != 0 {
            return -1;
        }
        if interrupts != 0 {
            INTERRUPTS.fetch_or(bit(signal), Ordering::Relaxed);
            now.sa_flags &= !libc::SA_RESTART;
        } else {
            INTERRUPTS.fetch_and(!bit(signal), Ordering::Relaxed);
            now.sa_flags |= libc::SA_RESTART;
        }
        action(signal, Some(&now), None)
    }

    fn sighold(signal: c_int) -> c_int {
        mask_one(libc::SIG_BLOCK, signal)
    }

    fn sigrelse(signal: c_int) -> c_int {
        mask_one(libc::SIG_UNBLOCK, signal)
    }

    fn sigblock(signals: c_int) -> c_int {
        mask_bits(libc::SIG_BLOCK, u64::from(signals as u32)).map_or(-1, |before| before as c_int)
    }

    fn sigsetmask(signals: c_int) -> c_int {
        mask_bits(libc::SIG_SETMASK, u64::from(signals as u32)).map_or(-1, |before| before as c_int)
    }

    fn siggetmask() -> c_int {
        mask_bits(libc::SIG_BLOCK, 0).map_or(-1, |before| before as c_int)
    }

    fn sigprocmask(how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int {
        mask(how, set, old, later!())
    }

    fn pthread_cancel(thread: libc::pthread_t) -> c_int {
        sovia_sockets::wait::cancelling();
        real!()(thread)
    }

    fn pthread_sigmask(how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int {
        mask(how, set, old, later!())
    }
}

/// Handles the system calls `rt_sigaction` and `rt_sigprocmask` of programs that call libc's `syscall`. Returns
/// `None` if the caller must make the real system call.
///
/// # Safety
/// The arguments must be valid for the system call `number`.
pub(crate) unsafe fn system_call(
    number: c_long,
    [a, b, c, d, _, _]: [c_long; 6],
    kernel: impl Fn([c_long; 6]) -> c_long,
) -> Option<c_long> {
    if d as usize != size_of::<u64>() {
        return None;
    }
    match number {
        libc::SYS_rt_sigprocmask => {
            let (set, old) = (b as *const u64, c as *mut u64);
            let believed = chain::believed();
            // SAFETY: the caller guarantees valid arguments. The program owns the masks, and every bit pattern is a
            // valid mask.
            unsafe {
                let bits = take_if(set).ok()?;
                let given = bits.map_or(0, |bits| chain::passed_on(a as c_int, bits));
                let at = if bits.is_some() { &raw const given } else { core::ptr::null() };
                let result = kernel([a, at as c_long, c, d, 0, 0]);
                if result == 0 {
                    if let Some(bits) = bits {
                        chain::believe(a as c_int, bits);
                    }
                    // The kernel has just stored its mask in `old`. This code adds the signals of memory faults
                    // that the program has blocked.
                    if let Ok(Some(shown)) = take_if(old) {
                        let _ = give(old, shown | believed);
                    }
                }
                Some(result)
            }
        }
        libc::SYS_rt_sigaction => {
            // SAFETY: the caller guarantees that both pointers are null or valid for the kernel's structure.
            unsafe { kernel_action(a as c_int, b as *const Kernel, c as *mut Kernel) }
        }
        _ => None,
    }
}

/// Disposition in the kernel's layout.
#[repr(C)]
#[derive(Clone, Copy)]
struct Kernel {
    handler: usize,
    flags: c_ulong,
    restorer: *mut c_void,
    mask: u64,
}

/// # Safety
/// `new` and `old` must be null, or belong to the program. Their memory may be unmapped.
unsafe fn kernel_action(signal: c_int, new: *const Kernel, old: *mut Kernel) -> Option<c_long> {
    if !is_signal(signal) || (32..=33).contains(&signal) {
        // libc reserves signals 32 and 33 for itself, and its `sigaction` refuses them. The kernel must answer the
        // call.
        return None;
    }
    // SAFETY: the program owns the memory, and every bit pattern is a valid `Kernel`. A mask begins with its first
    // 64 signals.
    unsafe {
        let new = take_if(new).ok()?;
        let wanted = new.map(|new| with_handler(new.handler, new.flags as c_int, new.mask));
        let mut before = with_handler(libc::SIG_DFL, 0, 0);
        let result = action(signal, wanted.as_ref(), Some(&mut before));
        if result == 0 && !old.is_null() {
            let shown = Kernel {
                handler: before.sa_sigaction,
                flags: c_ulong::from(before.sa_flags as u32),
                restorer: before.sa_restorer.map_or(core::ptr::null_mut(), |f| f as *mut c_void),
                mask: (&raw const before.sa_mask).cast::<u64>().read(),
            };
            // If the old disposition cannot be stored, the call fails but the new disposition stays, as in the
            // kernel.
            if let Err(error) = give(old, shown) {
                set_errno(error);
                return Some(-1);
            }
        }
        Some(c_long::from(result))
    }
}
