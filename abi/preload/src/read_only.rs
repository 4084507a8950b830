//! Words that the dynamic linker has made read-only after it had filled them in (PT_GNU_RELRO).

use core::ops::Range;
use libc::{c_int, c_void, dl_phdr_info};
use sovia_sync::{Held, RobustLock};

use crate::tables::headers;

/// While pages are made writable and read-only again.
static WRITING: RobustLock = RobustLock::new();

/// What of an object the linker makes read-only; empty if nothing.
pub(crate) fn of(info: &dl_phdr_info) -> Range<usize> {
    headers(info).iter().find(|header| header.p_type == libc::PT_GNU_RELRO).map_or(0..0, |relro| {
        let begin = info.dlpi_addr as usize + relro.p_vaddr as usize;
        begin..begin + relro.p_memsz as usize
    })
}

/// Whole pages that can be written to for as long as this lives, read-only before and afterwards.
#[derive(Debug)]
pub(crate) struct Writable {
    pages: Range<usize>,
    _writing: Held<'static>,
}

impl Writable {
    /// Makes what the linker has made read-only of an object writable, which [`of`] says. `None` if the kernel refuses it.
    pub(crate) fn begin(read_only: &Range<usize>) -> Option<Writable> {
        // SAFETY: `sysconf` takes a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        // The linker makes whole pages read-only, all of an object's at once.
        let pages = read_only.start & !(page - 1)..read_only.end & !(page - 1);
        let writing = WRITING.guard();
        // Dropping this makes the first pages read-only again, where the kernel refuses the others.
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
    // SAFETY: pages of an object's data, which the program does not write to.
    pages.is_empty() || unsafe { libc::mprotect(pages.start as *mut c_void, pages.len(), how) == 0 }
}

#[cfg(test)]
mod tests;
