//! What programs written for Sovia ask of the engine, beyond what libc has calls for.
//!
//! There is one engine in a process that runs under `sovia run`, whichever interfaces it uses: the
//! preloaded library's. It lends the functions of this module to `libsovia` and the Rust crate
//! through a [`Table`] that it exports as [`SYMBOL`]. They then leave libc's calls to libc's names,
//! which are the preloaded library's, and their own copy of this crate sleeps.

use crate::conn::{Phase, flag};
use crate::engine;
use crate::fallback::{self, Cause};
use crate::loan::{self, Loan};
use crate::ops::Flags;
use crate::protocol;
use crate::table;
use crate::{Errno, Outcome};
use core::ffi::CStr;
use core::sync::atomic::{AtomicUsize, Ordering};
use sovia_control::{Reason, Traffic};
use sovia_proto::configuration::Configuration;
use sovia_proto::path::{Rx, Tx};

/// Where a stream runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// A kernel socket that Sovia does not follow.
    Kernel = 0,
    /// On TCP; its ends have not met yet.
    Meeting = 1,
    /// On a VI.
    Via = 2,
    /// On TCP for good.
    Tcp = 3,
}

/// What is known of a stream. Counts are of what went over the VI since it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Info {
    /// A [`State`].
    pub state: u32,
    /// A [`Reason`] plus one where the state is [`State::Tcp`]; else 0.
    pub reason: u32,
    /// 1 if bytes sent now go over the VI.
    pub sends: u32,
    /// 1 if bytes received now come from the VI.
    pub receives: u32,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Messages sent: packets, and pieces gathered beyond the window.
    pub messages_sent: u64,
    /// Bytes received.
    pub bytes_received: u64,
}

impl Info {
    const NONE: Info = Info {
        state: State::Kernel as u32,
        reason: 0,
        sends: 0,
        receives: 0,
        bytes_sent: 0,
        messages_sent: 0,
        bytes_received: 0,
    };

    /// Whether the stream has a VI.
    pub fn is_accelerated(&self) -> bool {
        self.state == State::Via as u32
    }

    /// Why it is on TCP for good, if it is and the reason is known.
    pub fn reason(&self) -> Option<Reason> {
        Reason::of(self.reason.checked_sub(1)?)
    }
}

/// What is known of the stream behind a descriptor.
pub fn info(fd: i32) -> Info {
    let Some(at) = table::conn(fd) else { return Info::NONE };
    // The peer may have taken both directions back since the last call.
    fallback::settle(at);
    let conn = at.conn;
    let stay = conn.stay.load(Ordering::Relaxed);
    let mut info = Info { reason: stay, ..Info::NONE };
    let guard = conn.lock();
    let moved = |info: &mut Info, traffic: &Traffic| {
        info.bytes_sent += traffic.bytes_sent;
        info.messages_sent += traffic.messages_sent;
        info.bytes_received += traffic.bytes_received;
    };
    if conn.has(flag::MET) {
        moved(&mut info, &guard.traffic);
        moved(&mut info, &guard.past);
    }
    info.state = match conn.phase() {
        Phase::Candidate => State::Meeting,
        Phase::Attached => {
            info.sends = u32::from(conn.tx() == Tx::Vi);
            info.receives = u32::from(conn.rx() == Rx::Vi);
            State::Via
        }
        Phase::Plain | Phase::Free => State::Tcp,
    } as u32;
    if info.state != State::Tcp as u32 {
        info.reason = 0;
    }
    info
}

/// Takes the stream behind a descriptor to TCP for good; nothing if it is there.
pub fn to_tcp(fd: i32) {
    if let Some(at) = table::conn(fd) {
        fallback::now(fd, at, Cause::Call);
    }
}

/// Changed with the table's layout, or what a function in it means.
pub const VERSION: u32 = 2;

/// The functions of this module, for libraries in the process that have another copy of it.
#[derive(Debug)]
#[repr(C)]
pub struct Table {
    /// See [`info`].
    pub info: extern "C" fn(i32, &mut Info),
    /// See [`to_tcp`].
    pub to_tcp: extern "C" fn(i32),
    /// See [`protocol::choose_for`]; text and its length, an errno, or 0.
    pub choose: unsafe extern "C" fn(i32, *const u8, usize) -> i32,
    /// See [`loan::lend`]; an errno, or 0.
    pub lend: extern "C" fn(i32, usize, &mut Loan) -> i32,
    /// See [`loan::commit`]; with flags of `send`. The count, or minus an errno.
    pub commit: extern "C" fn(i32, &mut Loan, usize, i32) -> isize,
    /// See [`loan::borrow`]; an errno, or 0.
    pub borrow: extern "C" fn(i32, i32, &mut Loan) -> i32,
    /// See [`loan::give_back`].
    pub give_back: extern "C" fn(&mut Loan),
    /// See [`Loan::is_ours`].
    pub is_ours: extern "C" fn(&Loan) -> bool,
}

