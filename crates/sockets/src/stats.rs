//! Counting, for the user who started the program with `sovia run -v`.

use crate::per_engine::per_engine;
use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, Ordering};
use sovia_control::{Reason, StatsPage};
use sovia_sys::{Fd, Mapping, call};

per_engine! {
    static PAGE: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
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

/// The page, if there is one.
#[inline]
pub fn page() -> Option<&'static StatsPage> {
    let base = PAGE.load(Ordering::Relaxed);
    if base.is_null() {
        return None;
    }
    // SAFETY: a mapping of at least StatsPage::SIZE bytes that is never unmapped.
    unsafe { StatsPage::from_ptr(base, StatsPage::SIZE) }.ok()
}

/// Counts a connection that stays on TCP, or went back to it.
pub fn reason(reason: Reason) {
    if let Some(page) = page() {
        page.count(reason);
    }
}

/// Counts an end of a connection that is looked at from here on.
pub(crate) fn recorded() {
    if let Some(page) = page() {
        page.count_recorded();
    }
}

/// Counts an end of which it is known what becomes of it.
pub(crate) fn decided() {
    if let Some(page) = page() {
        page.count_decided();
    }
}

/// Counts an end whose peer belongs to that user.
pub(crate) fn other_user(uid: u32) {
    if let Some(page) = page() {
        page.count_user(uid);
    }
}

/// Counts a sleep that belongs to no connection.
pub fn slept() {
    if let Some(page) = page() {
        page.add(&sovia_control::Traffic { sleeps: 1, ..Default::default() });
    }
}

/// Counts a doorbell rung, or a sleeper woken.
pub fn rang() {
    if let Some(page) = page() {
        page.add(&sovia_control::Traffic { rings: 1, ..Default::default() });
    }
}
