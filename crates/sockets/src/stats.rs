//! Counters for the user who started the program with `sovia run -v`. Also counters in the family's memory, for
//! readers of the statistics page ([`sovia_control::stats_page`]).

use crate::per_engine::per_engine;
use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, Ordering};
use sovia_control::{Junk, Reason, StatsPage};
use sovia_sys::datagram::{Datagram, Name};
use sovia_sys::{Fd, Mapping, call};

per_engine! {
    /// Counters of the run, which `sovia run -v` has started.
    static PAGE: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
    /// Counters of the family.
    static TOTALS: AtomicPtr<StatsPage> = AtomicPtr::new(core::ptr::null_mut());
}

/// Maps the counters of the run from the file `path`, if this file is valid.
pub fn open(path: &CStr) {
    let Ok(fd) = call::open(path, libc::O_RDWR | libc::O_CLOEXEC, 0) else { return };
    let fd = Fd::keep(fd);
    if call::file_size(fd.raw()).unwrap_or(0) < StatsPage::SIZE as u64 {
        return;
    }
    if let Ok(mapping) = Mapping::shared(fd.raw(), StatsPage::SIZE) {
        // Keep the mapping shared in forked children. Every process that may write to the file may count, and no
        // decision depends on the counters.
        mapping.stays_shared();
        PAGE.store(mapping.base(), Ordering::Release);
        core::mem::forget(mapping);
        if page().is_none() {
            // The page has another version, so count nothing in this page.
            PAGE.store(core::ptr::null_mut(), Ordering::Release);
        }
    }
}

/// From now on, also counts in `totals`.
pub(crate) fn count_in(totals: &'static StatsPage) {
    TOTALS.store(core::ptr::from_ref(totals).cast_mut(), Ordering::Release);
}

/// Returns the existing pages: of the run and of the family.
#[inline]
pub(crate) fn pages() -> impl Iterator<Item = &'static StatsPage> {
    // SAFETY: the pointer is null or comes from `count_in`, which takes a static reference.
    let totals = unsafe { TOTALS.load(Ordering::Acquire).as_ref() };
    page().into_iter().chain(totals)
}

/// Returns the page with the counters of the run, if `sovia run -v` has started the program.
#[inline]
fn page() -> Option<&'static StatsPage> {
    let base = PAGE.load(Ordering::Relaxed);
    if base.is_null() {
        return None;
    }
    // SAFETY: `base` is a mapping of at least StatsPage::SIZE bytes that is never unmapped.
    unsafe { StatsPage::from_ptr(base, StatsPage::SIZE) }.ok()
}

/// Sends `file` to `sovia run`, which collects the counters of the run. `file` has records of connections. If a
/// process is killed, `sovia run` reads in `file` the counts that the process has not added to the page.
pub(crate) fn show(file: i32) {
    let Some(name) = page().and_then(StatsPage::collector) else { return };
    let name = name.split(|&byte| byte == 0).next().and_then(Name::new);
    // If the message is lost, the user's report contains only the counts on the page.
    if let (Some(name), Ok(socket)) = (name, Datagram::bind(None)) {
        let _ = socket.send_to(&name, &[0], &[file]);
    }
}

/// Returns true if the user has asked for the counters of the run.
pub(crate) fn is_asked_for() -> bool {
    page().is_some()
}

/// Counts an end of a connection that has got a VI.
pub(crate) fn accelerated() {
    for page in pages() {
        page.count_accelerated();
    }
}

/// Counts a message that the rendezvous socket has received and dropped as invalid.
pub(crate) fn junk(kind: Junk) {
    for page in pages() {
        page.count_junk(kind);
    }
}

/// Counts a connection that stays on TCP, or fell back to TCP.
pub fn reason(reason: Reason) {
    for page in pages() {
        page.count(reason);
    }
}

/// Counts an end of a connection for which Sovia has made a record.
pub(crate) fn recorded() {
    for page in pages() {
        page.count_recorded();
    }
}

/// Counts an end for which it is decided if the end gets a VI or stays on TCP.
pub(crate) fn decided() {
    for page in pages() {
        page.count_decided();
    }
}

/// Counts an end whose peer process belongs to the other user `uid`.
pub(crate) fn other_user(uid: u32) {
    for page in pages() {
        page.count_user(uid);
    }
}

/// Counts a sleep of a thread that waits for a connection or for several descriptors.
pub fn slept() {
    for page in pages() {
        page.add(&sovia_control::Traffic { sleeps: 1, ..Default::default() });
    }
}

/// Counts a ring of a doorbell, or a wake-up of a sleeper.
pub fn rang() {
    for page in pages() {
        page.add(&sovia_control::Traffic { rings: 1, ..Default::default() });
    }
}
