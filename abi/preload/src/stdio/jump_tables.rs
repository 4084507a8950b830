//! The tables of functions by which libc's streams read, write and close.
//!
//! A stream of libc calls the kernel through a table of functions, and not through the hooks. One table is
//! `_IO_file_jumps`. Similar tables are for wide characters, mapped files and pipes. All tables lie in libc's
//! read-only data, and libc accepts no other tables. So this module replaces three functions in these tables,
//! before the program's own code runs.

use super::stream;
use crate::read_only::{self, Writable};
use crate::tables;
use core::ffi::CStr;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};
use libc::{FILE, c_int, c_void, dl_phdr_info, size_t};

/// Function that this module replaces in the tables.
struct Entry {
    /// libc's own name for the function.
    name: &'static CStr,
    /// Index of the function in a table. Every glibc for the processor has the same index, because old programs
    /// depend on it.
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

/// Returns libc's own function for reading, which the tables had before [`replace`].
pub(super) fn libcs_read() -> unsafe extern "C" fn(*mut FILE, *mut c_void, isize) -> isize {
    // SAFETY: the address is that of `_IO_file_read`, which has this signature. Only the replacement calls this
    // function, after [`replace`] has stored the address.
    unsafe { core::mem::transmute(READ.libcs.load(Ordering::Relaxed)) }
}

/// Returns libc's own function for writing, which the tables had before [`replace`].
pub(super) fn libcs_write() -> unsafe extern "C" fn(*mut FILE, *const c_void, isize) -> isize {
    // SAFETY: the address is that of `_IO_file_write`, which has this signature. Only the replacement calls this
    // function, after [`replace`] has stored the address.
    unsafe { core::mem::transmute(WRITE.libcs.load(Ordering::Relaxed)) }
}

/// Returns libc's own function for closing, which the tables had before [`replace`].
pub(super) fn libcs_close() -> unsafe extern "C" fn(*mut FILE) -> c_int {
    // SAFETY: the address is that of `_IO_file_close`, which has this signature. Only the replacement calls this
    // function, after [`replace`] has stored the address.
    unsafe { core::mem::transmute(CLOSE.libcs.load(Ordering::Relaxed)) }
}

/// Replaces the three functions in all tables. Returns false if this libc has other tables, or if the tables cannot
/// be written. In this case libc's streams bypass the hooks.
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
        // SAFETY: the slot is a word of libc's data, within one segment.
        let slot = unsafe { &*(slot as *const AtomicUsize) };
        let holds = slot.load(Ordering::Relaxed);
        let same = entries.iter().find(|(entry, _)| entry.libcs.load(Ordering::Relaxed) == holds);
        if let Some(&(_, ours)) = same {
            slot.store(ours, Ordering::Release);
        }
    }
    true
}

/// Returns the address of a symbol of libc, or 0 if libc has no such symbol.
fn find(name: &CStr) -> usize {
    // SAFETY: the name is a C string, and glibc defines the pseudo handle.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) as usize }
}

/// Returns the word with index `place` of a table, or `None` if `table` is 0.
fn word(table: usize, place: usize) -> Option<usize> {
    // SAFETY: each table has 21 words, and `place` is at most 17.
    (table != 0).then(|| unsafe { (table as *const usize).add(place).read() })
}

/// Returns the read-only range of the object that contains the table, twice. The first result has whole words only.
/// The second result is the range that the object's program header states.
fn data_around(table: usize) -> Option<(Range<usize>, Range<usize>)> {
    struct Asked {
        table: usize,
        found: Option<Range<usize>>,
    }
    unsafe extern "C" fn look(info: *mut dl_phdr_info, _: size_t, asked: *mut c_void) -> c_int {
        // SAFETY: `info` is the linker's description of an object, and `asked` is the variable below.
        let (info, asked) = unsafe { (&*info, &mut *asked.cast::<Asked>()) };
        if tables::contains(info, asked.table) {
            asked.found = Some(read_only::of(info));
        }
        c_int::from(asked.found.is_some())
    }
    let mut asked = Asked { table, found: None };
    // SAFETY: `look` gets the address of `asked`, which lives during the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut asked).cast()) };
    let read_only = asked.found.filter(|found| found.contains(&table))?;
    let words = read_only.start.next_multiple_of(size_of::<usize>())
        ..read_only.end & !(size_of::<usize>() - 1);
    Some((words, read_only))
}
