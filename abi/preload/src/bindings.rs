//! Libraries that a program opens with RTLD_DEEPBIND, as PHP opens its extensions. For such a library, the dynamic
//! linker finds libc's functions before it looks at this library, so the hooks are bypassed. [`renew`] stores the
//! hooks in the relocated words of such libraries.
//!
//! The hook of `dlsym` calls [`renew`], because a program looks up functions of a library after it has opened the
//! library. The hook of `dlopen` cannot do this: it jumps to the real `dlopen`, and does not run again when
//! `dlopen` returns.

use crate::objects::{hook_of, is_libcs, is_own, real_dlsym};
use crate::read_only::{self, Writable};
use crate::tables::{Table, extent, headers};
use core::ffi::CStr;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use libc::{c_char, c_int, c_void, dl_phdr_info, size_t};
use sovia_sockets::process::is_under_seccomp;
use std::ffi::CString;

/// Loaded object whose relocated words may need hooks.
struct Object {
    name: CString,
    base: usize,
    dynamic: usize,
    extent: Range<usize>,
    /// Ranges of the object's writable data, to which other threads may be writing.
    writable: Vec<Range<usize>>,
    /// Range that the linker has made read-only after relocation.
    read_only: Range<usize>,
}

/// Progress of [`renew`]. The lower half is the number of objects that have the hooks, from the first object of the
/// linker's list on. The upper half is the number of objects that had been closed by then. The linker appends new
/// objects to its list, so the count is valid until an object is closed.
static DONE: AtomicU64 = AtomicU64::new(0);

fn done(closed: u64, count: usize) -> u64 {
    closed << 32 | count as u64
}

/// Stores the hooks in objects that the linker has loaded since the last call. Several threads may run this
/// function at once.
pub(crate) fn renew() {
    struct Walk {
        before: u64,
        closed: u64,
        seen: usize,
        fresh: Vec<Object>,
    }
    unsafe extern "C" fn look(info: *mut dl_phdr_info, _: size_t, walk: *mut c_void) -> c_int {
        // SAFETY: `info` is the linker's description of an object, and `walk` is the variable below.
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
    if is_under_seccomp() {
        // Making pages writable needs system calls. Under seccomp the hooks make no system calls of their own.
        return;
    }
    let before = DONE.load(Ordering::Acquire);
    let mut walk = Walk { before, closed: 0, seen: 0, fresh: Vec::new() };
    // SAFETY: `look` gets the address of `walk`, which lives during the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut walk).cast()) };
    for object in &walk.fresh {
        renew_object(object);
    }
    DONE.store(done(walk.closed, walk.seen), Ordering::Release);
}

/// Describes an object. Returns `None` for the program itself, libc and this library.
fn describe(info: &dl_phdr_info) -> Option<Object> {
    if info.dlpi_name.is_null() {
        return None;
    }
    // SAFETY: the linker's name of an object is a C string, and lives during the walk.
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
    // SAFETY: `dlopen` returns a handle only if an object with this name is loaded. The object then stays loaded
    // until `dlclose`. `dladdr` checks that the object lies at the same address, so its table lies there too.
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

/// Replacement of one word of a table by a hook's address.
struct Change {
    slot: *const AtomicUsize,
    old: usize,
    hook: usize,
}

/// # Safety
/// The object must stay loaded during the call. `slot` must be a word of the object that holds a function's
/// address.
unsafe fn change_of(
    object: &Object,
    handle: *mut c_void,
    slot: *const AtomicUsize,
    name: *const c_char,
    is_lazy: bool,
) -> Option<Change> {
    if !object.writable.iter().any(|data| data.contains(&(slot as usize))) {
        // The slot lies in code that the linker itself has relocated, and is not changed.
        return None;
    }
    // SAFETY: the caller guarantees that the object stays loaded, and that `slot` is one of its words.
    unsafe {
        let old = (*slot).load(Ordering::Relaxed);
        let mut found = old;
        // The linker binds this function at its first call, which has not happened. Without RTLD_DEEPBIND, the
        // linker would find the first definition among all libraries of the program. The slot gets the hook only if
        // the hook is this first definition.
        if is_lazy && object.extent.contains(&old) {
            if !is_own(real_dlsym()(libc::RTLD_DEFAULT, name) as usize) {
                return None;
            }
            found = real_dlsym()(handle, name) as usize;
        }
        hook_of(found, name).map(|hook| Change { slot, old, hook })
    }
}

/// Stores the hooks in an object's relocated words. This function must not look up symbols: a look-up takes the
/// linker's lock, whose holder may wait for the lock of [`Writable`].
///
/// # Safety
/// The object must stay loaded during the call.
unsafe fn make(object: &Object, changes: &[Change]) {
    let is_read_only = |change: &Change| object.read_only.contains(&(change.slot as usize));
    let has_read_only = changes.iter().any(is_read_only);
    let writable = has_read_only.then(|| Writable::begin(&object.read_only)).flatten();
    for change in changes {
        if is_read_only(change) && writable.is_none() {
            continue;
        }
        let &Change { slot, old, hook } = change;
        // If the linker or the program has changed the slot since it was read, the new value stays.
        // SAFETY: the slot is a word of the object's data, which is now writable.
        let _ =
            unsafe { (*slot).compare_exchange(old, hook, Ordering::Release, Ordering::Relaxed) };
    }
}
