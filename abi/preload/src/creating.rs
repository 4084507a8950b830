//! Functions that return a new descriptor. If the program has closed an earlier descriptor with the same number
//! without a hook, the table still has an entry for the number. The hooks drop such a stale entry.

use libc::{DIR, FILE, c_char, c_int, c_long, c_uint, c_void, mode_t, pid_t, sigset_t};
use sovia_calls::descriptors::created;
use sovia_sockets::{fallback, other_families};

/// Defines hooks that call the real function and drop a stale entry for the returned descriptor.
macro_rules! creating {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?);)*) => {
        hooks! {
            $(fn $name($($arg: $ty),*) -> c_int {
                created(real!()($($arg),*))
            })*
        }
    };
}

creating! {
    fn open(path: *const c_char, flags: c_int, mode: mode_t);
    fn open64(path: *const c_char, flags: c_int, mode: mode_t);
    fn __open(path: *const c_char, flags: c_int, mode: mode_t);
    fn __open64(path: *const c_char, flags: c_int, mode: mode_t);
    fn __open_nocancel(path: *const c_char, flags: c_int, mode: mode_t);
    fn __open64_nocancel(path: *const c_char, flags: c_int, mode: mode_t);
    fn __open_2(path: *const c_char, flags: c_int);
    fn __open64_2(path: *const c_char, flags: c_int);
    fn openat(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t);
    fn openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t);
    fn __openat_2(folder: c_int, path: *const c_char, flags: c_int);
    fn __openat64_2(folder: c_int, path: *const c_char, flags: c_int);
    fn creat(path: *const c_char, mode: mode_t);
    fn creat64(path: *const c_char, mode: mode_t);
    fn open_by_handle_at(mount: c_int, handle: *mut c_void, flags: c_int);
    fn open_tree(folder: c_int, path: *const c_char, flags: c_uint);
    fn fsopen(kind: *const c_char, flags: c_uint);
    fn fspick(folder: c_int, path: *const c_char, flags: c_uint);
    fn fsmount(fs: c_int, flags: c_uint, attributes: c_uint);
    fn eventfd(count: c_uint, flags: c_int);
    fn timerfd_create(clock: c_int, flags: c_int);
    fn signalfd(fd: c_int, mask: *const sigset_t, flags: c_int);
    fn inotify_init();
    fn inotify_init1(flags: c_int);
    fn fanotify_init(flags: c_uint, event_flags: c_uint);
    fn memfd_create(name: *const c_char, flags: c_uint);
    fn pidfd_open(pid: pid_t, flags: c_uint);
    fn mkstemp(template: *mut c_char);
    fn mkstemp64(template: *mut c_char);
    fn mkostemp(template: *mut c_char, flags: c_int);
    fn mkostemp64(template: *mut c_char, flags: c_int);
    fn mkstemps(template: *mut c_char, suffix: c_int);
    fn mkstemps64(template: *mut c_char, suffix: c_int);
    fn mkostemps(template: *mut c_char, suffix: c_int, flags: c_int);
    fn mkostemps64(template: *mut c_char, suffix: c_int, flags: c_int);
    fn shm_open(name: *const c_char, flags: c_int, mode: mode_t);
    fn mq_open(name: *const c_char, flags: c_int, mode: mode_t, attributes: *mut c_void);
    fn __mq_open_2(name: *const c_char, flags: c_int);
    fn posix_openpt(flags: c_int);
    fn getpt();
}

/// Drops stale table entries for the two new descriptors at `fds`, if `result` is 0. Returns `result`.
unsafe fn both(result: c_int, fds: *const c_int) -> c_int {
    if result == 0 {
        // SAFETY: the kernel has written both descriptors.
        unsafe {
            created(*fds);
            created(*fds.add(1));
        }
    }
    result
}

pub(crate) mod several {
    //! Functions that return several descriptors, or whose hooks do more than drop a stale entry.

    use super::*;