/// As [`protocol::choose_for`], with the configuration's text form.
fn choose_text(fd: i32, text: &[u8]) -> Result<(), Errno> {
    let text = core::str::from_utf8(text).map_err(|_| libc::EINVAL)?;
    protocol::choose_for(fd, &Configuration::of_socket(text).map_err(|_| libc::EINVAL)?)
}

unsafe extern "C" fn choose(fd: i32, text: *const u8, len: usize) -> i32 {
    // SAFETY: the caller vouches for the text.
    choose_text(fd, unsafe { core::slice::from_raw_parts(text, len) }).err().unwrap_or(0)
}

/// Flags of a call on a loan: MSG_DONTWAIT and MSG_NOSIGNAL.
fn flags(how: i32) -> Flags {
    Flags {
        dont_wait: how & libc::MSG_DONTWAIT != 0,
        no_signal: how & libc::MSG_NOSIGNAL != 0,
        empty_waits: true,
        ..Flags::default()
    }
}

fn put(result: Result<Loan, Errno>, out: &mut Loan) -> i32 {
    match result {
        Ok(loan) => {
            *out = loan;
            0
        }
        Err(e) => e,
    }
}

extern "C" fn lend(fd: i32, len: usize, out: &mut Loan) -> i32 {
    put(loan::lend(fd, len), out)
}

extern "C" fn commit(fd: i32, loan: &mut Loan, n: usize, how: i32) -> isize {
    match loan::commit(fd, loan, n, flags(how)) {
        Ok(n) => n as isize,
        Err(e) => -(e as isize),
    }
}

extern "C" fn borrow(fd: i32, how: i32, out: &mut Loan) -> i32 {
    put(loan::borrow(fd, flags(how)), out)
}

extern "C" fn give_back(loan: &mut Loan) {
    loan::give_back(loan);
}

extern "C" fn is_ours(loan: &Loan) -> bool {
    loan.is_ours()
}

extern "C" fn info_of(fd: i32, out: &mut Info) {
    *out = info(fd);
}

extern "C" fn take_to_tcp(fd: i32) {
    to_tcp(fd);
}

/// This copy's own functions.
pub static TABLE: Table =
    Table { info: info_of, to_tcp: take_to_tcp, choose, lend, commit, borrow, give_back, is_ours };

/// The name under which the preloaded library exports a [`Lender`].
pub const SYMBOL: &CStr = c"sovia_native";

/// Given [`VERSION`], returns the table; null for another version.
pub type Lender = extern "C" fn(u32) -> *const Table;

/// The name under which the preloaded library exports an [`Aside`].
pub const ASIDE_SYMBOL: &CStr = c"sovia_stands_aside";

/// Whether the system's rules have had the preloaded library leave the program alone: 1 or 0. What asks for Sovia by itself is served
/// by its own copy then, as where no library is preloaded.
pub type Aside = extern "C" fn() -> u32;

/// What a preloaded library exports.
pub extern "C" fn lend_table(version: u32) -> *const Table {
    if version == VERSION { &raw const TABLE } else { core::ptr::null() }
}

/// 0: not looked yet; [`OWN`]; [`STRANGE`]; else the address of a table.
static ENGINE: AtomicUsize = AtomicUsize::new(0);
const OWN: usize = 1;
const STRANGE: usize = 2;

