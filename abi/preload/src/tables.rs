//! The tables into which the dynamic linker writes the addresses of an object's functions.

use core::mem::size_of;
use core::ops::Range;
use core::sync::atomic::AtomicUsize;
use libc::{Elf64_Sym, c_char, dl_phdr_info};

/// Returns the program headers of an object.
pub(crate) fn headers(info: &dl_phdr_info) -> &[libc::Elf64_Phdr] {
    if info.dlpi_phdr.is_null() {
        return &[];
    }
    // SAFETY: the linker's program headers live as long as `info`, its description of the object.
    unsafe { core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) }
}

/// Returns the address range of an object, from the start of its first segment to the end of its last.
pub(crate) fn extent(info: &dl_phdr_info) -> Range<usize> {
    let loaded = || headers(info).iter().filter(|header| header.p_type == libc::PT_LOAD);
    let begin = loaded().map(|header| header.p_vaddr as usize).min().unwrap_or(0);
    let end = loaded().map(|header| (header.p_vaddr + header.p_memsz) as usize).max().unwrap_or(0);
    let base = info.dlpi_addr as usize;
    base.wrapping_add(begin)..base.wrapping_add(end)
}

/// Returns true if an address lies in a segment of an object. Between the segments other objects may lie, because a
/// program may have a segment at any address.
pub(crate) fn contains(info: &dl_phdr_info, address: usize) -> bool {
    headers(info).iter().any(|header| {
        let begin = (info.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
        header.p_type == libc::PT_LOAD && address.wrapping_sub(begin) < header.p_memsz as usize
    })
}

// Constants of the ELF specification, and of its supplements for the processors.
const DT_NULL: i64 = 0;
const DT_PLTRELSZ: i64 = 2;
pub(crate) const DT_STRTAB: i64 = 5;
pub(crate) const DT_SYMTAB: i64 = 6;
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

/// Returns the tags and values of an object's dynamic section.
///
/// # Safety
/// The section must lie at `dynamic`, and the object must stay loaded while the caller uses the result.
pub(crate) unsafe fn entries(dynamic: usize) -> impl Iterator<Item = (i64, usize)> {
    let mut entry = dynamic as *const Dynamic;
    core::iter::from_fn(move || {
        // SAFETY: the section ends with DT_NULL, and this function reads nothing behind it.
        let Dynamic { tag, value } = unsafe { entry.read() };
        (tag != DT_NULL).then(|| {
            entry = entry.wrapping_add(1);
            (tag, value)
        })
    })
}

/// Returns the address for which a dynamic section has `value`. In a writable section, the linker has replaced
/// offsets by addresses. In a read-only section, it has not.
pub(crate) fn address(base: usize, value: usize) -> usize {
    if value < base { base + value } else { value }
}

/// Relocations of an object, with the symbols to which they refer.
pub(crate) struct Table {
    base: usize,
    symbols: *const Elf64_Sym,
    names: *const c_char,
    relocations: [(*const Relocation, usize); 2],
}

impl Table {
    /// Reads the relocations of an object that is loaded at `base` and has its dynamic section at `dynamic`.
    /// Returns `None` if the object has no symbols.
    ///
    /// # Safety
    /// The object must stay loaded as long as the result lives.
    pub(crate) unsafe fn read(base: usize, dynamic: usize) -> Option<Table> {
        let [mut symbols, mut names, mut all, mut all_bytes, mut calls, mut calls_bytes] = [0; 6];
        // SAFETY: the caller guarantees that the object stays loaded.
        for (tag, value) in unsafe { entries(dynamic) } {
            match tag {
                DT_SYMTAB => symbols = address(base, value),
                DT_STRTAB => names = address(base, value),
                DT_RELA => all = address(base, value),
                DT_RELASZ => all_bytes = value,
                DT_JMPREL => calls = address(base, value),
                DT_PLTRELSZ => calls_bytes = value,
                _ => {}
            }
        }
        (symbols != 0 && names != 0).then_some(Table {
            base,
            symbols: symbols as *const Elf64_Sym,
            names: names as *const c_char,
            relocations: [(all, all_bytes), (calls, calls_bytes)]
                .map(|(at, bytes)| (at as *const Relocation, bytes / size_of::<Relocation>())),
        })
    }

    /// Returns each relocation that refers to a symbol, with the symbol.
    ///
    /// # Safety
    /// The object must stay loaded while the caller uses the result.
    unsafe fn look_ups(&self) -> impl Iterator<Item = (Relocation, Elf64_Sym)> {
        let entries = self.relocations.into_iter().flat_map(|(first, count)| {
            // SAFETY: the linker has processed the same `count` relocations.
            (0..count).map(move |i| unsafe { first.add(i).read() })
        });
        entries.filter_map(|entry| {
            let symbol = (entry.info >> 32) as usize;
            // SAFETY: the linker has used the same index of the symbol table.
            (symbol != 0).then(|| (entry, unsafe { self.symbols.add(symbol).read() }))
        })
    }

    fn name(&self, symbol: &Elf64_Sym) -> *const c_char {
        self.names.wrapping_add(symbol.st_name as usize)
    }

    /// Calls `each` for each word of the object in which the linker stores the address of another object's
    /// function. The arguments are the word, the function's name, and true if the linker may store the address only
    /// at the first call.
    ///
    /// # Safety
    /// The object must stay loaded during the call.
    pub(crate) unsafe fn for_each(
        &self,
        mut each: impl FnMut(*const AtomicUsize, *const c_char, bool),
    ) {
        let [absolute, global, call] = ABSOLUTE_GLOBAL_CALL;
        // SAFETY: the caller guarantees that the object stays loaded during the call.
        for (Relocation { offset, info, addend }, symbol) in unsafe { self.look_ups() } {
            let kind = info as u32;
            if [absolute, global, call].contains(&kind) && addend == 0 && symbol.st_shndx == 0 {
                let slot = (self.base + offset) as *const AtomicUsize;
                each(slot, self.name(&symbol), kind == call);
            }
        }
    }
}

#[cfg(test)]
mod tests;
