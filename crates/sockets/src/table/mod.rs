//! The table of descriptors that Sovia serves.
//!
//! Each descriptor number has one word, with a kind and an index. A look-up usually reads one word. Calls on
//! descriptors without an entry go to libc unchanged. The words of low numbers lie in a static. The words of higher
//! numbers lie in chunks, each of which is mapped when a number in the chunk first gets an entry.

mod private;
mod slots;
mod socket;
mod tcp;
mod word;

pub use private::start;
pub(crate) use private::{for_each_inherited, forked, has_room_for};
pub use slots::{FDS, close};
pub use socket::note_alias;
pub(crate) use socket::{conn_of_socket, for_each_conn_elsewhere, is_socket_of};
pub(crate) use tcp::is_fresh_tcp;
pub use tcp::{
    forget_tcp, is_noted_tcp, is_tcp, note_new_tcp, note_option_of_tcp, note_shared, note_tcp,
};

use crate::conn::{Biased, CONNS, Conn, Guard, Phase, Role};
use crate::per_engine::{per_engine, per_engine_tables};
use crate::{family, process, process_slots, stats};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use slots::{FIRST, for_each_word, slot, slot_to_enter};
use socket::get_elsewhere;
use sovia_control::Reason;
use sovia_sys::diag;
use sovia_sys::stall::{At, point};
use word::{CONN, EPOLL, KIND, conn_at_once, decode};

/// Content of the table for a descriptor.
#[derive(Debug, Clone, Copy)]
pub enum Entry {
    /// A descriptor that Sovia does not serve.
    Foreign,
    /// A stream socket with a connection record.
    Conn(Ref),
    /// An epoll instance, by the index of its set.
    Epoll(u32),
    /// A descriptor of the library itself, which the program must not use.
    Private,
}

/// Reference of a descriptor to a connection.
#[derive(Debug, Clone, Copy)]
pub struct Ref {
    /// Number of the connection's slot in the family's memory.
    pub index: u32,
    /// Generation of the slot at the time when the descriptor was entered.
    pub generation: u32,
    /// The connection in this slot.
    pub conn: &'static Conn,
}

impl Ref {
    /// Takes the connection's lock. Returns `None` if the generation has ended, or if the connection has no VI in
    /// this process.
    #[inline]
    pub fn attached(self) -> Option<Guard<'static>> {
        self.conn.attached().filter(|_| self.conn.is_generation(self.generation))
    }

    /// Like [`Ref::attached`], but returns `None` if the lock is not biased to the calling thread. The thread must
    /// hold no other lock.
    #[inline(always)]
    pub(crate) fn biased(self) -> Option<Biased<'static>> {
        self.conn.biased(self.generation)
    }

    /// Returns true while the generation lasts and the connection has a VI in this process.
    pub(crate) fn is_attached_here(self) -> bool {
        self.conn.is_attached_here() && self.conn.is_generation(self.generation)
    }

    /// Returns true while the generation lasts and this process holds the connection.
    pub(crate) fn is_here(self) -> bool {
        self.conn.is_here() && self.conn.is_generation(self.generation)
    }

    /// Returns true if `self` and `other` mean the same generation of the same connection.
    pub fn same(self, other: Ref) -> bool {
        self.word() == other.word()
    }
}

per_engine_tables! {
    /// Number of this process's descriptors for each connection.
    static REFS: [AtomicU32; CONNS] = [const { AtomicU32::new(0) }; CONNS];
}

fn refs(index: u32) -> Option<&'static AtomicU32> {
    REFS.get(index as usize)
}

/// Returns the entry of `fd`.
#[inline]
pub fn get(fd: i32) -> Entry {
    let word = FIRST.get(fd as u32 as usize).map(|slot| slot.load(Ordering::Acquire));
    if word == Some(0) {
        return Entry::Foreign;
    }
    match conn_at_once(word.unwrap_or(0)) {
        Some(at) => Entry::Conn(at),
        None => get_rare(fd),
    }
}

#[inline(never)]
fn get_rare(fd: i32) -> Entry {
    match slot(fd) {
        Some(slot) => match slot.load(Ordering::Acquire) {
            0 => Entry::Foreign,
            _ if process::is_elsewhere() => get_elsewhere(fd),
            word => decode(word),
        },
        None => Entry::Foreign,
    }
}

/// Returns the connection behind `fd`, if there is one.
#[inline(always)]
pub fn conn(fd: i32) -> Option<Ref> {
    let word = FIRST.get(fd as u32 as usize).map(|slot| slot.load(Ordering::Acquire));
    if word == Some(0) {
        return None;
    }
    point(At::LookedUp);
    let at = match conn_at_once(word.unwrap_or(0)) {
        Some(at) => at,
        None => conn_rare(fd)?,
    };
    at.conn.is_generation(at.generation).then_some(at)
}

#[inline(never)]
fn conn_rare(fd: i32) -> Option<Ref> {
    match get_rare(fd) {
        Entry::Conn(at) => Some(at),
        _ => None,
    }
}

/// Returns true if `fd` refers to the connection `to`.
#[inline]
pub fn refers(fd: i32, to: Ref) -> bool {
    slot(fd).is_some_and(|slot| slot.load(Ordering::Acquire) == to.word())
}

/// Returns true if the table has no entry for `fd`.
#[inline]
pub fn is_blank(fd: i32) -> bool {
    slot(fd).is_none_or(|slot| slot.load(Ordering::Acquire) == 0)
}

