//! Hooks for calls that change a process's credentials: its users, groups, capabilities and namespaces.
//!
//! Before a call that would change the credentials, a hook gives up all memory that this process shares with other
//! processes ([`sovia_sockets::credentials`]). To find out if a call would change the credentials, a hook compares
//! the arguments with the present credentials. This comparison costs one more system call.

use libc::{c_char, c_int, c_long, c_ulong, c_void, gid_t, size_t, uid_t};
use sovia_sockets::credentials::{change, enter_seccomp, own_descriptors};
use sovia_sockets::process::is_under_seccomp;
use sovia_sys::credentials as now;

/// Argument that leaves an id unchanged, in calls that set several ids.
const SAME: u32 = u32::MAX;

/// Returns true if one of the wanted ids differs from the present id.
fn differ(present: [u32; 3], wanted: [u32; 3]) -> bool {
    present.iter().zip(wanted).any(|(&present, wanted)| wanted != SAME && wanted != present)
}

/// Like [`differ`], for `setreuid` and `setregid`. These calls also set the saved id to the effective id.
fn differ_with_saved(present: [u32; 3], real: u32, effective: u32) -> bool {
    let effective = if effective == SAME { present[1] } else { effective };
    differ(present, [real, effective, effective])
}

/// Returns true if a call of `prctl`, such as PR_SET_SECUREBITS, would change the process's rights.
fn prctl_changes(option: c_int, a: c_ulong, b: c_ulong) -> bool {
    let get = |option: c_int, argument: c_ulong| now::prctl(option, argument);
    match option {
        libc::PR_SET_DUMPABLE => get(libc::PR_GET_DUMPABLE, 0) != Ok(a as usize),
        libc::PR_SET_SECUREBITS => get(libc::PR_GET_SECUREBITS, 0) != Ok(a as usize),
        libc::PR_SET_NO_NEW_PRIVS => get(libc::PR_GET_NO_NEW_PRIVS, 0) == Ok(0),
        libc::PR_CAPBSET_DROP => get(libc::PR_CAPBSET_READ, a) == Ok(1),
        libc::PR_CAP_AMBIENT => match a as c_int {
            libc::PR_CAP_AMBIENT_IS_SET => false,
            libc::PR_CAP_AMBIENT_RAISE => now::is_ambient(b) == Ok(false),
            libc::PR_CAP_AMBIENT_LOWER => now::is_ambient(b) == Ok(true),
            _ => true,
        },
        _ => false,
    }
}

/// Returns true if `unshare` would create a namespace of users, processes, networks or mounts. In such a namespace
/// this process sees other processes than before.
fn unshare_changes(flags: c_int) -> bool {
    const NAMESPACES: c_int =
        libc::CLONE_NEWUSER | libc::CLONE_NEWPID | libc::CLONE_NEWNET | libc::CLONE_NEWNS;
    flags & NAMESPACES != 0
}

/// Returns true if `capset` would change something, or if its arguments cannot be read.
fn capset_changes(header: *const c_void, data: *const c_void) -> bool {
    let (mut version, mut wanted) = ([0u32; 2], [0u32; 6]);
    let read = now::read_own(header.addr(), &mut version)
        && version[0] == now::CAPABILITY_VERSION_3
        && now::read_own(data.addr(), &mut wanted);
    !read || now::capabilities() != Ok(wanted)
}

/// Returns true if `setgroups` would change something, or if its arguments cannot be read.
fn setgroups_changes(len: usize, groups: *const gid_t) -> bool {
    let (mut present, mut wanted) = ([0u32; 64], [0u32; 64]);
    let Ok(count) = now::groups(&mut present) else { return true };
    count != len
        || len != 0 && !now::read_own(groups.addr(), &mut wanted[..len])
        || present[..len] != wanted[..len]
}

/// Makes a call of libc. If `changes` returns true, first gives up all shared memory. Under seccomp the process
/// shares no memory any more, so `changes`, which makes system calls, does not run.
fn user(changes: impl FnOnce() -> bool, call: impl FnOnce() -> c_int) -> c_int {
    if !is_under_seccomp() && changes() { change(call) } else { call() }
}

/// Returns true if `PR_SET_SECCOMP`, or the system call `seccomp`, puts the process under seccomp. `strict` and
/// `filtered` are the numbers of the two operations that do this. A call with `filtered` and no filter only tests
/// what the kernel supports.
fn installs_filter(operation: c_ulong, filter: c_ulong, strict: u32, filtered: u32) -> bool {
    operation == c_ulong::from(strict) || operation == c_ulong::from(filtered) && filter != 0
}

fn prctl_installs_filter(option: c_int, mode: c_ulong, filter: c_ulong) -> bool {
    option == libc::PR_SET_SECCOMP
        && installs_filter(mode, filter, libc::SECCOMP_MODE_STRICT, libc::SECCOMP_MODE_FILTER)
}

