//! Processes: fork, exec, and what they take along.

use libc::{c_char, c_int, msghdr};
use core::sync::atomic::{AtomicI32, Ordering};
use sovia::ops;
use sovia::retreat::{self, Cause};
use sovia::table;

/// The process whose tables these are. A vfork'ed child runs on our memory under another id.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// Whether the caller is a vfork'ed child: it may use what we know, but not change it.
pub(crate) fn is_borrowed() -> bool {
    OWNER.load(Ordering::Relaxed) != sovia::process_id()
}

extern "C" fn prepare() {
    ops::forking();
}

extern "C" fn child() {
    OWNER.store(sovia::process_id(), Ordering::Relaxed);
    ops::forked();
}

pub(crate) fn start() {
    OWNER.store(sovia::process_id(), Ordering::Relaxed);
    // SAFETY: plain functions without captured state; registered once.
    unsafe { libc::pthread_atfork(Some(prepare), None, Some(child)) };
}

/// A message is about to be sent that may carry descriptors.
///
/// # Safety
/// `msg` must be null or a valid message header.
pub(crate) unsafe fn passing(msg: *const msghdr) {
    // SAFETY: the caller's contract; the control messages are walked as sendmsg itself would.
    unsafe {
        let Some(msg) = msg.as_ref() else { return };
        if msg.msg_control.is_null() || msg.msg_controllen == 0 {
            return;
        }
        let mut header = libc::CMSG_FIRSTHDR(msg);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                let data = libc::CMSG_DATA(header).cast::<c_int>();
                let bytes = ((*header).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
                for i in 0..bytes / size_of::<c_int>() {
                    let fd = data.add(i).read_unaligned();
                    if let Some(at) = table::conn(fd) {
                        retreat::now(fd, at, Cause::Passed);
                    }
                }
            }
            header = libc::CMSG_NXTHDR(msg, header);
        }
    }
}

/// This process image is about to be replaced, or a child is about to be started in which
/// descriptors without close-on-exec live on: the new program finds them on TCP.
fn before_exec() {
    retreat::before_exec();
}

hooks! {
    fn execve(path: *const c_char, argv: *const *const c_char, envp: *const *const c_char) -> c_int {
        before_exec();
        unsafe { real!()(path, argv, envp) }
    }

    fn execv(path: *const c_char, argv: *const *const c_char) -> c_int {
        before_exec();
        unsafe { real!()(path, argv) }
    }

    fn execvp(file: *const c_char, argv: *const *const c_char) -> c_int {
        before_exec();
        unsafe { real!()(file, argv) }
    }

    fn execvpe(
        file: *const c_char, argv: *const *const c_char, envp: *const *const c_char,
    ) -> c_int {
        before_exec();
        unsafe { real!()(file, argv, envp) }
    }

    fn fexecve(fd: c_int, argv: *const *const c_char, envp: *const *const c_char) -> c_int {
        before_exec();
        unsafe { real!()(fd, argv, envp) }
    }
}