/// Records a new stream socket. `history` is the word of the connection history's key for similar connections, or 0 if
/// the key is not known. `is_fresh` says that the socket or its listener is fresh (see `tcp`).
pub fn enter_conn(fd: i32, role: Role, history: u32, is_fresh: bool) {
    if slot_to_enter(fd).is_none() || !process_slots::is_known() {
        return;
    }
    let _recording = match process::begin_recording() {
        Ok(recording) => recording,
        Err(reason) => return stats::reason(reason),
    };
    let Some((index, conn)) = family::take() else {
        stats::reason(Reason::TableFull);
        return;
    };
    let generation = conn.open(index, role);
    conn.approach.stored_history.store(history, Ordering::Relaxed);
    conn.approach.fresh.store(u32::from(is_fresh), Ordering::Relaxed);
    // A socket without a cookie gets 0, and never begins a rendezvous.
    conn.cookie.store(diag::cookie(fd).unwrap_or(0), Ordering::Relaxed);
    refer(fd, Ref { index, generation, conn });
    stats::recorded();
}

/// Makes `fd` refer to the connection `to`. Called for a new connection, or for a further descriptor of a
/// connection.
pub fn refer(fd: i32, to: Ref) {
    if let (Some(slot), Some(refs)) = (slot_to_enter(fd), refs(to.index)) {
        refs.fetch_add(1, Ordering::AcqRel);
        point(At::Taking);
        slot.store(to.word(), Ordering::Release);
    }
}

/// Records that `fd` is an epoll instance. `index` is the index of its set.
pub fn enter_epoll(fd: i32, index: u32) {
    if !process::is_borrowed()
        && let Some(slot) = slot_to_enter(fd)
    {
        slot.store(EPOLL | u64::from(index), Ordering::Release);
    }
}

/// Removes the table's entry of `fd` and returns this entry.
pub fn remove(fd: i32) -> Entry {
    match slot(fd) {
        Some(slot) => {
            point(At::GivingBack);
            decode(slot.swap(0, Ordering::AcqRel))
        }
        None => Entry::Foreign,
    }
}

/// Decrements the count of this process's descriptors for the connection `index`. Returns true if none is left.
pub fn release(index: u32) -> bool {
    refs(index).is_some_and(|refs| refs.fetch_sub(1, Ordering::AcqRel) == 1)
}

/// Returns the number of descriptors that this process has for the connection `index`.
pub fn references(index: u32) -> u32 {
    refs(index).map_or(0, |refs| refs.load(Ordering::Acquire))
}

/// Calls `each` for every descriptor of every connection. Makes no system call.
pub fn for_each_conn(each: impl FnMut(i32, Ref)) {
    for_each_conn_if(|_| true, each);
}

/// Like [`for_each_conn`], but only for descriptors for which `is_wanted` returns true. Does not read the records
/// of other connections, because in a forked child the first read of a record may cause a page fault.
pub(crate) fn for_each_conn_if(is_wanted: impl Fn(i32) -> bool, mut each: impl FnMut(i32, Ref)) {
    for_each_word(|fd, slot| {
        let word = slot.load(Ordering::Acquire);
        if word & KIND == CONN
            && is_wanted(fd)
            && let Entry::Conn(r) = decode(word)
            && r.conn.is_generation(r.generation)
            && r.conn.phase() != Phase::Free
        {
            each(fd, r);
        }
    });
}

/// Calls `each` for every descriptor of an epoll instance that a set serves, with the index of this set.
pub(crate) fn for_each_epoll(mut each: impl FnMut(i32, u32)) {
    for_each_word(|fd, slot| {
        if let Entry::Epoll(index) = decode(slot.load(Ordering::Acquire)) {
            each(fd, index);
        }
    });
}

per_engine! {
    /// Set once a connection's descriptor has been closed that calls may have been using.
    static HAS_CLOSED: AtomicBool = AtomicBool::new(false);
}

/// Waits until no thread uses a descriptor that the program is about to close. The connection `at` has other
/// descriptors. The closed descriptor's entry has already been removed. A thread uses a descriptor only under the
/// connection's lock, and gets the descriptor from [`current`].
pub(crate) fn finish_uses(at: Ref) {
    // Set the flag first. A thread that takes the lock later finds the flag, and does not find the entry.
    note_closed();
    if at.conn.phase().may_be_on_vi() {
        drop(at.conn.lock());
    }
}

/// Records that a descriptor that calls may be using is about to be closed.
pub(crate) fn note_closed() {
    HAS_CLOSED.store(true, Ordering::SeqCst);
}

/// Returns true if a descriptor that a call uses may be closed by now.
#[inline]
pub(crate) fn may_be_closed() -> bool {
    HAS_CLOSED.load(Ordering::Relaxed)
}

/// Returns a descriptor of the connection `at`. This is `fd`, or another descriptor if the program has closed `fd`.
/// Call it under the connection's lock. The descriptor then stays open for as long as the caller holds the lock
/// ([`finish_uses`]). A descriptor that the library has made for itself is returned unchanged.
#[inline]
pub(crate) fn current(fd: i32, at: Ref) -> i32 {
    if may_be_closed() { look_for_current(fd, at) } else { fd }
}

#[cold]
fn look_for_current(fd: i32, at: Ref) -> i32 {
    // The table is not right for a child that runs on this process's memory with its own descriptors.
    if process::is_elsewhere() { fd } else { open_descriptor(fd, at).unwrap_or(fd) }
}

/// Returns `fd` if it means the connection, or else another descriptor of this process for the connection. By now, `fd`
/// may belong to another file.
pub(crate) fn open_descriptor(fd: i32, at: Ref) -> Option<i32> {
    if refers(fd, at) { Some(fd) } else { descriptor_of(at.conn) }
}

/// Returns a descriptor that this process has for the connection `conn`.
pub fn descriptor_of(conn: &Conn) -> Option<i32> {
    let mut found = None;
    for_each_conn(|fd, at| {
        if core::ptr::eq(at.conn, conn) {
            found = Some(fd);
        }
    });
    found
}
