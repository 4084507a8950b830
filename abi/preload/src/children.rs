//! Children that a program makes without libc's fork handlers: by `_Fork`, `clone`, `vfork`, and by system calls
//! through `syscall`.

use crate::heap;
use libc::{c_int, c_long, c_ulong, c_void, pid_t};
use sovia_calls::boundary::take;
use sovia_signal::chain;
use sovia_sockets::{fork, process};

/// State that this process prepares for a child. Replaces the handlers of `pthread_atfork`, which only libc's
/// `fork` calls.
#[derive(Clone, Copy)]
struct Prepared(fork::Prepared);

impl Prepared {
    fn new() -> Prepared {
        let engine = fork::before();
        heap::hold();
        Prepared(engine)
    }

    fn in_parent(self, made: bool) {
        heap::release();
        self.0.in_parent(made);
    }

    fn in_child(self, libc: bool) {
        heap::release();
        self.0.in_child(libc);
    }
}

pub(crate) type Main = extern "C" fn(*mut c_void) -> c_int;

/// Arguments for a child of `clone`. The child reads its own copy of this value, because it has a copy of the
/// parent's stack.
struct Start {
    main: Main,
    argument: *mut c_void,
    prepared: Prepared,
}

extern "C" fn begin(start: *mut c_void) -> c_int {
    // SAFETY: `clone` passes the address of its `Start`, which lives in the child's copy of the stack.
    let start = unsafe { &*start.cast::<Start>() };
    start.prepared.in_child(false);
    let status = (start.main)(start.argument);
    // The child's only thread of the program ends here. So the child must exit, even if Sovia has started threads
    // in it.
    process::exit(status)
}

hooks! {
    /// Forks. In a signal handler of a program with one thread, forks by `_Fork`. In a process with several
    /// threads, which may be Sovia's, libc's `fork` takes the locks of malloc and stdio. If the signal handler has
    /// interrupted the holder of such a lock, `fork` would block for ever. `_Fork` takes no locks, and runs no
    /// `pthread_atfork` handlers of the program.
    fn fork() -> pid_t {
        if chain::is_in_handler() && fork::is_threaded_by_us() { _Fork() } else { real!()() }
    }

    fn _Fork() -> pid_t {
        let prepared = Prepared::new();
        let pid = real!()();
        match pid {
            0 => prepared.in_child(true),
            pid => prepared.in_parent(pid > 0),
        }
        pid
    }

    /// Passes seven arguments to libc, even if the program gave only the first four.
    fn clone(
        main: Option<Main>, stack: *mut c_void, flags: c_int, argument: *mut c_void,
        parent_id: *mut pid_t, tls: *mut c_void, child_id: *mut pid_t,
    ) -> c_int {
        let Some(function) = main else {
            return real!()(main, stack, flags, argument, parent_id, tls, child_id);
        };
        if flags & libc::CLONE_VM != 0 {
            if flags & libc::CLONE_THREAD == 0 {
                fork::sharing_memory();
            }
            return real!()(main, stack, flags, argument, parent_id, tls, child_id);
        }
        let mut start = Start { main: function, argument, prepared: Prepared::new() };
        let own: *mut c_void = (&raw mut start).cast();
        let pid = real!()(Some(begin), stack, flags, own, parent_id, tls, child_id);
        start.prepared.in_parent(pid > 0);
        pid
    }
}

/// Returns true if `number` is the system call `fork`. Some processors have no such system call.
pub(crate) fn is_fork(number: c_long) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        number == libc::SYS_fork
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = number;
        false
    }
}

/// Handles a system call that makes a child. For any other system call, only calls `kernel`, which makes the real
/// system call.
///
/// # Safety
/// The arguments must be valid for the system call `number`.
pub(crate) unsafe fn system_call(
    number: c_long,
    first: c_long,
    kernel: impl FnOnce() -> c_long,
) -> c_long {
    let flags = match number {
        #[cfg(target_arch = "x86_64")]
        libc::SYS_fork => 0,
        libc::SYS_clone => first as c_ulong,
        // SAFETY: the program owns the memory, and every bit pattern is a valid `u64`. The structure begins with
        // the flags.
        libc::SYS_clone3 => match unsafe { take(first as *const u64) } {
            Ok(flags) => flags,
            // The kernel will refuse the bad address.
            Err(_) => return kernel(),
        },
        _ => return kernel(),
    };
    if flags & libc::CLONE_VM as c_ulong != 0 {
        if flags & libc::CLONE_THREAD as c_ulong == 0 {
            fork::sharing_memory();
        }
        return kernel();
    }
    let prepared = Prepared::new();
    let pid = kernel();
    match pid {
        0 => prepared.in_child(false),
        pid => prepared.in_parent(pid > 0),
    }
    pid
}

/// Sets `errno` to `error` after a failed vfork, and returns -1.
extern "C" fn failed(error: c_int) -> pid_t {
    crate::set_errno(error);
    -1
}

// `vfork` returns twice on the same stack: first in the child, later in the parent. The child may overwrite the
// stack, so this function keeps the return address in a register. It marks the calling thread as borrowed while the
// child runs on this thread.

#[cfg(target_arch = "x86_64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn vfork() -> pid_t {
    core::arch::naked_asm!(
        "mov rsi, qword ptr fs:[0]",
        "add rsi, qword ptr [rip + sovia_thread_state@GOTTPOFF]",
        "inc dword ptr [rsi + {lent}]",
        "pop rdi",
        "mov eax, {number}",
        "syscall",
        "push rdi",
        "test eax, eax",
        "jz 2f",
        "dec dword ptr [rsi + {lent}]",
        "cmp rax, -4095",
        "jae 3f",
        "2:",
        "ret",
        "3:",
        "neg eax",
        "mov edi, eax",
        "jmp {failed}",
        lent = const sovia_sync::thread::LENT,
        number = const libc::SYS_vfork,
        failed = sym failed,
    );
}

#[cfg(target_arch = "aarch64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn vfork() -> pid_t {
    core::arch::naked_asm!(
        "mrs x2, tpidr_el0",
        "adrp x3, :gottprel:sovia_thread_state",
        "ldr x3, [x3, :gottprel_lo12:sovia_thread_state]",
        "add x2, x2, x3",
        "ldr w3, [x2, {lent}]",
        "add w3, w3, 1",
        "str w3, [x2, {lent}]",
        "mov x0, {flags}",
        "mov x1, 0",
        "mov x8, {number}",
        "svc 0",
        "cbz x0, 2f",
        "ldr w3, [x2, {lent}]",
        "sub w3, w3, 1",
        "str w3, [x2, {lent}]",
        "cmn x0, 4095",
        "b.cs 3f",
        "2:",
        "ret",
        "3:",
        "neg w0, w0",
        "b {failed}",
        lent = const sovia_sync::thread::LENT,
        flags = const libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
        number = const libc::SYS_clone,
        failed = sym failed,
    );
}

/// glibc's second name for `vfork`.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn __vfork() -> pid_t {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!("jmp {vfork}", vfork = sym vfork);
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!("b {vfork}", vfork = sym vfork);
}
