//! A program's buffers, as C describes them.

use crate::boundary::is_bad;
use libc::{c_int, c_void, iovec, size_t};

/// The program's buffer. What the kernel would refuse as a bad address is refused here as far as
/// it shows.
///
/// # Safety
/// `buf` must be valid for `len` bytes, as the call demands.
pub unsafe fn buffer<'a>(buf: *mut c_void, len: size_t) -> Option<&'a mut [u8]> {
    if len == 0 {
        return Some(&mut []);
    }
    if (buf as usize) < 4096 || len > isize::MAX as usize {
        return None;
    }
    // SAFETY: the caller's contract.
    Some(unsafe { core::slice::from_raw_parts_mut(buf.cast(), len) })
}

/// A list of buffers, as the kernel would take it.
///
/// # Errors
/// `EINVAL` for too many, or lengths that add up to more than a call can return; `EFAULT` for
/// addresses that cannot be.
///
/// # Safety
/// `iov` must be valid for `count` entries, each valid for its length, as the call
/// demands.
pub unsafe fn parts<'a>(iov: *const iovec, count: usize) -> Result<Parts<'a>, c_int> {
    const IOV_MAX: usize = 1024;
    if count > IOV_MAX {
        return Err(libc::EINVAL);
    }
    if count > 0 && is_bad(iov) {
        return Err(libc::EFAULT);
    }
    let mut all = Parts { few: [const { None }; FEW], many: Vec::new(), count };
    let mut sum = 0usize;
    for i in 0..count {
        // SAFETY: the caller's contract.
        let part = unsafe { &*iov.add(i) };
        sum = sum
            .checked_add(part.iov_len)
            .filter(|&n| n <= isize::MAX as usize)
            .ok_or(libc::EINVAL)?;
        // SAFETY: as above.
        let part = unsafe { buffer(part.iov_base, part.iov_len) }.ok_or(libc::EFAULT)?;
        match all.few.get_mut(i) {
            Some(place) if count <= FEW => *place = Some(part),
            _ => all.many.push(part),
        }
    }
    Ok(all)
}

const FEW: usize = 16;

/// A call's buffers; a few need no allocation.
pub struct Parts<'a> {
    few: [Option<&'a mut [u8]>; FEW],
    many: Vec<&'a mut [u8]>,
    count: usize,
}

impl<'a> Parts<'a> {
    /// Hands the buffers out as one list.
    pub fn with<R>(mut self, f: impl FnOnce(&mut [&'a mut [u8]]) -> R) -> R {
        if self.count > FEW {
            return f(&mut self.many);
        }
        let mut list: [&mut [u8]; FEW] = core::array::from_fn(|_| &mut [][..]);
        for (to, from) in list.iter_mut().zip(&mut self.few) {
            if let Some(part) = from.take() {
                *to = part;
            }
        }
        f(&mut list[..self.count])
    }

    /// Hands the buffers out as one list to read from.
    pub fn with_bytes<R>(self, f: impl FnOnce(&[&[u8]]) -> R) -> R {
        let count = self.count;
        self.with(|list| {
            if count > FEW {
                let list: Vec<&[u8]> = list.iter().map(|part| &**part).collect();
                return f(&list);
            }
            let mut few: [&[u8]; FEW] = [&[]; FEW];
            for (to, from) in few.iter_mut().zip(list.iter()) {
                *to = from;
            }
            f(&few[..count])
        })
    }
}

/// The program's buffer, to send from.
///
/// # Safety
/// As for [`buffer`].
#[inline]
pub unsafe fn bytes<'a>(buf: *const c_void, len: size_t) -> Option<&'a [u8]> {
    // SAFETY: the caller's contract; only read from.
    unsafe { buffer(buf.cast_mut(), len) }.map(|part| &*part)
}
