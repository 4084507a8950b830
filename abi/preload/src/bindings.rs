//! Libraries that are opened with RTLD_DEEPBIND, as PHP opens its extensions: what they call is looked for in
//! themselves and in libc first, and so past the hooks. Their tables of functions get the hooks afterwards.
//!
//! That is done when a function of a library is looked up, which is what follows its opening: `dlopen` itself
//! must be entered from the program's code, so this library does not learn when it is done.

use crate::objects::{hook_of, is_libcs, is_own, real_dlsym};
use crate::read_only::{self, Writable};
use crate::tables::{Table, extent, headers};
use core::ffi::CStr;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use libc::{c_char, c_int, c_void, dl_phdr_info, size_t};
use sovia_sockets::process::is_confined;
use std::ffi::CString;

/// An object whose table may have to be renewed.
struct Object {
    name: CString,
    base: usize,
    dynamic: usize,
    extent: Range<usize>,
    /// Its data, which other threads may be writing.
    writable: Vec<Range<usize>>,
    /// What the linker has made read-only after it had filled it in.
    read_only: Range<usize>,
}

/// How many objects, from the first, are done (the lower half), and how many had been closed by then: later ones
/// stand behind them, unless some are closed.
static DONE: AtomicU64 = AtomicU64::new(0);

fn done(closed: u64, count: usize) -> u64 {
    closed << 32 | count as u64
}

/// Gives the hooks to objects that have come since the last time. Several threads may be at it.
pub(crate) fn renew() {
    struct Walk {
        before: u64,
        closed: u64,
        seen: usize,
        fresh: Vec<Object>,
    }
    unsafe extern "C" fn look(info: *mut dl_phdr_info, _: size_t, walk: *mut c_void) -> c_int {
        // SAFETY: the linker's description of an object, and what is passed below.
        let (info, walk) = unsafe { (&*info, &mut *walk.cast::<Walk>()) };
        walk.seen += 1;
        walk.closed = info.dlpi_subs;
        let is_done = done(walk.closed, walk.seen) <= walk.before
            && walk.before <= done(walk.closed, u32::MAX as usize);
        if !is_done {
            walk.fresh.extend(describe(info));
        }
        0
    }
    if is_confined() {
        // What is written would have to be made writable, by system calls that the program does not make.
        return;
    }
    let before = DONE.load(Ordering::Acquire);
    let mut walk = Walk { before, closed: 0, seen: 0, fresh: Vec::new() };
    // SAFETY: the function gets the pointer that is passed here.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut walk).cast()) };
    for object in &walk.fresh {
        renew_object(object);
    }
    DONE.store(done(walk.closed, walk.seen), Ordering::Release);
}

/// `None` for the program itself, libc, and this library.
fn describe(info: &dl_phdr_info) -> Option<Object> {
    if info.dlpi_name.is_null() {
        return None;
    }
    // SAFETY: the linker's text.
    let name = unsafe { CStr::from_ptr(info.dlpi_name) };
    let extent = extent(info);
    if name.is_empty() || is_libcs(extent.start) || is_own(extent.start) {
        return None;
    }
    let base = info.dlpi_addr as usize;
    let part = |kind| headers(info).iter().find(|header| header.p_type == kind);
    let dynamic = base + part(libc::PT_DYNAMIC)?.p_vaddr as usize;
    let read_only = read_only::of(info);
    let writable = |header: &&libc::Elf64_Phdr| {
        header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W != 0
    };
    let writable = headers(info).iter().filter(writable).map(|header| {
        let begin = base + header.p_vaddr as usize;
        begin..begin + header.p_memsz as usize
    });
    let writable = writable.collect();
    Some(Object { name: name.to_owned(), base, dynamic, extent, writable, read_only })
}

fn renew_object(object: &Object) {
    // SAFETY: the object was there a moment ago. It stays from here on, if it is still there; what has come
    // in its place under its name lies elsewhere, or is as good.
    unsafe {
        let handle = libc::dlopen(object.name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if handle.is_null() {
            return;
        }
        let mut about: libc::Dl_info = core::mem::zeroed();
        if libc::dladdr(object.dynamic as *const c_void, &raw mut about) != 0
            && about.dli_fbase as usize == object.extent.start
            && let Some(table) = Table::read(object.base, object.dynamic)
        {
            let mut changes = Vec::new();
            table.for_each(|slot, name, is_lazy| {
                changes.extend(change_of(object, handle, slot, name, is_lazy));
            });
            make(object, &changes);
        }
        libc::dlclose(handle);
    }
}

/// A word that gets a hook's address.
struct Change {
    slot: *const AtomicUsize,
    old: usize,
    hook: usize,
}

/// # Safety
/// The object stays while this runs, and `slot` is one of its own that holds a function's address.
unsafe fn change_of(
    object: &Object,
    handle: *mut c_void,
    slot: *const AtomicUsize,
    name: *const c_char,
    is_lazy: bool,
) -> Option<Change> {
    if !object.writable.iter().any(|data| data.contains(&(slot as usize))) {
        // In the code, which the linker has changed by itself.
        return None;
    }
    // SAFETY: the caller's word.
    unsafe {
        let old = (*slot).load(Ordering::Relaxed);
        let mut found = old;
        // Not bound yet: the first call of the function would. In a library that was opened as usual it would find
        // what comes first in the program, which must be the hook.
        if is_lazy && object.extent.contains(&old) {
            if !is_own(real_dlsym()(libc::RTLD_DEFAULT, name) as usize) {
                return None;
            }
            found = real_dlsym()(handle, name) as usize;
        }
        hook_of(found, name).map(|hook| Change { slot, old, hook })
    }
}

/// Nothing is looked up meanwhile: the linker's lock is taken for that, and may be held by a thread that waits for this one.
///
/// # Safety
/// The object stays while this runs.
unsafe fn make(object: &Object, changes: &[Change]) {
    let is_read_only = |change: &Change| object.read_only.contains(&(change.slot as usize));
    let has_read_only = changes.iter().any(is_read_only);
    let writable = has_read_only.then(|| Writable::begin(&object.read_only)).flatten();
    for change in changes {
        if is_read_only(change) && writable.is_none() {
            continue;
        }
        let &Change { slot, old, hook } = change;
        // A slot that has changed meanwhile is the linker's or the program's.
        // SAFETY: a word of the object's data, which can be written to.
        let _ =
            unsafe { (*slot).compare_exchange(old, hook, Ordering::Release, Ordering::Relaxed) };
    }
}
