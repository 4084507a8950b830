//! The calls that move bytes.

use super::keep;
use crate::conn::{Conn, INLINE_MAX, Phase, flag};
use crate::retreat::{self, Cause};
use crate::stream::{self, Got, Put, Way};
use crate::table::{self, Ref};
use crate::wait::{self, Call, Ended, Want};
use crate::{Errno, Outcome, anchors, meeting};
use core::sync::atomic::{AtomicU64, Ordering};
use sovia_proto::path::{Rx, Tx};
use sovia_signal::access::{self, BadAddress, Fault};
use sovia_signal::chain;
use sovia_sync::presence::{Presence, Present};
use sovia_sys::{call, clock};

/// How a call behaves.
#[derive(Debug, Clone, Copy, Default)]
pub struct Flags {
    /// MSG_DONTWAIT.
    pub dont_wait: bool,
    /// MSG_PEEK.
    pub peek: bool,
    /// MSG_WAITALL.
    pub wait_all: bool,
    /// MSG_NOSIGNAL.
    pub no_signal: bool,
    /// A receive of no bytes waits until there are some, as recv does and read does not.
    pub empty_waits: bool,
}

/// The calling thread is inside a kernel call from here on, so that the path is not switched under it.
#[inline]
fn pin(pins: &Presence) -> Present<'_> {
    pins.enter(!chain::is_in_handler())
}

/// Makes the kernel's call and counts its bytes, with the direction's path held where it is. The call comes back if it
/// is not the one to make, because the path has been switched meanwhile.
#[inline]
fn make<K: FnOnce() -> Outcome>(
    kernel: K,
    pins: &Presence,
    is_to_be_made: impl FnOnce() -> bool,
    counter: Option<&AtomicU64>,
) -> Result<Outcome, K> {
    let _pin = pin(pins);
    if !is_to_be_made() {
        return Err(kernel);
    }
    let result = kernel();
    if let (Some(counter), Ok(n)) = (counter, &result) {
        counter.fetch_add(*n as u64, Ordering::AcqRel);
    }
    Ok(result)
}

/// A candidate has received. Grants the VI if it has been given one: the program reads.
#[inline]
fn received(fd: i32, at: Ref) {
    if meeting::received(fd, at) {
        back(fd, at);
    } else if at.conn.phase() == Phase::Attached
        && let Some(mut guard) = at.attached()
    {
        stream::grant(&mut guard);
    }
}

/// A candidate is about to send: it may have been given a VI.
#[inline]
fn before_send(fd: i32, at: Ref) {
    if meeting::before_send(fd, at) {
        back(fd, at);
    }
}

/// It has met its peer, and must go back to TCP. That takes its time: the peer has its part in it.
#[cold]
#[inline(never)]
fn back(fd: i32, at: Ref) {
    retreat::now(fd, at, Cause::Call);
}

/// When a call that begins now gives up, by a timeout of the connection (0: never).
pub(crate) fn deadline(timeout: &AtomicU64) -> Option<u64> {
    match timeout.load(Ordering::Relaxed) {
        0 => None,
        ns => Some(clock::now_ns().saturating_add(ns)),
    }
}

/// read, readv, recv, recvfrom, recvmsg: fills `parts` one after the other.
/// `kernel` makes the program's own call, for a connection on TCP.
#[inline(always)]
pub fn receive(
    fd: i32,
    at: Ref,
    parts: &mut [&mut [u8]],
    flags: Flags,
    kernel: impl FnOnce() -> Outcome,
) -> Outcome {
    wait::cancellation_point();
    if let [part] = parts
        && !part.is_empty()
        && !flags.peek
        && !flags.wait_all
        && let Some(mut guard) = at.favoured()
    {
        match stream::single::receive(&mut guard, fd, part) {
            Some(Got::Bytes(n)) => {
                guard.leave();
                return Ok(n);
            }
            Some(Got::Nothing) if flags.dont_wait || at.conn.has(flag::NONBLOCK) => {
                guard.leave();
                anchors::ensure_for_a_look();
                if !retreat::concerns(at.conn) {
                    return Err(libc::EAGAIN);
                }
            }
            Some(Got::Failed(e)) => return Err(e),
            Some(Got::Nothing | Got::End) | None => {}
        }
    }
    receive_generally(fd, at, parts, flags, kernel)
}

