//! Fills the program's buffers in order.

use crate::ops::transfer::keep_error;
use crate::stream::{self, Got};
use sovia_signal::access::{self, Fault};
use sovia_sys::UserSliceMut;

pub(super) fn scatter(
    guard: &mut crate::conn::Guard<'_>,
    fd: i32,
    parts: &[UserSliceMut<'_>],
    mut skip: usize,
) -> Got {
    let mut done = 0;
    if parts.iter().all(|part| part.is_empty()) {
        return stream::receive(guard, fd, UserSliceMut::empty());
    }
    if skip == 0 && parts.len() > 1 && !parts.iter().all(|part| is_there(*part)) {
        // Some part may not be writable. If this part is needed, the call must fail and consume nothing, like in
        // the kernel.
        match peek(guard, fd, parts) {
            Got::Bytes(_) => {}
            other => return other,
        }
    }
    for part in parts {
        if skip >= part.len() {
            skip -= part.len();
            continue;
        }
        let out = part.skip(skip);
        skip = 0;
        match stream::receive(guard, fd, out) {
            Got::Bytes(n) => {
                done += n;
                if n < out.len() {
                    break;
                }
            }
            Got::Failed(e) if done > 0 => {
                keep_error(guard.conn, e);
                break;
            }
            _ if done > 0 => break,
            other => return other,
        }
    }
    Got::Bytes(done)
}

/// Returns true if the first and the last byte of the part are writable. Does not change these bytes, because
/// another thread may write to bytes of the buffer that this call does not fill.
fn is_there(part: UserSliceMut<'_>) -> bool {
    let mut fault = Fault::none();
    let Some(last) = part.len().checked_sub(1) else { return true };
    for byte in [0, last] {
        // SAFETY: `access` reports an unmapped address as a fault.
        unsafe { access::probe_byte(part.as_mut_ptr().wrapping_add(byte), &mut fault) };
    }
    fault.check().is_ok()
}

pub(super) fn peek(guard: &mut crate::conn::Guard<'_>, fd: i32, parts: &[UserSliceMut<'_>]) -> Got {
    if let [part] = parts {
        return stream::peek(guard, fd, *part);
    }
    let wanted = parts.iter().map(|part| part.len()).sum();
    let mut all = vec![0; wanted];
    let got = stream::peek(guard, fd, (&mut all[..]).into());
    if let Got::Bytes(n) = got {
        let mut from = &all[..n];
        for part in parts {
            let n = part.len().min(from.len());
            if access::write(*part, from).is_err() {
                return Got::Failed(libc::EFAULT);
            }
            from = &from[n..];
        }
    }
    got
}
