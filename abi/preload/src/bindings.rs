//! Libraries that are opened with RTLD_DEEPBIND, as PHP opens its extensions: what they call is looked for in
//! themselves and in libc first, and so past the hooks. Their tables of functions get the hooks afterwards.
//!
//! That is done when a function of a library is looked up, which is what follows its opening: `dlopen` itself
//! must be entered from the program's code, so this library does not learn when it is done.

use crate::handles::{hook_of, is_libcs, is_own, real_dlsym};
use core::ffi::CStr;
use core::mem::size_of;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use libc::{Elf64_Sym, c_char, c_int, c_void, dl_phdr_info, size_t};
use std::ffi::CString;

/// The executable's segments: from the first one's begin to the last one's end.
pub(crate) fn extent(info: &dl_phdr_info) -> Range<usize> {
    let loaded = || headers(info).iter().filter(|header| header.p_type == libc::PT_LOAD);
    let begin = loaded().map(|header| header.p_vaddr as usize).min().unwrap_or(0);
    let end = loaded().map(|header| (header.p_vaddr + header.p_memsz) as usize).max().unwrap_or(0);
    let base = info.dlpi_addr as usize;
    base.wrapping_add(begin)..base.wrapping_add(end)
}

fn headers(info: &dl_phdr_info) -> &[libc::Elf64_Phdr] {
    if info.dlpi_phdr.is_null() {
        return &[];
    }
    // SAFETY: the linker's, as long as its description of the object.
    unsafe { core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) }
}

/// An object whose table may have to be renewed.
struct Object {
    name: CString,
    base: usize,
    dynamic: usize,
    extent: Range<usize>,
    /// What the linker has made read-only after it had filled it in.
    read_only: Range<usize>,
}

/// How many objects had been closed when [`RENEWED`] was counted.
static CLOSED: AtomicU64 = AtomicU64::new(u64::MAX);
/// How many objects, from the first, are done. Later ones stand behind them, unless some are closed.
static RENEWED: AtomicUsize = AtomicUsize::new(0);

/// Gives the hooks to objects that have come since the last time.
pub(crate) fn renew() {
    struct Walk {
        closed: u64,
        seen: usize,
        fresh: Vec<Object>,
    }
    unsafe extern "C" fn look(info: *mut dl_phdr_info, _: size_t, walk: *mut c_void) -> c_int {
        // SAFETY: the linker's description of an object, and what is passed below.
        let (info, walk) = unsafe { (&*info, &mut *walk.cast::<Walk>()) };
        walk.seen += 1;
        walk.closed = info.dlpi_subs;
        let done = if CLOSED.load(Ordering::Relaxed) == walk.closed {
            RENEWED.load(Ordering::Relaxed)
        } else {
            0
        };
        if walk.seen > done {
            walk.fresh.extend(describe(info));
        }
        0
    }
    let mut walk = Walk { closed: 0, seen: 0, fresh: Vec::new() };
    // SAFETY: the function gets the pointer that is passed here.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut walk).cast()) };
    for object in &walk.fresh {
        renew_object(object);
    }
    RENEWED.store(walk.seen, Ordering::Relaxed);
    CLOSED.store(walk.closed, Ordering::Relaxed);
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
    let read_only = part(libc::PT_GNU_RELRO).map_or(0..0, |relro| {
        let begin = base + relro.p_vaddr as usize;
        begin..begin + relro.p_memsz as usize
    });
    Some(Object { name: name.to_owned(), base, dynamic, extent, read_only })
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
        {
            if let Some(table) = Table::read(object) {
                table.for_each(|slot, name, is_lazy| {
                    renew_slot(object, handle, slot, name, is_lazy)
                });
            }
        }
        libc::dlclose(handle);
    }
}

/// # Safety
/// The object stays while this runs, and `slot` is one of its own that holds a function's address.
unsafe fn renew_slot(
    object: &Object,
    handle: *mut c_void,
    slot: *const AtomicUsize,
    name: *const c_char,
    is_lazy: bool,
) {
    // SAFETY: the caller's word.
    unsafe {
        let mut bound = (*slot).load(Ordering::Relaxed);
        // Not bound yet: the first call of the function would.
        if is_lazy && object.extent.contains(&bound) {
            bound = real_dlsym()(handle, name) as usize;
        }
        if let Some(hook) = hook_of(bound, name) {
            write(object, slot, hook);
        }
    }
}