    hooks! {
        /// Moves the connection of the new descriptor to TCP, if this process has the connection. Only the kernel
        /// knows which socket the new descriptor refers to.
        fn pidfd_getfd(pidfd: c_int, fd: c_int, flags: c_uint) -> c_int {
            let new = created(real!()(pidfd, fd, flags));
            if new >= 0 {
                other_families::taken(new);
                fallback::of_socket(new);
            }
            new
        }

        fn pipe(fds: *mut c_int) -> c_int {
            both(real!()(fds), fds)
        }

        fn __pipe(fds: *mut c_int) -> c_int {
            both(real!()(fds), fds)
        }

        fn pipe2(fds: *mut c_int, flags: c_int) -> c_int {
            both(real!()(fds, flags), fds)
        }

        fn socketpair(domain: c_int, kind: c_int, protocol: c_int, fds: *mut c_int) -> c_int {
            both(real!()(domain, kind, protocol, fds), fds)
        }

        fn openpty(
            leader: *mut c_int, follower: *mut c_int, name: *mut c_char, modes: *const c_void,
            size: *const c_void,
        ) -> c_int {
            let result = real!()(leader, follower, name, modes, size);
            if result == 0 {
                created(*leader);
                created(*follower);
            }
            result
        }

        fn forkpty(
            leader: *mut c_int, name: *mut c_char, modes: *const c_void, size: *const c_void,
        ) -> pid_t {
            let child = real!()(leader, name, modes, size);
            if child > 0 {
                created(*leader);
            }
            child
        }

        /// Drops stale entries for the three standard descriptors. libc replaces these by /dev/null without calling
        /// a hook.
        fn daemon(stays_in_folder: c_int, keeps_open: c_int) -> c_int {
            let result = real!()(stays_in_folder, keeps_open);
            if result == 0 && keeps_open == 0 {
                (0..=2).for_each(|fd| {
                    created(fd);
                });
            }
            result
        }

        /// Drops stale entries for the three standard descriptors and `terminal`. libc replaces the standard
        /// descriptors by the terminal and closes `terminal`, without calling a hook.
        fn login_tty(terminal: c_int) -> c_int {
            let result = real!()(terminal);
            if result == 0 {
                (0..=2).chain([terminal]).for_each(|fd| {
                    created(fd);
                });
            }
            result
        }

        fn opendir(path: *const c_char) -> *mut DIR {
            let folder = real!()(path);
            if !folder.is_null() {
                created(libc::dirfd(folder));
            }
            folder
        }

        fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE {
            opened(real!()(path, mode))
        }

        fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE {
            opened(real!()(path, mode))
        }

        fn freopen(path: *const c_char, mode: *const c_char, file: *mut FILE) -> *mut FILE {
            crate::stdio::gives_up(file);
            opened(real!()(path, mode, file))
        }

        fn freopen64(path: *const c_char, mode: *const c_char, file: *mut FILE) -> *mut FILE {
            crate::stdio::gives_up(file);
            opened(real!()(path, mode, file))
        }

        fn tmpfile() -> *mut FILE {
            opened(real!()())
        }

        fn tmpfile64() -> *mut FILE {
            opened(real!()())
        }
    }

    /// Drops a stale entry for the descriptor of the stream `file`, which libc has just opened. Returns `file`.
    fn opened(file: *mut FILE) -> *mut FILE {
        if !file.is_null() {
            // SAFETY: libc has just opened the stream.
            created(unsafe { libc::fileno(file) });
        }
        file
    }
}

/// Returns true if the system call `number` returns a new descriptor. The table may have a stale entry for this
/// descriptor.
pub(crate) fn returns_descriptor(number: c_long) -> bool {
    #[cfg(target_arch = "x86_64")]
    if matches!(
        number,
        libc::SYS_open
            | libc::SYS_creat
            | libc::SYS_eventfd
            | libc::SYS_signalfd
            | libc::SYS_inotify_init
    ) {
        return true;
    }
    matches!(
        number,
        libc::SYS_openat
            | libc::SYS_openat2
            | libc::SYS_open_by_handle_at
            | libc::SYS_open_tree
            | libc::SYS_fsopen
            | libc::SYS_fspick
            | libc::SYS_fsmount
            | libc::SYS_socket
            | libc::SYS_accept
            | libc::SYS_accept4
            | libc::SYS_eventfd2
            | libc::SYS_timerfd_create
            | libc::SYS_signalfd4
            | libc::SYS_inotify_init1
            | libc::SYS_fanotify_init
            | libc::SYS_memfd_create
            | libc::SYS_memfd_secret
            | libc::SYS_userfaultfd
            | libc::SYS_perf_event_open
            | libc::SYS_pidfd_open
            | libc::SYS_mq_open
            | libc::SYS_landlock_create_ruleset
            | libc::SYS_io_uring_setup
            | libc::SYS_bpf
    )
}
