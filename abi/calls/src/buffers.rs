//! A program's buffers, as C describes them.

use core::mem::MaybeUninit;
use core::ops::Deref;
use libc::{c_int, c_void, iovec, size_t};
use sovia_signal::access::{self, BadAddress};
use sovia_signal::chain;
use sovia_sys::{UserSlice, UserSliceMut};

/// Where the kernel's own addresses begin, on every machine.
const USER_END: usize = 1 << 56;

/// Most bytes that one call of the kernel moves (MAX_RW_COUNT, fs/read_write.c). Longer lengths are shortened: by `recv` and
/// `send` before they look at the address, by `read` and `write` afterwards.
pub const MOST: usize = 0x7fff_f000;

/// The program's buffer, which may not be there. What the kernel refuses at sight is refused.
///
/// # Safety
/// The contract of [`UserSliceMut::new`].
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
    // SAFETY: the caller's contract.
    Some(unsafe { UserSliceMut::new(buf.cast(), len.min(MOST)) })
}

/// Reads an address of the program's, as the kernel does with each, whether it counts for anything or not.
///
/// # Errors
/// `EINVAL` for a length that no address has; `EFAULT` where it cannot be read.
///
/// # Safety
/// Nothing but a copy is made of what is there.
pub unsafe fn check_address(at: *const c_void, len: c_int) -> Result<(), c_int> {
    const MOST: usize = size_of::<libc::sockaddr_storage>();
    if at.is_null() {
        return Ok(());
    }
    let len = usize::try_from(len).ok().filter(|&len| len <= MOST).ok_or(libc::EINVAL)?;
    // SAFETY: nothing is touched by it.
    unsafe { buffer(at.cast_mut(), len) }.ok_or(libc::EFAULT)?;
    let mut copy = [const { MaybeUninit::<u8>::uninit() }; MOST];
    // SAFETY: there is room for all of it; the address is the program's.
    unsafe { access::copy(copy.as_mut_ptr().cast(), at.cast(), len) }
        .map_err(|BadAddress| libc::EFAULT)
}

/// Entries of a list of buffers, at most.
pub const IOV_MAX: usize = 1024;

/// A list of buffers, as the kernel would take it.
///
/// # Errors
/// `EINVAL` for too many entries, or a length that is negative as a signed number; `EFAULT` for addresses that cannot be.
///
/// # Safety
/// `iov` must be valid for `count` entries, each valid for its length, as the call
/// demands.
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
            // SAFETY: as many entries as there is room for; the list is the program's.
            unsafe { access::copy(entries.as_mut_ptr().cast(), iov.wrapping_add(i).cast(), n) }
                .map_err(|BadAddress| libc::EFAULT)?;
        }
        // SAFETY: just copied, and any bits are an entry.
        let part = unsafe { entries[i % FEW].assume_init() };
        if part.iov_len > isize::MAX as usize {
            return Err(libc::EINVAL);
        }
        // SAFETY: the caller's contract.
        let Some(part) = (unsafe { buffer(part.iov_base, part.iov_len) }) else {
            // The kernel looks at all lengths before it looks at addresses.
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

/// A call's buffers, [`UserSlice`] or [`UserSliceMut`]; a few need no allocation.
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

/// The program's buffer, to send from.
///
/// # Safety
/// As for [`buffer`].
#[inline]
pub unsafe fn bytes<'a>(buf: *const c_void, len: size_t) -> Option<UserSlice<'a>> {
    // SAFETY: the caller's contract.
    unsafe { buffer(buf.cast_mut(), len) }.map(UserSlice::from)
}

#[cfg(test)]
mod tests;
