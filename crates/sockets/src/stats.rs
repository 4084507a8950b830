//! Counting: for the user who started the program with `sovia run -v`, and in the family's memory, for those who look at
//! the family while it runs ([`sovia_control::board`]).

use crate::per_engine::per_engine;
use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, Ordering};
use sovia_control::{Junk, Reason, StatsPage};
use sovia_sys::datagram::{Datagram, Name};
use sovia_sys::{Fd, Mapping, call};

per_engine! {
    /// The page of the run.
    static PAGE: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
    /// The family's.
    static TOTALS: AtomicPtr<StatsPage> = AtomicPtr::new(core::ptr::null_mut());
}

/// Maps the page at `path`, if it is one.
pub fn open(path: &CStr) {
    let Ok(fd) = call::open(path, libc::O_RDWR | libc::O_CLOEXEC, 0) else { return };
    let fd = Fd::keep(fd);
    if call::file_size(fd.raw()).unwrap_or(0) < StatsPage::SIZE as u64 {
        return;
    }
    if let Ok(mapping) = Mapping::shared(fd.raw(), StatsPage::SIZE) {
        // Every process that may write to the file may count; nothing is decided by what it says.
        mapping.stays_shared();
        PAGE.store(mapping.base(), Ordering::Release);
        core::mem::forget(mapping);
        if page().is_none() {
            // Not a page of this version: count nowhere.
            PAGE.store(core::ptr::null_mut(), Ordering::Release);
        }
    }
}

/// From now on it is counted there as well.
pub(crate) fn count_in(totals: &'static StatsPage) {
    TOTALS.store(core::ptr::from_ref(totals).cast_mut(), Ordering::Release);
}

/// The pages that there are.
#[inline]
pub(crate) fn pages() -> impl Iterator<Item = &'static StatsPage> {
    // SAFETY: null, or what `count_in` was given.
    let totals = unsafe { TOTALS.load(Ordering::Acquire).as_ref() };
    page().into_iter().chain(totals)
}

/// The page of the run, if there is one.
#[inline]
fn page() -> Option<&'static StatsPage> {
    let base = PAGE.load(Ordering::Relaxed);
    if base.is_null() {
        return None;
    }
    // SAFETY: a mapping of at least StatsPage::SIZE bytes that is never unmapped.
    unsafe { StatsPage::from_ptr(base, StatsPage::SIZE) }.ok()
}

/// Sends a file of records to `sovia run`, which collects the counters of the run. It reads there what a killed process
/// has not added to the page.
pub(crate) fn show(file: i32) {
    let Some(name) = page().and_then(StatsPage::collector) else { return };
    let name = name.split(|&byte| byte == 0).next().and_then(Name::new);
    // If the message does not come through, the report counts as much as is on the page.
    if let (Some(name), Ok(socket)) = (name, Datagram::bind(None)) {
        let _ = socket.send_to(&name, &[0], &[file]);
    }
}

/// Whether the user has asked for the counters of the run.
pub(crate) fn is_asked_for() -> bool {
    page().is_some()
}

/// Counts an end of a connection that has come onto a VI.
pub(crate) fn accelerated() {
    for page in pages() {
        page.count_accelerated();
    }
}

/// Counts a message dropped at the meeting point.
pub(crate) fn junk(kind: Junk) {
    for page in pages() {
        page.count_junk(kind);
    }
}

/// Counts a connection that stays on TCP, or went back to it.
pub fn reason(reason: Reason) {
    for page in pages() {
        page.count(reason);
    }
}

/// Counts an end of a connection that is looked at from here on.
pub(crate) fn recorded() {
    for page in pages() {
        page.count_recorded();
    }
}

/// Counts an end of which it is known what becomes of it.
pub(crate) fn decided() {
    for page in pages() {
        page.count_decided();
    }
}

/// Counts an end whose peer belongs to that user.
pub(crate) fn other_user(uid: u32) {
    for page in pages() {
        page.count_user(uid);
    }
}

/// Counts a sleep that belongs to no connection.
pub fn slept() {
    for page in pages() {
        page.add(&sovia_control::Traffic { sleeps: 1, ..Default::default() });
    }
}

/// Counts a doorbell rung, or a sleeper woken.
pub fn rang() {
    for page in pages() {
        page.add(&sovia_control::Traffic { rings: 1, ..Default::default() });
    }
}
