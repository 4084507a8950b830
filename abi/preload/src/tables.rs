//! The tables in which the dynamic linker writes the addresses of the functions that an object calls.

use core::mem::size_of;
use core::ops::Range;
use core::sync::atomic::AtomicUsize;
use libc::{Elf64_Sym, c_char, dl_phdr_info};

/// The segments of an object.
pub(crate) fn headers(info: &dl_phdr_info) -> &[libc::Elf64_Phdr] {
    if info.dlpi_phdr.is_null() {
        return &[];
    }
    // SAFETY: the linker's, as long as its description of the object.
    unsafe { core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) }
}

/// An object's segments: from the first one's begin to the last one's end.
pub(crate) fn extent(info: &dl_phdr_info) -> Range<usize> {
    let loaded = || headers(info).iter().filter(|header| header.p_type == libc::PT_LOAD);
    let begin = loaded().map(|header| header.p_vaddr as usize).min().unwrap_or(0);
    let end = loaded().map(|header| (header.p_vaddr + header.p_memsz) as usize).max().unwrap_or(0);
    let base = info.dlpi_addr as usize;
    base.wrapping_add(begin)..base.wrapping_add(end)
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
pub(crate) struct Table {
    base: usize,
    symbols: *const Elf64_Sym,
    names: *const c_char,
    relocations: [(*const Relocation, usize); 2],
}

impl Table {
    /// The table of an object as the linker describes it. `None` if it has none.
    ///
    /// # Safety
    /// The object stays as long as the result.
    pub(crate) unsafe fn of(info: &dl_phdr_info) -> Option<Table> {
        let dynamic = headers(info).iter().find(|header| header.p_type == libc::PT_DYNAMIC)?;
        let base = info.dlpi_addr as usize;
        // SAFETY: the caller's word.
        unsafe { Table::read(base, base + dynamic.p_vaddr as usize) }
    }

    /// The table of an object that lies at `base`, and its dynamic section at `dynamic`.
    ///
    /// # Safety
    /// The object stays as long as the result.
    pub(crate) unsafe fn read(base: usize, dynamic: usize) -> Option<Table> {
        // The linker has put addresses in the place of offsets, unless the section is read-only.
        let address = |value: usize| if value < base { base + value } else { value };
        let [mut symbols, mut names, mut all, mut all_bytes, mut calls, mut calls_bytes] = [0; 6];
        let mut entry = dynamic as *const Dynamic;
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
            base,
            symbols: symbols as *const Elf64_Sym,
            names: names as *const c_char,
            relocations: [(all, all_bytes), (calls, calls_bytes)]
                .map(|(at, bytes)| (at as *const Relocation, bytes / size_of::<Relocation>())),
        })
    }

    /// Calls `each` with the name of everything that the linker has looked up for the object, functions or not.
    ///
    /// # Safety
    /// The object stays while this runs.
    pub(crate) unsafe fn each_name(&self, mut each: impl FnMut(*const c_char)) {
        for (first, count) in self.relocations {
            for i in 0..count {
                // SAFETY: the linker has followed the same table.
                let symbol = unsafe { ((*first.add(i)).info >> 32) as usize };
                if symbol != 0 {
                    // SAFETY: likewise.
                    unsafe { each(self.names.add((*self.symbols.add(symbol)).st_name as usize)) };
                }
            }
        }
    }

    /// Calls `each` with every place that gets the address of a function of another object, the function's name,
    /// and whether it may get it at the first call only.
    ///
    /// # Safety
    /// The object stays while this runs.
    pub(crate) unsafe fn for_each(
        &self,
        mut each: impl FnMut(*const AtomicUsize, *const c_char, bool),
    ) {
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
