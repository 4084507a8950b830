//! Moving a connection's bytes: what the holder of its lock does.
//!
//! Nothing here waits. [`receive`] and [`send`] do what can be done at once on whichever path the
//! direction is on; [`crate::wait`] and [`crate::ops`] decide what to do when that is nothing.

use crate::conn::{Conn, Guard, HELD, Held, flag};
use crate::{Errno, errno, pair};
use core::sync::atomic::Ordering;
use sovia_proto::Violation;
use sovia_proto::order::{Next, Take};
use sovia_proto::packet::{Immediate, Kind};
use sovia_proto::path::{CANCELLED, ENTERED, Grant, Rx, Source, Tx};
use sovia_sys::call;
use via_shm::endpoint::Area;
use via_shm::layout::{Direction, Words};
use via_shm::ring::Entry;
use via_shm::{Damaged, Endpoint};

const _: () = {
    // A FIN, a FINACK and a switch of path always find a posted receive, even while the peer's last
    // batch of them is still unpublished.
    let receives = sovia_proto::flow::DACKS.receives() as u32;
    assert!(receives + via_shm::endpoint::CREDIT_BATCH <= via_shm::ring::SLOTS);
};

/// Largest packet: the papers' chunk.
pub const CHUNK: usize = 32 << 10;
/// A sender that waits for room is woken, and a poller told, when this much is free again.
const ROOM: u64 = (Area::LEN / 2) as u64;

/// Words of a direction's shared lines.
pub(crate) mod word {
    /// Writer's line: gathered bytes.
    pub(crate) const TAIL: usize = 0;
    /// Writer's line: ordered packets that go before what is gathered.
    pub(crate) const AFTER: usize = 1;
    /// Writer's line: gathered position that lies at the beginning of the area.
    pub(crate) const START: usize = 2;
    /// Reader's line: gathered bytes taken.
    pub(crate) const HEAD: usize = 0;
    /// Path line: the sender's switch.
    pub(crate) const SWITCH: usize = 0;
    /// Path line: the receiver's grant.
    pub(crate) const GRANT: usize = 1;
    /// Path line: bytes returned by a receiver that recalled, plus one.
    pub(crate) const RETURNED: usize = 2;
    /// Path line: not 0 once the sender has put the returned bytes on TCP.
    pub(crate) const PUMPED: usize = 3;
    /// Path line: not 0 once all bytes of a switch that was taken back are on TCP.
    pub(crate) const TAKEN: usize = 4;
    /// Path line: bytes that went over TCP before the switch.
    pub(crate) const FROM: usize = 5;
}

#[inline]
pub(crate) fn load(line: &Words, word: usize) -> u64 {
    line.0[word].load(Ordering::Acquire)
}

#[inline]
pub(crate) fn store(line: &Words, word: usize, value: u64) {
    line.0[word].store(value, Ordering::Release);
}

/// What a receive found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Got {
    /// That many bytes.
    Bytes(usize),
    /// End of file.
    End,
    /// Nothing yet.
    Nothing,
    /// An error for the program.
    Failed(Errno),
}

/// What a send achieved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// That many bytes accepted.
    Bytes(usize),
    /// No room now.
    Full,
    /// An error for the program.
    Failed(Errno),
    /// The kernel must be asked: its verdict, and its signal, are the program's.
    AskKernel,
}

enum Fault {
    Damaged,
}

impl From<Damaged> for Fault {
    fn from(_: Damaged) -> Fault {
        Fault::Damaged
    }
}

impl From<Violation> for Fault {
    fn from(_: Violation) -> Fault {
        Fault::Damaged
    }
}

/// The segment holds nonsense: this connection ends with an error, at both ends; nothing else
/// is touched.
#[cold]
fn damaged(conn: &Conn, fd: i32) -> Errno {
    if conn.set(flag::DAMAGED) & flag::DAMAGED == 0 {
        crate::stats::reason(sovia_control::Reason::Corrupt);
        let _ = call::shutdown(fd, libc::SHUT_RDWR);
    }
    libc::ECONNRESET
}

/// Makes a body whole whose last owner died in the middle of something.
pub(crate) fn repair(guard: &mut Guard<'_>) {
    guard.endpoint().tx.repair();
    // Bytes may have been taken from TCP and not been counted; the kernel has counted them.
    let conn = guard.conn;
    if conn.rx() == Rx::Granted
        && let Some(fd) = crate::table::descriptor_of(conn)
        && let (Ok(received), Ok(unread)) = (call::tcp_bytes_received(fd), call::bytes_unread(fd))
    {
        conn.rx_tcp.fetch_max(received.saturating_sub(unread as u64), Ordering::AcqRel);
    }
}

