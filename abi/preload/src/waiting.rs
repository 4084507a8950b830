//! Hooks for calls that wait for children, signals or time. A program with one thread has no progress thread after a
//! fork, until its next call. If this call waits for long, peers may need the thread meanwhile.

use libc::{c_int, c_uint, id_t, idtype_t, pid_t, rusage, siginfo_t, sigset_t, timespec};
use sovia_sockets::wait::before_kernel_wait;

hooks! {
    fn wait(status: *mut c_int) -> pid_t {
        before_kernel_wait();
        real!()(status)
    }

    fn waitpid(pid: pid_t, status: *mut c_int, options: c_int) -> pid_t {
        before_kernel_wait();
        real!()(pid, status, options)
    }

    fn wait3(status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t {
        before_kernel_wait();
        real!()(status, options, usage)
    }

    fn wait4(pid: pid_t, status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t {
        before_kernel_wait();
        real!()(pid, status, options, usage)
    }

    fn waitid(kind: idtype_t, id: id_t, found: *mut siginfo_t, options: c_int) -> c_int {
        before_kernel_wait();
        real!()(kind, id, found, options)
    }

    fn nanosleep(time: *const timespec, left: *mut timespec) -> c_int {
        before_kernel_wait();
        real!()(time, left)
    }

    fn clock_nanosleep(
        clock: c_int, flags: c_int, time: *const timespec, left: *mut timespec,
    ) -> c_int {
        before_kernel_wait();
        real!()(clock, flags, time, left)
    }

    fn usleep(time: c_uint) -> c_int {
        before_kernel_wait();
        real!()(time)
    }

    fn sleep(seconds: c_uint) -> c_uint {
        before_kernel_wait();
        real!()(seconds)
    }

    fn pause() -> c_int {
        before_kernel_wait();
        real!()()
    }

    fn sigsuspend(mask: *const sigset_t) -> c_int {
        before_kernel_wait();
        real!()(mask)
    }

    fn sigwait(set: *const sigset_t, found: *mut c_int) -> c_int {
        before_kernel_wait();
        real!()(set, found)
    }

    fn sigwaitinfo(set: *const sigset_t, found: *mut siginfo_t) -> c_int {
        before_kernel_wait();
        real!()(set, found)
    }

    fn sigtimedwait(
        set: *const sigset_t, found: *mut siginfo_t, time: *const timespec,
    ) -> c_int {
        before_kernel_wait();
        real!()(set, found, time)
    }
}
