//! Memory of an object that the dynamic linker makes read-only after relocation (PT_GNU_RELRO).

use core::ops::Range;
use libc::{c_int, c_void, dl_phdr_info};
use sovia_sync::{Held, RobustLock};

use crate::tables::headers;

/// Lock that a [`Writable`] holds while its pages are writable.
static WRITING: RobustLock = RobustLock::new();

/// Returns the range of an object that the linker makes read-only. The range may be empty.
pub(crate) fn of(info: &dl_phdr_info) -> Range<usize> {
    headers(info).iter().find(|header| header.p_type == libc::PT_GNU_RELRO).map_or(0..0, |relro| {
        let begin = info.dlpi_addr as usize + relro.p_vaddr as usize;
        begin..begin + relro.p_memsz as usize
    })
}

/// Read-only pages that are writable while this value exists. When this value is dropped, the pages become
/// read-only again.
#[derive(Debug)]
pub(crate) struct Writable {
    pages: Range<usize>,
    _writing: Held<'static>,
}

impl Writable {
    /// Makes the pages in the range `read_only` writable, which comes from [`of`]. Returns `None` if the kernel
    /// refuses.
    pub(crate) fn begin(read_only: &Range<usize>) -> Option<Writable> {
        // SAFETY: `sysconf` takes only a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        // The linker makes only whole pages read-only, and all pages of an object at once.
        let pages = read_only.start & !(page - 1)..read_only.end & !(page - 1);
        let writing = WRITING.guard();
        // If the kernel makes only some pages writable and refuses the others, the drop of this value makes all
        // pages read-only again.
        let writable = Writable { pages, _writing: writing };
        protect(&writable.pages, libc::PROT_READ | libc::PROT_WRITE).then_some(writable)
    }
}

impl Drop for Writable {
    fn drop(&mut self) {
        protect(&self.pages, libc::PROT_READ);
    }
}

fn protect(pages: &Range<usize>, how: c_int) -> bool {
    // SAFETY: the pages hold an object's relocated data, which the program does not write.
    pages.is_empty() || unsafe { libc::mprotect(pages.start as *mut c_void, pages.len(), how) == 0 }
}

#[cfg(test)]
mod tests;
