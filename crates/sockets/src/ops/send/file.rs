//! Does `sendfile` and `splice` to a connection.

use super::on_tcp::send_on_tcp;
use super::rest::is_full;
use super::{CallState, is_sent_at_once, send_begun, send_off_vi};
use crate::ops::transfer::{Flags, back};
use crate::table::Ref;
use crate::{Outcome, fallback, wait};
use sovia_signal::interrupt::Moment;
use sovia_sys::{UserSlice, call};

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
    let mut piece = vec![0u8; PIECE.min(count)];
    let mut done = 0;
    while done < count {
        let want = piece.len().min(count - done);
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