/// # Safety
/// As for [`renew_slot`].
unsafe fn write(object: &Object, slot: *const AtomicUsize, value: usize) {
    // SAFETY: `sysconf` takes a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let at = slot as usize;
    // The linker makes whole pages read-only.
    let is_read_only =
        (object.read_only.start & !(page - 1)..object.read_only.end & !(page - 1)).contains(&at);
    let protect = |how| {
        let begin = (at & !(page - 1)) as *mut c_void;
        // SAFETY: one page of the object's, to which other threads do not write.
        !is_read_only || unsafe { libc::mprotect(begin, page, how) } == 0
    };
    if protect(libc::PROT_READ | libc::PROT_WRITE) {
        // SAFETY: the caller's word; the page is writable.
        unsafe { (*slot).store(value, Ordering::Release) };
        protect(libc::PROT_READ);
    }
}

// Of the ELF specification, and its supplements for the processors.
const DT_NULL: i64 = 0;
const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;
#[cfg(target_arch = "x86_64")]
const ABSOLUTE_GLOBAL_CALL: [u32; 3] = [1, 6, 7];
#[cfg(target_arch = "aarch64")]
const ABSOLUTE_GLOBAL_CALL: [u32; 3] = [257, 1025, 1026];

#[repr(C)]
struct Dynamic {
    tag: i64,
    value: usize,
}

#[repr(C)]
struct Relocation {
    offset: usize,
    info: u64,
    addend: i64,
}

/// What an object wants of others.
struct Table {
    base: usize,
    symbols: *const Elf64_Sym,
    names: *const c_char,
    relocations: [(*const Relocation, usize); 2],
}

impl Table {
    /// # Safety
    /// The object stays as long as the result.
    unsafe fn read(object: &Object) -> Option<Table> {
        // The linker has put addresses in the place of offsets, unless the section is read-only.
        let address = |value: usize| if value < object.base { object.base + value } else { value };
        let [mut symbols, mut names, mut all, mut all_bytes, mut calls, mut calls_bytes] = [0; 6];
        let mut entry = object.dynamic as *const Dynamic;
        loop {
            // SAFETY: the linker has read the section to its end, which it has.
            let Dynamic { tag, value } = unsafe { entry.read() };
            match tag {
                DT_NULL => break,
                DT_SYMTAB => symbols = address(value),
                DT_STRTAB => names = address(value),
                DT_RELA => all = address(value),
                DT_RELASZ => all_bytes = value,
                DT_JMPREL => calls = address(value),
                DT_PLTRELSZ => calls_bytes = value,
                _ => {}
            }
            entry = entry.wrapping_add(1);
        }
        (symbols != 0 && names != 0).then_some(Table {
            base: object.base,
            symbols: symbols as *const Elf64_Sym,
            names: names as *const c_char,
            relocations: [(all, all_bytes), (calls, calls_bytes)]
                .map(|(at, bytes)| (at as *const Relocation, bytes / size_of::<Relocation>())),
        })
    }

    /// Calls `each` with every place that gets the address of a function of another object, the function's name,
    /// and whether it may get it at the first call only.
    ///
    /// # Safety
    /// The object stays while this runs.
    unsafe fn for_each(&self, mut each: impl FnMut(*const AtomicUsize, *const c_char, bool)) {
        let [absolute, global, call] = ABSOLUTE_GLOBAL_CALL;
        for (first, count) in self.relocations {
            for i in 0..count {
                // SAFETY: the linker has followed the same table.
                let Relocation { offset, info, addend } = unsafe { first.add(i).read() };
                let (symbol, kind) = ((info >> 32) as usize, info as u32);
                if ![absolute, global, call].contains(&kind) || symbol == 0 || addend != 0 {
                    continue;
                }
                // SAFETY: likewise.
                let Elf64_Sym { st_shndx: section, st_name: name, .. } =
                    unsafe { self.symbols.add(symbol).read() };
                if section != 0 {
                    continue;
                }
                let slot = (self.base + offset) as *const AtomicUsize;
                // SAFETY: likewise.
                each(slot, unsafe { self.names.add(name as usize) }, kind == call);
            }
        }
    }
}
