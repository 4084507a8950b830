//! Decodes a program's buffers from C's arguments.

use core::mem::MaybeUninit;
use core::ops::Deref;
use libc::{c_int, c_void, iovec, size_t};
use sovia_signal::access::{self, BadAddress};
use sovia_signal::chain;
use sovia_sys::{UserSlice, UserSliceMut};

/// Upper limit of a program's addresses on every supported processor.
const USER_END: usize = 1 << 56;

/// Maximum number of bytes that one call of the kernel moves (MAX_RW_COUNT, fs/read_write.c). The kernel cuts
/// longer lengths to this number. `recv` and `send` do this before they check the buffer's address, `read` and
/// `write` afterwards.
pub const MOST: usize = 0x7fff_f000;

/// Returns the program's buffer of `len` bytes, which may be unmapped. Returns `None` for a range outside the
/// program's addresses, which the kernel refuses without an access.
///
/// # Safety
/// Same as [`UserSliceMut::new`].
pub unsafe fn buffer<'a>(buf: *mut c_void, len: size_t) -> Option<UserSliceMut<'a>> {
    if len == 0 {
        return Some(UserSliceMut::empty());
    }
    if (buf as usize) < 4096 && !chain::is_guarding()
        || len > isize::MAX as usize
        || (buf as usize).checked_add(len)? > USER_END
    {
        return None;
    }
    // SAFETY: the caller guarantees the contract of [`UserSliceMut::new`] for `len` bytes, and the slice has at
    // most `len` bytes.
    Some(unsafe { UserSliceMut::new(buf.cast(), len.min(MOST)) })
}

/// Checks that a socket address of the program can be read, as the kernel does even in a call that ignores the
/// address.
///
/// # Errors
/// `EINVAL` if `len` is negative or longer than any address. `EFAULT` if the address cannot be read.
///
/// # Safety
/// The program must own the memory at `at`, which may be unmapped.
pub unsafe fn check_address(at: *const c_void, len: c_int) -> Result<(), c_int> {
    const MOST: usize = size_of::<libc::sockaddr_storage>();
    if at.is_null() {
        return Ok(());
    }
    let len = usize::try_from(len).ok().filter(|&len| len <= MOST).ok_or(libc::EINVAL)?;
    // SAFETY: [`buffer`] accesses no memory, and the slice that it returns is dropped at once.
    unsafe { buffer(at.cast_mut(), len) }.ok_or(libc::EFAULT)?;
    let mut copy = [const { MaybeUninit::<u8>::uninit() }; MOST];
    // SAFETY: `copy` has room for `len` bytes, and the program owns the memory at `at`.
    unsafe { access::copy(copy.as_mut_ptr().cast(), at.cast(), len) }
        .map_err(|BadAddress| libc::EFAULT)
}

/// Maximum number of entries in a list of buffers.
pub const IOV_MAX: usize = 1024;

/// Decodes a list of buffers, with the same checks as the kernel.
///
/// # Errors
/// `EINVAL` for more than [`IOV_MAX`] entries, or for a length that is negative as a signed number. `EFAULT` for a
/// range outside the user's address space, or for a list that cannot be read.
///
/// # Safety
/// The program must own the memory of the `count` entries at `iov`, which may be unmapped. Each entry's buffer must
/// meet the contract of [`buffer`].
pub unsafe fn parts<'a, T>(iov: *const iovec, count: usize) -> Result<Parts<T>, c_int>
where
    T: Copy + Default + From<UserSliceMut<'a>>,
{
    if count > IOV_MAX {
        return Err(libc::EINVAL);
    }
    let mut all = Parts { few: [T::default(); FEW], many: Vec::new(), count };
    let mut sum = 0;
    let mut has_bad_address = false;
    let mut entries = [const { MaybeUninit::<iovec>::uninit() }; FEW];
    for i in 0..count {
        if i.is_multiple_of(FEW) {
            let n = FEW.min(count - i) * size_of::<iovec>();
            // SAFETY: `entries` has room for `n` bytes, and the program owns the list of buffers.
            unsafe { access::copy(entries.as_mut_ptr().cast(), iov.wrapping_add(i).cast(), n) }
                .map_err(|BadAddress| libc::EFAULT)?;
        }
        // SAFETY: the loop has just copied this entry, and every bit pattern is a valid entry.
        let part = unsafe { entries[i % FEW].assume_init() };
        if part.iov_len > isize::MAX as usize {
            return Err(libc::EINVAL);
        }
        // SAFETY: the caller guarantees that each entry's buffer meets the contract of [`buffer`].
        let Some(part) = (unsafe { buffer(part.iov_base, part.iov_len) }) else {
            // The kernel checks all lengths before it checks an address.
            has_bad_address = true;
            continue;
        };
        let part = part.first(part.len().min(MOST - sum));
        sum += part.len();
        match all.few.get_mut(i) {
            Some(place) if count <= FEW => *place = part.into(),
            _ => all.many.push(part.into()),
        }
    }
    if has_bad_address { Err(libc::EFAULT) } else { Ok(all) }
}

const FEW: usize = 8;

/// List of a call's buffers, each a [`UserSlice`] or a [`UserSliceMut`]. A list of up to `FEW` buffers needs no
/// allocation.
pub struct Parts<T> {
    few: [T; FEW],
    many: Vec<T>,
    count: usize,
}

impl<T> Deref for Parts<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        if self.count > FEW { &self.many } else { &self.few[..self.count] }
    }
}

/// Like [`buffer`], for a buffer that the program sends.
///
/// # Safety
/// Same as [`buffer`].
#[inline]
pub unsafe fn bytes<'a>(buf: *const c_void, len: size_t) -> Option<UserSlice<'a>> {
    // SAFETY: the caller guarantees the contract of [`buffer`]. The bytes are only read.
    unsafe { buffer(buf.cast_mut(), len) }.map(UserSlice::from)
}

#[cfg(test)]
mod tests;