/// The same, whatever there is.
#[inline(never)]
fn receive_generally(
    fd: i32,
    at: Ref,
    parts: &mut [&mut [u8]],
    flags: Flags,
    kernel: impl FnOnce() -> Outcome,
) -> Outcome {
    let conn = at.conn;
    let kernel = match conn.phase() {
        Phase::Attached => kernel,
        Phase::Candidate => {
            let is_on_tcp = || conn.phase() != Phase::Attached || conn.rx() == Rx::Tcp;
            let counter = (!flags.peek).then_some(&conn.rx_tcp);
            match make(kernel, &conn.rx_pins, is_on_tcp, counter) {
                Ok(result) => {
                    let n = result?;
                    if n > 0 && conn.phase() == Phase::Candidate {
                        received(fd, at);
                    }
                    return Ok(n);
                }
                Err(kernel) => kernel,
            }
        }
        _ => return kernel(),
    };
    if conn.rx() == Rx::Back {
        retreat::settle(at);
        // While it has its VI still no thread sleeps in the kernel's call: a relay would read beside it.
        if !conn.is_attached() {
            return kernel();
        }
    }
    if conn.is_interrupted() {
        return Err(libc::EINTR);
    }
    // The common case: one part, something there.
    if let [part] = parts
        && !flags.peek
        && !flags.wait_all
        && let Some(mut guard) = at.attached()
    {
        match stream::receive(&mut guard, fd, part) {
            Got::Bytes(n) => return Ok(n),
            Got::End => return Ok(0),
            Got::Failed(e) => return Err(e),
            Got::Nothing if part.is_empty() && !flags.empty_waits => return Ok(0),
            Got::Nothing => {}
        }
        if flags.dont_wait || conn.has(flag::NONBLOCK) {
            drop(guard);
            anchors::ensure_for_a_look();
            if !retreat::concerns(conn) {
                return Err(libc::EAGAIN);
            }
            retreat::settle(at);
            if !retreat::is_bringing(fd, at) {
                return Err(libc::EAGAIN);
            }
        }
    }
    let result = receive_slowly(fd, at, parts, flags, kernel);
    keep::leave();
    result
}

fn receive_slowly(
    fd: i32,
    at: Ref,
    parts: &mut [&mut [u8]],
    flags: Flags,
    kernel: impl FnOnce() -> Outcome,
) -> Outcome {
    let conn = at.conn;
    let wanted: usize = parts.iter().map(|part| part.len()).sum();
    if wanted == 0 && !flags.empty_waits {
        return Ok(0);
    }
    let mut call = Call::begin(fd, at, deadline(&conn.receive_timeout));
    let patient = !flags.dont_wait && !conn.has(flag::NONBLOCK);
    let mut done = 0;
    loop {
        let attempt = |guard: &mut crate::conn::Guard<'_>| {
            let fd = keep::descriptor(fd, at);
            let got =
                if flags.peek { peek(guard, fd, parts) } else { scatter(guard, fd, parts, done) };
            match got {
                Got::Bytes(n) => Some(Ok(n)),
                Got::End => Some(Ok(0)),
                Got::Failed(e) => {
                    if done > 0 {
                        // The call returns what it has; the next one returns the error.
                        keep_error(guard.conn, e);
                    }
                    Some(Err(e))
                }
                Got::Nothing => {
                    // The thread that takes the connection back may have ended.
                    retreat::go_on_under(guard, fd);
                    None
                }
            }
        };
        let waited = if patient {
            call.ends_at_handler = done > 0 || wanted == 0;
            wait::until(&mut call, Want::Receive, attempt)
        } else {
            wait::look(at, attempt)
        };
        let result = match waited {
            Ok(result) => result,
            Err(Ended::Plain) if done == 0 => {
                let now = keep::descriptor(fd, at);
                return if now == fd { kernel() } else { receive_plainly(now, parts, flags) };
            }
            Err(Ended::Plain) => return Ok(done),
            // Whatever ends the wait, the kernel has then received all that was asked for.
            Err(Ended::Failed(libc::EAGAIN | libc::EINTR)) if patient && wanted == 0 => {
                return Ok(0);
            }
            Err(Ended::Failed(e)) => Err(e),
        };
        match result {
            Ok(n) if flags.peek => {
                if !flags.wait_all || !patient || n == wanted {
                    return Ok(n);
                }
                // To wait for more without taking what is there is left to the kernel.
                back(fd, at);
                return kernel();
            }
            Ok(0) => return Ok(done),
            Ok(n) => {
                done += n;
                if done == wanted || !flags.wait_all || !patient {
                    return Ok(done);
                }
            }
            Err(_) if done > 0 => return Ok(done),
            Err(e) => return Err(e),
        }
    }
}