fn tx(guard: &Guard<'_>) -> &'static Direction {
    direction(guard.endpoint_ref().tx.direction())
}

fn rx(guard: &Guard<'_>) -> &'static Direction {
    direction(guard.endpoint_ref().rx.direction())
}

/// Frees a direction's control block from the borrow of the guard it was found through.
fn direction(block: &Direction) -> &'static Direction {
    // SAFETY: the segment of an attached connection stays mapped while anybody holds the lock or
    // is counted as waiting, and no reference made here outlives that.
    unsafe { &*core::ptr::from_ref(block) }
}

/// Tells the peer's reader that there is news for it.
#[inline]
pub(crate) fn tell_reader(conn: &Conn, endpoint: &Endpoint) {
    endpoint.tx.news(|waiters| pair::notify(conn, waiters));
}

/// Tells the peer's writer that there is room, or that the path changed.
#[inline]
pub(crate) fn tell_writer(conn: &Conn, endpoint: &Endpoint) {
    endpoint.rx.room(|waiters| pair::notify(conn, waiters));
}

// ---------------------------------------------------------------------------------------------
// Receiving

/// Receives into `out` whatever is there. Grants the VI to the sender if the connection has one:
/// the caller is the program itself, reading.
pub fn receive(guard: &mut Guard<'_>, fd: i32, out: &mut [u8]) -> Got {
    let conn = guard.conn;
    if conn.rx() == Rx::Vi {
        if conn.has(flag::RETREATING) {
            // Somebody (a relative, perhaps) is reading the VI to its end for everybody.
            return Got::Nothing;
        }
        match receive_vi(guard, out) {
            Ok(0) => {}
            Ok(n) => return Got::Bytes(n),
            Err(Fault::Damaged) => return Got::Failed(damaged(conn, fd)),
        }
        if conn.rx() == Rx::Vi {
            return idle(guard, fd, out);
        }
    }
    if conn.has(flag::DAMAGED) {
        return Got::Failed(libc::ECONNRESET);
    }
    receive_tcp(guard, fd, out)
}

/// The VI has nothing: is that the end?
fn idle(guard: &mut Guard<'_>, fd: i32, out: &mut [u8]) -> Got {
    const STATES: u32 =
        flag::EOF | flag::DAMAGED | flag::SHUT_RD | flag::ANCHOR | flag::PEER_GONE;
    let conn = guard.conn;
    if !conn.has(STATES) {
        return Got::Nothing;
    }
    if conn.has(flag::EOF | flag::SHUT_RD) {
        return Got::End;
    }
    if conn.has(flag::DAMAGED) {
        return Got::Failed(libc::ECONNRESET);
    }
    let verdict = anchor(conn, fd);
    if verdict == Got::Nothing {
        return Got::Nothing;
    }
    // Whatever the peer put on the VI before it left is seen by now.
    if scan(guard).is_err() {
        return Got::Failed(damaged(conn, fd));
    }
    let gathered = load(&rx(guard).writer, word::TAIL) != guard.taker.head;
    if guard.held_first == guard.held_end && !gathered {
        conn.set(flag::PEER_GONE);
        return verdict;
    }
    if out.is_empty() {
        // Only asked whether there is something.
        return Got::Bytes(0);
    }
    match receive_vi(guard, out) {
        Ok(0) if conn.rx() == Rx::Vi => Got::End,
        Ok(0) => receive_tcp(guard, fd, out),
        Ok(n) => Got::Bytes(n),
        Err(Fault::Damaged) => Got::Failed(damaged(conn, fd)),
    }
}

/// What the anchor says: its end, its error, or nothing.
fn anchor(conn: &Conn, fd: i32) -> Got {
    conn.clear(flag::ANCHOR);
    let mut byte = [0u8; 1];
    match call::recv(fd, &mut byte, libc::MSG_PEEK | libc::MSG_DONTWAIT) {
        Ok(0) => {
            conn.set(flag::ANCHOR);
            Got::End
        }
        // The peer went back to TCP; the VI says where, and is read first.
        Ok(_) => Got::Nothing,
        Err(call::Errno::EAGAIN) => Got::Nothing,
        Err(e) => {
            conn.set(flag::ANCHOR);
            Got::Failed(errno(e))
        }
    }
}

fn receive_tcp(guard: &mut Guard<'_>, fd: i32, out: &mut [u8]) -> Got {
    let conn = guard.conn;
    grant(guard);
    let mut limit = out.len();
    if conn.rx() == Rx::Granted {
        let switch = switched(guard);
        match sovia_proto::path::source(switch, conn.rx_tcp.load(Ordering::Acquire)) {
            Source::Tcp => {}
            Source::TcpUpTo(n) => limit = limit.min(usize::try_from(n).unwrap_or(usize::MAX)),
            Source::Vi => {
                if enter(guard, switch) {
                    return receive(guard, fd, out);
                }
                return receive_tcp(guard, fd, out);
            }
            Source::Impossible => return Got::Failed(damaged(conn, fd)),
        }
    }
    conn.clear(flag::ANCHOR);
    match call::recv(fd, &mut out[..limit], libc::MSG_DONTWAIT) {
        Ok(0) if limit == 0 => Got::Bytes(0),
        Ok(n) if n > 0 => {
            conn.set(flag::ANCHOR);
            conn.rx_tcp.fetch_add(n as u64, Ordering::AcqRel);
            Got::Bytes(n)
        }
        // Nothing more on TCP, now or ever. The switch may have been made, and the connection
        // even closed, after the switch was looked at: what is on the VI comes first.
        other => {
            if other != Err(call::Errno::EAGAIN) {
                conn.set(flag::ANCHOR);
            }
            if conn.rx() == Rx::Granted {
                let read = conn.rx_tcp.load(Ordering::Acquire);
                if sovia_proto::path::source(switched(guard), read) == Source::Vi {
                    return receive_tcp(guard, fd, out);
                }
            }
            if other != Err(call::Errno::EAGAIN) {
                match rescue(guard) {
                    Ok(false) => {}
                    Ok(true) => return receive(guard, fd, out),
                    Err(Fault::Damaged) => return Got::Failed(damaged(conn, fd)),
                }
            }
            match other {
                Ok(_) => Got::End,
                Err(call::Errno::EAGAIN) => Got::Nothing,
                Err(e) => Got::Failed(errno(e)),
            }
        }
    }
}

/// The sender's switch, or 0 if it has not switched or has taken it back.
fn switched(guard: &Guard<'_>) -> u64 {
    match load(&rx(guard).path, word::SWITCH) {
        CANCELLED => 0,
        word => word,
    }
}

/// TCP has ended in the middle of the sender's taking its bytes back: the rest of them is on the
/// VI, after those that made it to TCP.
#[cold]
fn rescue(guard: &mut Guard<'_>) -> Result<bool, Fault> {
    let path = &rx(guard).path;
    let switch = load(path, word::SWITCH);
    let conn = guard.conn;
    if conn.rx() != Rx::Granted || switch != CANCELLED || load(path, word::TAKEN) != 0 {
        return Ok(false);
    }
    let n = load(path, word::FROM);
    conn.set_rx(Rx::Vi);
    let mut skip = conn.rx_tcp.load(Ordering::Acquire).saturating_sub(n) as usize;
    let mut scrap = [0u8; 4096];
    while skip > 0 {
        let part = scrap.len().min(skip);
        match receive_vi(guard, &mut scrap[..part])? {
            0 => break,
            got => skip -= got,
        }
    }
    Ok(true)
}

/// TCP has been read up to the switch: goes over to the VI, unless the sender has just taken the
/// switch back.
fn enter(guard: &mut Guard<'_>, switch: u64) -> bool {
    let path = &rx(guard).path;
    let entered = path.0[word::SWITCH]
        .compare_exchange(switch, switch | ENTERED, Ordering::AcqRel, Ordering::Acquire)
        .is_ok();
    if entered {
        guard.conn.set_rx(Rx::Vi);
        store(path, word::GRANT, Grant::Entered as u64);
        tell_writer(guard.conn, guard.endpoint_ref());
    }
    entered
}

/// Grants the VI, unless another thread is inside a kernel receive.
pub(crate) fn grant(guard: &mut Guard<'_>) {
    let conn = guard.conn;
    if conn.rx() != Rx::Tcp || conn.has(flag::RETREATING) {
        return;
    }
    conn.set_rx(Rx::Granted);
    core::sync::atomic::fence(Ordering::SeqCst);
    if conn.rx_pins.load(Ordering::SeqCst) != 0 {
        conn.set_rx(Rx::Tcp);
        return;
    }
    store(&rx(guard).path, word::GRANT, Grant::Granted as u64);
}

/// Takes bytes from the VI; 0 if there are none now, or the direction has gone back to TCP.
fn receive_vi(guard: &mut Guard<'_>, out: &mut [u8]) -> Result<usize, Fault> {
    let direction = rx(guard);
    let mut done = 0;
    while done < out.len() {
        let tail = load(&direction.writer, word::TAIL);
        if tail != guard.taker.head {
            let after = load(&direction.writer, word::AFTER) as u32;
            if let Take::Gathered(n) = guard.taker.next(tail, after) {
                done += take_gathered(guard, direction, n, &mut out[done..])?;
                continue;
            }
        }
        if guard.held_first != guard.held_end {
            let n = take_held(guard, &mut out[done..])?;
            done += n;
            if n == 0 && guard.conn.rx() != Rx::Vi || guard.conn.has(flag::EOF) {
                break;
            }
            continue;
        }
        let Some(entry) = guard.endpoint().rx.head()? else { break };
        let packet = Immediate::decode(entry.immediate)?;
        if guard.front == 0 {
            guard.flow.arrived(packet)?;
        }
        match packet.kind {
            Kind::Data => {
                let from = guard.front as usize;
                let n = (entry.len as usize).saturating_sub(from).min(out.len() - done);
                guard.endpoint_ref().rx.copy_head(&entry, from, &mut out[done..done + n]);
                done += n;
                if from + n == entry.len as usize {
                    let release = guard.endpoint().rx.advance(&entry)?;
                    consumed(guard, release)?;
                } else {
                    guard.front = (from + n) as u32;
                }
            }
            kind => {
                if kind.is_ordered() {
                    // What was gathered before it was sent is there by now, though perhaps not
                    // yet when the tail was loaded above.
                    let tail = load(&direction.writer, word::TAIL);
                    let after = load(&direction.writer, word::AFTER) as u32;
                    if let Take::Gathered(n) = guard.taker.next(tail, after) {
                        done += take_gathered(guard, direction, n, &mut out[done..])?;
                        // Its arrival has been counted already, if it carries acknowledgements.
                        guard.endpoint().rx.advance(&entry)?;
                        hold_control(guard, kind);
                        continue;
                    }
                }
                guard.endpoint().rx.advance(&entry)?;
                if !control(guard, kind)? {
                    break;
                }
            }
        }
    }
    guard.traffic.bytes_received += done as u64;
    Ok(done)
}

/// A data packet has been read to its end.
#[inline]
fn consumed(guard: &mut Guard<'_>, release: Option<u64>) -> Result<(), Fault> {
    guard.front = 0;
    if let Some(position) = release {
        guard.endpoint_ref().rx.release(position);
    }
    guard.taker.packets = guard.taker.packets.wrapping_add(1);
    if guard.flow.consumed() {
        acknowledge(guard)?;
    }
    Ok(())
}

/// Sends what is owed, alone.
fn acknowledge(guard: &mut Guard<'_>) -> Result<(), Fault> {
    let before = guard.flow;
    let packet = guard.flow.send(Kind::Ack).encode();
    if guard.endpoint().tx.send(packet, &[])? {
        let conn = guard.conn;
        tell_writer(conn, guard.endpoint_ref());
    } else {
        guard.flow = before;
    }
    Ok(())
}

/// A packet without bytes; false if nothing after it may be read here.
fn control(guard: &mut Guard<'_>, kind: Kind) -> Result<bool, Fault> {
    let conn = guard.conn;
    match kind {
        Kind::Ack => Ok(true),
        Kind::Data => Ok(true),
        Kind::Fin => {
            guard.taker.packets = guard.taker.packets.wrapping_add(1);
            if guard.closing.arrived(Kind::Fin)? {
                let packet = guard.flow.send(Kind::FinAck).encode();
                guard.endpoint().tx.send(packet, &[])?;
            }
            conn.set(flag::EOF);
            Ok(false)
        }
        Kind::FinAck => {
            guard.closing.arrived(Kind::FinAck)?;
            Ok(true)
        }
        Kind::ToTcp => {
            guard.taker.packets = guard.taker.packets.wrapping_add(1);
            conn.set_rx(Rx::Back);
            conn.set(flag::ANCHOR);
            Ok(false)
        }
    }
}

fn take_gathered(
    guard: &mut Guard<'_>,
    direction: &Direction,
    available: u64,
    out: &mut [u8],
) -> Result<usize, Fault> {
    if available > Area::LEN as u64 {
        return Err(Fault::Damaged);
    }
    let start = load(&direction.writer, word::START);
    let at = (guard.taker.head.wrapping_sub(start) % Area::LEN as u64) as usize;
    let n = (available as usize).min(out.len()).min(Area::LEN - at);
    if !guard.endpoint_ref().rx.area().read(at, &mut out[..n]) {
        return Err(Fault::Damaged);
    }
    guard.taker.head += n as u64;
    store(&direction.reader, word::HEAD, guard.taker.head);
    if available - n as u64 <= ROOM {
        tell_writer(guard.conn, guard.endpoint_ref());
    }
    Ok(n)
}

fn take_held(guard: &mut Guard<'_>, out: &mut [u8]) -> Result<usize, Fault> {
    let index = guard.held_first as usize % HELD;
    let held = guard.held[index];
    let Some(kind) = kind_of(held.kind) else { return Err(Fault::Damaged) };
    if kind != Kind::Data {
        guard.held_first = guard.held_first.wrapping_add(1);
        control(guard, kind)?;
        return Ok(0);
    }
    let from = guard.front as usize;
    let n = (held.len as usize).saturating_sub(from).min(out.len());
    copy_held(guard, &held, from, &mut out[..n]);
    if from + n == held.len as usize {
        guard.held_first = guard.held_first.wrapping_add(1);
        consumed(guard, held.pooled.then_some(held.release))?;
    } else {
        guard.front = (from + n) as u32;
    }
    Ok(n)
}

fn copy_held(guard: &Guard<'_>, held: &Held, from: usize, out: &mut [u8]) {
    if held.pooled {
        guard.endpoint_ref().rx.copy_pooled(held.at, held.len, from, out);
    } else if let Some(bytes) = held.bytes.get(from..from + out.len()) {
        out.copy_from_slice(bytes);
    }
}

fn kind_of(n: u8) -> Option<Kind> {
    Immediate::decode(u32::from(n) << 24).ok().map(|i| i.kind)
}

/// Takes everything off the ring: acknowledgements take effect, the rest is held for the program.
fn scan(guard: &mut Guard<'_>) -> Result<(), Fault> {
    while guard.held_end.wrapping_sub(guard.held_first) < HELD as u32 {
        let Some(entry) = guard.endpoint_ref().rx.head()? else { break };
        let packet = Immediate::decode(entry.immediate)?;
        let begun = guard.front != 0 && guard.held_first == guard.held_end;
        if !begun {
            guard.flow.arrived(packet)?;
        }
        if packet.kind.is_ordered() {
            hold(guard, &entry, packet.kind)?;
        } else {
            guard.endpoint().rx.advance(&entry)?;
            control(guard, packet.kind)?;
        }
    }
    Ok(())
}

/// Holds a packet without bytes whose turn has not come.
fn hold_control(guard: &mut Guard<'_>, kind: Kind) {
    let held = Held { kind: kind as u8, pooled: false, len: 0, at: 0, release: 0, bytes: [0; _] };
    let index = guard.held_end as usize % HELD;
    guard.held[index] = held;
    guard.held_end = guard.held_end.wrapping_add(1);
}

fn hold(guard: &mut Guard<'_>, entry: &Entry, kind: Kind) -> Result<(), Fault> {
    let mut held = Held {
        kind: kind as u8,
        pooled: entry.pool_offset.is_some(),
        len: entry.len,
        at: entry.pool_offset.unwrap_or(0),
        release: 0,
        bytes: [0; _],
    };
    if !held.pooled {
        let n = entry.len as usize;
        guard.endpoint_ref().rx.copy_head(entry, 0, &mut held.bytes[..n]);
    }
    held.release = guard.endpoint().rx.advance(entry)?.unwrap_or(0);
    let index = guard.held_end as usize % HELD;
    guard.held[index] = held;
    guard.held_end = guard.held_end.wrapping_add(1);
    Ok(())
}

/// Copies unread bytes without consuming them (`MSG_PEEK`).
pub fn peek(guard: &mut Guard<'_>, fd: i32, out: &mut [u8]) -> Got {
    let conn = guard.conn;
    if conn.rx() != Rx::Vi {
        // One byte read, then looked at again: enters the VI where the switch has been reached.
        grant(guard);
        if conn.rx() == Rx::Granted {
            let switch = switched(guard);
            let read = conn.rx_tcp.load(Ordering::Acquire);
            if sovia_proto::path::source(switch, read) == Source::Vi && enter(guard, switch) {
                return peek(guard, fd, out);
            }
        }
        conn.clear(flag::ANCHOR);
        let result = call::recv(fd, out, libc::MSG_DONTWAIT | libc::MSG_PEEK);
        if result != Err(call::Errno::EAGAIN) {
            conn.set(flag::ANCHOR);
        }
        if let Ok(1..) = result {
            return Got::Bytes(result.unwrap_or(0));
        }
        // As in `receive_tcp`: the switch may be newer than the look at it.
        if conn.rx() == Rx::Granted {
            let switch = switched(guard);
            let read = conn.rx_tcp.load(Ordering::Acquire);
            if sovia_proto::path::source(switch, read) == Source::Vi && enter(guard, switch) {
                return peek(guard, fd, out);
            }
        }
        return match result {
            Ok(_) if out.is_empty() => Got::Bytes(0),
            Ok(_) => Got::End,
            Err(call::Errno::EAGAIN) => Got::Nothing,
            Err(e) => Got::Failed(errno(e)),
        };
    }
    match peek_vi(guard, out) {
        Ok(0) => idle(guard, fd, &mut []),
        Ok(n) => Got::Bytes(n),
        Err(Fault::Damaged) => Got::Failed(damaged(conn, fd)),
    }
}

fn peek_vi(guard: &mut Guard<'_>, out: &mut [u8]) -> Result<usize, Fault> {
    scan(guard)?;
    let direction = rx(guard);
    let tail = load(&direction.writer, word::TAIL);
    let after = load(&direction.writer, word::AFTER) as u32;
    let mut done = 0;
    let mut from = guard.front as usize;
    let mut packets = guard.taker.packets;
    let mut n = guard.held_first;
    let gathered = tail.wrapping_sub(guard.taker.head);
    if gathered > Area::LEN as u64 {
        return Err(Fault::Damaged);
    }
    let mut gathered_done = gathered == 0;
    while done < out.len() {
        if !gathered_done && packets == after {
            let start = load(&direction.writer, word::START);
            let mut head = guard.taker.head;
            while done < out.len() && head != tail {
                let at = (head.wrapping_sub(start) % Area::LEN as u64) as usize;
                let len = ((tail - head) as usize).min(out.len() - done).min(Area::LEN - at);
                guard.endpoint_ref().rx.area().read(at, &mut out[done..done + len]);
                done += len;
                head += len as u64;
            }
            gathered_done = true;
            continue;
        }
        if n == guard.held_end {
            break;
        }
        let held = guard.held[n as usize % HELD];
        if kind_of(held.kind) != Some(Kind::Data) {
            break;
        }
        let len = (held.len as usize).saturating_sub(from).min(out.len() - done);
        copy_held(guard, &held, from, &mut out[done..done + len]);
        done += len;
        from = 0;
        n = n.wrapping_add(1);
        packets = packets.wrapping_add(1);
    }
    Ok(done)
}

/// Bytes that could be received at once.
pub fn unread(guard: &mut Guard<'_>, fd: i32) -> Result<usize, Errno> {
    if guard.conn.rx() != Rx::Vi {
        let tcp = call::bytes_unread(fd).map_err(errno)?;
        if tcp > 0 || guard.conn.rx() != Rx::Granted {
            return Ok(tcp);
        }
        // Nothing on TCP: what has been switched counts too.
        let mut byte = [0];
        if peek(guard, fd, &mut byte) != Got::Bytes(1) || guard.conn.rx() != Rx::Vi {
            return Ok(0);
        }
    }
    if scan(guard).is_err() {
        return Err(damaged(guard.conn, fd));
    }
    let mut sum = 0;
    let mut n = guard.held_first;
    while n != guard.held_end {
        let held = &guard.held[n as usize % HELD];
        if held.kind == Kind::Data as u8 {
            sum += held.len as usize;
        }
        n = n.wrapping_add(1);
    }
    let gathered = load(&rx(guard).writer, word::TAIL).wrapping_sub(guard.taker.head);
    Ok(sum - (guard.front as usize).min(sum) + gathered.min(Area::LEN as u64) as usize)
}

// ---------------------------------------------------------------------------------------------
// Sending

/// Sends as many of `bytes` as there is room for.
pub fn send(guard: &mut Guard<'_>, fd: i32, bytes: &[u8]) -> Put {
    let conn = guard.conn;
    if conn.tx() == Tx::Tcp {
        switch(guard);
    }
    if conn.has(flag::DAMAGED) {
        return Put::AskKernel;
    }
    if conn.tx() != Tx::Vi {
        return if crate::retreat::answer::holds_back(guard, fd) { Put::Full } else { Put::AskKernel };
    }
    if conn.has(flag::SHUT_WR | flag::PEER_GONE) {
        return Put::AskKernel;
    }
    if conn.has(flag::ANCHOR) && !conn.has(flag::EOF) && peer_has_gone(guard, fd) {
        return Put::AskKernel;
    }
    if Grant::from_word(load(&tx(guard).path, word::GRANT)) == Grant::Recalled {
        crate::retreat::answer::recalled(guard);
        return if crate::retreat::answer::holds_back(guard, fd) { Put::Full } else { Put::AskKernel };
    }
    match send_vi(guard, bytes) {
        Ok(0) if !bytes.is_empty() => Put::Full,
        Ok(n) => {
            guard.traffic.bytes_sent += n as u64;
            tell_reader(conn, guard.endpoint_ref());
            Put::Bytes(n)
        }
        Err(Fault::Damaged) => Put::Failed(damaged(conn, fd)),
    }
}

/// The anchor has ended, and the VI has no FIN: then the peer is no more, and the kernel's
/// answer to a send is the right one.
#[cold]
fn peer_has_gone(guard: &mut Guard<'_>, fd: i32) -> bool {
    let conn = guard.conn;
    if conn.rx() != Rx::Vi || scan(guard).is_err() || anchor(conn, fd) == Got::Nothing {
        return false;
    }
    if scan(guard).is_err() {
        return false;
    }
    let mut n = guard.held_first;
    while n != guard.held_end {
        if guard.held[n as usize % HELD].kind != Kind::Data as u8 {
            return false;
        }
        n = n.wrapping_add(1);
    }
    conn.set(flag::PEER_GONE);
    true
}

/// Moves the sending direction to the VI if the receiver has granted it.
fn switch(guard: &mut Guard<'_>) {
    let conn = guard.conn;
    let path = &tx(guard).path;
    if Grant::from_word(load(path, word::GRANT)) != Grant::Granted
        || conn.has(flag::SHUT_WR | flag::RETREATING | flag::DAMAGED)
    {
        return;
    }
    conn.set_tx(Tx::Vi);
    core::sync::atomic::fence(Ordering::SeqCst);
    if conn.tx_pins.load(Ordering::SeqCst) != 0 {
        conn.set_tx(Tx::Tcp);
        return;
    }
    let sent = conn.tx_tcp.load(Ordering::Acquire);
    let switch = sovia_proto::path::switch_word(sent);
    store(path, word::FROM, sent);
    store(path, word::SWITCH, switch);
    core::sync::atomic::fence(Ordering::SeqCst);
    let grant = Grant::from_word(load(path, word::GRANT));
    if !sovia_proto::path::keeps_switch(grant) {
        // The receiver may have looked before the switch was there. Nothing is on the VI yet.
        store(path, word::TAKEN, 1);
        let word = &path.0[word::SWITCH];
        if word.compare_exchange(switch, CANCELLED, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            conn.set_tx(Tx::Back);
        }
    }
    tell_reader(conn, guard.endpoint_ref());
}

fn send_vi(guard: &mut Guard<'_>, bytes: &[u8]) -> Result<usize, Fault> {
    if guard.gatherer.is_gathering() {
        let taken = load(&tx(guard).reader, word::HEAD);
        if guard.gatherer.next(taken) == Next::Gather {
            return gather(guard, bytes);
        }
    }
    let mut done = 0;
    while done < bytes.len() {
        if !guard.flow.can_send() {
            scan(guard)?;
            if !guard.flow.can_send() {
                return Ok(done + gather(guard, &bytes[done..])?);
            }
        }
        let chunk = &bytes[done..bytes.len().min(done + CHUNK)];
        let before = guard.flow;
        let packet = guard.flow.send(Kind::Data).encode();
        if !guard.endpoint().tx.send(packet, chunk)? {
            guard.flow = before;
            return Ok(done + gather(guard, &bytes[done..])?);
        }
        guard.gatherer.packets = guard.gatherer.packets.wrapping_add(1);
        guard.traffic.messages_sent += 1;
        done += chunk.len();
        if done < bytes.len() {
            // The receiver copies the first chunk while we copy the next.
            tell_reader(guard.conn, guard.endpoint_ref());
        }
    }
    Ok(done)
}

/// Puts bytes where the receiver takes them by itself.
fn gather(guard: &mut Guard<'_>, bytes: &[u8]) -> Result<usize, Fault> {
    let direction = tx(guard);
    let line = &direction.writer;
    let mut gatherer = guard.gatherer;
    if !gatherer.is_gathering() {
        // A new gathering starts at the area's beginning, where the cache is warm.
        line.0[word::AFTER].store(u64::from(gatherer.packets), Ordering::Relaxed);
        line.0[word::START].store(gatherer.tail, Ordering::Relaxed);
    }
    let start = line.0[word::START].load(Ordering::Relaxed);
    let area = guard.endpoint_ref().tx.area();
    let room = (Area::LEN as u64 - gatherer.waiting()) as usize;
    let total = room.min(bytes.len());
    let mut done = 0;
    while done < total {
        let at = (gatherer.tail.wrapping_sub(start) % Area::LEN as u64) as usize;
        // In steps, so that the receiver copies one while we copy the next.
        let n = (total - done).min(Area::LEN - at).min(CHUNK);
        if !area.write(at, &bytes[done..done + n]) {
            return Err(Fault::Damaged);
        }
        gatherer.tail += n as u64;
        store(line, word::TAIL, gatherer.tail);
        done += n;
    }
    guard.gatherer = gatherer;
    guard.traffic.messages_sent += u64::from(done > 0);
    Ok(done)
}

/// Sends a packet without bytes that no window holds back.
pub(crate) fn send_control(guard: &mut Guard<'_>, kind: Kind) {
    let packet = guard.flow.send(kind).encode();
    if guard.endpoint().tx.send(packet, &[]).is_ok() && kind.is_ordered() {
        guard.gatherer.packets = guard.gatherer.packets.wrapping_add(1);
    }
}

/// All bytes that we have put on the VI, for a receiver that has entered it never.
pub(crate) fn take_own_back(guard: &mut Guard<'_>) -> Vec<u8> {
    let mut bytes = guard.endpoint_ref().tx.own_messages();
    let line = &tx(guard).writer;
    let gathered = guard.gatherer.tail as usize;
    let start = bytes.len();
    bytes.resize(start + gathered, 0);
    debug_assert_eq!(load(line, word::START), 0, "gathered once at most before the receiver came");
    guard.endpoint_ref().tx.area().read(0, &mut bytes[start..]);
    bytes
}

/// Like [`receive`] on a VI that is being recalled: never looks at TCP.
pub(crate) fn receive_unread(guard: &mut Guard<'_>, fd: i32, out: &mut [u8]) -> Got {
    let conn = guard.conn;
    match receive_vi(guard, out) {
        Ok(0) if conn.rx() != Rx::Vi || conn.has(flag::EOF) => Got::End,
        // TCP may still hold bytes from before the switch: only its end tells of the peer's.
        Ok(0) if anchor_has_ended(fd) => match receive_vi(guard, out) {
            // What it wrote before it died is seen by now.
            Ok(0) => Got::End,
            Ok(n) => Got::Bytes(n),
            Err(Fault::Damaged) => Got::Failed(damaged(conn, fd)),
        },
        Ok(0) => Got::Nothing,
        Ok(n) => Got::Bytes(n),
        Err(Fault::Damaged) => Got::Failed(damaged(conn, fd)),
    }
}

/// Whether the peer has closed the anchor, or it is in error.
pub(crate) fn anchor_has_ended(fd: i32) -> bool {
    let ends = libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR;
    sovia_sys::poll::probe(fd, libc::POLLRDHUP) & ends != 0
}

/// Ends the sending side: FIN, if the stream runs on the VI. The caller shuts the anchor, too.
pub fn finish(guard: &mut Guard<'_>, fd: i32) {
    let conn = guard.conn;
    crate::retreat::answer::refuse_or_pump(guard, fd);
    if conn.tx() == Tx::Vi && !conn.has(flag::DAMAGED) && guard.closing.send_fin() {
        send_control(guard, Kind::Fin);
        tell_reader(conn, guard.endpoint_ref());
    }
}

// ---------------------------------------------------------------------------------------------
// Looking

/// Whether a receive would find something (bytes, the end, an error).
pub fn readable(guard: &mut Guard<'_>, fd: i32) -> bool {
    let conn = guard.conn;
    match conn.rx() {
        Rx::Vi => {
            if guard.held_first != guard.held_end || guard.front != 0 {
                return true;
            }
            if load(&rx(guard).writer, word::TAIL) != guard.taker.head {
                return true;
            }
            loop {
                match guard.endpoint_ref().rx.head() {
                    Ok(None) => break,
                    Err(_) => return true,
                    Ok(Some(entry)) => match Immediate::decode(entry.immediate) {
                        Ok(packet) if !packet.kind.is_ordered() => {
                            if scan(guard).is_err() || guard.held_first != guard.held_end {
                                return true;
                            }
                        }
                        _ => return true,
                    },
                }
            }
            conn.has(flag::EOF | flag::DAMAGED | flag::SHUT_RD | flag::ANCHOR | flag::PEER_GONE)
                && idle(guard, fd, &mut []) != Got::Nothing
        }
        Rx::Granted if switched(guard) != 0 => {
            let mut byte = [0];
            peek(guard, fd, &mut byte) != Got::Nothing
        }
        _ => sovia_sys::poll::probe(fd, libc::POLLIN) != 0,
    }
}

/// Whether a send would accept something, or fail at once.
pub fn writable(guard: &mut Guard<'_>, fd: i32) -> bool {
    let conn = guard.conn;
    if conn.tx() == Tx::Vi && !conn.has(flag::DAMAGED | flag::SHUT_WR | flag::PEER_GONE) {
        if !guard.gatherer.is_gathering() {
            return true;
        }
        let taken = load(&tx(guard).reader, word::HEAD);
        guard.gatherer.next(taken) == Next::Packet || guard.gatherer.waiting() <= ROOM
    } else if crate::retreat::answer::holds_back(guard, fd) {
        false
    } else {
        sovia_sys::poll::probe(fd, libc::POLLOUT) != 0
    }
}

/// Words that change when a receive may find something new; valid while the caller is counted in
/// [`Conn::waiting`].
#[derive(Clone, Copy)]
pub struct Watch {
    rx: &'static Direction,
    endpoint: *const Endpoint,
    head: u64,
    switch: u64,
}

impl Watch {
    /// Notes where the receiving side stands.
    pub fn new(guard: &Guard<'_>) -> Watch {
        let rx = rx(guard);
        Watch {
            rx,
            endpoint: guard.endpoint_ref(),
            head: guard.taker.head,
            switch: load(&rx.path, word::SWITCH),
        }
    }

    /// Whether something has changed since. Cheap; may err towards yes, and towards no only if
    /// another thread has received meanwhile.
    #[inline]
    pub fn changed(&self) -> bool {
        // SAFETY: the endpoint lies in the family's memory, which is never unmapped, and the
        // segment it points to stays while we are counted as waiting. Another thread may move its
        // `next` on meanwhile: a stale or torn look only delays, see above.
        let endpoint = unsafe { &*self.endpoint };
        endpoint.rx.has_message()
            || self.rx.writer.0[word::TAIL].load(Ordering::Relaxed) != self.head
            || self.rx.path.0[word::SWITCH].load(Ordering::Relaxed) != self.switch
    }
}

/// Wakes every thread of this process that waits for the connection.
pub(crate) fn wake_all(conn: &Conn) {
    let guard = conn.lock();
    let endpoint = guard.endpoint_ref();
    for bell in [&endpoint.rx.direction().bell, &endpoint.tx.direction().room] {
        bell.ring();
        sovia_sys::futex::wake(bell.word(), u32::MAX >> 1);
    }
}
