//! Present credentials of the calling thread.

use crate::call::{Errno, Result, Sysno};

macro_rules! sys {
    ($name:ident $(, $arg:expr)* $(,)?) => {
        // SAFETY: the callers pass numbers and pointers to live locals, whose sizes match what the call reads and
        // writes.
        unsafe { syscalls::syscall!(Sysno::$name $(, $arg)*) }
    };
}

/// Version of the capability calls that has 64 capabilities.
pub const CAPABILITY_VERSION_3: u32 = 0x2008_0522;

/// Returns real, effective and saved user id.
pub fn users() -> [u32; 3] {
    let mut ids = [u32::MAX; 3];
    let [real, effective, saved] = &mut ids;
    let _ = sys!(getresuid, &raw mut *real, &raw mut *effective, &raw mut *saved);
    ids
}

/// Returns real, effective and saved group id.
pub fn group_ids() -> [u32; 3] {
    let mut ids = [u32::MAX; 3];
    let [real, effective, saved] = &mut ids;
    let _ = sys!(getresgid, &raw mut *real, &raw mut *effective, &raw mut *saved);
    ids
}

/// Returns the user id for file access.
pub fn file_user() -> u32 {
    // The kernel refuses an invalid id and returns the present one.
    sys!(setfsuid, u32::MAX).map_or(u32::MAX, |id| id as u32)
}

/// Returns the group id for file access.
pub fn file_group() -> u32 {
    sys!(setfsgid, u32::MAX).map_or(u32::MAX, |id| id as u32)
}

/// Writes the supplementary groups to `out` and returns their number. Fails with `EINVAL` if `out` is too short.
pub fn groups(out: &mut [u32]) -> Result<usize> {
    if out.is_empty() {
        return Err(Errno::EINVAL);
    }
    sys!(getgroups, out.len(), out.as_mut_ptr())
}

/// Returns the capability sets, in the layout of version 3 of `capset`.
pub fn capabilities() -> Result<[u32; 6]> {
    let header = [CAPABILITY_VERSION_3, 0];
    let mut data = [0u32; 6];
    sys!(capget, header.as_ptr(), data.as_mut_ptr())?;
    Ok(data)
}

/// Gives up all capabilities of the calling thread except `kept`. The thread cannot regain them, except by an
/// exec.
///
/// # Errors
/// Those of the kernel. The call needs no privilege.
pub fn keep_capabilities(kept: &[u32]) -> Result<()> {
    let header = [CAPABILITY_VERSION_3, 0];
    let mut data = capabilities()?;
    for (i, word) in data.iter_mut().enumerate() {
        // The words are effective, permitted and inheritable for the first 32 capabilities, then for the others.
        let (half, is_inheritable) = (i as u32 / 3, i % 3 == 2);
        let mask =
            kept.iter().filter(|&&it| it / 32 == half).fold(0, |mask, it| mask | 1 << (it % 32));
        *word &= if is_inheritable { 0 } else { mask };
    }
    sys!(capset, header.as_ptr(), data.as_ptr()).map(drop)
}

/// Changes the calling thread's user for good, with group `gid` and no other. The calling thread must be the only
/// one of its process.
///
/// # Errors
/// Those of the kernel. The call needs `CAP_SETUID` and `CAP_SETGID`.
pub fn become_user(uid: u32, gid: u32) -> Result<()> {
    sys!(setgroups, 0usize, 0usize)?;
    sys!(setresgid, gid, gid, gid)?;
    sys!(setresuid, uid, uid, uid).map(drop)
}

/// Makes the calling thread's permitted capabilities effective, or makes none effective. The thread keeps the
/// permitted capabilities in both cases.
///
/// # Errors
/// Those of the kernel. The call needs no privilege.
pub fn use_capabilities(are_used: bool) -> Result<()> {
    let header = [CAPABILITY_VERSION_3, 0];
    let mut data = capabilities()?;
    for half in data.chunks_exact_mut(3) {
        half[0] = if are_used { half[1] } else { 0 };
    }
    sys!(capset, header.as_ptr(), data.as_ptr()).map(drop)
}

/// Removes every capability from the calling thread's bounding set, so that no program it executes gets one.
/// Without `CAP_SETPCAP` the call has no effect.
pub fn drop_bounding_set() {
    // The kernel refuses the first number that names no capability.
    let mut capability = 0;
    while capability < 64 && prctl(libc::PR_CAPBSET_DROP, capability).is_ok() {
        capability += 1;
    }
}

/// Copies words of this process's memory from an address that may be bad. Returns true if all words were copied.
pub fn read_own(address: usize, out: &mut [u32]) -> bool {
    let len = size_of_val(out);
    let local = libc::iovec { iov_base: out.as_mut_ptr().cast(), iov_len: len };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: len };
    // Use the thread's id, because the process's first thread may have ended.
    let pid = crate::call::gettid();
    sys!(process_vm_readv, pid, &raw const local, 1usize, &raw const remote, 1usize, 0usize)
        == Ok(len)
}

/// Calls `prctl` with one argument.
pub fn prctl(option: i32, argument: u64) -> Result<usize> {
    sys!(prctl, option, argument, 0usize, 0usize, 0usize)
}

/// Returns true if a capability is in the ambient set.
pub fn is_ambient(capability: u64) -> Result<bool> {
    let set =
        sys!(prctl, libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_IS_SET, capability, 0usize, 0usize)?;
    Ok(set == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_what_libc_says() {
        let mut ids = [[0u32; 3]; 2];
        let [[ru, eu, su], [rg, eg, sg]] = &mut ids;
        // SAFETY: the pointers come from references to live locals.
        unsafe {
            libc::getresuid(ru, eu, su);
            libc::getresgid(rg, eg, sg);
        }
        assert_eq!([users(), group_ids()], ids);
        assert_eq!((file_user(), file_group()), (ids[0][1], ids[1][1]));
        let mut groups_of_libc = [0; 256];
        // SAFETY: the array has 256 elements, as the call says.
        let n = unsafe { libc::getgroups(256, groups_of_libc.as_mut_ptr()) } as usize;
        let mut ours = [0; 256];
        assert_eq!(groups(&mut ours), Ok(n));
        assert_eq!(ours, groups_of_libc);
        assert!(capabilities().is_ok());
        let (words, mut copy) = ([1u32, 2, 3], [0u32; 3]);
        assert!(read_own(words.as_ptr().addr(), &mut copy));
        assert_eq!(copy, words);
        assert!(!read_own(1, &mut copy) && !read_own(0, &mut copy));
        assert_eq!(prctl(libc::PR_GET_DUMPABLE, 0), Ok(1));
    }
}