/// An error that comes after bytes is the next call's, but for one that is this call's own.
fn keep_error(conn: &Conn, error: Errno) {
    if error != libc::EFAULT {
        conn.keep_error(error);
    }
}

fn scatter(
    guard: &mut crate::conn::Guard<'_>,
    fd: i32,
    parts: &mut [&mut [u8]],
    mut skip: usize,
) -> Got {
    let mut done = 0;
    if parts.iter().all(|part| part.is_empty()) {
        return stream::receive(guard, fd, &mut []);
    }
    if skip == 0 && parts.len() > 1 && !parts.iter().all(|part| is_there(part)) {
        // Perhaps a part is needed that is not there: then nothing is consumed, as in the kernel.
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
        let out = &mut part[skip..];
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

/// Whether the program's part can be written, as far as its ends show.
fn is_there(part: &[u8]) -> bool {
    let mut fault = Fault::none();
    for byte in [part.first(), part.last()].into_iter().flatten() {
        let at = core::ptr::from_ref(byte).cast_mut();
        // SAFETY: the program's byte is put back as it was.
        unsafe {
            let was: u8 = access::load_word(at.cast_const(), &mut fault);
            access::store_word(at, was, &mut fault);
        }
    }
    fault.check().is_ok()
}

fn peek(guard: &mut crate::conn::Guard<'_>, fd: i32, parts: &mut [&mut [u8]]) -> Got {
    if let [part] = parts {
        return stream::peek(guard, fd, part);
    }
    let wanted = parts.iter().map(|part| part.len()).sum();
    let mut all = vec![0; wanted];
    let got = stream::peek(guard, fd, &mut all);
    if let Got::Bytes(n) = got {
        let mut from = &all[..n];
        for part in parts {
            let n = part.len().min(from.len());
            // SAFETY: both have `n` bytes, and one is ours.
            if unsafe { access::copy(part.as_mut_ptr(), from.as_ptr(), n) }.is_err() {
                return Got::Failed(libc::EFAULT);
            }
            from = &from[n..];
        }
    }
    got
}

/// write, writev, send, sendto, sendmsg: takes `parts` one after the other.
/// `kernel` makes the program's own call, for a connection on TCP.
#[inline(always)]
pub fn send(
    fd: i32,
    at: Ref,
    parts: &[&[u8]],
    flags: Flags,
    kernel: impl FnOnce() -> Outcome,
) -> Outcome {
    if let [part] = parts
        && let Some(mut guard) = at.favoured()
        && stream::single::send(&mut guard, part)
    {
        guard.leave();
        return Ok(part.len());
    }
    send_generally(fd, at, parts, flags, kernel)
}

/// The same, whatever there is.
#[inline(never)]
fn send_generally(
    fd: i32,
    at: Ref,
    parts: &[&[u8]],
    flags: Flags,
    kernel: impl FnOnce() -> Outcome,
) -> Outcome {
    let conn = at.conn;
    let kernel = match send_off_vi(fd, at, || length(parts), kernel) {
        Ok(result) => return result,
        Err(kernel) => kernel,
    };
    if let [part] = parts
        && let Some(mut guard) = at.attached()
    {
        match stream::send(&mut guard, fd, part) {
            Put::Bytes(n) if n == part.len() => {
                if conn.has(flag::UNTIL_FULL) {
                    drop(guard);
                    leave_if_full(fd, at);
                }
                return Ok(n);
            }
            Put::Bytes(n) => {
                drop(guard);
                if flags.dont_wait || conn.has(flag::NONBLOCK) {
                    leave_if_full(fd, at);
                    return Ok(n);
                }
                return send_slowly(fd, at, parts, flags, n);
            }
            Put::Failed(e) => return Err(e),
            Put::AskKernel => {
                drop(guard);
                retreat::settle(at);
                return send_tcp(fd, at, length(parts), kernel)
                    .unwrap_or_else(|_| send_slowly(fd, at, parts, flags, 0));
            }
            Put::Full => {
                if flags.dont_wait || conn.has(flag::NONBLOCK) {
                    drop(guard);
                    leave_if_full(fd, at);
                    anchors::ensure_for_a_look();
                    return Err(libc::EAGAIN);
                }
            }
        }
    }
    // A short gathered write goes as one packet.
    let total = length(parts);
    if parts.len() > 1 && total <= SHORT {
        return send_short(fd, at, parts, flags, kernel);
    }
    send_or_kernel(fd, at, parts, flags, kernel)
}

/// Where every send of `total` bytes begins. On a connection that has no VI the kernel's call is made; it comes back
/// where there is one.
#[inline]
fn send_off_vi<K: FnOnce() -> Outcome>(
    fd: i32,
    at: Ref,
    total: impl FnOnce() -> usize,
    kernel: K,
) -> Result<Outcome, K> {
    wait::cancellation_point();
    let conn = at.conn;
    let kernel = match conn.phase() {
        Phase::Attached => kernel,
        Phase::Candidate => {
            before_send(fd, at);
            let is_on_tcp = || conn.phase() != Phase::Attached;
            let sent = make(kernel, &conn.tx_pins, is_on_tcp, Some(&conn.tx_tcp));
            if let Ok(sent) = &sent {
                if conn.phase() == Phase::Attached {
                    // Another thread has given it its VI meanwhile.
                    watch_room_after(fd, at, sent, total());
                }
                if matches!(sent, Ok(1..)) && conn.phase() == Phase::Candidate {
                    meeting::sent(at);
                }
            }
            match sent {
                Ok(sent) => return Ok(sent),
                Err(kernel) => kernel,
            }
        }
        _ => return Ok(kernel()),
    };
    if conn.is_interrupted() { Ok(Err(libc::EINTR)) } else { Err(kernel) }
}

/// A write of several parts that have no more bytes than this goes as one packet.
const SHORT: usize = 4096;

#[inline(never)]
fn send_short(
    fd: i32,
    at: Ref,
    parts: &[&[u8]],
    flags: Flags,
    kernel: impl FnOnce() -> Outcome,
) -> Outcome {
    let total = length(parts);
    if total <= INLINE_MAX {
        let mut short = [0u8; INLINE_MAX];
        join(parts, &mut short)?;
        return send_or_kernel(fd, at, &[&short[..total]], flags, kernel);
    }
    match send_in_place(fd, at, parts, total) {
        Some(Ok(done)) if done < total => {
            if flags.dont_wait || at.conn.has(flag::NONBLOCK) {
                return Ok(done);
            }
            send_slowly(fd, at, parts, flags, done)
        }
        Some(result) => result,
        None => send_or_kernel(fd, at, parts, flags, kernel),
    }
}

/// Gathers the parts where the packet lies. `None` if there is no place for one now, or the packet is not
/// to be sent at once.
#[inline(never)]
fn send_in_place(fd: i32, at: Ref, parts: &[&[u8]], total: usize) -> Option<Outcome> {
    let mut guard = at.attached()?;
    if !stream::packets_go_at_once(&guard, total) {
        return None;
    }
    let stream::Place::Here(memory) = stream::lend(&mut guard, total as u32) else { return None };
    // SAFETY: a lent place has as many bytes, and no other thread uses it while the lock is held; any
    // bytes are valid.
    let place = unsafe { core::slice::from_raw_parts_mut(memory.as_ptr(), total) };
    let put = match join(parts, place) {
        Ok(()) => stream::commit(&mut guard, fd, place, total),
        Err(error) => Put::Failed(error),
    };
    if put != Put::Bytes(total) {
        stream::take_back(&mut guard);
    }
    match put {
        Put::Bytes(n) => Some(Ok(n)),
        Put::Failed(e) => Some(Err(e)),
        Put::AskKernel | Put::Full => None,
    }
}

/// Copies the program's parts one after the other; as many bytes as `out` has room for.
fn join(parts: &[&[u8]], mut out: &mut [u8]) -> Result<(), Errno> {
    for part in parts {
        let (place, rest) = out.split_at_mut(part.len().min(out.len()));
        // SAFETY: the place is ours, and no longer than the part.
        unsafe { access::copy(place.as_mut_ptr(), part.as_ptr(), place.len()) }
            .map_err(|BadAddress| libc::EFAULT)?;
        out = rest;
    }
    Ok(())
}

fn send_or_kernel(
    fd: i32,
    at: Ref,
    parts: &[&[u8]],
    flags: Flags,
    kernel: impl FnOnce() -> Outcome,
) -> Outcome {
    send_on_tcp(fd, at, length(parts), kernel)
        .unwrap_or_else(|_| send_slowly(fd, at, parts, flags, 0))
}

/// The kernel's own call serves a connection that is on TCP all through. It comes back if there is a VI to send on.
fn send_on_tcp<K: FnOnce() -> Outcome>(
    fd: i32,
    at: Ref,
    total: usize,
    kernel: K,
) -> Result<Outcome, K> {
    let Some(mut guard) = at.attached() else { return Ok(kernel()) };
    match stream::way(&mut guard, fd) {
        Way::Vi => Err(kernel),
        Way::Failed(e) => Ok(Err(e)),
        Way::Kernel => {
            drop(guard);
            send_tcp(fd, at, total, kernel)
        }
    }
}

/// The kernel's call on an attached connection that is on TCP now. It comes back if another thread has switched the
/// path between the look and the call.
fn send_tcp<K: FnOnce() -> Outcome>(
    fd: i32,
    at: Ref,
    total: usize,
    kernel: K,
) -> Result<Outcome, K> {
    let conn = at.conn;
    let is_on_tcp = || !stream::goes_over_vi(conn);
    let result = make(kernel, &conn.tx_pins, is_on_tcp, Some(&conn.tx_tcp))?;
    watch_room_after(fd, at, &result, total);
    Ok(result)
}

fn length(parts: &[&[u8]]) -> usize {
    parts.iter().map(|part| part.len()).sum()
}

/// TCP has had no room for all of `total`: the program is to hear of it when it has.
fn watch_room_after(fd: i32, at: Ref, sent: &Outcome, total: usize) {
    let had_room = match sent {
        Ok(n) => *n >= total,
        Err(error) => *error != libc::EAGAIN,
    };
    if !had_room
        && let Some(guard) = at.attached()
        && let Some(fd) = number_of(fd, at)
    {
        anchors::watch_room(&guard, fd);
    }
}

/// A descriptor of the connection: the number of a call's may be another one's by now.
fn number_of(fd: i32, at: Ref) -> Option<i32> {
    if table::refers(fd, at) { Some(fd) } else { table::descriptor_of(at.conn) }
}

/// Sends the rest, waiting for room.
fn send_slowly(fd: i32, at: Ref, parts: &[&[u8]], flags: Flags, done: usize) -> Outcome {
    let result = send_rest(fd, at, parts, flags, done);
    keep::leave();
    result
}

fn send_rest(fd: i32, at: Ref, parts: &[&[u8]], flags: Flags, mut done: usize) -> Outcome {
    let conn = at.conn;
    let total = length(parts);
    let mut call = Call::begin(fd, at, deadline(&conn.send_timeout));
    let patient = !flags.dont_wait && !conn.has(flag::NONBLOCK);
    let mut may_leave = true;
    while done < total {
        let Some(rest) = rest_of(parts, done) else { break };
        let mut is_full = false;
        let attempt = |guard: &mut crate::conn::Guard<'_>| {
            let fd = keep::descriptor(fd, at);
            // As many parts as there is room for: nothing that another thread sends comes in between.
            let mut sent = 0;
            let put = loop {
                let Some(rest) = rest_of(parts, done + sent) else { return Some(Ok(sent)) };
                match stream::send(guard, fd, rest) {
                    Put::Bytes(n) if n == rest.len() => sent += n,
                    Put::Bytes(n) => return Some(Ok(sent + n)),
                    _ if sent > 0 => return Some(Ok(sent)),
                    put => break put,
                }
            };
            match put {
                Put::Bytes(n) => Some(Ok(n)),
                Put::Failed(e) => {
                    if done > 0 {
                        // The call returns how much it has sent; the next one returns the error.
                        keep_error(guard.conn, e);
                    }
                    Some(Err(e))
                }
                Put::AskKernel => match raw_send(guard.conn, fd, rest, flags, done > 0) {
                    Err(libc::EAGAIN) => {
                        anchors::watch_room(guard, fd);
                        None
                    }
                    result => Some(result),
                },
                Put::Full if may_leave && guard.conn.has(flag::UNTIL_FULL) => {
                    is_full = true;
                    Some(Ok(0))
                }
                Put::Full => None,
            }
        };
        let waited = if patient {
            call.ends_at_handler = done > 0;
            wait::until(&mut call, Want::Send, attempt)
        } else {
            wait::look(at, attempt)
        };
        let result = match waited {
            Ok(result) => result,
            Err(Ended::Plain) => send_plainly(keep::descriptor(fd, at), rest, flags),
            Err(Ended::Failed(e)) => Err(e),
        };
        match result {
            Ok(n) => done += n,
            Err(_) if done > 0 => return Ok(done),
            Err(e) => return Err(e),
        }
        if is_full {
            may_leave = false;
            leave_if_full(fd, at);
        }
    }
    if conn.has(flag::UNTIL_FULL) {
        leave_if_full(fd, at);
    }
    Ok(done)
}

/// If the program has the kernel watch for how long the peer leaves no room: as soon as there is none, TCP has the
/// next bytes.
#[cold]
#[inline(never)]
fn leave_if_full(fd: i32, at: Ref) {
    if !at.conn.has(flag::UNTIL_FULL) {
        return;
    }
    let Some(fd) = number_of(fd, at) else { return };
    let is_full = at
        .attached()
        .is_some_and(|mut guard| at.conn.tx() == Tx::Vi && !stream::writable(&mut guard, fd));
    if is_full {
        retreat::sending(fd, at);
    }
}

/// What is left of the first part that has not been sent, where so many bytes have been.
fn rest_of<'a>(parts: &[&'a [u8]], mut done: usize) -> Option<&'a [u8]> {
    parts.iter().find_map(|part| match part.get(done..) {
        Some(rest) if !rest.is_empty() => Some(rest),
        _ => {
            done -= part.len();
            None
        }
    })
}