/// Handles a system call that may change credentials. Returns `None` for other system calls.
pub(crate) fn system_call(
    number: c_long,
    arguments: [c_long; 3],
    kernel: impl FnOnce() -> c_long,
) -> Option<c_long> {
    if is_under_seccomp() {
        return None;
    }
    let [a, b, c] = arguments;
    if number == libc::SYS_unshare {
        // SAFETY: the call takes only a number.
        return Some(c_long::from(unsafe { unshare(a as c_int) }));
    }
    let installs_filter = match number {
        libc::SYS_seccomp => {
            let (strict, filtered) = (libc::SECCOMP_SET_MODE_STRICT, libc::SECCOMP_SET_MODE_FILTER);
            installs_filter(a as c_ulong, c as c_ulong, strict, filtered)
        }
        libc::SYS_prctl => prctl_installs_filter(a as c_int, b as c_ulong, c as c_ulong),
        _ => false,
    };
    if installs_filter {
        return Some(enter_seccomp(kernel));
    }
    Some(if changes(number, arguments)? { change(kernel) } else { kernel() })
}

/// Returns true if a system call would change credentials. Returns `None` for a system call that never changes
/// credentials.
fn changes(number: c_long, [a, b, c]: [c_long; 3]) -> Option<bool> {
    let [x, y, z] = [a as u32, b as u32, c as u32];
    const SYS_LANDLOCK_RESTRICT_SELF: c_long = 446;
    const SYS_LSM_SET_SELF_ATTR: c_long = 460;
    Some(match number {
        libc::SYS_setuid => differ(now::users(), [x; 3]),
        libc::SYS_setgid => differ(now::group_ids(), [x; 3]),
        libc::SYS_setreuid => differ_with_saved(now::users(), x, y),
        libc::SYS_setregid => differ_with_saved(now::group_ids(), x, y),
        libc::SYS_setresuid => differ(now::users(), [x, y, z]),
        libc::SYS_setresgid => differ(now::group_ids(), [x, y, z]),
        libc::SYS_setfsuid => x != SAME && x != now::file_user(),
        libc::SYS_setfsgid => x != SAME && x != now::file_group(),
        libc::SYS_setgroups => setgroups_changes(a as usize, b as *const gid_t),
        libc::SYS_capset => capset_changes(a as *const c_void, b as *const c_void),
        libc::SYS_prctl => prctl_changes(a as c_int, b as c_ulong, c as c_ulong),
        libc::SYS_setns | SYS_LANDLOCK_RESTRICT_SELF | SYS_LSM_SET_SELF_ATTR => true,
        _ => return None,
    })
}

hooks! {
    fn setuid(uid: uid_t) -> c_int {
        user(|| differ(now::users(), [uid; 3]), || real!()(uid))
    }

    fn setgid(gid: gid_t) -> c_int {
        user(|| differ(now::group_ids(), [gid; 3]), || real!()(gid))
    }

    fn seteuid(uid: uid_t) -> c_int {
        user(|| differ(now::users(), [SAME, uid, SAME]), || real!()(uid))
    }

    fn setegid(gid: gid_t) -> c_int {
        user(|| differ(now::group_ids(), [SAME, gid, SAME]), || real!()(gid))
    }

    fn setreuid(real: uid_t, effective: uid_t) -> c_int {
        user(|| differ_with_saved(now::users(), real, effective), || real!()(real, effective))
    }

    fn setregid(real: gid_t, effective: gid_t) -> c_int {
        user(|| differ_with_saved(now::group_ids(), real, effective), || real!()(real, effective))
    }

    fn setresuid(real: uid_t, effective: uid_t, saved: uid_t) -> c_int {
        let wanted = [real, effective, saved];
        user(|| differ(now::users(), wanted), || real!()(real, effective, saved))
    }

    fn setresgid(real: gid_t, effective: gid_t, saved: gid_t) -> c_int {
        let wanted = [real, effective, saved];
        user(|| differ(now::group_ids(), wanted), || real!()(real, effective, saved))
    }

    fn setfsuid(uid: uid_t) -> c_int {
        user(|| uid != SAME && uid != now::file_user(), || real!()(uid))
    }

    fn setfsgid(gid: gid_t) -> c_int {
        user(|| gid != SAME && gid != now::file_group(), || real!()(gid))
    }

    fn setgroups(len: size_t, groups: *const gid_t) -> c_int {
        user(|| setgroups_changes(len, groups), || real!()(len, groups))
    }

    /// Always gives up the shared memory, because only libc knows which groups this call sets.
    fn initgroups(name: *const c_char, group: gid_t) -> c_int {
        user(|| true, || real!()(name, group))
    }

    fn capset(header: *mut c_void, data: *const c_void) -> c_int {
        user(|| capset_changes(header, data), || real!()(header, data))
    }

    fn unshare(flags: c_int) -> c_int {
        let call = |flags| user(|| unshare_changes(flags), || real!()(flags));
        if flags & libc::CLONE_FILES == 0 {
            return call(flags);
        }
        own_descriptors(|| call(flags & !libc::CLONE_FILES), || real!()(flags))
    }

    fn setns(fd: c_int, kind: c_int) -> c_int {
        user(|| true, || real!()(fd, kind))
    }

    /// Declared with a fixed number of arguments. In C `prctl` is variadic, but passes the arguments in the same
    /// registers.
    fn prctl(option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int {
        if prctl_installs_filter(option, a, b) {
            return enter_seccomp(|| real!()(option, a, b, c, d));
        }
        user(|| prctl_changes(option, a, b), || real!()(option, a, b, c, d))
    }
}

#[cfg(test)]
mod tests;
