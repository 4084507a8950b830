//! Functions that programs written for Sovia need beyond libc's calls.
//!
//! A process under `sovia run` has one engine for all its interfaces: the engine of the preloaded library. The
//! preloaded library exports this module's functions in a [`Table`] under the name [`SYMBOL`]. `libsovia` and the
//! Rust crate use this table, and do not start the engine of their own copy of this crate. For other calls they use
//! libc's names, which reach the preloaded library.

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

/// Carrier of a stream's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// A kernel socket for which Sovia has no record.
    Kernel = 0,
    /// TCP. The connection may still get a VI.
    Meeting = 1,
    /// A VI.
    Via = 2,
    /// TCP. The connection will not get a VI any more.
    Tcp = 3,
}

/// State and counts of a stream. The counts include only bytes that travelled on the VI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Info {
    /// A [`State`].
    pub state: u32,
    /// A [`Reason`] plus one if the state is [`State::Tcp`]; else 0.
    pub reason: u32,
    /// 1 if bytes that the program sends now travel on the VI; else 0.
    pub sends: u32,
    /// 1 if bytes that the program receives now come from the VI; else 0.
    pub receives: u32,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Messages sent: packets, and pieces that were coalesced while the window was used up.
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

    /// Returns true if the stream has a VI.
    pub fn is_accelerated(&self) -> bool {
        self.state == State::Via as u32
    }

    /// Returns the reason why the stream stays on TCP. `None` if the stream has or may get a VI, or if the reason
    /// is unknown.
    pub fn reason(&self) -> Option<Reason> {
        Reason::of(self.reason.checked_sub(1)?)
    }
}