/// A receive whose connection has gone back to TCP, and whose descriptor is no more.
fn receive_plainly(fd: i32, parts: &mut [&mut [u8]], flags: Flags) -> Outcome {
    let part = parts.iter_mut().find(|part| !part.is_empty());
    let part = part.map_or(&mut [] as &mut [u8], |part| part);
    let mut how = 0;
    for (wanted, flag) in [
        (flags.peek, libc::MSG_PEEK),
        (flags.wait_all, libc::MSG_WAITALL),
        (flags.dont_wait, libc::MSG_DONTWAIT),
    ] {
        how |= if wanted { flag } else { 0 };
    }
    call::recv(fd, part, how).map_err(crate::errno)
}

/// The rest of a send whose connection has gone back to TCP in the middle.
fn send_plainly(fd: i32, bytes: &[u8], flags: Flags) -> Outcome {
    let mut how = 0;
    for (wanted, flag) in
        [(flags.no_signal, libc::MSG_NOSIGNAL), (flags.dont_wait, libc::MSG_DONTWAIT)]
    {
        how |= if wanted { flag } else { 0 };
    }
    call::send(fd, bytes, how).map_err(crate::errno)
}

/// The kernel's verdict on a send whose path has ended. Never blocks. `partly`: the call has sent
/// something, so an error is the next call's.
fn raw_send(conn: &Conn, fd: i32, bytes: &[u8], flags: Flags, partly: bool) -> Outcome {
    let no_signal = if flags.no_signal || partly { libc::MSG_NOSIGNAL } else { 0 };
    match call::send(fd, bytes, libc::MSG_DONTWAIT | no_signal) {
        Ok(n) => {
            conn.tx_tcp.fetch_add(n as u64, Ordering::AcqRel);
            Ok(n)
        }
        Err(error) => {
            // The kernel reports any error but these two once.
            if partly && !matches!(error, call::Errno::EPIPE | call::Errno::EAGAIN) {
                conn.keep_error(crate::errno(error));
            }
            Err(crate::errno(error))
        }
    }
}

/// sendfile to a connection: on a VI the file is read, and sent as bytes.
pub fn send_file(
    fd: i32,
    at: Ref,
    from: i32,
    mut place: Option<&mut i64>,
    count: usize,
    kernel: impl FnOnce() -> Outcome,
) -> Outcome {
    if count == 0 {
        // Of nothing, the kernel does not even ask the socket.
        return kernel();
    }
    // The path may be switched before the kernel is asked; then the VI takes the file.
    let asked =
        send_off_vi(fd, at, || count, kernel).or_else(|kernel| send_on_tcp(fd, at, count, kernel));
    let kernel = match asked {
        Ok(result) => return result,
        Err(kernel) => kernel,
    };
    // Which other files can be sent is the kernel's to know.
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
        let sent = send(fd, at, &[&piece[..got]], Flags::default(), || Err(libc::EAGAIN));
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

/// Bytes that were read and could not be sent are to be read again.
fn put_back(from: i32, moved: bool, n: usize) {
    if moved {
        let _ = call::seek(from, -(n as i64), libc::SEEK_CUR);
    }
}
