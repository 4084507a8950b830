//! Does `sendfile` and `splice` to a connection.

use super::on_tcp::send_on_tcp;
use super::rest::is_full;
use super::{CallState, is_sent_at_once, send_begun, send_off_vi};
use crate::ops::transfer::{Flags, back};
use crate::stream::{self, Put};
use crate::table::{self, Ref};
use crate::{Errno, Outcome, fallback, wait};
use sovia_signal::interrupt::Moment;
use sovia_sys::{UserSlice, UserSliceMut, call};

/// Does `sendfile` to a connection. On a VI, reads the file and sends its bytes.
pub fn send_file(
    fd: i32,
    at: Ref,
    from: i32,
    mut place: Option<&mut i64>,
    count: usize,
    kernel: impl Fn() -> Outcome,
) -> Outcome {
    if count == 0 {
        // With a count of 0, the kernel does not check the socket.
        return kernel();
    }
    wait::cancellation_point();
    let since = Moment::now();
    // If another thread switches the path before the kernel's call, send the file over the VI.
    let sent = send_off_vi(fd, at, || count, &kernel);
    if let Some(result) = sent.or_else(|| send_on_tcp(fd, at, count, &kernel)) {
        return result;
    }
    // Leave files that are not regular to the kernel, which knows if it can send them.
    if !call::is_plain_file(from).map_err(crate::errno)? {
        back(fd, at);
        return kernel();
    }
    const PIECE: usize = 128 << 10;
    let mut piece = Vec::new();
    // The kernel would take a negative offset for the file position.
    let (mut done, mut is_cached) = (0, place.as_deref().is_none_or(|offset| *offset >= 0));
    while done < count {
        if is_cached {
            let offset = place.as_deref().copied();
            match send_in_place(fd, at, from, offset, count - done) {
                InPlace::Sent(n) => {
                    if let Some(offset) = &mut place {
                        **offset += n as i64;
                    }
                    done += n;
                    continue;
                }
                InPlace::NotNow => {}
                InPlace::NotCached => is_cached = false,
                InPlace::Failed(_) if done > 0 => return Ok(done),
                InPlace::Failed(error) => return Err(error),
            }
        }
        let want = PIECE.min(count - done);
        piece.resize(want, 0);
        let read = match &place {
            Some(offset) => call::pread(from, &mut piece[..want], **offset),
            None => call::read(from, &mut piece[..want]),
        };
        let got = match read {
            Ok(0) => break,
            Ok(n) => n,
            Err(_) if done > 0 => break,
            Err(e) => return Err(crate::errno(e)),
        };
        let begun = CallState { since, has_sent: done > 0 };
        let sent = send_piece(fd, at, piece[..got].into(), begun);
        let n = match sent {
            Ok(n) => n,
            Err(e) => {
                put_back(from, place.is_none(), got);
                return if done > 0 { Ok(done) } else { Err(e) };
            }
        };
        if let Some(offset) = &mut place {
            **offset += n as i64;
        } else if n < got {
            put_back(from, true, got - n);
        }
        done += n;
        if n < got {
            break;
        }
    }
    Ok(done)
}

/// Does `splice` from a pipe to a connection. Only the sending direction moves to TCP, unless the VI is full. Then the
/// kernel must count the unread bytes of the VI as well.
pub fn splice_to(fd: i32, at: Ref, count: usize, kernel: impl Fn() -> Outcome) -> Outcome {
    if let Some(result) = send_off_vi(fd, at, || count, &kernel) {
        return result;
    }
    if is_full(fd, at) {
        back(fd, at);
        return kernel();
    }
    fallback::sending(fd, at);
    // Another thread may have begun a fallback, which `sending` leaves alone.
    send_on_tcp(fd, at, count, &kernel).unwrap_or_else(|| {
        back(fd, at);
        kernel()
    })
}

/// Result of [`send_in_place`].
enum InPlace {
    /// So many bytes were sent, at least one.
    Sent(usize),
    /// Nothing was sent: the pool has no room now, or the bytes must be copied, or the file has ended.
    NotNow,
    /// Nothing was sent: the kernel would have to wait for the file's device, or cannot say.
    NotCached,
    /// Nothing was sent: the connection has this error.
    Failed(Errno),
}

/// Reads up to `len` bytes of a file straight into the pool, and sends them as one packet. Does not wait for a device,
/// because the caller's other threads and the progress thread may wait for the connection's lock.
#[inline(never)]
fn send_in_place(fd: i32, at: Ref, from: i32, offset: Option<i64>, len: usize) -> InPlace {
    let Some(mut guard) = at.attached() else { return InPlace::NotNow };
    let len = stream::packet_room(&mut guard, len);
    if len == 0 {
        return InPlace::NotNow;
    }
    let stream::LendResult::Here(memory) = stream::lend(&mut guard, len as u32) else {
        return InPlace::NotNow;
    };
    // SAFETY: the pool slot that `lend` returned has `len` bytes. No other thread uses the slot while this thread holds
    // the connection's lock.
    let slot = unsafe { UserSliceMut::new(memory.as_ptr(), len) };
    let result = match call::read_cached(from, slot, offset) {
        Ok(0) => InPlace::NotNow,
        Ok(got) => {
            let bytes = UserSlice::from(slot).first(got);
            let (sent, result) =
                match stream::commit(&mut guard, table::current(fd, at), bytes, got) {
                    Put::Bytes(n) => (n, InPlace::Sent(n)),
                    Put::Failed(error) => (0, InPlace::Failed(error)),
                    Put::AskKernel | Put::Full => (0, InPlace::NotNow),
                };
            put_back(from, offset.is_none() && sent < got, got - sent);
            result
        }
        Err(_) => InPlace::NotCached,
    };
    stream::take_back(&mut guard);
    result
}

fn send_piece(fd: i32, at: Ref, piece: UserSlice<'_>, begun: CallState) -> Outcome {
    wait::cancellation_point();
    if is_sent_at_once(at, piece) {
        return Ok(piece.len());
    }
    send_begun(fd, at, &[piece], Flags::default(), begun, &|| Err(libc::EAGAIN))
}

/// Moves the file's position back by `n` bytes that could not be sent. `moved` says that the read has advanced the
/// position.
fn put_back(from: i32, moved: bool, n: usize) {
    if moved {
        let _ = call::seek(from, -(n as i64), libc::SEEK_CUR);
    }
}
