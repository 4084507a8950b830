//! The tables by which libc's streams read, write and close.
//!
//! A stream of libc's calls the kernel by a table of functions (`_IO_file_jumps`, and its relatives for wide characters,
//! mapped files and pipes), past every hook. libc accepts no tables but its own, so these stay where they are, in its
//! read-only data, and three functions in them are replaced, before the program's code runs.

use super::stream;
use crate::read_only::{self, Writable};
use crate::tables;
use core::ffi::CStr;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};
use libc::{FILE, c_int, c_void, dl_phdr_info, size_t};

/// A function in the tables.
struct Entry {
    /// libc's name of its own.
    name: &'static CStr,
    /// The place in a table, which has been the same since the first glibc of the processor: old programs know it.
    place: usize,
    libcs: AtomicUsize,
}

static READ: Entry = Entry::new(c"_IO_file_read", 14);
static WRITE: Entry = Entry::new(c"_IO_file_write", 15);
static CLOSE: Entry = Entry::new(c"_IO_file_close", 17);

impl Entry {
    const fn new(name: &'static CStr, place: usize) -> Entry {
        Entry { name, place, libcs: AtomicUsize::new(0) }
    }
}

/// libc's own function that a table had.
pub(super) fn libcs_read() -> unsafe extern "C" fn(*mut FILE, *mut c_void, isize) -> isize {
    // SAFETY: the address of the function of that name, whose signature this is; only a replaced one calls it.
    unsafe { core::mem::transmute(READ.libcs.load(Ordering::Relaxed)) }
}

/// Likewise.
pub(super) fn libcs_write() -> unsafe extern "C" fn(*mut FILE, *const c_void, isize) -> isize {
    // SAFETY: as in `libcs_read`.
    unsafe { core::mem::transmute(WRITE.libcs.load(Ordering::Relaxed)) }
}

/// Likewise.
pub(super) fn libcs_close() -> unsafe extern "C" fn(*mut FILE) -> c_int {
    // SAFETY: as in `libcs_read`.
    unsafe { core::mem::transmute(CLOSE.libcs.load(Ordering::Relaxed)) }
}

/// Replaces the functions in all tables. False if this libc's tables are not as expected, or cannot be written: then its
/// streams go past the hooks.
pub(super) fn replace() -> bool {
    let entries = [
        (&READ, stream::read as *const () as usize),
        (&WRITE, stream::write as *const () as usize),
        (&CLOSE, stream::close as *const () as usize),
    ];
    let (file, wide) = (find(c"_IO_file_jumps"), find(c"_IO_wfile_jumps"));
    for (entry, _) in &entries {
        let libcs = find(entry.name);
        let is_there = |table| libcs != 0 && word(table, entry.place) == Some(libcs);
        if !is_there(file) || !is_there(wide) {
            return false;
        }
        entry.libcs.store(libcs, Ordering::Relaxed);
    }
    let Some((tables, read_only)) = data_around(file) else { return false };
    let Some(_writable) = Writable::begin(&read_only) else { return false };
    for slot in tables.step_by(size_of::<usize>()) {
        // SAFETY: within a segment of libc's data.
        let slot = unsafe { &*(slot as *const AtomicUsize) };
        let holds = slot.load(Ordering::Relaxed);
        let same = entries.iter().find(|(entry, _)| entry.libcs.load(Ordering::Relaxed) == holds);
        if let Some(&(_, ours)) = same {
            slot.store(ours, Ordering::Release);
        }
    }
    true
}

/// The address of a symbol of libc's; 0 if it has none of that name.
fn find(name: &CStr) -> usize {
    // SAFETY: a C string, and a pseudo handle that glibc defines.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) as usize }
}

/// A word of a table; `None` if there is no table.
fn word(table: usize, place: usize) -> Option<usize> {
    // SAFETY: the symbol's size is 21 words.
    (table != 0).then(|| unsafe { (table as *const usize).add(place).read() })
}

/// What the linker makes read-only of the object that has the table, in whole words; and the same as the linker says it.
fn data_around(table: usize) -> Option<(Range<usize>, Range<usize>)> {
    struct Asked {
        table: usize,
        found: Option<Range<usize>>,
    }
    unsafe extern "C" fn look(info: *mut dl_phdr_info, _: size_t, asked: *mut c_void) -> c_int {
        // SAFETY: the linker's description of an object, and what is passed below.
        let (info, asked) = unsafe { (&*info, &mut *asked.cast::<Asked>()) };
        if tables::extent(info).contains(&asked.table) {
            asked.found = Some(read_only::of(info));
        }
        c_int::from(asked.found.is_some())
    }
    let mut asked = Asked { table, found: None };
    // SAFETY: the function gets the pointer that is passed here.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut asked).cast()) };
    let read_only = asked.found.filter(|found| found.contains(&table))?;
    let words = read_only.start.next_multiple_of(size_of::<usize>())
        ..read_only.end & !(size_of::<usize>() - 1);
    Some((words, read_only))
}