/// Whose engine serves this process.
#[derive(Debug, Clone, Copy)]
pub enum Engine {
    /// This copy's.
    Own,
    /// The preloaded library's: libc's names reach it.
    Preloaded(&'static Table),
    /// The preloaded library's, of a version with another table.
    Strange,
}

/// Whose engine serves this process. The first call looks, and starts this copy's if it is that.
#[inline]
pub fn engine() -> Engine {
    match ENGINE.load(Ordering::Acquire) {
        OWN => Engine::Own,
        0 => look(),
        STRANGE => Engine::Strange,
        // SAFETY: the preloaded library's table, which stays as long as the process.
        address => Engine::Preloaded(unsafe { &*(address as *const Table) }),
    }
}

/// Whether this copy's engine is at work already; looks at one word.
#[inline]
pub fn is_own() -> bool {
    ENGINE.load(Ordering::Relaxed) == OWN
}

#[cold]
fn look() -> Engine {
    static START: std::sync::Once = std::sync::Once::new();
    START.call_once(|| {
        // SAFETY: a C string and a pseudo handle that glibc defines.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, SYMBOL.as_ptr()) };
        let engine = if found.is_null() || preloaded_stands_aside() {
            engine::start();
            // SAFETY: a plain function; what it does may be left undone.
            unsafe { libc::atexit(finish) };
            OWN
        } else {
            // SAFETY: only a preloaded library of Sovia's exports a function of that name.
            let lender = unsafe { core::mem::transmute::<*mut libc::c_void, Lender>(found) };
            match lender(VERSION) as usize {
                0 => STRANGE,
                table => table,
            }
        };
        ENGINE.store(engine, Ordering::Release);
    });
    engine()
}

fn preloaded_stands_aside() -> bool {
    // SAFETY: a C string and a pseudo handle that glibc defines.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, ASIDE_SYMBOL.as_ptr()) };
    if found.is_null() {
        // Of a version without it.
        return false;
    }
    // SAFETY: only a preloaded library of Sovia's exports a function of that name.
    let aside = unsafe { core::mem::transmute::<*mut libc::c_void, Aside>(found) };
    aside() != 0
}

extern "C" fn finish() {
    engine::finish();
}

/// [`info`], from whichever engine serves the process.
pub fn info_here(fd: i32) -> Info {
    let mut out = Info::NONE;
    match engine() {
        Engine::Own => out = info(fd),
        Engine::Preloaded(table) => (table.info)(fd, &mut out),
        Engine::Strange => {}
    }
    out
}

/// [`to_tcp`], from whichever engine serves the process.
///
/// # Errors
/// `ENOTSUP` where that is one of another version.
pub fn to_tcp_here(fd: i32) -> Result<(), Errno> {
    match engine() {
        Engine::Own => to_tcp(fd),
        Engine::Preloaded(table) => (table.to_tcp)(fd),
        Engine::Strange => return Err(libc::ENOTSUP),
    }
    Ok(())
}

/// Chooses a connection's protocol, in whichever engine serves the process.
///
/// # Errors
/// What [`protocol::choose_for`] says; `EINVAL` for a text that is no configuration; `ENOTSUP` where
/// the engine is one of another version.
pub fn choose_here(fd: i32, text: &[u8]) -> Result<(), Errno> {
    // SAFETY: the text is a live slice.
    match unsafe { (table_here()?.choose)(fd, text.as_ptr(), text.len()) } {
        0 => Ok(()),
        e => Err(e),
    }
}

/// The functions of whichever engine serves the process.
fn table_here() -> Result<&'static Table, Errno> {
    match engine() {
        Engine::Own => Ok(&TABLE),
        Engine::Preloaded(table) => Ok(table),
        Engine::Strange => Err(libc::ENOTSUP),
    }
}

/// [`loan::lend`], from whichever engine serves the process.
///
/// # Errors
/// What that says; `ENOTSUP` where that is one of another version.
pub fn lend_here(fd: i32, len: usize) -> Result<Loan, Errno> {
    let mut loan = Loan::default();
    match (table_here()?.lend)(fd, len, &mut loan) {
        0 => Ok(loan),
        e => Err(e),
    }
}

/// [`loan::commit`], likewise, with flags of `send`.
///
/// # Errors
/// As [`lend_here`].
pub fn commit_here(fd: i32, loan: &mut Loan, n: usize, how: i32) -> Outcome {
    let sent = (table_here()?.commit)(fd, loan, n, how);
    usize::try_from(sent).map_err(|_| -sent as i32)
}

/// [`loan::borrow`], likewise, with flags of `recv`.
///
/// # Errors
/// As [`lend_here`].
pub fn borrow_here(fd: i32, how: i32) -> Result<Loan, Errno> {
    let mut loan = Loan::default();
    match (table_here()?.borrow)(fd, how, &mut loan) {
        0 => Ok(loan),
        e => Err(e),
    }
}

/// [`Loan::is_ours`], likewise: an engine knows when the process was forked.
pub fn is_ours_here(loan: &Loan) -> bool {
    table_here().is_ok_and(|table| (table.is_ours)(loan))
}

/// [`loan::give_back`], likewise.
pub fn give_back_here(loan: &mut Loan) {
    if let Ok(table) = table_here() {
        (table.give_back)(loan);
    }
}
