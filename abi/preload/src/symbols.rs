//! Look-ups in the symbol tables of the objects after this library, as by `dlsym` with RTLD_NEXT.

use crate::tables::{DT_STRTAB, DT_SYMTAB, address, contains, entries, headers};
use core::ffi::CStr;
use core::ops::ControlFlow;
use libc::{Elf64_Sym, c_char, c_int, c_void, dl_phdr_info, size_t};

// Constants of the ELF specification, and of its GNU extensions.
const DT_GNU_HASH: i64 = 0x6fff_fef5;
const DT_VERSYM: i64 = 0x6fff_fff0;
const STT_FUNC: u8 = 2;
const STB_LOCAL: u8 = 0;
/// Marks a version of a symbol that only programs get which were linked with this version.
const HIDDEN: u16 = 1 << 15;

unsafe extern "C" {
    fn gnu_get_libc_version() -> *const c_char;
}

/// Result of a look-up in one object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Address of a function.
    Function(usize),
    /// The object defines something else under this name, such as a function that a resolver chooses. Only the
    /// dynamic linker can tell its address.
    Other,
    /// The object does not define the name.
    Nothing,
}

/// Symbols of a loaded object, which are found by their hash.
pub(crate) struct Object {
    base: usize,
    symbols: *const Elf64_Sym,
    names: *const c_char,
    /// Version of each symbol, or null if the object has no versions.
    versions: *const u16,
    /// Hash of each symbol from `first` on. The lowest bit marks the last symbol of a bucket.
    hashes: *const u32,
    first: u32,
    /// First symbol of each bucket, or 0 if the bucket is empty.
    buckets: *const [u32],
    /// Two bits of each symbol, so that most look-ups in vain read one word.
    filter: *const [u64],
    shift: u32,
}

/// Returns the hash by which an object's table finds a name.
pub(crate) const fn hash(name: &CStr) -> u32 {
    let name = name.to_bytes();
    let (mut hash, mut i) = (5381_u32, 0);
    while i < name.len() {
        hash = hash.wrapping_mul(33).wrapping_add(name[i] as u32);
        i += 1;
    }
    hash
}

impl Object {
    /// Reads the tables of an object. Returns `None` if the object has no table by hash.
    ///
    /// # Safety
    /// The object must stay loaded as long as the result lives.
    unsafe fn read(info: &dl_phdr_info) -> Option<Object> {
        let base = info.dlpi_addr as usize;
        let dynamic = headers(info).iter().find(|header| header.p_type == libc::PT_DYNAMIC)?;
        let [mut symbols, mut names, mut versions, mut table] = [0; 4];
        // SAFETY: the program header states where the section is, and the caller guarantees that it stays.
        for (tag, value) in unsafe { entries(base + dynamic.p_vaddr as usize) } {
            match tag {
                DT_SYMTAB => symbols = address(base, value),
                DT_STRTAB => names = address(base, value),
                DT_VERSYM => versions = address(base, value),
                DT_GNU_HASH => table = address(base, value),
                _ => {}
            }
        }
        if symbols == 0 || names == 0 || table == 0 {
            return None;
        }
        // SAFETY: the table begins with four numbers. The filter, the buckets and the hashes follow.
        let ([buckets, first, words, shift], filter) = unsafe {
            ((table as *const [u32; 4]).read(), (table as *const [u32; 4]).add(1).cast::<u64>())
        };
        let filter = core::ptr::slice_from_raw_parts(filter, words as usize);
        let begin = filter.cast::<u64>().wrapping_add(words as usize).cast::<u32>();
        Some(Object {
            base,
            symbols: symbols as *const Elf64_Sym,
            names: names as *const c_char,
            versions: versions as *const u16,
            hashes: begin.wrapping_add(buckets as usize),
            first,
            buckets: core::ptr::slice_from_raw_parts(begin, buckets as usize),
            filter,
            shift,
        })
    }

    /// Looks up `name`, which has the hash `hash`. If the name has several versions, the result is the default
    /// version.
    pub(crate) fn find(&self, name: &CStr, hash: u32) -> Found {
        // SAFETY: the linker has made the same look-ups in these tables, and the object stays loaded.
        unsafe {
            let (filter, buckets) = (&*self.filter, &*self.buckets);
            if filter.is_empty() || buckets.is_empty() {
                return Found::Nothing;
            }
            let word = filter[(hash / u64::BITS) as usize % filter.len()];
            let bits = [hash, hash >> self.shift].map(|bit| word >> (bit % u64::BITS));
            if bits[0] & bits[1] & 1 == 0 {
                return Found::Nothing;
            }
            let mut index = buckets[hash as usize % buckets.len()];
            while index >= self.first {
                let other = self.hashes.add((index - self.first) as usize).read();
                if other | 1 == hash | 1 && self.defines(index, name) {
                    return self.value(index);
                }
                if other & 1 != 0 {
                    break;
                }
                index += 1;
            }
        }
        Found::Nothing
    }

    /// Returns true if the symbol at `index` is the default version of `name`.
    ///
    /// # Safety
    /// The symbol table must have this index.
    unsafe fn defines(&self, index: u32, name: &CStr) -> bool {
        // SAFETY: the caller guarantees the index, and there is a version for each symbol.
        unsafe {
            let symbol = &*self.symbols.add(index as usize);
            let is_hidden =
                !self.versions.is_null() && self.versions.add(index as usize).read() & HIDDEN != 0;
            symbol.st_shndx != 0
                && symbol.st_info >> 4 != STB_LOCAL
                && !is_hidden
                && CStr::from_ptr(self.names.add(symbol.st_name as usize)) == name
        }
    }

    /// Returns the address of the symbol at `index`, if the symbol is a plain function.
    ///
    /// # Safety
    /// The symbol table must have this index.
    unsafe fn value(&self, index: u32) -> Found {
        // SAFETY: the caller guarantees the index.
        let symbol = unsafe { &*self.symbols.add(index as usize) };
        if symbol.st_info & 0xf == STT_FUNC && symbol.st_value != 0 {
            Found::Function(self.base.wrapping_add(symbol.st_value as usize))
        } else {
            Found::Other
        }
    }
}

/// Calls `each` for each object after this library, in the linker's order, up to libc. Ends early at an object
/// without a table by hash, or when `each` breaks off.
pub(crate) fn for_each_later_object(each: &mut dyn FnMut(&Object) -> ControlFlow<()>) {
    struct Walk<'a> {
        is_later: bool,
        each: &'a mut dyn FnMut(&Object) -> ControlFlow<()>,
    }
    unsafe extern "C" fn look(info: *mut dl_phdr_info, _: size_t, walk: *mut c_void) -> c_int {
        // SAFETY: `info` is the linker's description of an object, and `walk` is the variable below.
        let (info, walk) = unsafe { (&*info, &mut *walk.cast::<Walk<'_>>()) };
        if !walk.is_later {
            walk.is_later = contains(info, look as *const () as usize);
            return 0;
        }
        // SAFETY: no object is closed during the walk.
        let Some(object) = (unsafe { Object::read(info) }) else { return 1 };
        let is_libc = contains(info, gnu_get_libc_version as *const () as usize);
        c_int::from((walk.each)(&object).is_break() || is_libc)
    }
    let mut walk = Walk { is_later: false, each };
    // SAFETY: `look` gets the address of `walk`, which lives during the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut walk).cast()) };
}

#[cfg(test)]
mod tests;