/// Returns state and counts of the stream behind `fd`.
pub fn info(fd: i32) -> Info {
    let Some(at) = table::conn(fd) else { return Info::NONE };
    // Complete the fallback if the peer has revoked both directions since the last call.
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
        Phase::Eligible => State::Meeting,
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

/// Moves the stream behind `fd` to TCP for good. Does nothing if the stream is already on TCP.
pub fn to_tcp(fd: i32) {
    if let Some(at) = table::conn(fd) {
        fallback::now(fd, at, Cause::Released);
    }
}

/// Version of [`Table`]. Changes with the table's layout or with the meaning of a function in the table.
pub const VERSION: u32 = 2;

/// The functions of this module, for libraries in the process that have another copy of this crate.
#[derive(Debug)]
#[repr(C)]
pub struct Table {
    /// See [`info`].
    pub info: extern "C" fn(i32, &mut Info),
    /// See [`to_tcp`].
    pub to_tcp: extern "C" fn(i32),
    /// See [`protocol::choose_for`]. Takes the configuration as a text and the text's length. Returns an errno, or
    /// 0.
    pub choose: unsafe extern "C" fn(i32, *const u8, usize) -> i32,
    /// See [`loan::lend`]. Returns an errno, or 0.
    pub lend: extern "C" fn(i32, usize, &mut Loan) -> i32,
    /// See [`loan::commit`]. The last argument has flags of `send`. Returns the number of bytes sent, or minus an
    /// errno.
    pub commit: extern "C" fn(i32, &mut Loan, usize, i32) -> isize,
    /// See [`loan::borrow`]. Returns an errno, or 0.
    pub borrow: extern "C" fn(i32, i32, &mut Loan) -> i32,
    /// See [`loan::give_back`].
    pub give_back: extern "C" fn(&mut Loan),
    /// See [`Loan::is_ours`].
    pub is_ours: extern "C" fn(&Loan) -> bool,
}

/// Like [`protocol::choose_for`], but takes the configuration as text.
fn choose_text(fd: i32, text: &[u8]) -> Result<(), Errno> {
    let text = core::str::from_utf8(text).map_err(|_| libc::EINVAL)?;
    protocol::choose_for(fd, &Configuration::of_socket(text).map_err(|_| libc::EINVAL)?)
}

unsafe extern "C" fn choose(fd: i32, text: *const u8, len: usize) -> i32 {
    // SAFETY: the caller is `choose_here`, in this copy of the crate or another copy. `choose_here` passes pointer
    // and length of a live slice.
    choose_text(fd, unsafe { core::slice::from_raw_parts(text, len) }).err().unwrap_or(0)
}

/// Returns the flags for a call on a loan. Of `how`, only MSG_DONTWAIT and MSG_NOSIGNAL count.
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

/// The functions of this copy of the crate.
pub static TABLE: Table =
    Table { info: info_of, to_tcp: take_to_tcp, choose, lend, commit, borrow, give_back, is_ours };

/// Name under which the preloaded library exports a [`Lender`].
pub const SYMBOL: &CStr = c"sovia_native";

/// Function that returns the table if its argument is [`VERSION`], and null for another version.
pub type Lender = extern "C" fn(u32) -> *const Table;

/// Name under which the preloaded library exports an [`Aside`].
pub const ASIDE_SYMBOL: &CStr = c"sovia_stands_aside";

/// Function that returns 1 if the system's rules make the preloaded library leave the program alone, else 0. If the
/// result is 1, `libsovia` and the Rust crate start their own engine, as without preloading.
pub type Aside = extern "C" fn() -> u32;

/// The [`Lender`] that a preloaded library exports.
pub extern "C" fn lend_table(version: u32) -> *const Table {
    if version == VERSION { &raw const TABLE } else { core::ptr::null() }
}

/// State of [`engine()`]. 0: not searched yet; [`OWN`]; [`STRANGE`]; another value is the address of a table.
static ENGINE: AtomicUsize = AtomicUsize::new(0);
const OWN: usize = 1;
const STRANGE: usize = 2;

/// Engine that serves this process.
#[derive(Debug, Clone, Copy)]
pub enum Engine {
    /// The engine of this copy of the crate.
    Own,
    /// The preloaded library's engine, reached by libc's names.
    Preloaded(&'static Table),
    /// The preloaded library's engine, whose table has another version.
    Strange,
}

/// Returns the engine that serves this process. The first call searches for a preloaded engine. If there is none,
/// the call starts the engine of this copy of the crate.
#[inline]
pub fn engine() -> Engine {
    match ENGINE.load(Ordering::Acquire) {
        OWN => Engine::Own,
        0 => look(),
        STRANGE => Engine::Strange,
        // SAFETY: `look` has stored the address of the preloaded library's table, which lasts as long as the process.
        address => Engine::Preloaded(unsafe { &*(address as *const Table) }),
    }
}

/// Returns true if the engine of this copy of the crate already runs. Reads one word.
#[inline]
pub fn is_own() -> bool {
    ENGINE.load(Ordering::Relaxed) == OWN
}

#[cold]
fn look() -> Engine {
    static START: std::sync::Once = std::sync::Once::new();
    START.call_once(|| {
        // SAFETY: the arguments are a C string and a pseudo handle that glibc defines.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, SYMBOL.as_ptr()) };
        let engine = if found.is_null() || preloaded_stands_aside() {
            engine::start();
            // SAFETY: `finish` is a plain function without captured state.
            unsafe { libc::atexit(finish) };
            OWN
        } else {
            // SAFETY: only Sovia's preloaded library exports this name, with a function of this type.
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
    // SAFETY: the arguments are a C string and a pseudo handle that glibc defines.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, ASIDE_SYMBOL.as_ptr()) };
    if found.is_null() {
        // An older preloaded library does not export the name, and never leaves the program alone.
        return false;
    }
    // SAFETY: only Sovia's preloaded library exports this name, with a function of this type.
    let aside = unsafe { core::mem::transmute::<*mut libc::c_void, Aside>(found) };
    aside() != 0
}

extern "C" fn finish() {
    engine::finish();
}

/// Calls [`info`] of the engine that serves this process.
pub fn info_here(fd: i32) -> Info {
    let mut out = Info::NONE;
    match engine() {
        Engine::Own => out = info(fd),
        Engine::Preloaded(table) => (table.info)(fd, &mut out),
        Engine::Strange => {}
    }
    out
}

/// Calls [`to_tcp`] of the engine that serves this process.
///
/// # Errors
/// `ENOTSUP` if the engine's table has another version.
pub fn to_tcp_here(fd: i32) -> Result<(), Errno> {
    match engine() {
        Engine::Own => to_tcp(fd),
        Engine::Preloaded(table) => (table.to_tcp)(fd),
        Engine::Strange => return Err(libc::ENOTSUP),
    }
    Ok(())
}

/// Chooses the protocol of the connection behind `fd`, in the engine that serves this process. `text` is a
/// configuration.
///
/// # Errors
/// The errors of [`protocol::choose_for`]. `EINVAL` if `text` is not a configuration. `ENOTSUP` if the engine's
/// table has another version.
pub fn choose_here(fd: i32, text: &[u8]) -> Result<(), Errno> {
    // SAFETY: pointer and length come from a live slice.
    match unsafe { (table_here()?.choose)(fd, text.as_ptr(), text.len()) } {
        0 => Ok(()),
        e => Err(e),
    }
}

/// Returns the functions of the engine that serves this process. Fails with `ENOTSUP` if its table has another
/// version.
fn table_here() -> Result<&'static Table, Errno> {
    match engine() {
        Engine::Own => Ok(&TABLE),
        Engine::Preloaded(table) => Ok(table),
        Engine::Strange => Err(libc::ENOTSUP),
    }
}

/// Calls [`loan::lend`] of the engine that serves the process.
///
/// # Errors
/// The errors of [`loan::lend`]. `ENOTSUP` if the engine's table has another version.
pub fn lend_here(fd: i32, len: usize) -> Result<Loan, Errno> {
    let mut loan = Loan::default();
    match (table_here()?.lend)(fd, len, &mut loan) {
        0 => Ok(loan),
        e => Err(e),
    }
}

/// Calls [`loan::commit`] of the engine that serves the process, with flags of `send`.
///
/// # Errors
/// The errors of [`loan::commit`]. `ENOTSUP` if the engine's table has another version.
pub fn commit_here(fd: i32, loan: &mut Loan, n: usize, how: i32) -> Outcome {
    let sent = (table_here()?.commit)(fd, loan, n, how);
    usize::try_from(sent).map_err(|_| -sent as i32)
}

/// Calls [`loan::borrow`] of the engine that serves the process, with flags of `recv`.
///
/// # Errors
/// The errors of [`loan::borrow`]. `ENOTSUP` if the engine's table has another version.
pub fn borrow_here(fd: i32, how: i32) -> Result<Loan, Errno> {
    let mut loan = Loan::default();
    match (table_here()?.borrow)(fd, how, &mut loan) {
        0 => Ok(loan),
        e => Err(e),
    }
}

/// Calls [`Loan::is_ours`] of the engine that serves this process. Only this engine is notified of forks.
pub fn is_ours_here(loan: &Loan) -> bool {
    table_here().is_ok_and(|table| (table.is_ours)(loan))
}

/// Calls [`loan::give_back`] of the engine that serves the process.
pub fn give_back_here(loan: &mut Loan) {
    if let Ok(table) = table_here() {
        (table.give_back)(loan);
    }
}
